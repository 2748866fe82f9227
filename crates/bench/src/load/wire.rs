//! The socket of a simulated client: a connection with record marking, or datagrams.
//!
//! Invariant: `out` of a connection is sent in order, and what is left of it waits for the socket.

use super::error::LoadError;
use super::plan::{Plan, Proto};
use super::seat::Seat;
use super::tally::Tally;
use client::RECORD_MAX;
use rpc::record::{Partial, Record, RecordError};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use xdr::Writer;

/// How often a datagram is sent again before its call is given up.
const TRIES_MAX: u32 = 6;
/// Bytes of a socket's buffer that is asked for, for datagrams.
const DATAGRAM_BUFFER: usize = 4 << 20;

/// A socket.
pub(crate) enum Wire {
    Stream(Stream),
    Datagrams(UdpSocket),
}

/// A connection.
pub(crate) struct Stream {
    socket: TcpStream,
    partial: Partial,
    out: Writer,
    sent: usize,
}

/// What a visit to a socket led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// All went out.
    Empty,
    /// Some is left until the socket takes more.
    Full,
}

impl Wire {
    /// Connects client number `client`.
    pub(crate) fn open(plan: &Plan, client: usize, server: SocketAddr) -> Result<Self, LoadError> {
        let reserved = plan.reserved_ports.unwrap_or(false);
        let failed = |source| LoadError::Connect { client: client + 1, server, source };
        match plan.proto {
            Proto::Tcp => {
                let socket = if reserved {
                    sys::outgoing::connect_reserved(server)
                } else {
                    TcpStream::connect_timeout(&server, plan.timeout)
                };
                let socket = socket.map_err(failed)?;
                Stream::new(socket).map(Self::Stream).map_err(failed)
            }
            Proto::Udp => {
                let socket = if reserved {
                    sys::outgoing::bind_reserved(server)
                } else if server.is_ipv4() {
                    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
                } else {
                    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
                };
                let socket = socket.map_err(failed)?;
                sys::outgoing::enlarge_buffers(&socket, DATAGRAM_BUFFER);
                socket
                    .connect(server)
                    .and_then(|()| socket.set_nonblocking(true))
                    .map_err(failed)?;
                Ok(Self::Datagrams(socket))
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.socket.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
        }
    }

    /// Takes in what has come; `scratch` is the thread's.
    pub(crate) fn receive(
        &mut self,
        seat: &mut Seat,
        scratch: &mut [u8],
        now_ns: impl Fn() -> u64,
        mut tally: Option<&mut Tally>,
    ) -> Result<(), LoadError> {
        match self {
            Self::Stream(stream) => stream.receive(seat, scratch, now_ns, tally),
            Self::Datagrams(socket) => loop {
                match socket.recv(scratch) {
                    Ok(len) => {
                        let record = scratch.get(..len).unwrap_or_default();
                        seat.record(record, now_ns(), tally.as_deref_mut())?;
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(_) => return Err(died(seat)),
                }
            },
        }
    }

    /// Sends all calls that may go out now. `issue` false: only what is left from before.
    pub(crate) fn send(
        &mut self,
        seat: &mut Seat,
        now_ns: u64,
        plan: &Plan,
        issue: bool,
        tally: Option<&mut Tally>,
    ) -> Result<Flow, LoadError> {
        match self {
            Self::Stream(stream) => {
                let before = stream.out.len();
                while issue && seat.next(now_ns, Some(&mut stream.out)).is_some() {}
                if let Some(tally) = tally {
                    tally.bytes_out += (stream.out.len() - before) as u64;
                }
                stream.flush().map_err(|_| died(seat))
            }
            Self::Datagrams(socket) => {
                let mut bytes = 0;
                while issue && let Some(index) = seat.next(now_ns, None) {
                    let Some(lane) = seat.lanes.get_mut(index) else { continue };
                    lane.again_ns = now_ns.saturating_add(nanoseconds(plan.retransmit));
                    bytes += lane.record.len() as u64;
                    // a full socket loses the datagram, and the retransmission brings it
                    match socket.send(lane.record.bytes()) {
                        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                            return Err(died(seat));
                        }
                        _ => {}
                    }
                }
                if let Some(tally) = tally {
                    tally.bytes_out += bytes;
                }
                Ok(Flow::Empty)
            }
        }
    }

    /// Sends datagrams again that have had no answer for too long.
    pub(crate) fn send_again(&self, seat: &mut Seat, now_ns: u64, plan: &Plan, tally: &mut Tally) {
        let Self::Datagrams(socket) = self else { return };
        for index in 0..seat.lanes.len() {
            let Some(lane) = seat.lanes.get_mut(index) else { continue };
            if !lane.busy || lane.again_ns > now_ns {
                continue;
            }
            if lane.tries >= TRIES_MAX {
                tally.lost += 1;
                seat.give_up(index);
                continue;
            }
            lane.tries += 1;
            lane.again_ns = now_ns.saturating_add(nanoseconds(plan.retransmit) << lane.tries);
            tally.retransmitted += 1;
            let _ = socket.send(lane.record.bytes());
        }
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 8)
}

fn died(seat: &Seat) -> LoadError {
    LoadError::Died { server: seat.server, missing: seat.under_way() }
}

impl Stream {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        // thousands of connections that wait for their last segment would fill the port range
        sys::outgoing::reset_on_close(&socket)?;
        Ok(Self { socket, partial: Partial::new(), out: Writer::new(), sent: 0 })
    }

    fn receive(
        &mut self,
        seat: &mut Seat,
        scratch: &mut [u8],
        now_ns: impl Fn() -> u64,
        mut tally: Option<&mut Tally>,
    ) -> Result<(), LoadError> {
        let garbage =
            |server| move |e: RecordError| LoadError::Garbage { server, what: e.to_string() };
        loop {
            // a long record is received straight into its place, everything else into the scratch
            let (got, room, straight) = match self.partial.space() {
                Some(space) => (self.socket.read(space), space.len(), true),
                None => (self.socket.read(scratch), scratch.len(), false),
            };
            let got = match got {
                Ok(0) => return Err(died(seat)),
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(died(seat)),
            };
            let now = now_ns();
            let mut input = scratch.get(..got).unwrap_or_default();
            if straight {
                self.partial.received(got);
                input = &[];
            }
            while let Some(record) =
                self.partial.next(&mut input, RECORD_MAX).map_err(garbage(seat.server))?
            {
                seat.record(&record, now, tally.as_deref_mut())?;
                if let Record::Joined(mut memory) = record {
                    self.partial.reuse(&mut memory);
                }
            }
            if got < room {
                return Ok(());
            }
        }
    }

    /// Sends what is in `out`, as far as the socket takes it.
    fn flush(&mut self) -> io::Result<Flow> {
        while let Some(rest) = self.out.bytes().get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Flow::Full),
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(Flow::Empty)
    }
}

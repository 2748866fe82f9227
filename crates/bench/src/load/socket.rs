//! The socket of a simulated client: a connection with record marking, in the clear or sealed by TLS, or datagrams.
//!
//! Invariant: `out` of a connection is sent in order, and the rest of it waits for the socket.

use super::counters::ThreadCounters;
use super::error::LoadError;
use super::plan::{Plan, Proto};
use super::sec::Protection;
use super::sim_client::SimClient;
use client::RECORD_MAX;
use gss::Caller;
use rpc::record::{Partial, Record, RecordError};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use tls::Session;
use xdr::Writer;

/// How often a datagram is retransmitted before its call times out.
const TRIES_MAX: u32 = 6;
/// Requested size of a datagram socket's buffer.
const DATAGRAM_BUFFER: usize = 4 << 20;

/// A socket.
pub(crate) enum ClientSocket {
    Stream(Stream),
    Datagrams(UdpSocket),
}

/// A connection.
pub(crate) struct Stream {
    socket: TcpStream,
    partial: Partial,
    out: Writer,
    sent: usize,
    sealed: Option<Box<Sealed>>,
}

/// The session of a connection that is sealed. What is sealed waits in `records`, and `Stream::sent` counts in those.
struct Sealed {
    session: Box<Session>,
    /// What is received, records.
    incoming: Vec<u8>,
    plain: Vec<u8>,
    records: Vec<u8>,
}

/// Bytes that a sealed connection receives at once.
const SEALED_BYTES: usize = 256 << 10;

/// The result of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// All was sent.
    Complete,
    /// Some is left until the socket is writable.
    Blocked,
}

impl ClientSocket {
    /// Connects client number `client`; its context, if calls are protected by one.
    pub(crate) fn open(
        plan: &Plan,
        client: usize,
        server: SocketAddr,
        protection: &Protection,
    ) -> Result<(Self, Option<Caller>), LoadError> {
        let reserved = plan.reserved_ports.unwrap_or(false);
        let failed = |source| LoadError::Connect { client: client + 1, server, source };
        match plan.proto {
            Proto::Tcp => {
                let socket = if reserved {
                    sys::outgoing::connect_reserved(server)
                } else {
                    TcpStream::connect_timeout(&server, plan.timeout)
                };
                let mut socket = socket.map_err(failed)?;
                let caller = protection.caller(plan, &mut socket)?;
                let (socket, session) = protection.session(plan, socket, server)?;
                let stream = Stream::new(socket, session).map_err(failed)?;
                Ok((Self::Stream(stream), caller))
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
                Ok((Self::Datagrams(socket), None))
            }
        }
    }

    /// The connection, blocking until [`ClientSocket::end_blocking`].
    ///
    /// # Errors
    /// The kernel's; it is not a connection.
    pub(crate) fn begin_blocking(&self) -> io::Result<TcpStream> {
        match self {
            Self::Stream(stream) => {
                stream.socket.set_nonblocking(false)?;
                stream.socket.try_clone()
            }
            Self::Datagrams(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Back to what a load needs.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn end_blocking(&self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.socket.set_nonblocking(true),
            Self::Datagrams(_) => Ok(()),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.socket.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
        }
    }

    /// Receives all that has arrived; `scratch` is the thread's.
    pub(crate) fn receive(
        &mut self,
        client: &mut SimClient,
        scratch: &mut [u8],
        now_ns: impl Fn() -> u64,
        mut counters: Option<&mut ThreadCounters>,
    ) -> Result<(), LoadError> {
        match self {
            Self::Stream(stream) => stream.receive(client, scratch, now_ns, counters),
            Self::Datagrams(socket) => loop {
                match socket.recv(scratch) {
                    Ok(len) => {
                        let record = scratch.get(..len).unwrap_or_default();
                        client.record(record, now_ns(), counters.as_deref_mut())?;
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(_) => return Err(died(client)),
                }
            },
        }
    }

    /// Sends all calls that are due. `issue` false: only what is left from before.
    pub(crate) fn send(
        &mut self,
        client: &mut SimClient,
        now_ns: u64,
        plan: &Plan,
        send_new: bool,
        counters: Option<&mut ThreadCounters>,
    ) -> Result<Flush, LoadError> {
        match self {
            Self::Stream(stream) => {
                let before = stream.out.len();
                while send_new && client.next(now_ns, Some(&mut stream.out)).is_some() {}
                if let Some(counters) = counters {
                    counters.bytes_out += (stream.out.len() - before) as u64;
                }
                stream.flush().map_err(|_| died(client))
            }
            Self::Datagrams(socket) => {
                let mut bytes = 0;
                while send_new && let Some(index) = client.next(now_ns, None) {
                    let Some(slot) = client.slots.get_mut(index) else { continue };
                    slot.again_ns = now_ns.saturating_add(nanoseconds(plan.retransmit));
                    bytes += slot.record.len() as u64;
                    // a full socket loses the datagram, and it is retransmitted
                    match socket.send(slot.record.bytes()) {
                        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                            return Err(died(client));
                        }
                        _ => {}
                    }
                }
                if let Some(counters) = counters {
                    counters.bytes_out += bytes;
                }
                Ok(Flush::Complete)
            }
        }
    }

    /// Retransmits datagrams that have had no reply for too long.
    pub(crate) fn send_again(
        &self,
        client: &mut SimClient,
        now_ns: u64,
        plan: &Plan,
        counters: &mut ThreadCounters,
    ) {
        let Self::Datagrams(socket) = self else { return };
        for index in 0..client.slots.len() {
            let Some(slot) = client.slots.get_mut(index) else { continue };
            if !slot.busy || slot.again_ns > now_ns {
                continue;
            }
            if slot.tries >= TRIES_MAX {
                counters.lost += 1;
                client.give_up(index);
                continue;
            }
            slot.tries += 1;
            slot.again_ns = now_ns.saturating_add(nanoseconds(plan.retransmit) << slot.tries);
            counters.retransmitted += 1;
            let _ = socket.send(slot.record.bytes());
        }
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 8)
}

fn died(client: &SimClient) -> LoadError {
    LoadError::Died { server: client.server, missing: client.under_way() }
}

impl Stream {
    fn new(socket: TcpStream, session: Option<Box<Session>>) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        // thousands of connections in TIME_WAIT would fill the port range
        sys::outgoing::reset_on_close(&socket)?;
        let sealed = session.map(|session| {
            let incoming = vec![0; SEALED_BYTES];
            Box::new(Sealed { session, incoming, plain: Vec::new(), records: Vec::new() })
        });
        Ok(Self { socket, partial: Partial::new(), out: Writer::new(), sent: 0, sealed })
    }

    fn receive(
        &mut self,
        client: &mut SimClient,
        scratch: &mut [u8],
        now_ns: impl Fn() -> u64,
        mut counters: Option<&mut ThreadCounters>,
    ) -> Result<(), LoadError> {
        if self.sealed.is_some() {
            return self.receive_sealed(client, now_ns, counters);
        }
        loop {
            // a long record is received directly into its buffer, everything else into the scratch
            let (got, room, straight) = match self.partial.space() {
                Some(space) => (self.socket.read(space), space.len(), true),
                None => (self.socket.read(scratch), scratch.len(), false),
            };
            let got = match got {
                Ok(0) => return Err(died(client)),
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(died(client)),
            };
            let now = now_ns();
            let mut input = scratch.get(..got).unwrap_or_default();
            if straight {
                self.partial.received(got);
                input = &[];
            }
            records(&mut self.partial, input, client, now, counters.as_deref_mut())?;
            if got < room {
                return Ok(());
            }
        }
    }

    /// Receives from a sealed connection.
    fn receive_sealed(
        &mut self,
        client: &mut SimClient,
        now_ns: impl Fn() -> u64,
        mut counters: Option<&mut ThreadCounters>,
    ) -> Result<(), LoadError> {
        let Some(sealed) = self.sealed.as_deref_mut() else { return Ok(()) };
        let Sealed { session, incoming, plain, records: outgoing } = sealed;
        loop {
            let kept = session.kept();
            let room = incoming.get_mut(kept..).unwrap_or_default();
            let got = match self.socket.read(room) {
                Ok(0) => return Err(died(client)),
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(died(client)),
            };
            let (now, full) = (now_ns(), got == room.len());
            session.put_kept(incoming);
            let received = incoming.get_mut(..kept.saturating_add(got)).unwrap_or_default();
            if plain.len() < received.len() {
                plain.resize(received.len(), 0);
            }
            let place = plain.get_mut(..received.len()).unwrap_or_default();
            let opened = session.open(received, place, outgoing).map_err(|error| {
                LoadError::Garbage { server: client.server, what: error.to_string() }
            })?;
            let input = plain.get(..opened.len).unwrap_or_default();
            records(&mut self.partial, input, client, now, counters.as_deref_mut())?;
            if opened.ended {
                return Err(died(client));
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Sends what is in `out`, as far as the socket accepts it.
    fn flush(&mut self) -> io::Result<Flush> {
        let Self { socket, out, sent, sealed, .. } = self;
        let Some(Sealed { session, records, .. }) = sealed.as_deref_mut() else {
            return flush_all(socket, out.bytes(), sent).inspect(|flush| {
                if *flush == Flush::Complete {
                    out.clear();
                }
            });
        };
        if !out.bytes().is_empty() {
            let sealed = session.seal(out.bytes(), records);
            sealed.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))?;
            out.clear();
        }
        let flush = flush_all(socket, records, sent)?;
        if flush == Flush::Complete {
            records.clear();
        }
        Ok(flush)
    }
}

/// Has the records that `input` completes taken by their client.
fn records(
    partial: &mut Partial,
    mut input: &[u8],
    client: &mut SimClient,
    now_ns: u64,
    mut counters: Option<&mut ThreadCounters>,
) -> Result<(), LoadError> {
    let garbage = |server| move |e: RecordError| LoadError::Garbage { server, what: e.to_string() };
    while let Some(record) = partial.next(&mut input, RECORD_MAX).map_err(garbage(client.server))? {
        client.record(&record, now_ns, counters.as_deref_mut())?;
        if let Record::Joined(mut memory) = record {
            partial.reuse(&mut memory);
        }
    }
    Ok(())
}

/// Sends `bytes` behind the first `sent`, as far as the socket accepts them; `sent` is 0 when all are.
fn flush_all(socket: &mut TcpStream, bytes: &[u8], sent: &mut usize) -> io::Result<Flush> {
    while let Some(rest) = bytes.get(*sent..).filter(|rest| !rest.is_empty()) {
        match socket.write(rest) {
            Ok(len) => *sent += len,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Flush::Blocked),
            Err(e) => return Err(e),
        }
    }
    *sent = 0;
    Ok(Flush::Complete)
}

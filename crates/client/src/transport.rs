//! Transport of whole records: over a connection with record marking (RFC 5531 §11), or as
//! datagrams.
//!
//! Owns: the socket and the received part of a reply. Knows nothing of calls.
//!
//! Invariant: records are returned only when complete, and at most [`RECORD_MAX`] bytes are held
//! for one.

use crate::error::{Error, Result};
use rpc::record::{Partial, RecordError, mark};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tls::ClientStream;

/// The longest reply that is accepted: the largest READ, and space for the headers.
pub const RECORD_MAX: usize = proto::nfs3::DATA_MAX + (64 << 10);
/// Bytes that are read from a connection at once between two records.
const READ_AT_ONCE: usize = 16 << 10;
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_536;
/// Ports that only a privileged process may bind; the upper half, as rresvport(3) takes them.
const RESERVED: std::ops::RangeInclusive<u16> = 512..=1023;

/// A connected byte stream with timeouts.
trait Stream: Read + Write + Send {
    fn wait_for_reading(&self, timeout: Duration) -> std::io::Result<()>;
    fn wait_for_writing(&self, timeout: Duration) -> std::io::Result<()>;
}

impl Stream for TcpStream {
    fn wait_for_reading(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }
    fn wait_for_writing(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn wait_for_reading(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }
    fn wait_for_writing(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for ClientStream<TcpStream> {
    fn wait_for_reading(&self, timeout: Duration) -> std::io::Result<()> {
        self.get_ref().set_read_timeout(Some(timeout))
    }
    fn wait_for_writing(&self, timeout: Duration) -> std::io::Result<()> {
        self.get_ref().set_write_timeout(Some(timeout))
    }
}

/// A transport to a server.
pub(crate) struct Link {
    peer: String,
    kind: Kind,
}

enum Kind {
    Stream {
        socket: Box<dyn Stream>,
        /// Received data that is not yet returned.
        inbox: Inbox,
        /// What is being sent, mark and record in one piece.
        outbox: Vec<u8>,
    },
    Datagram {
        socket: UdpSocket,
        buffer: Vec<u8>,
    },
}

fn io_error(peer: &str, source: std::io::Error) -> Error {
    match source.kind() {
        ErrorKind::ConnectionRefused => Error::Refused { peer: peer.to_owned() },
        _ => Error::Io { peer: peer.to_owned(), source },
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Link {
    pub(crate) fn tcp(addr: SocketAddr, timeout: Duration) -> Result<Self> {
        let peer = format!("{addr} (tcp)");
        match TcpStream::connect_timeout(&addr, timeout) {
            Ok(stream) => Self::over_tcp(stream),
            Err(e) if is_timeout(&e) => Err(Error::TimedOut { peer, after: timeout, strays: 0 }),
            Err(e) => Err(io_error(&peer, e)),
        }
    }

    pub(crate) fn over_tcp(stream: TcpStream) -> Result<Self> {
        let peer = stream.peer_addr().map_or_else(|_| "tcp".into(), |a| format!("{a} (tcp)"));
        stream.set_nodelay(true).map_err(|e| io_error(&peer, e))?;
        Ok(Self { peer, kind: Kind::stream(stream) })
    }

    pub(crate) fn over_tls(stream: ClientStream<TcpStream>) -> Self {
        let peer = stream.get_ref().peer_addr();
        let peer = peer.map_or_else(|_| "tls".into(), |addr| format!("{addr} (tls)"));
        Self { peer, kind: Kind::stream(stream) }
    }

    pub(crate) fn unix(path: &Path, timeout: Duration) -> Result<Self> {
        let peer = path.display().to_string();
        let stream = UnixStream::connect(path).map_err(|e| io_error(&peer, e))?;
        stream.wait_for_writing(timeout).map_err(|e| io_error(&peer, e))?;
        Ok(Self { peer, kind: Kind::stream(stream) })
    }

    pub(crate) fn udp(addr: SocketAddr, reserved: bool) -> Result<Self> {
        let peer = format!("{addr} (udp)");
        let bound = if reserved { bind_reserved(addr) } else { bind_any(addr, 0) };
        let socket = bound.map_err(|e| io_error(&peer, e))?;
        socket.connect(addr).map_err(|e| io_error(&peer, e))?;
        Ok(Self { peer, kind: Kind::Datagram { socket, buffer: vec![0; DATAGRAM_MAX] } })
    }

    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    pub(crate) const fn is_datagram(&self) -> bool {
        matches!(self.kind, Kind::Datagram { .. })
    }

    /// Sends one record.
    pub(crate) fn send(&mut self, record: &[u8], timeout: Duration) -> Result<()> {
        let sent = match &mut self.kind {
            Kind::Stream { socket, outbox, .. } => {
                let mark = mark(record.len())
                    .ok_or(Error::Unsendable("the call is longer than a record"))?;
                outbox.clear();
                outbox.extend_from_slice(&mark.to_be_bytes());
                outbox.extend_from_slice(record);
                socket
                    .wait_for_writing(nonzero_timeout(timeout))
                    .and_then(|()| socket.write_all(outbox))
            }
            Kind::Datagram { socket, .. } => socket.send(record).map(|_| ()),
        };
        sent.map_err(|e| match e.kind() {
            _ if is_timeout(&e) => {
                Error::TimedOut { peer: self.peer.clone(), after: timeout, strays: 0 }
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                Error::Closed { peer: self.peer.clone(), missing: "a call on its way" }
            }
            _ => io_error(&self.peer, e),
        })
    }

    /// The next record, or `None` if none is complete at the deadline.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>> {
        match &mut self.kind {
            Kind::Stream { socket, inbox, .. } => {
                receive_stream(&self.peer, socket.as_mut(), inbox, deadline)
            }
            Kind::Datagram { socket, buffer } => {
                let Some(left) = left(deadline) else { return Ok(None) };
                let got = socket.set_read_timeout(Some(left)).and_then(|()| socket.recv(buffer));
                match got {
                    Ok(len) => Ok(Some(buffer.get(..len).unwrap_or_default().to_vec())),
                    Err(e) if is_timeout(&e) || e.kind() == ErrorKind::Interrupted => Ok(None),
                    Err(e) => Err(io_error(&self.peer, e)),
                }
            }
        }
    }
}

impl Kind {
    fn stream(socket: impl Stream + 'static) -> Self {
        Self::Stream { socket: Box::new(socket), inbox: Inbox::new(), outbox: Vec::new() }
    }
}

/// Zero would mean "no timeout" to the system.
fn nonzero_timeout(timeout: Duration) -> Duration {
    timeout.max(Duration::from_millis(1))
}

/// The time left until `deadline`; `None` when it has passed.
fn left(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then(|| nonzero_timeout(left))
}

fn bind_any(addr: SocketAddr, port: u16) -> std::io::Result<UdpSocket> {
    if addr.is_ipv4() {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
    } else {
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port))
    }
}

fn bind_reserved(addr: SocketAddr) -> std::io::Result<UdpSocket> {
    let mut last = std::io::Error::from(ErrorKind::AddrInUse);
    for port in RESERVED.rev() {
        match bind_any(addr, port) {
            Ok(socket) => return Ok(socket),
            Err(e) if e.kind() == ErrorKind::AddrInUse => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

/// Received bytes that are not yet split into records.
struct Inbox {
    buffer: Vec<u8>,
    /// The part of the buffer that is not yet parsed.
    fresh: Range<usize>,
    /// The record being received.
    partial: Partial,
}

impl Inbox {
    fn new() -> Self {
        Self { buffer: vec![0; READ_AT_ONCE], fresh: 0..0, partial: Partial::new() }
    }

    /// The next complete record, if there is one.
    fn next(&mut self) -> std::result::Result<Option<Vec<u8>>, RecordError> {
        let mut input = self.buffer.get(self.fresh.clone()).unwrap_or_default();
        let record = self.partial.next(&mut input, RECORD_MAX)?.map(|record| record.to_vec());
        self.fresh.start = self.fresh.end.saturating_sub(input.len());
        Ok(record)
    }

    /// Reads from the socket; only after [`Inbox::next`] returned nothing.
    fn fill(&mut self, socket: &mut dyn Stream) -> std::io::Result<usize> {
        if let Some(space) = self.partial.space() {
            let got = socket.read(space)?;
            self.partial.received(got);
            return Ok(got);
        }
        let got = socket.read(&mut self.buffer)?;
        self.fresh = 0..got;
        Ok(got)
    }
}

fn receive_stream(
    peer: &str,
    socket: &mut dyn Stream,
    inbox: &mut Inbox,
    deadline: Instant,
) -> Result<Option<Vec<u8>>> {
    let peer = || peer.to_owned();
    loop {
        match inbox.next() {
            Ok(Some(record)) => return Ok(Some(record)),
            Ok(None) => {}
            Err(source) => return Err(Error::BadRecord { peer: peer(), source }),
        }
        let Some(left) = left(deadline) else { return Ok(None) };
        let got = socket.wait_for_reading(left).and_then(|()| inbox.fill(socket));
        match got {
            Ok(0) if inbox.partial.is_empty() => {
                return Err(Error::Closed { peer: peer(), missing: "no answer" });
            }
            Ok(0) => return Err(Error::Closed { peer: peer(), missing: "half an answer" }),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if is_timeout(&e) => return Ok(None),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {
                return Err(Error::Closed { peer: peer(), missing: "a reset" });
            }
            Err(e) => return Err(io_error(&peer(), e)),
        }
    }
}

//! One socket of ours to one port of a machine: what is sent and received there.
//!
//! Both kinds are connected, so that the kernel lets nothing in that comes from elsewhere and tells when nobody listens.
//! Nothing waits. What a connection does not take is kept, and is bounded by the calls that may be under way.

use rpc::Transport;
use rpc::record::Partial;
use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use sys::epoll::{Epoll, Interest};

/// The longest reply that is taken in.
const REPLY_MAX: usize = 64 << 10;

/// What an endpoint is shared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EndpointKey {
    pub to: SocketAddr,
    pub local: IpAddr,
    pub transport: Transport,
}

enum Socket {
    Udp(UdpSocket),
    Tcp {
        stream: TcpStream,
        /// Whether the connection is being made.
        connecting: bool,
        partial: Box<Partial>,
        /// What it has not taken, with record marks.
        unsent: Vec<u8>,
    },
}

/// One socket.
pub(super) struct Endpoint {
    pub key: EndpointKey,
    socket: Socket,
    /// The calls that wait for an answer here, by xid.
    pub pending: HashMap<u32, u64>,
    /// Something has been received: it works, or did.
    pub has_answered: bool,
    /// Since when nobody has used it.
    pub idle_since_ms: u64,
    watched: Interest,
}

impl Endpoint {
    /// Opens it, watched by `epoll`.
    pub fn open(key: EndpointKey, epoll: &Epoll, token: u64) -> io::Result<Self> {
        let open = |local, reserved| -> io::Result<Socket> {
            Ok(match key.transport {
                Transport::Udp => {
                    Socket::Udp(sys::outgoing::connect_datagrams(key.to, local, reserved)?)
                }
                Transport::Tcp => Socket::Tcp {
                    stream: sys::outgoing::begin_connect(key.to, local, reserved)?,
                    connecting: true,
                    partial: Box::default(),
                    unsent: Vec::new(),
                },
            })
        };
        let from = |local| match open(local, true) {
            // no privilege, or all of them are in use
            Err(error) if may_be_any_port(&error) => open(local, false),
            done => done,
        };
        let socket = match from(Some(key.local)) {
            // it is not our address any more
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => from(None)?,
            done => done?,
        };
        let writable = matches!(socket, Socket::Tcp { .. });
        let watched = Interest { readable: true, writable, edge: false };
        match &socket {
            Socket::Udp(socket) => epoll.add(socket, token, watched)?,
            Socket::Tcp { stream, .. } => epoll.add(stream, token, watched)?,
        }
        let (pending, has_answered, idle_since_ms) = (HashMap::new(), false, 0);
        Ok(Self { key, socket, pending, has_answered, idle_since_ms, watched })
    }

    /// Sends a message, or keeps it until there is room.
    pub fn send(&mut self, message: &[u8], epoll: &Epoll, token: u64) -> io::Result<()> {
        match &mut self.socket {
            Socket::Udp(socket) => match socket.send(message) {
                // it is sent again later
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
                sent => sent.map(drop),
            },
            Socket::Tcp { unsent, .. } => {
                let mark = rpc::record::mark(message.len()).ok_or(ErrorKind::InvalidInput)?;
                unsent.extend_from_slice(&mark.to_be_bytes());
                unsent.extend_from_slice(message);
                self.flush(epoll, token)
            }
        }
    }

    /// Whether the kernel has taken everything.
    pub fn is_flushed(&self) -> bool {
        match &self.socket {
            Socket::Udp(_) => true,
            Socket::Tcp { connecting, unsent, .. } => !connecting && unsent.is_empty(),
        }
    }

    /// Sends what is left.
    fn flush(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        let Socket::Tcp { stream, connecting, unsent, .. } = &mut self.socket else {
            return Ok(());
        };
        while !*connecting && !unsent.is_empty() {
            match sys::socket::send(stream, &[IoSlice::new(unsent)]) {
                Ok(len) => drop(unsent.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let writable = *connecting || !unsent.is_empty();
        let wanted = Interest { readable: true, writable, edge: false };
        if wanted != self.watched {
            epoll.modify(&*stream, token, wanted)?;
            self.watched = wanted;
        }
        Ok(())
    }

    /// Goes on after epoll has told of it: finishes connecting, sends, and gives each message that has come to
    /// `message`.
    ///
    /// # Errors
    /// The endpoint is at its end; the end of the stream is `UnexpectedEof`, bytes that are not records are
    /// `InvalidData`.
    pub fn advance(
        &mut self,
        writable: bool,
        (epoll, token): (&Epoll, u64),
        buf: &mut [u8],
        mut message: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        if let Socket::Tcp { stream, connecting, .. } = &mut self.socket {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            if *connecting && !writable {
                return Ok(());
            }
            *connecting = false;
        }
        self.flush(epoll, token)?;
        // what is left is told of again
        match self.receive(buf, &mut message) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            done => done,
        }
    }

    fn receive(&mut self, buf: &mut [u8], message: &mut impl FnMut(&[u8])) -> io::Result<()> {
        match &mut self.socket {
            Socket::Udp(socket) => {
                let len = socket.recv(buf)?;
                message(buf.get(..len).unwrap_or_default());
            }
            Socket::Tcp { stream, partial, .. } => {
                let len = sys::socket::receive(stream, buf)?;
                if len == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                let mut input = buf.get(..len).unwrap_or_default();
                let lost = |_| io::Error::from(ErrorKind::InvalidData);
                while let Some(record) = partial.next(&mut input, REPLY_MAX).map_err(lost)? {
                    message(&record);
                }
            }
        }
        Ok(())
    }
}

/// Whether a socket from any port may do better.
fn may_be_any_port(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::AddrInUse)
}

//! Calls that the server makes: what they contain and where they may go. The transport makes them.
//!
//! A call goes only to a host that has called this server: a [`CallerAddress`] is made from a call's [`Peer`], or from
//! what was recorded of one before a restart, never from a name or an address in arguments. So a client cannot make the
//! server call a third host.

use crate::{BackChannel, Peer, Refusal, Transport};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

/// The address of a host that has called, and the local address that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerAddress {
    addr: IpAddr,
    /// The interface of a link-local address.
    scope: u32,
    local: IpAddr,
}

impl CallerAddress {
    /// The address of the caller of a call in progress.
    pub const fn of(peer: &Peer) -> Self {
        let scope = match peer.addr {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(addr) => addr.scope_id(),
        };
        Self { addr: peer.addr.ip(), scope, local: peer.local.ip() }
    }

    /// The address of a caller that was recorded before a restart. The interface of a link-local address is not recorded,
    /// so such a caller cannot be called.
    pub const fn recorded(addr: IpAddr, local: IpAddr) -> Self {
        Self { addr, scope: 0, local }
    }

    /// The caller's address.
    pub const fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The local address that the caller used; calls to it are sent from there.
    pub const fn local(&self) -> IpAddr {
        self.local
    }

    /// A port of the caller.
    pub const fn at(&self, port: u16) -> SocketAddr {
        match self.addr {
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.scope)),
            IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), port),
        }
    }
}

/// The port of a program on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProgramPort {
    /// Ask the host's port mapper (RFC 1833): by version 4, 3, then 2, over the transport of the call.
    AskPortmapper,
    /// This port.
    Known(u16),
    /// This port, at which the program has answered before. What others of the host's ports fail to answer, which may be
    /// somebody else's, does not hold it up.
    Answered(u16),
}

/// The destination of a call.
#[derive(Clone)]
pub enum CallTarget {
    /// A program on a host that has called, over a connection or socket of the server.
    Machine {
        /// The host.
        to: CallerAddress,
        /// The port.
        port: ProgramPort,
        /// The transport.
        transport: Transport,
    },
    /// The connection that the client has opened.
    Conn(Arc<dyn BackChannel>),
}

/// The AUTH_SYS credential that a client asks callbacks to use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallUser {
    /// The name of the machine, at most 255 bytes.
    pub machine: Box<[u8]>,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The other groups, at most 16.
    pub groups: Box<[u32]>,
}

/// The credential of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallCredential {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS as root, as lock managers and status monitors use.
    Root,
    /// AUTH_SYS as the client asked for.
    User(Arc<CallUser>),
}

/// Called with the outcome of a call: the bytes of the result (what follows `accept_stat`, empty for void), or the
/// failure. Runs on the thread that makes the calls and must not block; if the call is refused at once, it runs on the
/// caller's thread before [`Outbound::call`] returns.
pub type Completion = Box<dyn FnOnce(Result<&[u8], CallFailure>) + Send>;

/// One call.
pub struct OutboundCall {
    /// The destination.
    pub target: CallTarget,
    /// The program's number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
    /// The credential.
    pub credential: CallCredential,
    /// The encoded arguments.
    pub args: Vec<u8>,
    /// Time limit for everything: waiting in queues, finding the port, retransmissions, the reply.
    pub timeout_ms: u64,
    /// Whether a reply is expected; if not, the call is complete when the kernel has accepted it.
    pub expects_reply: bool,
    /// Called once with the outcome.
    pub done: Completion,
}

/// Identifies a call for cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Makes calls. No method blocks.
pub trait Outbound: Send + Sync {
    /// Makes a call as soon as the limits of its destination allow it.
    fn call(&self, call: OutboundCall) -> CallId;

    /// Cancels a call: it completes with [`CallFailure::Cancelled`], unless it is complete already. It may have been
    /// executed.
    fn cancel(&self, call: CallId);
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallFailure {
    /// No reply within the time limit.
    #[error("no reply")]
    NoAnswer,
    /// The host reports that no process listens on the port.
    #[error("connection refused")]
    ConnectionRefused,
    /// The host is unreachable, or the connection failed.
    #[error("unreachable")]
    Unreachable,
    /// The host's port mapper does not reply.
    #[error("its port mapper does not reply")]
    NoPortmapper,
    /// The program is not registered with the host's port mapper.
    #[error("the program is not registered with its port mapper")]
    NotRegistered,
    /// The program rejected the call.
    #[error("{0}")]
    Refused(Refusal),
    /// The reply cannot be decoded.
    #[error("the reply cannot be decoded")]
    Garbled,
    /// Displaced by newer calls to the same host.
    #[error("displaced by newer calls to the same host")]
    Displaced,
    /// The limit of calls is reached.
    #[error("too many calls are waiting")]
    NoRoom,
    /// The client's connection is closed.
    #[error("the client's connection is closed")]
    ConnClosed,
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopped,
}

//! Calls that the server makes: what they are and whom they may go to. Who makes them is the transport's business.
//!
//! A call goes only to somebody who has called: a [`CallerAddress`] is made of a call's [`Peer`], or of what was
//! recorded of one before a restart, and never of a name or an address in arguments. So nobody can have the server
//! call a third party.

use crate::{BackChannel, Peer, Refusal, Transport};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

/// The address of somebody who has called, and the address of ours that he used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerAddress {
    addr: IpAddr,
    /// The interface of a link-local address.
    scope: u32,
    local: IpAddr,
}

impl CallerAddress {
    /// That of a call that is being served.
    pub const fn of(peer: &Peer) -> Self {
        let scope = match peer.addr {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(addr) => addr.scope_id(),
        };
        Self { addr: peer.addr.ip(), scope, local: peer.local.ip() }
    }

    /// That of a caller who was recorded before a restart. The interface of a link-local address is not recorded, so
    /// that such a caller cannot be called.
    pub const fn recorded(addr: IpAddr, local: IpAddr) -> Self {
        Self { addr, scope: 0, local }
    }

    /// His address.
    pub const fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The address of ours that he used; calls to him come from there.
    pub const fn local(&self) -> IpAddr {
        self.local
    }

    /// A port of his.
    pub const fn at(&self, port: u16) -> SocketAddr {
        match self.addr {
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.scope)),
            IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), port),
        }
    }
}

/// Where a program is at its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProgramPort {
    /// Its port mapper knows (RFC 1833): asked by version 4, 3, then 2, over the transport of the call.
    AskPortmapper,
    /// At this port.
    Known(u16),
}

/// Whom a call goes to, and how.
#[derive(Clone)]
pub enum CallTarget {
    /// A program on the machine of somebody who has called, over a connection or socket of our own.
    Machine {
        /// The machine.
        to: CallerAddress,
        /// Where the program is.
        port: ProgramPort,
        /// What the call goes over.
        transport: Transport,
    },
    /// Back over a connection that the client has opened.
    Conn(Arc<dyn BackChannel>),
}

/// The user of AUTH_SYS that a client wants to be called by.
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

/// Who the server says that it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallCredential {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS as root of this machine, as lock managers and status monitors call each other.
    Root,
    /// AUTH_SYS as the client has asked for.
    User(Arc<CallUser>),
}

/// What is done with the outcome of a call: the bytes of the result (what follows `accept_stat`, empty for void), or
/// why there is none. Runs on the thread that makes the calls and must not block; or on the caller's, before
/// [`Outbound::call`] returns, if the call is refused at once.
pub type Completion = Box<dyn FnOnce(Result<&[u8], CallFailure>) + Send>;

/// One call.
pub struct OutboundCall {
    /// Whom it goes to.
    pub target: CallTarget,
    /// The program's number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
    /// Who calls.
    pub credential: CallCredential,
    /// The encoded arguments.
    pub args: Vec<u8>,
    /// How long all of it may take: waiting for others, finding the port, sending again, the answer.
    pub timeout_ms: u64,
    /// Whether there is an answer to wait for; if not, the call is done when it has been handed to the kernel.
    pub expects_reply: bool,
    /// Told of the outcome, once.
    pub done: Completion,
}

/// A call that was made, so that it can be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Who makes calls. Neither method waits.
pub trait Outbound: Send + Sync {
    /// Makes a call, as soon as others that go there allow it.
    fn call(&self, call: OutboundCall) -> CallId;

    /// Ends a call: it is done with [`CallFailure::Cancelled`], unless it is done already. It may have been carried
    /// out.
    fn cancel(&self, call: CallId);
}

/// Why a call has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallFailure {
    /// Nobody has answered in time.
    #[error("no answer")]
    NoAnswer,
    /// The machine answers that nobody listens there.
    #[error("connection refused")]
    ConnectionRefused,
    /// There is no way to the machine, or the connection broke.
    #[error("unreachable")]
    Unreachable,
    /// The machine's port mapper does not answer.
    #[error("its port mapper does not answer")]
    NoPortmapper,
    /// The machine's port mapper does not know the program.
    #[error("its port mapper does not know the program")]
    NotRegistered,
    /// The program refuses the call.
    #[error("{0}")]
    Refused(Refusal),
    /// The answer cannot be decoded.
    #[error("the answer cannot be decoded")]
    Garbled,
    /// Newer calls to the same machine took its place.
    #[error("displaced by newer calls to the same machine")]
    Displaced,
    /// There are as many calls as may be.
    #[error("too many calls are waiting")]
    NoRoom,
    /// The client's connection is closed.
    #[error("the client's connection is closed")]
    ConnClosed,
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The server stops.
    #[error("the server stops")]
    Stopped,
}

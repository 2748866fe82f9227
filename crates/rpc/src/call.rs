//! What a procedure knows of the call that it answers, and what it tells the server about it.

use crate::ahead::{Ahead, Piped};
use crate::socket_buffers::SocketBufferSizes;
use proto::rpc::{AuthSysParms, GROUPS_MAX, Groups};
use std::net::SocketAddr;

/// How a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A record on a connection.
    Tcp,
    /// A datagram.
    Udp,
}

/// The two ends of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The client's address and port (an IPv4 client of an IPv6 socket shows as IPv4).
    pub addr: SocketAddr,
    /// The address and port that the call came to.
    pub local: SocketAddr,
    /// How it came.
    pub transport: Transport,
}

/// `authsys_parms` (RFC 5531, appendix A) without the stamp, which means nothing to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// The client's own name for itself; never trusted.
    pub machinename: &'a [u8],
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    groups: Groups,
}

impl<'a> AuthSys<'a> {
    /// The most groups that the flavour carries (RFC 5531, appendix A).
    pub const GROUPS_MAX: usize = GROUPS_MAX;

    /// A credential; `None` if there are more than sixteen groups.
    pub fn new(machinename: &'a [u8], uid: u32, gid: u32, groups: &[u32]) -> Option<Self> {
        Some(Self { machinename, uid, gid, groups: Groups::new(groups)? })
    }

    /// Supplementary groups.
    pub fn groups(&self) -> &[u32] {
        self.groups.as_slice()
    }

    /// As it goes over the wire.
    pub const fn parms(&self, stamp: u32) -> AuthSysParms<'a> {
        AuthSysParms {
            stamp,
            machine_name: self.machinename,
            uid: self.uid,
            gid: self.gid,
            groups: self.groups,
        }
    }
}

impl<'a> From<AuthSysParms<'a>> for AuthSys<'a> {
    fn from(parms: AuthSysParms<'a>) -> Self {
        Self {
            machinename: parms.machine_name,
            uid: parms.uid,
            gid: parms.gid,
            groups: parms.groups,
        }
    }
}

/// Who the client says is calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE: an anonymous caller.
    Anonymous,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
}

/// How a call tells its worker thread that it is about to block, so that other calls go on meanwhile.
pub trait Blocking {
    /// To be called before a system call or a lock that may wait; cheap to call twice.
    fn will_block(&self);
}

/// Why a READ's or READDIR's data was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Copied {
    /// The way that the reply takes sends no ranges of files.
    NotTaken,
    /// It was shorter than what is worth sending as a range.
    Short,
    /// It was not in memory.
    Cold,
    /// There is no file behind it that can be sent.
    NoFile,
    /// It is a listing, which exists nowhere before it is encoded.
    Listing,
}

/// What a procedure tells the statistics about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The export that the call was for, by its index in the export table.
    pub export: Option<u16>,
    /// The status of the protocol (`nfsstat3` and the like); 0 is success.
    pub status: u32,
    /// Payload bytes that a READ or READDIR sent.
    pub bytes_read: u32,
    /// Payload bytes that a WRITE took.
    pub bytes_written: u32,
    /// How many of them went from the socket to their place through a pipe; of the dispatcher's telling.
    pub bytes_piped: u32,
    /// The socket buffer sizes that the export asks for.
    pub buffers: SocketBufferSizes,
    /// Why what was read was copied; `None`: it is a range of a file, or there is none.
    pub copied: Option<Copied>,
}

/// One call, as its procedure sees it.
pub struct Call<'a> {
    /// Transaction id.
    pub xid: u32,
    /// Who is at the other end.
    pub peer: Peer,
    /// Who is asking.
    pub credential: Credential<'a>,
    /// Called before anything that may wait.
    pub blocking: &'a dyn Blocking,
    /// Data that went where it belongs before the record was whole.
    pub ahead: Option<&'a Ahead>,
    /// Data that is in a pipe instead of behind the arguments; only for an [`crate::AheadHandler`].
    pub piped: Option<Piped<'a>>,
    /// For the statistics.
    pub outcome: Outcome,
}

impl<'a> Call<'a> {
    /// A call of which nothing is known but this.
    pub fn new(
        xid: u32,
        peer: Peer,
        credential: Credential<'a>,
        blocking: &'a dyn Blocking,
    ) -> Self {
        let outcome = Outcome::default();
        Self { xid, peer, credential, blocking, ahead: None, piped: None, outcome }
    }
}

/// Why a procedure gives no result of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The arguments do not decode: the reply is GARBAGE_ARGS.
    #[error("arguments do not decode: {0}")]
    GarbageArgs(#[from] xdr::Error),
    /// The server cannot answer: the reply is SYSTEM_ERR.
    #[error("the server cannot answer")]
    SystemErr,
    /// The procedure's number stands for nothing in this version: the reply is PROC_UNAVAIL.
    #[error("no such procedure")]
    ProcUnavail,
    /// The credential is not good enough for this: the reply is AUTH_ERROR / AUTH_TOOWEAK.
    #[error("the credential is too weak")]
    TooWeak,
    /// No reply at all is right (a client that tries again will be answered).
    #[error("no reply")]
    Silence,
}

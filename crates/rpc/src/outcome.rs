//! What became of a call: what its procedure reports for the statistics, and what the dispatcher did.

use crate::{OpIndex, SocketBufferSizes};
use proto::rpc::AuthStat;

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

/// What a procedure reports about a call for the statistics.
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
    /// How many of them went from the socket to the file through a pipe; set by the dispatcher.
    pub bytes_piped: u32,
    /// The socket buffer sizes that the export asks for.
    pub buffers: SocketBufferSizes,
    /// Whether the call is refused because of its transport security: a procedure without a status for that ends with
    /// [`crate::Fault::TooWeak`].
    pub too_weak: bool,
    /// Why what was read was copied; `None`: it is a range of a file, or there is none.
    pub copied: Option<Copied>,
}

/// What to do with a record that was dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send the reply that was appended.
    Reply,
    /// Send nothing: a duplicate of a call that still runs, no call, or a procedure's choice.
    Silence,
    /// Send nothing now: the reply is sent later ([`crate::Deferred`]).
    Deferred,
    /// Send the reply that was appended; what follows on this connection is TLS (RFC 9289 §4.1).
    /// Never for a datagram.
    StartTls,
    /// Close the connection: what comes over it is not RPC, or its client has to send the call again. Never
    /// for a datagram.
    Close,
}

/// Why a call got no result of its procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reject {
    /// Not a call, or cut short within its header; nothing is sent.
    Malformed,
    /// RPC_MISMATCH.
    RpcMismatch,
    /// AUTH_ERROR with its reason.
    Auth(AuthStat),
    /// PROG_UNAVAIL.
    ProgUnavail,
    /// PROG_MISMATCH.
    ProgMismatch,
    /// PROC_UNAVAIL.
    ProcUnavail,
    /// GARBAGE_ARGS.
    GarbageArgs,
    /// SYSTEM_ERR, as the procedure asked.
    SystemErr,
    /// SYSTEM_ERR, because the procedure panicked: a bug of ours.
    Panicked,
}

/// What the reply cache did about a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplicate {
    /// The first still runs and will answer; or too many copies wait already, and this one's connection is
    /// closed.
    Dropped,
    /// The reply to the first was sent again.
    Replayed,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// What to do now.
    pub verdict: Verdict,
    /// The procedure, if there is one of that number.
    pub op: Option<OpIndex>,
    /// What the procedure told the statistics; a replayed reply counts no payload bytes.
    pub outcome: Outcome,
    /// Why there is no result.
    pub rejected: Option<Reject>,
    /// Whether the call was a retransmission that the reply cache knew.
    pub duplicate: Option<Duplicate>,
}

impl Done {
    pub(crate) const fn new(
        verdict: Verdict,
        op: Option<OpIndex>,
        rejected: Option<Reject>,
    ) -> Self {
        let outcome = Outcome {
            export: None,
            status: 0,
            bytes_read: 0,
            bytes_written: 0,
            bytes_piped: 0,
            buffers: SocketBufferSizes::UNSET,
            too_weak: false,
            copied: None,
        };
        Self { verdict, op, outcome, rejected, duplicate: None }
    }
}

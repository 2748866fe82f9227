//! Errors of calls, and whose fault they are.

use proto::mount::MountError;
use rpc::Refusal;
use rpc::record::RecordError;
use std::time::Duration;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server listens at the address.
    #[error("{peer} refuses: no server listens there; check address and port")]
    Refused {
        /// The address.
        peer: String,
    },
    /// The network or the machine does not allow it.
    #[error("{peer}: {source}")]
    Io {
        /// The address.
        peer: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// No reply in time.
    #[error("{peer} gave no answer within {after:?}{}", stray_answers(*strays))]
    TimedOut {
        /// The address.
        peer: String,
        /// The timeout.
        after: Duration,
        /// Replies to other calls that arrived meanwhile.
        strays: u32,
    },
    /// The server closed the connection before the reply was complete.
    #[error("{peer} closed the connection with {missing}")]
    Closed {
        /// The address.
        peer: String,
        /// What had arrived by then.
        missing: &'static str,
    },
    /// The stream is not valid record marking.
    #[error("{peer} does not speak ONC RPC, or announces too much: {source}")]
    BadRecord {
        /// The address.
        peer: String,
        /// What is wrong.
        source: RecordError,
    },
    /// The message is not an RPC reply.
    #[error("{peer} does not speak ONC RPC: {what}")]
    NotRpc {
        /// The address.
        peer: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The server rejects the call.
    #[error("{0}")]
    Rejected(#[from] Refusal),
    /// The result does not decode.
    #[error("the server's answer to {operation} does not decode: {source}")]
    Garbled {
        /// The operation.
        operation: &'static str,
        /// What is wrong.
        source: xdr::Error,
    },
    /// MNT was refused by version 3.
    #[error("the server refuses to mount {path}: {source}")]
    Mount {
        /// The path.
        path: String,
        /// Why.
        source: MountError,
    },
    /// MNT was refused by version 1 or 2.
    #[error("the server refuses to mount {path}: UNIX error {number}")]
    MountOld {
        /// The path.
        path: String,
        /// The UNIX error number.
        number: u32,
    },
    /// NFS returned an error.
    #[error("{operation}: {name} ({number})")]
    Nfs {
        /// The operation.
        operation: &'static str,
        /// The status by its name.
        name: String,
        /// The status by its number.
        number: u32,
    },
    /// No call with this transaction id is in flight.
    #[error("no call with transaction id {0:#x} is under way")]
    NotUnderWay(u32),
    /// The message cannot be encoded.
    #[error("cannot be sent: {0}")]
    Unsendable(&'static str),
}

fn stray_answers(count: u32) -> String {
    match count {
        0 => String::new(),
        n => format!(" ({n} answers to other calls came)"),
    }
}

impl Error {
    /// The number of the protocol's own status, if the error is one.
    pub const fn status(&self) -> Option<u32> {
        match self {
            Self::Nfs { number, .. } | Self::MountOld { number, .. } => Some(*number),
            Self::Mount { source, .. } => Some(source.number()),
            _ => None,
        }
    }

    /// Whether it is a timeout.
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

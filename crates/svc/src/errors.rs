//! Why a server does not start, and why a setting cannot be applied.

use rpc::Transport;
use std::io;
use std::net::SocketAddr;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound; the configuration or another process is at fault.
    #[error("cannot listen on {transport:?} {addr}: {source}")]
    Bind {
        /// For what.
        transport: Transport,
        /// Where.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A socket that somebody else has bound is of no use.
    #[error("cannot use an inherited socket: {0}")]
    Adopt(io::Error),
    /// A setting that this version does not know.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The kernel refuses what every server needs: threads, descriptors, memory.
    #[error("cannot start: {0}; check the limits on processes and open files")]
    Resources(#[from] io::Error),
}

/// A setting that cannot be applied; the operator is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(pub(crate) String);

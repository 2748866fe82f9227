//! Why a load could not be made or ended early, and whose fault it is.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why there is no load, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan does not hold together.
    #[error("{0}")]
    Plan(String),
    /// The server cannot be talked to, or refuses what every load begins with.
    #[error("{0}")]
    Server(#[from] client::Error),
    /// The load wants to make something and may not.
    #[error(
        "cannot make {name} on the server: {source}; is the export read-only, or root squashed? \
         (--uid names the user)"
    )]
    NotWritable {
        /// What was to be made.
        name: String,
        /// What the server says.
        source: client::Error,
    },
    /// The export has nothing that the workload could work on.
    #[error("{0}")]
    Nothing(String),
    /// A recorded list does not parse.
    #[error("{}:{line}: {what}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A connection could not be made.
    #[error("client {client} cannot connect to {server}: {source}")]
    Connect {
        /// Which client, counted from 1.
        client: usize,
        /// The server.
        server: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A connection ended while calls were under way.
    #[error("{server} closed a connection with {missing} calls unanswered: did the server die?")]
    Died {
        /// The server.
        server: SocketAddr,
        /// Calls without an answer.
        missing: usize,
    },
    /// What came is not an answer.
    #[error("{server} answers garbage: {what}")]
    Garbage {
        /// The server.
        server: SocketAddr,
        /// What is wrong with it.
        what: String,
    },
    /// Nothing comes any more.
    #[error("{server} has not on_reply for {after:?}: it hangs, or the network does")]
    Hangs {
        /// The server.
        server: SocketAddr,
        /// How long.
        after: Duration,
    },
    /// This machine does not let us.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

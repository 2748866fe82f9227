//! Why a load could not run or ended early, and whose fault it is.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why a load could not run, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan is inconsistent.
    #[error("{0}")]
    Plan(String),
    /// The server cannot be reached, or refuses the preparation of the load.
    #[error("{0}")]
    Server(#[from] client::Error),
    /// The load needs to create an object and is not allowed to.
    #[error(
        "cannot make {name} on the server: {source}; is the export read-only, or root squashed? \
         (--uid names the user)"
    )]
    NotWritable {
        /// The object to be created.
        name: String,
        /// What the server says.
        source: client::Error,
    },
    /// The export has no objects that the workload could use.
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
    /// The server does not take a client of version 4, or does not open what it needs.
    #[error("client {client} cannot begin on {server} by NFS version 4: {source}")]
    SetUp {
        /// Which client, counted from 1.
        client: usize,
        /// The server.
        server: SocketAddr,
        /// What the server says.
        source: client::Error,
    },
    /// A session has fewer slots than there are to be calls under way.
    #[error(
        "{server} grants a session {granted} slots, fewer than the {depth} calls that each client is to have in \
         progress (--depth)"
    )]
    Slots {
        /// The server.
        server: SocketAddr,
        /// How many it grants.
        granted: usize,
        /// Calls under way.
        depth: usize,
    },
    /// Calls cannot be protected as they are to be.
    #[error("--sec {sec}: {why}")]
    Protection {
        /// The protection.
        sec: &'static str,
        /// What is missing, or what the server or the library says.
        why: String,
    },
    /// A connection ended while calls were under way.
    #[error("{server} closed a connection with {missing} calls unanswered: did the server die?")]
    Died {
        /// The server.
        server: SocketAddr,
        /// Calls without an answer.
        missing: usize,
    },
    /// The server sent an invalid reply.
    #[error("{server} answers garbage: {what}")]
    Garbage {
        /// The server.
        server: SocketAddr,
        /// What is wrong with it.
        what: String,
    },
    /// No reply arrives any more.
    #[error("{server} has not answered for {after:?}: it hangs, or the network does")]
    Hangs {
        /// The server.
        server: SocketAddr,
        /// How long.
        after: Duration,
    },
    /// This machine lacks a permission or resource.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

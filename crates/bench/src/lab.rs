//! The networks that an experiment needs, created on one machine and removed with this process.
//!
//! ```text
//!   [`Namespace`]  a private network: run a closure or start a server in it
//!   [`veth`]       a veth pair between two of them, with addresses and counters
//!   [`VethPairs`]  a server and its clients with several veth pairs between them
//!   [`Link`]       a long or slow line between two of them: rate, round trip, queue, loss
//! ```
//!
//! Invariants: nothing here has a name outside this process (namespaces are held by descriptors), so
//! nothing is left however the process ends; settings are written inside private namespaces only. All
//! of it needs root, `ip` (package iproute2) and, for a [`Link`], `/dev/net/tun`; [`LabError::Unable`]
//! names what is missing.

pub mod link;
pub mod namespace;
mod netem;
mod ring;
mod simulator;
pub mod sockstat;
pub mod veth;
pub mod veth_pairs;

pub use link::{DirectionReport, Link, LinkBackend, LinkOptions, LinkReport};
pub use namespace::Namespace;
pub use veth::{Interface, Subnet, Traffic};
pub use veth_pairs::VethPairs;

use crate::result::Outcome;
use std::io;

/// Why the network cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabError {
    /// This machine or this user cannot have it: what is missing, and where to get it.
    #[error("{0}")]
    Unable(String),
    /// A failure.
    #[error("{0}")]
    Failed(String),
}

impl LabError {
    /// The outcome of an experiment that stops here.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unable(why) => Outcome::Unable(why.clone()),
            Self::Failed(why) => Outcome::Failed(why.clone()),
        }
    }

    /// `doing` failed in the kernel: a missing right is [`LabError::Unable`], all else a failure.
    fn of(doing: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Unable(format!("{doing} needs root")),
            _ => Self::Failed(format!("{doing}: {error}")),
        }
    }
}

//! Lock owners: requests of the same owner do not conflict.
//!
//! [`Who`] borrows from a request and costs nothing; [`Holder`] is the copy that a table keeps. The two compare equal
//! by content. The tables compare owners and ask for their host, and nothing else depends on the variant: a client of
//! version 4 is a host as well, for as long as it has its client id.

use crate::key::HostId;

/// An owner as a request names him.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who<'a> {
    /// NLM: a process of a host. `svid` is its number there, `oh` what the client's lock manager calls it.
    Nlm {
        /// The host.
        host: HostId,
        /// The process.
        svid: i32,
        /// The owner handle.
        oh: &'a [u8],
    },
    /// NFSv4: a lock owner of a client.
    V4 {
        /// The client, as a host.
        host: HostId,
        /// Its client id.
        client: u64,
        /// What the client calls the owner.
        owner: &'a [u8],
    },
}

impl<'a> Who<'a> {
    /// Who loses everything at once with this owner.
    pub const fn host(&self) -> HostId {
        match self {
            Self::Nlm { host, .. } | Self::V4 { host, .. } => *host,
        }
    }

    /// What the client calls the owner.
    pub const fn name(&self) -> &'a [u8] {
        match self {
            Self::Nlm { oh: name, .. } | Self::V4 { owner: name, .. } => name,
        }
    }

    pub(crate) fn to_holder(self) -> Holder {
        match self {
            Self::Nlm { host, svid, oh } => Holder::Nlm { host, svid, oh: oh.into() },
            Self::V4 { host, client, owner } => Holder::V4 { host, client, owner: owner.into() },
        }
    }
}

/// An owner as a table keeps him.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// NLM: a process of a host.
    Nlm {
        /// The host.
        host: HostId,
        /// The process.
        svid: i32,
        /// The owner handle.
        oh: Box<[u8]>,
    },
    /// NFSv4: a lock owner of a client.
    V4 {
        /// The client, as a host.
        host: HostId,
        /// Its client id.
        client: u64,
        /// What the client calls the owner.
        owner: Box<[u8]>,
    },
}

impl Holder {
    /// The owner, borrowed.
    pub fn who(&self) -> Who<'_> {
        match self {
            Self::Nlm { host, svid, oh } => Who::Nlm { host: *host, svid: *svid, oh },
            Self::V4 { host, client, owner } => Who::V4 { host: *host, client: *client, owner },
        }
    }

    /// Who loses everything at once with this owner.
    pub const fn host(&self) -> HostId {
        match self {
            Self::Nlm { host, .. } | Self::V4 { host, .. } => *host,
        }
    }
}

//! Lock owners: who does not conflict with himself.
//!
//! [`Who`] borrows from a request and costs nothing; [`Holder`] is the copy that a table keeps. The two compare equal
//! by content. NFSv4's owners will be one more variant of both, `V4 { client, owner }`: the tables compare owners and
//! ask for their client, and nothing else depends on the variant.

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
}

impl Who<'_> {
    /// Who loses everything at once with this owner.
    pub const fn host(&self) -> HostId {
        let Self::Nlm { host, .. } = self;
        *host
    }

    pub(crate) fn to_holder(self) -> Holder {
        let Self::Nlm { host, svid, oh } = self;
        Holder::Nlm { host, svid, oh: oh.into() }
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
}

impl Holder {
    /// The owner, borrowed.
    pub fn who(&self) -> Who<'_> {
        let Self::Nlm { host, svid, oh } = self;
        Who::Nlm { host: *host, svid: *svid, oh }
    }

    /// Who loses everything at once with this owner.
    pub const fn host(&self) -> HostId {
        let Self::Nlm { host, .. } = self;
        *host
    }
}

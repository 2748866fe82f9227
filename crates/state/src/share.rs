//! DOS share reservations of one file (NLM SHARE and UNSHARE). Those of version 4 are its opens, in `v4`.
//!
//! An open wants access (read, write, both or none) and denies others access. Two opens of different owners conflict
//! if one wants what the other denies. Each owner's opens are counted per combination, so that releasing one of
//! several restores exactly what the others hold.

use crate::key::HostId;
use crate::limits::Limits;
use std::net::IpAddr;

/// Read, write, both or none: what an open wants or denies. The bits are those of NLM and NFSv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ShareBits(u8);

impl ShareBits {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Reading.
    pub const READ: Self = Self(1);
    /// Writing.
    pub const WRITE: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// The bits as the wire numbers them, 0 to 3.
    pub const fn from_number(number: u32) -> Option<Self> {
        if number <= 3 { Some(Self(number as u8)) } else { None }
    }

    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Who reserves: NLM's shares belong to a host and an owner handle, not to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOwner<'a> {
    /// The host.
    pub host: HostId,
    /// The owner handle.
    pub oh: &'a [u8],
}

/// What an open wants and denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShareMode {
    /// What it wants to do.
    pub access: ShareBits,
    /// What others may not do.
    pub deny: ShareBits,
}

impl ShareMode {
    /// What reading or writing without an open comes to: it denies others nothing.
    pub const fn access_only(access: ShareBits) -> Self {
        Self { access, deny: ShareBits::NONE }
    }

    pub(crate) const fn conflicts(self, other: Self) -> bool {
        self.access.intersects(other.deny) || self.deny.intersects(other.access)
    }

    fn index(self) -> usize {
        usize::from(self.access.0 << 2 | self.deny.0)
    }
}

/// One owner's opens.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub host: HostId,
    pub addr: IpAddr,
    pub oh: Box<[u8]>,
    /// How many opens there are of each combination, by [`ShareMode::index`].
    counts: [u32; 16],
}

impl Share {
    /// What all of the owner's opens want and deny together.
    pub fn mode(&self) -> ShareMode {
        let mut whole = ShareMode { access: ShareBits::NONE, deny: ShareBits::NONE };
        for (index, _) in (0_u8..).zip(self.counts).filter(|(_, count)| *count > 0) {
            whole.access = whole.access.with(ShareBits(index >> 2));
            whole.deny = whole.deny.with(ShareBits(index & 3));
        }
        whole
    }

    /// How many opens there are.
    pub fn opens(&self) -> u32 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn is_of(&self, owner: &ShareOwner<'_>) -> bool {
        self.host == owner.host && *self.oh == *owner.oh
    }
}

/// How a reservation came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// The owner's first.
    New,
    /// One more of an owner who has some.
    More,
    Denied(ShareConflict),
    NoRoom,
}

/// What reservations are in the way of an open or an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShareConflict {
    /// This host's.
    Held(HostId),
    /// Only those of hosts that have sent no call for a long time; this is one of them.
    Silent(HostId),
}

/// The reservations of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares(Vec<Share>);

impl Shares {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Share> {
        self.0.iter()
    }

    /// How many owners deny something.
    pub fn denying(&self) -> usize {
        self.0.iter().filter(|share| share.mode().deny != ShareBits::NONE).count()
    }

    /// How many owners there are.
    pub fn owners(&self) -> usize {
        self.0.len()
    }

    /// What is in the way of a client of version 4, or of one at this address that reads or writes by version 2 or 3. What
    /// such a client reserved for itself never holds it up: these versions do not say on whose behalf it reads and writes.
    pub fn in_the_way(
        &self,
        (mode, addr): (ShareMode, Option<IpAddr>),
        is_silent: impl Fn(HostId) -> bool,
    ) -> Option<ShareConflict> {
        let others = self.0.iter().filter(|share| Some(share.addr) != addr);
        first_conflict(others, mode, is_silent)
    }

    /// Adds an open.
    pub fn reserve(
        &mut self,
        owner: &ShareOwner<'_>,
        (addr, mode): (IpAddr, ShareMode),
        limits: &Limits,
        is_silent: impl Fn(HostId) -> bool,
    ) -> Reserved {
        let others = self.0.iter().filter(|share| !share.is_of(owner));
        if let Some(conflict) = first_conflict(others, mode, is_silent) {
            return Reserved::Denied(conflict);
        }
        if let Some(share) = self.0.iter_mut().find(|share| share.is_of(owner)) {
            return match share.counts.get_mut(mode.index()) {
                Some(count) if *count < limits.opens_per_share => {
                    *count += 1;
                    Reserved::More
                }
                _ => Reserved::NoRoom,
            };
        }
        let own = || self.0.iter().filter(|share| share.host == owner.host).count();
        let (shares, most) = (self.0.len(), limits.shares_per_host_and_file);
        if shares >= limits.shares_per_file || shares >= most && own() >= most {
            return Reserved::NoRoom;
        }
        let mut counts = [0; 16];
        counts.iter_mut().skip(mode.index()).take(1).for_each(|count| *count = 1);
        self.0.push(Share { host: owner.host, addr, oh: owner.oh.into(), counts });
        Reserved::New
    }

    /// Takes one open back; says whether it was the owner's last.
    pub fn release(&mut self, owner: &ShareOwner<'_>, mode: ShareMode) -> bool {
        let Some(at) = self.0.iter().position(|share| share.is_of(owner)) else { return false };
        let Some(share) = self.0.get_mut(at) else { return false };
        if let Some(count) = share.counts.get_mut(mode.index()) {
            *count = count.saturating_sub(1);
        }
        let last = share.opens() == 0;
        if last {
            self.0.remove(at);
        }
        last
    }

    /// Drops everything of a host; answers how many owners went.
    pub fn drop_host(&mut self, host: HostId) -> usize {
        let before = self.0.len();
        self.0.retain(|share| share.host != host);
        before - self.0.len()
    }
}

/// What of these is in the way of an open.
fn first_conflict<'a>(
    shares: impl Iterator<Item = &'a Share>,
    mode: ShareMode,
    is_silent: impl Fn(HostId) -> bool,
) -> Option<ShareConflict> {
    let mut silent = None;
    for share in shares.filter(|share| share.mode().conflicts(mode)) {
        if !is_silent(share.host) {
            return Some(ShareConflict::Held(share.host));
        }
        silent = Some(ShareConflict::Silent(share.host));
    }
    silent
}

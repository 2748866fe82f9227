//! An open: what it is for is one word, which readers load without a lock.

use super::client::Client;
use super::lock_entry::LockState;
use super::minor0::Owner;
use super::stateid::Stateid;
use crate::hashed_file::HashedFile;
use crate::principal::Principal;
use crate::share::{ShareBits, ShareMode};
use crate::sync::{Arc, AtomicUsize, Mutex};
use std::any::Any;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The bit of [`Open::mode`] that says that it is no more.
pub(super) const ENDED: usize = 1 << 8;

/// What keeps an open file's object reachable; dropped with the open.
pub(super) type Guard = Box<dyn Any + Send + Sync>;

/// An open.
pub(super) struct Open {
    pub(super) other: [u8; 12],
    pub(super) seqid: AtomicU32,
    pub(super) file: HashedFile,
    pub(super) client: Arc<Client>,
    pub(super) owner: Box<[u8]>,
    /// Who has opened the file first.
    pub(super) user: Principal,
    /// Not 0 if another user has opened it as the same owner.
    pub(super) several_users: AtomicUsize,
    /// The owner with the numbers of its requests; of a client of version 4.0 only.
    pub(super) opener: Option<Arc<Owner>>,
    /// Access and deny bits, and [`ENDED`].
    pub(super) mode: AtomicUsize,
    /// Which combinations it was opened with: a bit each. Under the shard's lock.
    pub(super) combinations: AtomicUsize,
    /// Those who have locks by it.
    pub(super) locks: Mutex<Vec<Arc<LockState>>>,
    /// Taken out when the open ends: the map lets go of the entry itself at some later time, and until then a file that
    /// has lost its name would seem to be open.
    pub(super) kept: Mutex<Option<Guard>>,
}

pub(super) const fn combination(mode: ShareMode) -> usize {
    (mode.access.number() as usize) << 2 | mode.deny.number() as usize
}

pub(super) fn mode_of(word: usize) -> ShareMode {
    let bits =
        |number: usize| ShareBits::from_number((number & 3) as u32).unwrap_or(ShareBits::NONE);
    ShareMode { access: bits(word >> 2), deny: bits(word) }
}

impl Open {
    pub(super) fn mode(&self) -> ShareMode {
        mode_of(self.mode.load(Acquire))
    }

    pub(super) fn client_id(&self) -> u64 {
        self.client.id
    }

    /// Notes who opens the file again as the same owner.
    pub(super) fn note_user(&self, user: Principal) {
        if user != self.user {
            self.several_users.store(1, Release);
        }
    }

    /// Whom the open stands for; `None` if several users have opened the file as one owner.
    pub(super) fn sole_user(&self) -> Option<Principal> {
        (self.several_users.load(Acquire) == 0).then_some(self.user)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.mode.load(Acquire) & ENDED != 0
    }

    /// Called by the opens of the file, which count modes.
    pub(super) fn set_mode(&self, mode: ShareMode) {
        self.mode.store(combination(mode), Release);
    }

    /// The next version of the stateid; never 0.
    pub(super) fn bump(&self) -> Stateid {
        let next = match self.seqid.load(Relaxed).wrapping_add(1) {
            0 => 1,
            next => next,
        };
        self.seqid.store(next, Release);
        Stateid { seqid: next, other: self.other }
    }
}

pub(super) const fn intersects(a: ShareBits, b: ShareBits) -> bool {
    a.number() & b.number() != 0
}

pub(super) fn union(a: ShareMode, b: ShareMode) -> ShareMode {
    mode_of(combination(a) | combination(b))
}

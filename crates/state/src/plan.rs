//! What a call to the state comes to, and what is to be done because of it.
//!
//! Nothing in this crate blocks. Where a decision needs something that may block (the kernel's locks, stable
//! storage), the answer says so and the caller comes back: plan, act, settle.

use crate::holder::Holder;
use crate::image::LocalOp;
use crate::key::{FileKey, HostId, Tag};
use crate::range::{ByteRange, Mode};
use crate::record::Record;
use crate::sync::Arc;
use std::any::Any;

/// What keeps a locked file reachable though its last name is removed; dropped by the caller, because that may
/// block.
pub type Kept = std::sync::Arc<dyn Any + Send + Sync>;

/// What a request for a lock or a share comes to.
#[must_use]
#[derive(Debug, Clone)]
pub enum Plan {
    /// It is held, in the table and in the kernel's.
    Granted,
    /// Somebody else holds what it conflicts with.
    Denied(Conflict),
    /// It waits. If the tag is not the request's own, the same request waits already, under this tag.
    Blocked(Tag),
    /// Ask the kernel, then [`settle`](crate::State::settle).
    Local(Ticket, LocalOp),
    /// Write this record to stable storage, report it to [`persisted`](crate::State::persisted), then ask again.
    /// Nothing was granted yet.
    Record(Record),
    /// The only conflict is with a host that has sent no call for a long time: release it
    /// ([`release_host`](crate::State::release_host)), then ask again.
    Silent(HostId),
    /// Another request for the same bytes is being decided: ask again in a moment, or later.
    Again,
    /// The grace period runs: only what was held before the restart may be reclaimed.
    Grace,
    /// A reclaim without a grace period, or by a host that held nothing before the restart.
    NoGrace,
    /// Waiting would be for ever: the owners would wait for each other.
    Deadlock,
    /// A limit was reached.
    NoRoom,
    /// The host was dropped while its call was under way. The call is of a life that is over: answer that there is no
    /// lock; a client that still wants one asks again.
    UnknownHost,
    /// The request was cancelled, or its host dropped, while the kernel was asked.
    Gone,
    /// The kernel could not be asked; the caller knows why.
    Failed,
}

/// What a request conflicts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// A lock of an NFS owner.
    Lock {
        /// The owner.
        holder: Arc<Holder>,
        /// What he holds.
        range: ByteRange,
        /// How.
        mode: Mode,
    },
    /// A lock of a local program.
    Local(LocalConflict),
    /// A share reservation of this host.
    Share(HostId),
    /// An open of a client of version 4.
    Open,
}

/// A local program's lock, as `F_OFD_GETLK` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalConflict {
    /// The bytes.
    pub range: ByteRange,
    /// How it is held.
    pub mode: Mode,
    /// The process, 0 or -1 if the kernel does not say.
    pub pid: i32,
}

/// How the kernel took a [`LocalOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LocalAnswer {
    /// All pieces are set.
    Done,
    /// The kernel cannot show this lock and nothing excludes it (a write lock on a running program): the table alone
    /// holds it. No piece is set.
    NotShown,
    /// A local program holds what it conflicts with. No piece is set: what was taken was undone.
    Conflict(LocalConflict),
    /// Another error. No piece is set.
    Failed,
}

/// One question to the kernel. Each is settled exactly once; a second time is without effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) file: FileKey,
    pub(crate) number: u64,
}

impl Ticket {
    /// The file that the question is about.
    pub const fn file(&self) -> &FileKey {
        &self.file
    }
}

/// A request that waited and now holds its lock; its client is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What the request was called.
    pub tag: Tag,
    /// The file.
    pub file: FileKey,
    /// The owner.
    pub holder: Arc<Holder>,
    /// What he holds now.
    pub range: ByteRange,
    /// How.
    pub mode: Mode,
}

/// One thing to do when no lock of the state is held.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Tell the client.
    Granted(Granted),
    /// Ask the kernel, then [`settle`](crate::State::settle).
    Local(Ticket, LocalOp),
    /// Drop this.
    LetGo(KeptFile),
}

/// A [`Kept`] that is no longer needed.
#[derive(Clone)]
pub struct KeptFile(pub Kept);

impl std::fmt::Debug for KeptFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeptFile")
    }
}

/// What is to be done, in this order. Up to [`Effects::INLINE`] need no allocation.
#[must_use]
#[derive(Debug, Clone, Default)]
pub struct Effects {
    few: [Option<Effect>; Self::INLINE],
    more: Vec<Effect>,
}

impl Effects {
    /// How many are stored in place.
    pub const INLINE: usize = 4;

    pub(crate) fn push(&mut self, effect: Effect) {
        match self.few.iter_mut().find(|free| free.is_none()) {
            Some(free) => *free = Some(effect),
            None => self.more.push(effect),
        }
    }

    /// Adds what another call left to do.
    pub fn append(&mut self, others: Self) {
        others.into_iter().for_each(|effect| self.push(effect));
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.few.iter().all(Option::is_none)
    }
}

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::iter::Chain<
        std::iter::Flatten<std::array::IntoIter<Option<Effect>, { Effects::INLINE }>>,
        std::vec::IntoIter<Effect>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.few.into_iter().flatten().chain(self.more)
    }
}

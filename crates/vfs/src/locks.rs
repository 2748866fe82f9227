//! Byte-range locks: how a back end learns which bytes of a file its NFS clients hold, so that programs of
//! the server's machine and NFS clients do not lock the same bytes.
//!
//! Conflicts among NFS clients are decided above the back end, by the lock table of NLM and of
//! version 4. The back end sees one holder: for each byte the strongest mode that any client holds.

use crate::{Cx, Fid, Result};

/// How a range is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Shared with others that read.
    Read,
    /// Exclusive.
    Write,
}

/// A range of bytes, which is not empty: the first byte and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockRange {
    start: u64,
    last: u64,
}

impl LockRange {
    /// Every possible byte of a file.
    pub const ALL: Self = Self { start: 0, last: u64::MAX };

    /// `length` bytes from `start`; `u64::MAX` means to the end (RFC 8881 §18.10.3). `None` if it is empty, or ends
    /// beyond the last offset.
    pub const fn new(start: u64, length: u64) -> Option<Self> {
        match length {
            0 => None,
            u64::MAX => Some(Self { start, last: u64::MAX }),
            length => match start.checked_add(length - 1) {
                Some(last) => Some(Self { start, last }),
                None => None,
            },
        }
    }

    /// From `start` to `last`, both of them included; `None` if `last` is before `start`.
    pub const fn from_bounds(start: u64, last: u64) -> Option<Self> {
        if start <= last { Some(Self { start, last }) } else { None }
    }

    /// The first byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The last byte; `u64::MAX` if there is no end.
    pub const fn last(self) -> u64 {
        self.last
    }

    /// The intersection.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::from_bounds(self.start.max(other.start), self.last.min(other.last))
    }
}

/// The new lock of a range: `None` unlocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockChange {
    /// The bytes.
    pub range: LockRange,
    /// The mode.
    pub mode: Option<LockMode>,
}

/// A lock of a program that does not use this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockConflict {
    /// The range.
    pub range: LockRange,
    /// The mode.
    pub mode: LockMode,
    /// The process on the server's machine, if it is known.
    pub pid: Option<u32>,
}

/// The result of a change of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// All changes were made.
    Done,
    /// No change was made: this lock conflicts.
    Conflict(LockConflict),
}

/// Back ends that support locks of programs other than NFS clients.
pub trait Locks: Send + Sync {
    /// Opens a file's locks, initially none: one for each file that is locked or queried. The caller keeps
    /// one for all clients: two of the same file conflict with each other.
    ///
    /// # Errors
    /// [`crate::need_regular`]'s for other types; [`crate::Status::NotSupp`] where the file system has no locks.
    fn open(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Box<dyn FileLocks>>;
}

/// The locks of one file; dropping it drops all of them.
pub trait FileLocks: Send + Sync {
    /// Changes the locks, all or none. Never waits for a lock. The ranges do not overlap.
    ///
    /// # Errors
    /// [`crate::Status::RoFs`], [`crate::Status::Acces`] if the server cannot open the file for a lock of that mode;
    /// no lock has changed.
    fn apply(&mut self, cx: &Cx<'_>, changes: &[LockChange]) -> Result<LockOutcome>;

    /// The lock that would conflict.
    ///
    /// # Errors
    /// As [`FileLocks::apply`].
    fn test(&self, range: LockRange, mode: LockMode) -> Result<Option<LockConflict>>;
}

#[cfg(test)]
mod tests {
    use super::LockRange;

    #[test]
    fn ranges_have_an_end_and_are_not_empty() {
        let bounds = |range: Option<LockRange>| range.map(|range| (range.start(), range.last()));
        assert_eq!(bounds(LockRange::new(5, 0)), None);
        assert_eq!(bounds(LockRange::new(5, 1)), Some((5, 5)));
        assert_eq!(bounds(LockRange::new(5, u64::MAX)), Some((5, u64::MAX)));
        assert_eq!(bounds(LockRange::new(u64::MAX, 1)), Some((u64::MAX, u64::MAX)));
        assert_eq!(bounds(LockRange::new(u64::MAX, 2)), None);
        assert_eq!(bounds(LockRange::from_bounds(2, 1)), None);
        let range = |start, last| LockRange::from_bounds(start, last).unwrap();
        assert_eq!(range(0, 5).intersection(range(5, 9)), Some(range(5, 5)));
        assert_eq!(range(0, 4).intersection(range(5, 9)), None);
    }
}

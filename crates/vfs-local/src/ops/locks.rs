//! Locks against programs of this machine: locks of one open file description for each locked file
//! (fcntl(2), `F_OFD_SETLK`).
//!
//! POSIX locks of the server's process cannot be used: the close of any descriptor of the file drops
//! them, and the server closes descriptors at any time. flock(2) does not conflict with either kind
//! on a local file system.
//!
//! The locks set in the kernel are stored in [`LockedFile::held`], so that a change can be undone,
//! and set again on a description with more access: a write lock needs one that is open for writing,
//! and the first may have been opened without that. So it is for a file that the server has a lease of, which opening it
//! for writing would break: whoever gives back a delegation takes locks for reading meanwhile, which only its client knew of.

use crate::errno;
use crate::fs::LocalFs;
use std::cmp::Ordering;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::errno::Errno;
use sys::ofd_lock::{self, LockType, Range};
use sys::open::How;
use vfs::{
    Cx, Fid, FileLocks, LockChange, LockConflict, LockMode, LockOutcome, LockRange, Locks, Result,
    Status, need_regular,
};

impl Locks for LocalFs {
    fn open(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Box<dyn FileLocks>> {
        let (file, attr) = self.hold(cx, fid)?;
        need_regular(attr.ftype)?;
        self.will_block(cx)?;
        let open = |how| self.open_data(fid, &file, how).map_err(errno::from);
        let (fd, writes) = if self.files.leases.has_against_writers(&self.key(fid)) {
            (open(How::Read)?, Writes::NotYet)
        } else {
            match open(How::Write) {
                Ok(fd) => (fd, Writes::Yes),
                Err(status @ (Status::Acces | Status::RoFs)) => {
                    (open(How::Read)?, Writes::Refused(status))
                }
                Err(status) => return Err(status),
            }
        };
        Ok(Box::new(LockedFile { fd, writes, held: Vec::new() }))
    }
}

/// Whether a file is open for writing, which a write lock needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    Yes,
    /// It was opened while the server had a lease of it.
    NotYet,
    /// Why it is not.
    Refused(Status),
}

/// A file, open for its locks.
struct LockedFile {
    fd: OwnedFd,
    writes: Writes,
    /// The held locks, in the order of the bytes; nothing overlaps.
    held: Vec<(LockRange, LockMode)>,
}

impl FileLocks for LockedFile {
    fn apply(&mut self, _cx: &Cx<'_>, changes: &[LockChange]) -> Result<LockOutcome> {
        if changes.iter().any(|change| change.mode == Some(LockMode::Write)) {
            self.open_for_writing()?;
        }
        // steps that may fail come first: nothing is unlocked before the rest is locked, so that it
        // can be undone
        let (raised, lowered) = self.split(changes);
        for (done, change) in raised.iter().enumerate() {
            let Err(error) = self.tell(change.range, change.mode) else { continue };
            let conflict = self.conflict(&error, change);
            for undone in raised.iter().take(done) {
                self.restore(undone.range)?;
            }
            return conflict.map(LockOutcome::Conflict);
        }
        for change in &lowered {
            self.tell(change.range, change.mode).map_err(lock_status)?;
        }
        for change in changes {
            self.note(change);
        }
        Ok(LockOutcome::Done)
    }

    fn test(&self, range: LockRange, mode: LockMode) -> Result<Option<LockConflict>> {
        let Some(kernel) = kernel_range(range) else { return Ok(None) };
        let found = ofd_lock::test(self.fd.as_fd(), kernel, lock_type(Some(mode)));
        Ok(found.map_err(lock_status)?.map(|found| LockConflict {
            range: neutral_range(found.range),
            mode: if found.write { LockMode::Write } else { LockMode::Read },
            pid: found.pid,
        }))
    }
}

impl LockedFile {
    /// Sees to it that write locks can be set.
    ///
    /// # Errors
    /// [`Status::Jukebox`] while the server has a lease of the file.
    fn open_for_writing(&mut self) -> Result<()> {
        match self.writes {
            Writes::Yes => return Ok(()),
            Writes::Refused(status) => return Err(status),
            Writes::NotYet => {}
        }
        sys::identity::act_as_process().map_err(errno::from)?;
        let wider = sys::open::reopen(self.fd.as_fd(), How::Write).map_err(errno::from)?;
        // those of both descriptions are for reading, and do not conflict
        for (range, mode) in &self.held {
            let Some(range) = kernel_range(*range) else { continue };
            ofd_lock::set(wider.as_fd(), range, lock_type(Some(*mode))).map_err(lock_status)?;
        }
        (self.fd, self.writes) = (wider, Writes::Yes);
        Ok(())
    }

    /// The parts of changes that strengthen the lock, and those that weaken it.
    fn split(&self, changes: &[LockChange]) -> (Vec<LockChange>, Vec<LockChange>) {
        let (mut raised, mut lowered) = (Vec::new(), Vec::new());
        for change in changes {
            for (range, held) in self.parts(change.range) {
                match change.mode.cmp(&held) {
                    Ordering::Greater => raised.push(LockChange { range, ..*change }),
                    Ordering::Less => lowered.push(LockChange { range, ..*change }),
                    Ordering::Equal => {}
                }
            }
        }
        (raised, lowered)
    }

    /// A range, split where its current lock changes.
    fn parts(&self, range: LockRange) -> Vec<(LockRange, Option<LockMode>)> {
        let mut parts = Vec::new();
        let mut next = Some(range.start());
        for (held, mode) in self.held.get(self.meeting(range)).unwrap_or_default() {
            let (Some(at), Some(both)) = (next, held.intersection(range)) else { continue };
            let gap = both.start().checked_sub(1).and_then(|last| LockRange::from_bounds(at, last));
            parts.extend(gap.map(|gap| (gap, None)));
            parts.push((both, Some(*mode)));
            next = both.last().checked_add(1);
        }
        let rest = next.and_then(|at| LockRange::from_bounds(at, range.last()));
        parts.extend(rest.map(|rest| (rest, None)));
        parts
    }

    fn tell(&self, range: LockRange, mode: Option<LockMode>) -> io::Result<()> {
        // beyond the kernel's largest offset there is no file, and no conflicting lock
        kernel_range(range)
            .map_or(Ok(()), |range| ofd_lock::set(self.fd.as_fd(), range, lock_type(mode)))
    }

    /// The conflict of a change that the kernel refused.
    fn conflict(&self, error: &io::Error, change: &LockChange) -> Result<LockConflict> {
        let in_the_way = matches!(sys::errno::of(error), Some(Errno::AGAIN | Errno::ACCESS));
        match change.mode.filter(|_| in_the_way) {
            // released by now: no conflict, and the caller tries again
            Some(mode) => self.test(change.range, mode)?.ok_or(Status::Jukebox),
            None => Err(lock_error(error)),
        }
    }

    /// Sets the kernel's lock of a range to the stored state: equal or weaker, which cannot fail.
    fn restore(&self, range: LockRange) -> Result<()> {
        let mut parts = self.parts(range).into_iter();
        parts.try_for_each(|(range, mode)| self.tell(range, mode).map_err(lock_status))
    }

    /// Stores a change that was made.
    fn note(&mut self, change: &LockChange) {
        let meeting = self.meeting(change.range);
        let replaced = self.held.get(meeting.clone()).unwrap_or_default();
        let before = replaced.first().and_then(|(held, mode)| {
            let last = change.range.start().checked_sub(1)?;
            Some((LockRange::from_bounds(held.start(), last)?, *mode))
        });
        let after = replaced.last().and_then(|(held, mode)| {
            let start = change.range.last().checked_add(1)?;
            Some((LockRange::from_bounds(start, held.last())?, *mode))
        });
        let changed = change.mode.map(|mode| (change.range, mode));
        self.held.splice(meeting, before.into_iter().chain(changed).chain(after));
    }

    /// Which of the held locks have a byte in this range: found by halving, as there may be many.
    fn meeting(&self, range: LockRange) -> std::ops::Range<usize> {
        let first = self.held.partition_point(|(held, _)| held.last() < range.start());
        let rest = self.held.get(first..).unwrap_or_default();
        first..first.saturating_add(rest.partition_point(|(held, _)| held.start() <= range.last()))
    }
}

/// The status of an error other than a conflict.
fn lock_error(error: &io::Error) -> Status {
    match sys::errno::of(error) {
        Some(Errno::NOLCK) => Status::NotSupp,
        _ => errno::status(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err calls")]
fn lock_status(error: io::Error) -> Status {
    lock_error(&error)
}

const fn lock_type(mode: Option<LockMode>) -> LockType {
    match mode {
        None => LockType::Unlock,
        Some(LockMode::Read) => LockType::Read,
        Some(LockMode::Write) => LockType::Write,
    }
}

/// The range for the kernel; `None` if it begins beyond the largest offset of the kernel.
fn kernel_range(range: LockRange) -> Option<Range> {
    let start = i64::try_from(range.start()).ok()?;
    let last = i64::try_from(range.last()).ok().filter(|last| *last < i64::MAX);
    let len = last.map_or(0, |last| last.saturating_sub(start).saturating_add(1));
    Some(Range { start, len })
}

/// Converts the kernel's range to the trait's type.
fn neutral_range(range: Range) -> LockRange {
    let start = u64::try_from(range.start).unwrap_or(0);
    let length = u64::try_from(range.len).ok().filter(|len| *len > 0).unwrap_or(u64::MAX);
    LockRange::new(start, length).unwrap_or(LockRange::ALL)
}

//! Byte-range locks that belong to an open file description (fcntl(2), "Open file description locks"): they
//! conflict with those of other descriptions and with the POSIX locks of all processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What is locked or unlocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockType {
    /// Shared; the descriptor is open for reading.
    Read,
    /// Exclusive; the descriptor is open for writing.
    Write,
    /// No lock.
    Unlock,
}

/// A range of a file: its first byte and how many there are; 0: to the end, however far that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: i64,
    /// How many.
    pub len: i64,
}

/// A lock that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// What it locks.
    pub range: Range,
    /// Whether it is exclusive.
    pub write: bool,
    /// The process that holds it; none of an open file description's.
    pub pid: Option<u32>,
}

/// Locks or unlocks a range. Never waits.
///
/// # Errors
/// `EAGAIN` or `EACCES` if somebody else holds a lock in the range; `EBADF` if the descriptor is not open for it;
/// `ENOLCK`, `EOPNOTSUPP` where the file system has no locks.
pub fn set(fd: BorrowedFd<'_>, range: Range, to: LockType) -> io::Result<()> {
    let mut lock = lock(range, to);
    command(fd, libc::F_OFD_SETLK, &mut lock)
}

/// The lock that is in the way of one, if there is one.
///
/// # Errors
/// As [`set`], but for the conflict.
pub fn test(fd: BorrowedFd<'_>, range: Range, to: LockType) -> io::Result<Option<Conflict>> {
    let mut lock = lock(range, to);
    command(fd, libc::F_OFD_GETLK, &mut lock)?;
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    Ok(Some(Conflict {
        range: Range { start: lock.l_start, len: lock.l_len },
        write: i32::from(lock.l_type) == libc::F_WRLCK,
        pid: u32::try_from(lock.l_pid).ok().filter(|pid| *pid != 0),
    }))
}

fn lock(range: Range, to: LockType) -> libc::flock {
    let kind = match to {
        LockType::Read => libc::F_RDLCK,
        LockType::Write => libc::F_WRLCK,
        LockType::Unlock => libc::F_UNLCK,
    };
    // SAFETY: the structure consists of numbers, of which zero is one.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = i16::try_from(kind).unwrap_or(0);
    lock.l_whence = i16::try_from(libc::SEEK_SET).unwrap_or(0);
    (lock.l_start, lock.l_len) = (range.start, range.len);
    lock
}

fn command(fd: BorrowedFd<'_>, command: i32, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: both commands take a struct flock, which outlives the call.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{LockType, Range, set, test};
    use std::os::fd::AsFd;

    #[test]
    fn conflicting_ofd_locks_are_reported_with_their_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let open = || {
            let mut options = std::fs::File::options();
            options.read(true).write(true).create(true).truncate(false).open(&path).unwrap()
        };
        let (one, other) = (open(), open());
        let range = Range { start: 10, len: 10 };
        set(one.as_fd(), range, LockType::Write).unwrap();
        assert_eq!(test(one.as_fd(), range, LockType::Write).unwrap(), None, "its own");
        let wide = Range { start: 0, len: 0 };
        let error = set(other.as_fd(), wide, LockType::Read).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        let conflict = test(other.as_fd(), wide, LockType::Read).unwrap().unwrap();
        assert_eq!((conflict.range, conflict.write, conflict.pid), (range, true, None));
        set(one.as_fd(), wide, LockType::Unlock).unwrap();
        set(other.as_fd(), wide, LockType::Read).unwrap();
    }
}

//! Changes of directories and attributes, always relative to a descriptor, never through a link.

use crate::open::proc_path;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A type of node that [`make_node`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeType {
    /// Block device with major and minor number.
    Block(u32, u32),
    /// Character device with major and minor number.
    Char(u32, u32),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// Makes a directory.
///
/// # Errors
/// The kernel's error.
pub fn make_dir(dir: BorrowedFd<'_>, name: &[u8], mode: u32) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode & 0o7777))?)
}

/// Makes a device node, pipe or socket.
///
/// # Errors
/// The kernel's error.
pub fn make_node(dir: BorrowedFd<'_>, name: &[u8], node: NodeType, mode: u32) -> io::Result<()> {
    let (kind, dev) = match node {
        NodeType::Block(major, minor) => (FileType::BlockDevice, rustix::fs::makedev(major, minor)),
        NodeType::Char(major, minor) => {
            (FileType::CharacterDevice, rustix::fs::makedev(major, minor))
        }
        NodeType::Fifo => (FileType::Fifo, 0),
        NodeType::Socket => (FileType::Socket, 0),
    };
    Ok(rustix::fs::mknodat(dir, name, kind, Mode::from_raw_mode(mode & 0o7777), dev)?)
}

/// Makes a symbolic link.
///
/// # Errors
/// The kernel's error.
pub fn make_symlink(dir: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, dir, name)?)
}

/// Makes a hard link to an open object, by its name in `/proc`: by the descriptor itself the kernel allows it only
/// with `CAP_DAC_READ_SEARCH`.
///
/// # Errors
/// The kernel's error; `EPERM` where `fs.protected_hardlinks` forbids it to this user.
pub fn make_link(fd: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let from = proc_path(fd);
    Ok(rustix::fs::linkat(rustix::fs::CWD, from, dir, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Removes an entry that is not a directory.
///
/// # Errors
/// The kernel's error.
pub fn remove(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

/// Removes an empty directory.
///
/// # Errors
/// The kernel's error.
pub fn remove_dir(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

/// Renames an entry, replacing what is there.
///
/// # Errors
/// The kernel's error.
pub fn rename(
    from_dir: BorrowedFd<'_>,
    from: &[u8],
    to_dir: BorrowedFd<'_>,
    to: &[u8],
) -> io::Result<()> {
    Ok(rustix::fs::renameat(from_dir, from, to_dir, to)?)
}

/// Reads a symbolic link that was opened as a path.
///
/// # Errors
/// The kernel's error.
pub fn read_link(fd: BorrowedFd<'_>, target: &mut Vec<u8>) -> io::Result<()> {
    target.clear();
    let read = rustix::fs::readlinkat(fd, c"", std::mem::take(target))?;
    *target = read.into_bytes();
    Ok(())
}

/// Whether the kernel lacks `fchmodat2` (before 6.6).
static NO_FCHMODAT2: AtomicBool = AtomicBool::new(false);
/// Its number, the same on all architectures.
const SYS_FCHMODAT2: libc::c_long = 452;

/// Sets the permission bits of an object opened in any way.
///
/// # Errors
/// The kernel's error.
pub fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    if !NO_FCHMODAT2.load(Relaxed) {
        // SAFETY: the path is a constant that ends with NUL.
        let status = unsafe {
            libc::syscall(
                SYS_FCHMODAT2,
                fd.as_raw_fd(),
                c"".as_ptr(),
                mode & 0o7777,
                libc::AT_EMPTY_PATH,
            )
        };
        if status == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ENOSYS) {
            return Err(error);
        }
        NO_FCHMODAT2.store(true, Relaxed);
    }
    Ok(rustix::fs::chmod(proc_path(fd), Mode::from_raw_mode(mode & 0o7777))?)
}

/// Sets owner and group, each if given, of an object opened in any way; of a link itself.
///
/// # Errors
/// The kernel's error.
pub fn set_owner(fd: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    Ok(rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH)?)
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Leave it.
    Keep,
    /// To the clock.
    Now,
    /// To this second and nanosecond.
    At(i64, u32),
}

impl When {
    fn timespec(self) -> Timespec {
        match self {
            Self::Keep => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            Self::Now => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            Self::At(sec, nsec) => Timespec { tv_sec: sec, tv_nsec: i64::from(nsec) },
        }
    }
}

/// Sets the times of an object opened in any way; of a link itself.
///
/// # Errors
/// The kernel's error.
pub fn set_times(fd: BorrowedFd<'_>, atime: When, mtime: When) -> io::Result<()> {
    let times = Timestamps { last_access: atime.timespec(), last_modification: mtime.timespec() };
    match rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH) {
        Err(Errno::INVAL) => {
            // kernels before 5.8 know no empty path here
            Ok(rustix::fs::utimensat(rustix::fs::CWD, proc_path(fd), &times, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

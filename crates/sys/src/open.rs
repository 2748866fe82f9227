//! Opening objects: by path, by name below a directory without ever leaving it, and again.
//!
//! Nothing here follows a symbolic link in a last component, and nothing keeps a controlling
//! terminal or survives an exec.

use crate::identity::{Capability, with};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How an object is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// As a name only: for attributes and as a base of look-ups; reads no data (`O_PATH`).
    Path,
    /// For reading data.
    Read,
    /// For writing data, and for reading it: of a file that is open for one only no range can be synced.
    Write,
    /// For writing data of a file that may not be read.
    WriteOnly,
    /// For listing a directory.
    List,
}

impl How {
    fn flags(self) -> OFlags {
        let base = OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match self {
            Self::Path => base | OFlags::PATH,
            Self::Read => base | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            Self::Write => base | OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY,
            Self::WriteOnly => base | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            Self::List => base | OFlags::RDONLY | OFlags::DIRECTORY,
        }
    }

    /// The raw flags, for [`crate::file_handle`].
    pub(crate) fn raw_flags(self) -> i32 {
        i32::try_from(self.flags().bits()).unwrap_or(0)
    }
}

/// Whether the kernel or a sandbox lacks `openat2`; then look-ups are checked by hand.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Opens a path given by the administrator; symbolic links in it are followed.
///
/// # Errors
/// The kernel's error.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a file of the server itself for reading. Never waits, as opening a FIFO would.
///
/// # Errors
/// The kernel's error; `InvalidInput` for what is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Opens an entry of a directory: never through a symbolic link, never into another mount
/// (`EXDEV`). With `cached`, only if that needs no disk (`EAGAIN` otherwise).
///
/// # Errors
/// The kernel's error.
pub fn open_entry(dir: BorrowedFd<'_>, name: &[u8], how: How, cached: bool) -> io::Result<OwnedFd> {
    if NO_OPENAT2.load(Relaxed) {
        return if cached {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            by_hand(dir, name, how)
        };
    }
    let mut resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    if how == How::Path {
        // O_PATH|O_NOFOLLOW opens a link itself; NO_SYMLINKS would refuse that
        resolve -= ResolveFlags::NO_SYMLINKS;
    }
    if cached {
        resolve |= ResolveFlags::CACHED;
    }
    match rustix::fs::openat2(dir, name, how.flags(), Mode::empty(), resolve) {
        Ok(fd) => Ok(fd),
        Err(e) if (e == Errno::INVAL && cached) || is_unknown(e) => {
            if cached {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                by_hand(dir, name, how)
            }
        }
        Err(e) => Err(e.into()),
    }
}

/// Whether an error of `openat2` is that of all its calls; then none is made again. A container's filter that does
/// not know it answers `EPERM`, as the file system does for what may not be changed: a directory
/// that is opened as a path tells them apart.
#[inline]
fn is_unknown(error: Errno) -> bool {
    let probe =
        || rustix::fs::openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::empty());
    let unknown = error == Errno::NOSYS
        || (error == Errno::PERM && probe().is_err_and(|error| error == Errno::PERM));
    if unknown {
        NO_OPENAT2.store(true, Relaxed);
    }
    unknown
}

/// The same for kernels before 5.6: a single component cannot leave its directory but by a mount
/// point, which shows in the device number.
fn by_hand(dir: BorrowedFd<'_>, name: &[u8], how: How) -> io::Result<OwnedFd> {
    let fd = rustix::fs::openat(dir, name, how.flags(), Mode::empty())?;
    if rustix::fs::fstat(&fd)?.st_dev == rustix::fs::fstat(dir)?.st_dev {
        Ok(fd)
    } else {
        Err(Errno::XDEV.into())
    }
}

/// Opens, as a path, the directory that a mount point covers. It is reached through a copy of the mount around it, without
/// the mounts below, which is gone when this returns but for the descriptor: close it soon, or it keeps the file system
/// mounted. Needs `CAP_SYS_ADMIN` and Linux 5.2.
///
/// # Errors
/// The kernel's error.
pub fn open_covered(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = with(Capability::SysAdmin, || rustix::mount::open_tree(dir, c"", flags))?;
    open_entry(copy.as_fd(), name, How::Path, false)
}

/// The parent of a directory, wherever it is; the caller checks that it is inside.
///
/// # Errors
/// The kernel's error.
pub fn open_parent(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, "..", How::Path.flags(), Mode::empty())?)
}

/// Opens a directory, of which we have any descriptor, for listing.
///
/// # Errors
/// The kernel's error.
pub fn open_listing(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, ".", How::List.flags(), Mode::empty())?)
}

/// Opens an object again in another way, through `/proc/self/fd`.
///
/// # Errors
/// The kernel's error; `ENOENT` without `/proc`.
pub fn reopen(fd: BorrowedFd<'_>, how: How) -> io::Result<OwnedFd> {
    let flags = how.flags() - OFlags::NOFOLLOW;
    Ok(rustix::fs::open(proc_path(fd), flags, Mode::empty())?)
}

/// The name of a descriptor's object for system calls that take only paths.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Makes a regular file; fails if the name exists. Opened for reading and writing.
///
/// # Errors
/// The kernel's error; `EEXIST`.
pub fn create_new(dir: BorrowedFd<'_>, name: &[u8], mode: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode & 0o7777))?)
}

/// Makes a regular file in a directory that has no name there yet, see [`crate::namespace::make_link`]: it is gone
/// when nobody has it open. Opened for reading and writing.
///
/// # Errors
/// The kernel's error; many, where the file system cannot do it (open(2), `O_TMPFILE`).
pub fn create_unnamed(dir: BorrowedFd<'_>, mode: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, ".", flags, Mode::from_raw_mode(mode & 0o7777))?)
}

/// Forgets the process's file mode mask, so that a client's modes are taken as they are.
pub fn clear_umask() {
    rustix::process::umask(Mode::empty());
}

/// Whether a descriptor is open for writing.
pub fn writes(fd: BorrowedFd<'_>) -> bool {
    let mode = rustix::fs::fcntl_getfl(fd).map(|flags| flags & OFlags::RWMODE);
    mode.is_ok_and(|mode| mode != OFlags::RDONLY)
}

/// A second descriptor of the same open file.
///
/// # Errors
/// The kernel's error.
pub fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

//! Where a file has data and where holes, and sharing and copying it without reading it.
//!
//! Seeking moves the descriptor's own position, which nothing in this program uses.

use crate::io::retry;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Reserves the space of a range; the file is at least as long as it afterwards.
///
/// # Errors
/// As fallocate(2): `EOPNOTSUPP` where the file system cannot.
pub fn allocate(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    retry(|| rustix::fs::fallocate(fd, FallocateFlags::empty(), offset, len))
}

/// The first data at or behind an offset; `None` if there is none up to the end of the file, or it ends before.
///
/// # Errors
/// The kernel's error.
pub fn next_data(fd: BorrowedFd<'_>, offset: u64) -> io::Result<Option<u64>> {
    seek(fd, SeekFrom::Data(offset))
}

/// The first hole at or behind an offset, which may be the end of the file; `None` if it ends before.
///
/// # Errors
/// The kernel's error.
pub fn next_hole(fd: BorrowedFd<'_>, offset: u64) -> io::Result<Option<u64>> {
    seek(fd, SeekFrom::Hole(offset))
}

fn seek(fd: BorrowedFd<'_>, to: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(fd, to) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Copies within the kernel; gives how many bytes, 0 at the end of the source.
///
/// # Errors
/// As copy_file_range(2): `EXDEV` and `EOPNOTSUPP` where it cannot.
pub fn copy(
    from: (BorrowedFd<'_>, u64),
    to: (BorrowedFd<'_>, u64),
    len: usize,
) -> io::Result<usize> {
    retry(|| {
        let (mut from_offset, mut to_offset) = (from.1, to.1);
        let (from, to) = (from.0, to.0);
        rustix::fs::copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), len)
    })
}

/// Makes a range share the data of another; `len` 0 goes to the end of the source.
///
/// # Errors
/// As FICLONERANGE: `EOPNOTSUPP` or `ENOTTY` where the file system cannot.
pub fn clone_range(
    from: (BorrowedFd<'_>, u64),
    to: (BorrowedFd<'_>, u64),
    len: u64,
) -> io::Result<()> {
    let range = libc::file_clone_range {
        src_fd: i64::from(from.0.as_raw_fd()),
        src_offset: from.1,
        src_length: len,
        dest_offset: to.1,
    };
    // SAFETY: the kernel reads the structure, which outlives the call, and nothing else of this process.
    match unsafe { libc::ioctl(to.0.as_raw_fd(), libc::FICLONERANGE, &raw const range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether files of a directory can share data: tried with two files without a name.
///
/// # Errors
/// The kernel's error: the directory is read-only, or its file system makes no files without a name.
pub fn can_clone(dir: BorrowedFd<'_>) -> io::Result<bool> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = || rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR);
    let (from, to) = (file()?, file()?);
    rustix::io::pwrite(&from, b"x", 0)?;
    Ok(clone_range((from.as_fd(), 0), (to.as_fd(), 0), 0).is_ok())
}

/// Has a range read before it is needed, as far as the kernel wants to; `len` 0 goes to the end.
///
/// # Errors
/// As posix_fadvise(2).
pub fn will_need(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fadvise(fd, offset, NonZeroU64::new(len), Advice::WillNeed)?)
}

/// Has the clean pages of a range dropped; `len` 0 goes to the end.
///
/// # Errors
/// As posix_fadvise(2).
pub fn dont_need(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fadvise(fd, offset, NonZeroU64::new(len), Advice::DontNeed)?)
}

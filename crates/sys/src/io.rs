//! Reading, writing and syncing files by descriptor.

use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

/// cachestat(2) has this number on every architecture; the libc crate does not know it everywhere.
const CACHESTAT: libc::c_long = 451;

/// Reads at `offset` what needs no disk. `WouldBlock` where it would have to wait, `Unsupported`
/// where the file system cannot tell.
///
/// # Errors
/// What the kernel says.
pub fn read_nowait(fd: BorrowedFd<'_>, data: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut slices = [IoSliceMut::new(data)];
    match rustix::io::preadv2(fd, &mut slices, offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
        other => Ok(other?),
    }
}

/// Reads at `offset`, waiting for the disk if need be.
///
/// # Errors
/// What the kernel says.
pub fn read(fd: BorrowedFd<'_>, data: &mut [u8], offset: u64) -> io::Result<usize> {
    retry(|| rustix::io::pread(fd, &mut *data, offset))
}

/// How many bytes of a range the page cache holds, in whole pages, those included that the disk
/// is still filling. Counts at most what lies within the file.
///
/// # Errors
/// `Unsupported` before Linux 6.5 and where the file system keeps no page cache; permission denied
/// for a file that is neither the process's own nor open for writing.
pub fn cached(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Pages {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let (range, mut pages) = (Range { offset, len }, Pages::default());
    // SAFETY: both structs are those of cachestat(2), the second is written, and both live until
    // the call has returned.
    let done = unsafe {
        libc::syscall(CACHESTAT, fd.as_raw_fd(), &raw const range, &raw mut pages, 0_u32)
    };
    if done == 0 {
        return Ok(pages.cached.saturating_mul(PAGE));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EOPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(error),
    }
}

/// What [`cached`] counts in: the pages that every architecture we know of has at least.
pub const PAGE: u64 = 4096;

/// Writes at `offset`; gives how much.
///
/// # Errors
/// What the kernel says.
pub fn write(fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> io::Result<usize> {
    retry(|| rustix::io::pwrite(fd, data, offset))
}

/// Puts a file's data and attributes on disk.
///
/// # Errors
/// What the kernel says; after `EIO` the data may be lost.
pub fn sync(fd: BorrowedFd<'_>) -> io::Result<()> {
    retry(|| rustix::fs::fsync(fd))
}

/// Puts a file's data, and what is needed to read it back, on disk.
///
/// # Errors
/// As [`sync`].
pub fn sync_data(fd: BorrowedFd<'_>) -> io::Result<()> {
    retry(|| rustix::fs::fdatasync(fd))
}

/// Puts a whole file system on disk.
///
/// # Errors
/// As [`sync`].
pub fn sync_filesystem(fd: BorrowedFd<'_>) -> io::Result<()> {
    retry(|| rustix::fs::syncfs(fd))
}

/// Cuts or grows a file.
///
/// # Errors
/// What the kernel says.
pub fn truncate(fd: BorrowedFd<'_>, size: u64) -> io::Result<()> {
    retry(|| rustix::fs::ftruncate(fd, size))
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

//! Reading, writing and syncing files by descriptor.

use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

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

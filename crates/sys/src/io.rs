//! Reading, writing and syncing files by descriptor.

use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

/// cachestat(2) has this number on every architecture; the libc crate does not know it everywhere.
const CACHESTAT: libc::c_long = 451;

/// The most bytes of address space that a sync of a range takes.
const MAPPED_MAX: usize = 1 << 36;

/// Reads at `offset` what needs no disk. `WouldBlock` where it would have to wait, `Unsupported`
/// where the file system cannot tell.
///
/// # Errors
/// The kernel's error.
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
/// The kernel's error.
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
    Ok(cachestat(fd, offset, len)?.cached.saturating_mul(PAGE))
}

/// How many bytes of a range wait in the page cache for being written, or are being written.
///
/// # Errors
/// As [`cached`].
pub fn dirty(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
    let pages = cachestat(fd, offset, len)?;
    Ok(pages.dirty.saturating_add(pages.writeback).saturating_mul(PAGE))
}

/// What cachestat(2) counts, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

fn cachestat(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<Pages> {
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    let (range, mut pages) = (Range { offset, len }, Pages::default());
    // SAFETY: both structs are those of cachestat(2), the second is written, and both live until
    // the call has returned.
    let done = unsafe {
        libc::syscall(CACHESTAT, fd.as_raw_fd(), &raw const range, &raw mut pages, 0_u32)
    };
    if done == 0 {
        return Ok(pages);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EOPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(error),
    }
}

/// Whether all of a range that lies within the file is in the page cache and filled, as far as that
/// can be told cheaply. A read of one byte that must not wait says so of its page; [`cached`] counts
/// the pages of a whole range that are there, filled or not. Up to three pages each is probed.
/// Beyond, all are counted if that is wanted and works, and one is probed in each 128 KiB: pages
/// that are there and not filled are being read ahead, in pieces that are no smaller.
///
/// # Errors
/// `Unsupported`: the file system cannot read without waiting.
pub fn is_cached(fd: BorrowedFd<'_>, offset: u64, len: usize, count: bool) -> io::Result<bool> {
    /// Ranges of this many pages are probed page by page: a probe costs half of what counting does.
    const PROBED: u64 = 3;
    /// What the kernel reads ahead at once unless it is told otherwise.
    const STRIDE: u64 = 128 << 10;
    let start = offset - offset % PAGE;
    let end = offset.saturating_add(len as u64);
    let pages = end.saturating_sub(start).div_ceil(PAGE);
    let mut stride = PAGE;
    if count
        && pages > PROBED
        && let Ok(cached) = cached(fd, start, end.saturating_sub(start))
    {
        if cached < pages.saturating_mul(PAGE) {
            return Ok(false);
        }
        stride = STRIDE;
    }
    let mut at = start;
    while at < end {
        if !is_filled(fd, at)? {
            return Ok(false);
        }
        at = at.saturating_add(stride);
    }
    if stride == PAGE { Ok(true) } else { is_filled(fd, end.saturating_sub(1)) }
}

/// Whether the page of one byte can be read without waiting.
fn is_filled(fd: BorrowedFd<'_>, at: u64) -> io::Result<bool> {
    match read_nowait(fd, &mut [0], at) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// What [`cached`] counts in: the pages that every architecture we know of has at least.
pub const PAGE: u64 = 4096;

/// Writes at `offset`; gives how much.
///
/// # Errors
/// The kernel's error.
pub fn write(fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> io::Result<usize> {
    retry(|| rustix::io::pwrite(fd, data, offset))
}

/// Asks the kernel to drop the clean pages of a file from its cache; those in use stay.
///
/// # Errors
/// As posix_fadvise(2).
pub fn forget(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Puts a file's data and attributes on disk.
///
/// # Errors
/// The kernel's error; after `EIO` the data may be lost.
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

/// As [`sync_data`], for a range of the file only. There is no call for that, but msync(2) of a mapping does
/// it for as much of the file as is mapped, whether any of it was touched or not.
///
/// # Errors
/// As [`sync`]; `Unsupported` if it cannot be done so: the descriptor is not open for reading and writing (its mapping
/// would not count as shared, and msync would do nothing), the file system maps no files, or there is
/// no room for a mapping.
pub fn sync_data_range(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::OFlags;
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    let mode = rustix::fs::fcntl_getfl(fd)? & OFlags::RWMODE;
    let start = offset.checked_sub(offset % crate::limits::page_bytes());
    let mapped = start.and_then(|start| {
        let len = offset.checked_add(len)?.checked_sub(start)?;
        Some((libc::off_t::try_from(start).ok()?, usize::try_from(len).ok()?))
    });
    let Some((start, len)) = mapped.filter(|(_, len)| mode == OFlags::RDWR && *len <= MAPPED_MAX)
    else {
        return Err(unsupported());
    };
    let (access, how) = (libc::PROT_NONE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at a place that the kernel chooses, of which nothing can be read or written.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), len, access, how, fd.as_raw_fd(), start) };
    if map == libc::MAP_FAILED {
        return Err(unsupported());
    }
    // SAFETY: the mapping of this many bytes was made above, and nobody else knows of it.
    let synced = match unsafe { libc::msync(map, len, libc::MS_SYNC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: as before; it is not used any more.
    unsafe { libc::munmap(map, len) };
    synced
}

/// Puts a whole file system on disk.
///
/// # Errors
/// As [`sync`].
pub fn sync_filesystem(fd: BorrowedFd<'_>) -> io::Result<()> {
    retry(|| rustix::fs::syncfs(fd))
}

/// Makes a hole in a file, which keeps its length.
///
/// # Errors
/// The kernel's error; `Unsupported` where the file system has no holes.
pub fn punch_hole(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    retry(|| rustix::fs::fallocate(fd, how, offset, len))
}

/// Cuts or grows a file.
///
/// # Errors
/// The kernel's error.
pub fn truncate(fd: BorrowedFd<'_>, size: u64) -> io::Result<()> {
    retry(|| rustix::fs::ftruncate(fd, size))
}

pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind;
    use std::os::fd::AsFd;

    #[test]
    fn a_range_sync_succeeds_or_reports_unsupported() {
        let path = std::env::temp_dir().join(format!("bowline-range-{}", std::process::id()));
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let opened = |read, write| File::options().read(read).write(write).open(&path).unwrap();
        let (both, reads, writes) = (opened(true, true), opened(true, false), opened(false, true));
        std::fs::remove_file(&path).unwrap();
        for (offset, len) in [(0, 1), (4096, 4096), (5000, 90_000), (99_999, 1 << 30)] {
            super::sync_data_range(both.as_fd(), offset, len).unwrap();
        }
        for (file, offset, len) in [
            (&reads, 0, 4096),
            (&writes, 0, 4096),
            (&both, 0, 0),
            (&both, 0, 1 << 40),
            (&both, u64::MAX - 4096, 8192),
            (&both, 1 << 63, 4096),
        ] {
            let refused = super::sync_data_range(file.as_fd(), offset, len).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{offset} {len}");
        }
    }
}

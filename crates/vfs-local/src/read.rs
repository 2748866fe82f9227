//! READ: from the page cache on the calling worker; what needs the disk only after others go on.
//!
//! One `fstat` after the read serves the end-of-file flag, the attributes of the reply and the
//! permission check: nothing that was read leaves the server before the check has passed.

use crate::access::check_data;
use crate::durable::Medium;
use crate::errno;
use crate::local::Local;
use crate::open_files::OpenFile;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use vfs::{Cx, Fid, ReadDone, Result, Status, need_regular};

/// See [`vfs::Backend::read`].
pub fn read(
    local: &Local,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    data: &mut [u8],
) -> Result<ReadDone> {
    // beyond what the kernel can address there is nothing: the end of every file
    let data = if i64::try_from(offset).is_ok() { data } else { &mut [] };
    if let Some(done) = warm(local, cx, fid, offset, data)? {
        return Ok(done);
    }
    let (file, attr) = local.hold(cx, fid)?;
    need_regular(attr.ftype)?;
    check_data(local, cx, &file, &attr, false)?;
    let fd = local.reader(&file, fid)?;
    let count = match no_wait(local, fd, offset, data) {
        Some(count) if count == data.len() => count,
        // a short count of a read that must not wait may be the end, or where the cache ends
        Some(_) | None => {
            local.may_sleep(cx);
            fill(fd, offset, data)?
        }
    };
    done(local, cx, &file, offset, count)
}

/// The whole read without waiting, without a reference count; `None` if it takes more.
fn warm(
    local: &Local,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    data: &mut [u8],
) -> Result<Option<ReadDone>> {
    let read = local.files.with(&local.key(fid), |file| {
        let Some(fd) = file.reader() else { return Ok(None) };
        let Some(count) = no_wait(local, fd, offset, data) else { return Ok(None) };
        let done = done(local, cx, file, offset, count)?;
        Ok((count == data.len() || done.eof).then_some(done))
    });
    match read {
        Some(Err(Status::Stale)) => {
            local.files.remove(&local.key(fid));
            Err(Status::Stale)
        }
        Some(result) => result,
        None => Ok(None),
    }
}

fn no_wait(local: &Local, fd: BorrowedFd<'_>, offset: u64, data: &mut [u8]) -> Option<usize> {
    if local.medium == Medium::Memory {
        return sys::io::read(fd, data, offset).ok();
    }
    if local.blind_reads.load(Relaxed) {
        return None;
    }
    match sys::io::read_nowait(fd, data, offset) {
        Ok(count) => Some(count),
        Err(e) => {
            if e.kind() == ErrorKind::Unsupported {
                local.blind_reads.store(true, Relaxed);
            }
            None
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(fd: BorrowedFd<'_>, offset: u64, data: &mut [u8]) -> Result<usize> {
    let mut count = 0;
    while let Some(rest) = data.get_mut(count..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(count as u64);
        match sys::io::read(fd, rest, at).map_err(errno::from)? {
            0 => break,
            got => count += got,
        }
    }
    Ok(count)
}

fn done(
    local: &Local,
    cx: &Cx<'_>,
    file: &OpenFile,
    offset: u64,
    count: usize,
) -> Result<ReadDone> {
    let attr = local.stat(file)?;
    need_regular(attr.ftype)?;
    check_data(local, cx, file, &attr, false)?;
    let eof = offset.saturating_add(count as u64) >= attr.size;
    Ok(ReadDone { count, eof, attr })
}

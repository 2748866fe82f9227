//! WRITE (RFC 1813 §3.3.7).

use crate::object::Object;
use std::os::fd::BorrowedFd;
use vfs::{Backend, Cx, Fid, Stability, Status, Verifier, WriteDone};

/// The result of WRITE.
pub struct Written {
    /// The count, the stability, and the file's attributes before and after.
    pub done: WriteDone,
    /// The write verifier.
    pub verifier: Verifier,
}

/// Writes `data`, which is a part of the received record.
///
/// # Errors
/// [`Status::RoFs`]; [`Status::FBig`] for a range that no file can have.
pub fn write(
    file: &Object<'_>,
    offset: u64,
    data: &[u8],
    stable: Stability,
) -> vfs::Result<Written> {
    write_with(file, offset, data.len(), |backend, cx, fid| {
        backend.write(cx, fid, offset, data, stable)
    })
}

/// The same of `len` bytes that a pipe holds, unstable.
///
/// # Errors
/// As [`write()`].
pub fn write_piped(
    file: &Object<'_>,
    offset: u64,
    pipe: BorrowedFd<'_>,
    len: usize,
) -> vfs::Result<Written> {
    write_with(file, offset, len, |backend, cx, fid| {
        backend.write_piped(cx, fid, offset, pipe, len)
    })
}

/// Has `len` bytes written by `write`.
fn write_with(
    file: &Object<'_>,
    offset: u64,
    len: usize,
    write: impl FnOnce(&dyn Backend, &Cx<'_>, &Fid) -> vfs::Result<WriteDone>,
) -> vfs::Result<Written> {
    file.check_writable()?;
    let end = offset.checked_add(len as u64).ok_or(Status::FBig)?;
    if i64::try_from(end).is_err() {
        return Err(Status::FBig);
    }
    let backend = file.backend();
    // Read before the write: if data is lost between the two, the client must see the verifier change.
    let verifier = backend.write_verifier();
    let done = write(backend, &file.cx(), &file.fid)?;
    // An empty write has no data to lose; with a sync, it asks whether earlier data is on stable storage.
    let verifier = if len == 0 { backend.write_verifier() } else { verifier };
    Ok(Written { done, verifier })
}

/// Bytes of a page of the page cache.
const PAGE_BYTES: u64 = 4096;

/// How many of `len` bytes at `offset` end with a page: half a page would have to be read from the disk to be changed.
pub fn whole_pages(offset: u64, len: usize) -> usize {
    let beyond = offset.saturating_add(len as u64) % PAGE_BYTES;
    len.saturating_sub(usize::try_from(beyond).unwrap_or(usize::MAX))
}

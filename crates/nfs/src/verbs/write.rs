//! WRITE (RFC 1813 §3.3.7).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use std::os::fd::BorrowedFd;
use vfs::{Backend, Cx, Fid, Stability, Status, Verifier, WriteDone};

/// What WRITE did.
pub struct Written {
    /// How much, how safe, and the file around it.
    pub done: WriteDone,
    /// What COMMIT must give for unstable data to be safe.
    pub verifier: Verifier,
}

/// Writes `data`, which is a part of the received record.
///
/// # Errors
/// [`super::Failed`]; [`Status::FBig`] for a range that no file can have.
pub fn write(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    offset: u64,
    data: &[u8],
    stable: Stability,
) -> Answer<Written> {
    put(nfs, call, handle, offset, data.len(), |backend, cx, fid| {
        backend.write(cx, fid, offset, data, stable)
    })
}

/// The same of `len` bytes that a pipe holds, unstable.
///
/// # Errors
/// As [`write()`].
pub fn write_piped(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    offset: u64,
    pipe: BorrowedFd<'_>,
    len: usize,
) -> Answer<Written> {
    put(nfs, call, handle, offset, len, |backend, cx, fid| {
        backend.write_piped(cx, fid, offset, pipe, len)
    })
}

/// Has `len` bytes written by `write`.
fn put(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    offset: u64,
    len: usize,
    write: impl FnOnce(&dyn Backend, &Cx<'_>, &Fid) -> Result<WriteDone, Status>,
) -> Answer<Written> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Change)?;
    at.run(|backend| {
        let end = offset.checked_add(len as u64).ok_or(Status::FBig)?;
        if i64::try_from(end).is_err() {
            return Err(Status::FBig);
        }
        // Before the write: data that is lost between the two must be seen as lost, and with the
        // new verifier it would look safe.
        let verifier = backend.write_verifier();
        let done = write(backend, &at.cx, &at.fid)?;
        // Of nothing nothing is lost; who asks for a sync so wants to know whether what was written before is.
        let verifier = if len == 0 { backend.write_verifier() } else { verifier };
        Ok(Written { done, verifier })
    })
}

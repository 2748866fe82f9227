//! WRITE (RFC 1813 §3.3.7).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{Stability, Status, Verifier, WriteDone};

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
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Change)?;
    at.run(|backend| {
        let end = offset.checked_add(data.len() as u64).ok_or(Status::FBig)?;
        if i64::try_from(end).is_err() {
            return Err(Status::FBig);
        }
        // Before the write: data that is lost between the two must be seen as lost, and with the
        // new verifier it would look safe.
        let verifier = backend.write_verifier();
        let done = backend.write(&at.cx, &at.fid, offset, data, stable)?;
        Ok(Written { done, verifier })
    })
}

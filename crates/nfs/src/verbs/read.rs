//! READ (RFC 1813 §3.3.6).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{ReadDone, Status};

/// Reads a file at `offset` into the front of `data`, which is a part of the reply.
///
/// # Errors
/// [`super::Failed`]; [`Status::Inval`] for an offset that no file can have.
pub fn read(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    offset: u64,
    data: &mut [u8],
) -> Answer<ReadDone> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    at.run(|backend| {
        if i64::try_from(offset).is_err() {
            return Err(Status::Inval);
        }
        backend.read(&at.cx, &at.fid, offset, data)
    })
}

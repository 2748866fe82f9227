//! READLINK (RFC 1813 §3.3.5).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::Attr;

/// Reads a symbolic link's target into `target`.
///
/// # Errors
/// [`super::Failed`]; [`vfs::Status::Inval`] for anything but a symbolic link.
pub fn readlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    target: &mut Vec<u8>,
) -> Answer<Attr> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    at.run(|backend| backend.readlink(&at.cx, &at.fid, target))
}

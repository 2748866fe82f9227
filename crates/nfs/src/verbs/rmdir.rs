//! RMDIR (RFC 1813 §3.3.13).

use super::{Answer, Door, Intent, name};
use crate::Nfs;
use rpc::Call;
use vfs::Change;

/// Removes an empty directory; gives its parent around the change.
///
/// # Errors
/// [`super::Failed`] with the parent's attributes.
pub fn rmdir(nfs: &Nfs, call: &mut Call<'_>, dir: &[u8], name: &[u8]) -> Answer<Change> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Change)?;
    at.run(|backend| backend.rmdir(&at.cx, &at.fid, name::to_remove(name)?))
}

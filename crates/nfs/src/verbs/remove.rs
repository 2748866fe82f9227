//! REMOVE (RFC 1813 §3.3.12).

use super::{Answer, Door, Intent, name};
use crate::Nfs;
use rpc::Call;
use vfs::Change;

/// Removes an entry that is not a directory; gives the directory around the change.
///
/// # Errors
/// [`super::Failed`] with the directory's attributes.
pub fn remove(nfs: &Nfs, call: &mut Call<'_>, dir: &[u8], name: &[u8]) -> Answer<Change> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Change)?;
    at.run(|backend| backend.remove(&at.cx, &at.fid, name::to_remove(name)?))
}

//! FSSTAT (RFC 1813 §3.3.18).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::StatFs;

/// Space and inodes of the file system that an object is on.
///
/// # Errors
/// [`super::Failed`].
pub fn fsstat(nfs: &Nfs, call: &mut Call<'_>, handle: &[u8]) -> Answer<StatFs> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    at.run(|backend| backend.statfs(&at.cx, &at.fid))
}

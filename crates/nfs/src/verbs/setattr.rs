//! SETATTR (RFC 1813 §3.3.2).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{Change, SetAttr, Time};

/// Sets attributes; with `guard`, only if the object's ctime is that. `set` is the outcome of
/// reading the wire's attributes, so that a value which makes no sense fails like every other
/// failure.
///
/// # Errors
/// [`super::Failed`].
pub fn setattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    set: vfs::Result<SetAttr>,
    guard: Option<Time>,
) -> Answer<Change> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Change)?;
    at.run(|backend| backend.setattr(&at.cx, &at.fid, &set?, guard))
}

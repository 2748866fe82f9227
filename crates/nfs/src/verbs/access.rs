//! ACCESS (RFC 1813 §3.3.4).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{AccessMask, Attr};

/// Which of the permissions in `mask` the caller has, and the object's attributes.
///
/// # Errors
/// [`super::Failed`].
pub fn access(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    mask: AccessMask,
) -> Answer<(AccessMask, Attr)> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    let (granted, attr) = at.run(|backend| backend.access(&at.cx, &at.fid, mask))?;
    Ok((granted & at.permitted(), attr))
}

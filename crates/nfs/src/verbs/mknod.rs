//! MKNOD (RFC 1813 §3.3.11).

use super::{Answer, Door, Intent, New, name};
use crate::Nfs;
use rpc::Call;
use vfs::{NodeKind, SetAttr};

/// Makes a device node, a named pipe or a socket. `what` is the outcome of reading the wire's
/// type and attributes.
///
/// # Errors
/// [`super::Failed`] with the directory's attributes.
pub fn mknod(
    nfs: &Nfs,
    call: &mut Call<'_>,
    dir: &[u8],
    name: &[u8],
    what: vfs::Result<(NodeKind, SetAttr)>,
) -> Answer<New> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Change)?;
    let made = at.run(|backend| {
        let (name, (kind, set)) = (name::to_make(name)?, what?);
        backend.mknod(&at.cx, &at.fid, name, kind, &set)
    })?;
    Ok(at.new_object(&made))
}

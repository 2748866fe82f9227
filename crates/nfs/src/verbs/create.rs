//! CREATE (RFC 1813 §3.3.8).

use super::{Answer, Door, Intent, New, name};
use crate::Nfs;
use rpc::Call;
use vfs::Create;

/// Makes a regular file. `how` is the outcome of reading the wire's attributes.
///
/// # Errors
/// [`super::Failed`] with the directory's attributes.
pub fn create(
    nfs: &Nfs,
    call: &mut Call<'_>,
    dir: &[u8],
    name: &[u8],
    how: vfs::Result<Create>,
) -> Answer<New> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Change)?;
    let made = at.run(|b| b.create(&at.cx, &at.fid, name::to_make(name)?, how?))?;
    Ok(at.new_object(&made))
}

//! MKDIR (RFC 1813 §3.3.9).

use super::{Answer, Door, Intent, New, name};
use crate::Nfs;
use rpc::Call;
use vfs::SetAttr;

/// Makes a directory. `set` is the outcome of reading the wire's attributes.
///
/// # Errors
/// [`super::Failed`] with the directory's attributes.
pub fn mkdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    dir: &[u8],
    name: &[u8],
    set: vfs::Result<SetAttr>,
) -> Answer<New> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Change)?;
    let made = at.run(|b| b.mkdir(&at.cx, &at.fid, name::to_make(name)?, &set?))?;
    Ok(at.new_object(&made))
}

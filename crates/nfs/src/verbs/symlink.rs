//! SYMLINK (RFC 1813 §3.3.10).

use super::{Answer, Door, Intent, New, name};
use crate::Nfs;
use rpc::Call;
use vfs::{SetAttr, Status};

/// The longest target, in bytes: what Linux file systems keep (`PATH_MAX` less its NUL).
const TARGET_MAX: usize = 4095;

/// Makes a symbolic link. `set` is the outcome of reading the wire's attributes.
///
/// # Errors
/// [`super::Failed`] with the directory's attributes; [`Status::Inval`] for a target that is
/// empty or has a NUL, [`Status::NameTooLong`] for one that is too long.
pub fn symlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    dir: &[u8],
    name: &[u8],
    target: &[u8],
    set: vfs::Result<SetAttr>,
) -> Answer<New> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Change)?;
    let made = at.run(|backend| {
        let name = name::to_make(name)?;
        check(target)?;
        backend.symlink(&at.cx, &at.fid, name, target, &set?)
    })?;
    Ok(at.new_object(&made))
}

fn check(target: &[u8]) -> vfs::Result<()> {
    if target.is_empty() || target.contains(&0) {
        Err(Status::Inval)
    } else if target.len() > TARGET_MAX {
        Err(Status::NameTooLong)
    } else {
        Ok(())
    }
}

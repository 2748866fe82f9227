//! SYMLINK (RFC 1813 §3.3.10).

use super::name;
use crate::object::Object;
use vfs::{Created, SetAttr, Status};

/// The longest target, in bytes: what Linux file systems keep (`PATH_MAX` less its NUL).
const TARGET_MAX: usize = 4095;

/// Makes a symbolic link. `set` is the outcome of reading the wire's attributes.
///
/// # Errors
/// [`Status::RoFs`], and those of the name; [`Status::Inval`] for a target that is empty or has a
/// NUL, [`Status::NameTooLong`] for one that is too long.
pub fn symlink(
    dir: &Object<'_>,
    name: &[u8],
    target: &[u8],
    set: vfs::Result<SetAttr>,
) -> vfs::Result<Created> {
    dir.check_writable()?;
    let name = name::to_make(name)?;
    check(target)?;
    dir.backend().symlink(&dir.cx(), &dir.fid, name, target, &set?)
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

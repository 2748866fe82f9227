//! CREATE (RFC 1813 §3.3.8).

use super::name;
use crate::object::Object;
use vfs::{Create, Created, Kept};

/// Makes a regular file. `how` is the outcome of reading the wire's attributes.
///
/// # Errors
/// [`vfs::Status::RoFs`], and those of the name.
pub fn create(dir: &Object<'_>, name: &[u8], how: vfs::Result<Create>) -> vfs::Result<Created> {
    dir.check_writable()?;
    dir.backend().create(&dir.cx(), &dir.fid, name::to_make(name)?, how?)
}

/// The same of a file that stays open: with what keeps it.
///
/// # Errors
/// As [`create`], and those of keeping it, after which the file is there.
pub fn create_open(
    dir: &Object<'_>,
    name: &[u8],
    how: Create,
) -> vfs::Result<(Created, Option<Kept>)> {
    dir.check_writable()?;
    dir.backend().create_open(&dir.cx(), &dir.fid, name::to_make(name)?, how)
}

//! MKDIR (RFC 1813 §3.3.9).

use super::name;
use crate::object::Object;
use vfs::{Created, SetAttr};

/// Makes a directory. `set` is the outcome of reading the wire's attributes.
///
/// # Errors
/// [`vfs::Status::RoFs`], and those of the name.
pub fn mkdir(dir: &Object<'_>, name: &[u8], set: vfs::Result<SetAttr>) -> vfs::Result<Created> {
    dir.check_writable()?;
    dir.backend().mkdir(&dir.cx(), &dir.fid, name::to_make(name)?, &set?)
}

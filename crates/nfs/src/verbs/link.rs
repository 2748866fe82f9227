//! LINK (RFC 1813 §3.3.15).

use super::name;
use crate::object::Object;
use vfs::{Attr, Change};

/// The result of LINK.
pub struct Linked {
    /// The file's attributes.
    pub attr: Attr,
    /// The directory's attributes before and after.
    pub dir: Change,
}

/// Makes the hard link `name` in the directory `dir` to a file.
///
/// # Errors
/// [`vfs::Status::RoFs`], those of the name; [`vfs::Status::XDev`] for objects of two exports.
pub fn link(file: &Object<'_>, (dir, name): (&Object<'_>, &[u8])) -> vfs::Result<Linked> {
    file.check_writable()?;
    file.check_same_export(dir)?;
    let linked = file.backend().link(&file.cx(), &file.fid, &dir.fid, name::to_make(name)?);
    linked.map(|(attr, dir)| Linked { attr, dir })
}

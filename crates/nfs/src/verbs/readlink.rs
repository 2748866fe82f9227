//! READLINK (RFC 1813 §3.3.5).

use crate::object::Object;
use vfs::Attr;

/// Reads a symbolic link's target into `target`.
///
/// # Errors
/// [`vfs::Status::Inval`] for anything but a symbolic link.
pub fn readlink(link: &Object<'_>, target: &mut Vec<u8>) -> vfs::Result<Attr> {
    link.backend().readlink(&link.cx(), &link.fid, target)
}

//! Extended attributes (RFC 8276).

use crate::object::Object;
use vfs::{Change, SetXattr, Status, XattrName, Xattrs};

fn xattrs<'c>(object: &Object<'c>) -> vfs::Result<&'c dyn Xattrs> {
    object.backend().xattrs().ok_or(Status::NotSupp)
}

/// The value of an attribute.
///
/// # Errors
/// [`Status::NoXattr`], [`Status::Acces`].
pub fn xattr(object: &Object<'_>, name: &[u8]) -> vfs::Result<Vec<u8>> {
    xattrs(object)?.xattr(&object.cx(), &object.fid, XattrName::new(name)?)
}

/// Sets an attribute.
///
/// # Errors
/// [`Status::RoFs`], [`Status::Exist`], [`Status::NoXattr`], [`Status::XattrTooBig`].
pub fn set_xattr(
    object: &Object<'_>,
    name: &[u8],
    value: &[u8],
    how: SetXattr,
) -> vfs::Result<Change> {
    let xattrs = xattrs(object)?;
    object.check_writable()?;
    xattrs.set_xattr(&object.cx(), &object.fid, XattrName::new(name)?, value, how)
}

/// The names of all attributes.
///
/// # Errors
/// [`Status::Acces`].
pub fn xattr_names(object: &Object<'_>) -> vfs::Result<Vec<Vec<u8>>> {
    xattrs(object)?.xattr_names(&object.cx(), &object.fid)
}

/// Removes an attribute.
///
/// # Errors
/// As [`set_xattr`].
pub fn remove_xattr(object: &Object<'_>, name: &[u8]) -> vfs::Result<Change> {
    let xattrs = xattrs(object)?;
    object.check_writable()?;
    xattrs.remove_xattr(&object.cx(), &object.fid, XattrName::new(name)?)
}

//! GETATTR (RFC 1813 §3.3.1).

use crate::object::Object;
use vfs::{Attr, Want};

/// An object's attributes.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn getattr(object: &Object<'_>) -> vfs::Result<Attr> {
    getattr_with(object, Want::STAT)
}

/// The same with the time of creation, if that is wanted and known.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn getattr_with(object: &Object<'_>, want: Want) -> vfs::Result<Attr> {
    object.backend().getattr(&object.cx(), &object.fid, want)
}

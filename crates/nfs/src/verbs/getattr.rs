//! GETATTR (RFC 1813 §3.3.1).

use crate::object::Object;
use vfs::{Attr, Want};

/// An object's attributes.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn getattr(object: &Object<'_>) -> vfs::Result<Attr> {
    object.backend().getattr(&object.cx(), &object.fid, Want::STAT)
}

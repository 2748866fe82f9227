//! ACCESS (RFC 1813 §3.3.4).

use crate::object::Object;
use vfs::{AccessMask, Attr};

/// Which of the permissions in `mask` the caller has, and the object's attributes.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn access(object: &Object<'_>, mask: AccessMask) -> vfs::Result<(AccessMask, Attr)> {
    let (granted, attr) = object.backend().access(&object.cx(), &object.fid, mask)?;
    Ok((granted & object.permitted(), attr))
}

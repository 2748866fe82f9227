//! ACCESS (RFC 1813 §3.3.4).

use crate::object::Object;
use vfs::{AccessMask, Attr};

/// Which of the permissions in `mask` the caller has, and the object's attributes.
///
/// # Errors
/// [`vfs::Status::Stale`].
#[inline]
pub fn access(object: &Object<'_>, mask: AccessMask) -> vfs::Result<(AccessMask, Attr)> {
    let (granted, attr) = object.backend().access(&object.cx(), &object.fid, mask)?;
    Ok((granted & object.permitted(), attr))
}

/// The first, if these attributes, which were fetched for the same call, tell them.
pub fn access_by(object: &Object<'_>, attr: &Attr, mask: AccessMask) -> Option<AccessMask> {
    let granted = object.backend().access_by(&object.cx(), attr, mask)?;
    Some(granted & object.permitted())
}

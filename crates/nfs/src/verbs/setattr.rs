//! SETATTR (RFC 1813 §3.3.2).

use crate::audited_call::{AuditedCall, AuditedChange};
use crate::object::Object;
use vfs::{Change, SetAttr, Time};

/// Sets attributes; with `guard`, only if the object's ctime is that. `set` is the outcome of
/// reading the wire's attributes, so that an invalid value fails as all else
/// does.
///
/// # Errors
/// [`vfs::Status::RoFs`], [`vfs::Status::NotSync`].
pub fn setattr(
    object: &Object<'_>,
    set: vfs::Result<SetAttr>,
    guard: Option<Time>,
    audit: &AuditedCall<'_>,
) -> vfs::Result<Change> {
    let setattr = || {
        object.check_writable()?;
        object.backend().setattr(&object.cx(), &object.fid, set.as_ref().map_err(|e| *e)?, guard)
    };
    audit.run(|| AuditedChange::Setattr(object, set.ok()), setattr)
}

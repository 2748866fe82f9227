//! REMOVE (RFC 1813 §3.3.12).

use super::name;
use crate::audited_call::{AuditedCall, AuditedChange};
use crate::object::Object;
use vfs::Change;

/// Removes an entry that is not a directory; returns the directory's attributes before and after.
///
/// # Errors
/// [`vfs::Status::RoFs`], and those of the name.
pub fn remove(dir: &Object<'_>, name: &[u8], audit: &AuditedCall<'_>) -> vfs::Result<Change> {
    let remove = || {
        dir.check_writable()?;
        dir.backend().remove(&dir.cx(), &dir.fid, name::to_remove(name)?)
    };
    audit.run(|| AuditedChange::Remove(dir, name), remove)
}

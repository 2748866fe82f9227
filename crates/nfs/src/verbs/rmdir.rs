//! RMDIR (RFC 1813 §3.3.13).

use super::name;
use crate::audited_call::{AuditedCall, AuditedChange};
use crate::object::Object;
use vfs::Change;

/// Removes an empty directory; returns the attributes of its parent before and after.
///
/// # Errors
/// [`vfs::Status::RoFs`], and those of the name.
pub fn rmdir(dir: &Object<'_>, name: &[u8], audit: &AuditedCall<'_>) -> vfs::Result<Change> {
    let rmdir = || {
        dir.check_writable()?;
        dir.backend().rmdir(&dir.cx(), &dir.fid, name::to_remove(name)?)
    };
    audit.run(|| AuditedChange::Rmdir(dir, name), rmdir)
}

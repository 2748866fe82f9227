//! RENAME (RFC 1813 §3.3.14).

use super::name;
use crate::audited_call::{AuditedCall, AuditedChange};
use crate::object::Object;
use vfs::Change;

/// The result of RENAME.
pub struct Renamed {
    /// The old directory's attributes before and after.
    pub from: Change,
    /// The new directory's attributes before and after.
    pub to: Change,
}

/// Renames `from.1` of the directory `from.0` to `to.1` of the directory `to.0`.
///
/// # Errors
/// [`vfs::Status::RoFs`], those of the names; [`vfs::Status::XDev`] for directories of two exports.
pub fn rename(
    from: (&Object<'_>, &[u8]),
    to: (&Object<'_>, &[u8]),
    audit: &AuditedCall<'_>,
) -> vfs::Result<Renamed> {
    let rename = || {
        from.0.check_writable()?;
        from.0.check_same_export(to.0)?;
        let (old, new) = (name::to_rename(from.1)?, name::to_rename(to.1)?);
        let renamed = from.0.backend().rename(&from.0.cx(), (&from.0.fid, old), (&to.0.fid, new));
        renamed.map(|(from, to)| Renamed { from, to })
    };
    audit.run(|| AuditedChange::Rename(from, to), rename)
}

//! RENAME (RFC 1813 §3.3.14).

use super::{Answer, Door, Failed, Intent, name};
use crate::Nfs;
use rpc::Call;
use vfs::Change;

/// What RENAME did.
pub struct Renamed {
    /// The old directory around the change.
    pub from: Change,
    /// The new directory around the change.
    pub to: Change,
}

/// Renames `from.1` of the directory `from.0` to `to.1` of the directory `to.0`.
///
/// # Errors
/// [`Failed`] with the attributes of both directories; [`vfs::Status::XDev`] for directories of
/// two exports.
pub fn rename(
    nfs: &Nfs,
    call: &mut Call<'_>,
    from: (&[u8], &[u8]),
    to: (&[u8], &[u8]),
) -> Answer<Renamed> {
    let mut door = Door::new(nfs, call);
    let at = door.open(from.0, Intent::Change)?;
    let new_dir = at.second(to.0).map_err(|status| at.failed(status))?;
    let renamed = at.run(|backend| {
        let (old, new) = (name::to_rename(from.1)?, name::to_rename(to.1)?);
        backend.rename(&at.cx, (&at.fid, old), (&new_dir, new))
    });
    match renamed {
        Ok((from, to)) => Ok(Renamed { from, to }),
        Err(failed) => Err(Failed { other: at.attr_of(&new_dir), ..failed }),
    }
}

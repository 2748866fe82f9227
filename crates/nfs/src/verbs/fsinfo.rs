//! FSINFO (RFC 1813 §3.3.19).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{Attr, Limits, Want};

/// What a file system can do, with the attributes of the object that was asked about.
pub struct Facts {
    /// What the file system can do.
    pub limits: Limits,
    /// The object's attributes.
    pub attr: Attr,
}

/// What the file system of an object can do. The object must exist.
///
/// # Errors
/// [`super::Failed`].
pub fn fsinfo(nfs: &Nfs, call: &mut Call<'_>, handle: &[u8]) -> Answer<Facts> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    let attr = at.backend().getattr(&at.cx, &at.fid, Want::STAT)?;
    Ok(Facts { limits: at.backend().limits(), attr })
}

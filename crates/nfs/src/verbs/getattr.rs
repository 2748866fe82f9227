//! GETATTR (RFC 1813 §3.3.1).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{Attr, Want};

/// An object's attributes.
///
/// # Errors
/// [`super::Failed`].
pub fn getattr(nfs: &Nfs, call: &mut Call<'_>, handle: &[u8]) -> Answer<Attr> {
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    // No attributes with the failure: they are what could not be had.
    Ok(at.backend().getattr(&at.cx, &at.fid, Want::STAT)?)
}

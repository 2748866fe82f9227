//! LINK (RFC 1813 §3.3.15).

use super::{Answer, Door, Failed, Intent, name};
use crate::Nfs;
use rpc::Call;
use vfs::{Attr, Change};

/// What LINK did.
pub struct Linked {
    /// The file's attributes.
    pub attr: Attr,
    /// The directory around the change.
    pub dir: Change,
}

/// Makes the hard link `link.1` in the directory `link.0` to a file.
///
/// # Errors
/// [`Failed`] with the attributes of the file and of the directory; [`vfs::Status::XDev`] for
/// objects of two exports.
pub fn link(nfs: &Nfs, call: &mut Call<'_>, file: &[u8], link: (&[u8], &[u8])) -> Answer<Linked> {
    let mut door = Door::new(nfs, call);
    let at = door.open(file, Intent::Change)?;
    let dir = at.second(link.0).map_err(|status| at.failed(status))?;
    match at.run(|backend| backend.link(&at.cx, &at.fid, &dir, name::to_make(link.1)?)) {
        Ok((attr, dir)) => Ok(Linked { attr, dir }),
        Err(failed) => Err(Failed { other: at.attr_of(&dir), ..failed }),
    }
}

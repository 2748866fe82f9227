//! READLINK: the unchanged target; the server never follows it.

use crate::errno;
use crate::fs::LocalFs;
use vfs::{Attr, Cx, Fid, FileType, Result, Status};

/// See [`vfs::Backend::readlink`].
pub fn readlink(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr> {
    let (file, attr) = local.hold(cx, fid)?;
    if attr.ftype != FileType::Symlink {
        return Err(Status::Inval);
    }
    sys::namespace::read_link(file.path(), target).map_err(errno::from)?;
    Ok(attr)
}

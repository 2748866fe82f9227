//! GETATTR: one `fstat` of the cached descriptor, or none where a recent copy will do; and a `statx` if the
//! time of creation is requested and not known.

use crate::errno;
use crate::fs::LocalFs;
use vfs::{Attr, Cx, Fid, Result, Time, Want};

/// See [`vfs::Backend::getattr`].
pub fn getattr(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr> {
    if !want.has(Want::BIRTH) {
        return local.with_recent(cx, fid, |_, attr| Ok(attr));
    }
    local.with_recent(cx, fid, |file, attr| match file.birth() {
        Some((sec, nsec)) => Ok(Attr { birth: Time { sec, nsec }.into(), ..attr }),
        None => local.attr_if_alive(&sys::stat::of_fd(file.path()).map_err(errno::from)?, file),
    })
}

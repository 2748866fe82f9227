//! GETATTR: one `fstat` of the cached descriptor; and a `statx` if the time of creation is
//! requested.

use crate::errno;
use crate::fs::LocalFs;
use vfs::{Attr, Cx, Fid, Result, Want};

/// See [`vfs::Backend::getattr`].
pub fn getattr(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr> {
    if !want.has(Want::BIRTH) {
        return local.with(cx, fid, |_, attr| Ok(attr));
    }
    local.with(cx, fid, |file, _| {
        local.attr_if_alive(&sys::stat::of_fd(file.path()).map_err(errno::from)?, file)
    })
}

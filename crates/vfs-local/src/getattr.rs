//! GETATTR: one `statx` of the cached descriptor.

use crate::local::Local;
use vfs::{Attr, Cx, Fid, Result};

/// See [`vfs::Backend::getattr`].
pub fn getattr(local: &Local, cx: &Cx<'_>, fid: &Fid) -> Result<Attr> {
    local.with(cx, fid, |_, attr| Ok(attr))
}

//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17).

use crate::object::Object;
use std::ops::ControlFlow;
use vfs::{DirEntry, ListArgs, Listing};

/// Lists a directory until the sink breaks or the end is reached. An entry at which the sink breaks
/// counts as not listed.
///
/// # Errors
/// [`vfs::Status::BadCookie`].
pub fn readdir(
    dir: &Object<'_>,
    args: ListArgs,
    sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
) -> vfs::Result<Listing> {
    dir.backend().readdir(&dir.cx(), &dir.fid, args, sink)
}

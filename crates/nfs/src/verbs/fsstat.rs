//! FSSTAT (RFC 1813 §3.3.18).

use crate::object::Object;
use vfs::StatFs;

/// Space and inodes of the file system that an object is on.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn fsstat(object: &Object<'_>) -> vfs::Result<StatFs> {
    object.backend().statfs(&object.cx(), &object.fid)
}

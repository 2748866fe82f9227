//! FSINFO and PATHCONF (RFC 1813 §3.3.19, §3.3.20), which return different parts of the same information.

use crate::object::Object;
use vfs::{Attr, Limits, Want};

/// Properties of a file system, with the attributes of the object that was asked about.
pub struct FileSystemInfo {
    /// Properties of the file system.
    pub limits: Limits,
    /// The object's attributes.
    pub attr: Attr,
}

/// Properties of the file system of an object, and limits on its names and links. The object must exist.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn fsinfo(object: &Object<'_>) -> vfs::Result<FileSystemInfo> {
    let attr = object.backend().getattr(&object.cx(), &object.fid, Want::STAT)?;
    Ok(FileSystemInfo { limits: object.backend().limits(), attr })
}

//! FSINFO and PATHCONF (RFC 1813 §3.3.19, §3.3.20), which show different parts of the same.

use crate::object::Object;
use vfs::{Attr, Limits, Want};

/// What a file system can do, with the attributes of the object that was asked about.
pub struct FileSystemInfo {
    /// What the file system can do.
    pub limits: Limits,
    /// The object's attributes.
    pub attr: Attr,
}

/// What the file system of an object can do, and what its names and links may be like. The object
/// must exist.
///
/// # Errors
/// [`vfs::Status::Stale`].
pub fn fsinfo(object: &Object<'_>) -> vfs::Result<FileSystemInfo> {
    let attr = object.backend().getattr(&object.cx(), &object.fid, Want::STAT)?;
    Ok(FileSystemInfo { limits: object.backend().limits(), attr })
}

//! The space of files (RFC 7862 §15.1, §15.4, §15.5, §15.11): ALLOCATE, DEALLOCATE, SEEK, IO_ADVISE.

use crate::object::Object;
use vfs::{Advice, Change, Content, Space, Status};

/// The optional interface of the file system that an object is on.
///
/// # Errors
/// [`Status::NotSupp`].
pub fn space<'c>(object: &Object<'c>) -> vfs::Result<&'c dyn Space> {
    object.backend().space().ok_or(Status::NotSupp)
}

/// The status of an operation that is for regular files only, for another object.
pub const fn only_regular(status: Status) -> Status {
    match status {
        Status::IsDir | Status::Symlink => Status::WrongType,
        other => other,
    }
}

/// Reserves the space of a range.
///
/// # Errors
/// [`Status::RoFs`], [`Status::NoSpc`]; [`Status::Inval`] for an empty range.
pub fn allocate(file: &Object<'_>, offset: u64, len: u64) -> vfs::Result<Change> {
    file.check_writable()?;
    let space = space(file)?;
    if len == 0 {
        return Err(Status::Inval);
    }
    space.allocate(&file.cx(), &file.fid, offset, len).map_err(only_regular)
}

/// Frees the space of a range.
///
/// # Errors
/// As [`allocate`].
pub fn deallocate(file: &Object<'_>, offset: u64, len: u64) -> vfs::Result<Change> {
    file.check_writable()?;
    let space = space(file)?;
    if len == 0 {
        return Err(Status::Inval);
    }
    space.deallocate(&file.cx(), &file.fid, offset, len).map_err(only_regular)
}

/// The offset of the first data, or of the first hole, from an offset on.
///
/// # Errors
/// [`Status::NxIo`] for an offset behind the end.
pub fn seek(file: &Object<'_>, offset: u64, what: Content) -> vfs::Result<Option<u64>> {
    space(file)?.seek(&file.cx(), &file.fid, offset, what)
}

/// Gives the kernel hints about the use of a range; returns those that were followed.
///
/// # Errors
/// Those of the file system.
pub fn advise(file: &Object<'_>, offset: u64, len: u64, advice: Advice) -> vfs::Result<Advice> {
    space(file)?.advise(&file.cx(), &file.fid, offset, len, advice)
}

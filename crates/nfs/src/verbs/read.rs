//! READ (RFC 1813 §3.3.6).

use crate::object::Object;
use rpc::Copied;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vfs::{CopyReason, ReadDone, ReadRange, Status};

/// What is to be read, and in which form.
pub struct ReadRequest {
    /// Offset in bytes.
    pub offset: u64,
    /// At most so many bytes.
    pub count: usize,
    /// From how many bytes on the file may be returned instead of its data; `None`: never.
    pub range_min: Option<usize>,
}

/// The result of READ.
pub struct Read {
    /// The count, end of file, and the file's attributes.
    pub done: ReadDone,
    /// Where the data is.
    pub data: ReadData,
}

/// Where the data of a READ is.
pub enum ReadData {
    /// In this file, from the offset that was asked for.
    File(Arc<OwnedFd>),
    /// In the space that was provided, because.
    Copied(Copied),
}

/// Reads a file: returns the file itself where that is wanted and possible, otherwise fills the front of the part of the
/// reply that `space` returns.
///
/// # Errors
/// None for an offset beyond the largest possible file: every file ends before it. `Jukebox` if `space` returns none: there is no
/// memory.
pub fn read<'d>(
    file: &Object<'_>,
    request: &ReadRequest,
    space: impl FnOnce(usize) -> Option<&'d mut [u8]>,
) -> vfs::Result<Read> {
    let ReadRequest { offset, count, range_min } = *request;
    let (backend, cx) = (file.backend(), file.cx());
    let why = match range_min {
        Some(shortest) if shortest <= count => {
            match backend.read_range(&cx, &file.fid, offset, count, shortest)? {
                ReadRange::File { file, done } => {
                    return Ok(Read { done, data: ReadData::File(file) });
                }
                ReadRange::Copy(why) => copied_because(why),
            }
        }
        Some(_) => Copied::Short,
        None => Copied::NotTaken,
    };
    let space = space(count).ok_or(Status::Jukebox)?;
    let done = backend.read(&cx, &file.fid, offset, space)?;
    Ok(Read { done, data: ReadData::Copied(why) })
}

const fn copied_because(why: CopyReason) -> Copied {
    match why {
        CopyReason::NoFile => Copied::NoFile,
        CopyReason::Short => Copied::Short,
        CopyReason::Cold => Copied::Cold,
    }
}

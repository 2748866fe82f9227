//! READ (RFC 1813 §3.3.6).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::{Call, Copied};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vfs::{CopyReason, ReadDone, ReadRange};

/// What READ gives.
pub struct Read {
    /// How much, and the file's attributes.
    pub done: ReadDone,
    /// The file to send it from; without one, the data is in the reply.
    pub file: Option<Arc<OwnedFd>>,
}

/// How much to read, and how it may be given.
pub struct Wanted {
    /// From where.
    pub offset: u64,
    /// Bytes at the most.
    pub count: usize,
    /// From how many bytes on the file may be given instead of its data; `None`: never.
    pub range_min: Option<usize>,
}

/// Reads a file: gives the file itself where that is wanted and can be done, else fills the front of
/// what `space` gives, which is a part of the reply.
///
/// # Errors
/// [`super::Failed`]; none for an offset that no file can have: every file ends before it.
pub fn read<'d>(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    wanted: &Wanted,
    space: impl FnOnce(usize) -> &'d mut [u8],
) -> Answer<Read> {
    let Wanted { offset, count, range_min } = *wanted;
    let mut copied = Copied::NotTaken;
    let mut door = Door::new(nfs, call);
    let at = door.open(handle, Intent::Look)?;
    let read = at.run(|backend| {
        if let Some(shortest) = range_min.filter(|shortest| *shortest <= count) {
            match backend.read_range(&at.cx, &at.fid, offset, count, shortest)? {
                ReadRange::File { file, done } => return Ok(Read { done, file: Some(file) }),
                ReadRange::Copy(why) => copied = copied_because(why),
            }
        } else if range_min.is_some() {
            copied = Copied::Short;
        }
        let done = backend.read(&at.cx, &at.fid, offset, space(count))?;
        Ok(Read { done, file: None })
    });
    drop(door);
    if read.as_ref().is_ok_and(|read| read.file.is_none()) {
        call.outcome.copied = Some(copied);
    }
    read
}

const fn copied_because(why: CopyReason) -> Copied {
    match why {
        CopyReason::NoFile => Copied::NoFile,
        CopyReason::Short => Copied::Short,
        CopyReason::Cold => Copied::Cold,
    }
}

//! WRITE: to the page cache, and to the disk if the client or the export requires it.
//!
//! An `async` export answers FILE_SYNC at once, as the kernel's server does: the administrator has
//! chosen to lose data in a power cut.

use crate::cache::group_sync::Extent;
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::permission::check_data;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use vfs::{Attr, Cx, Durability, Fid, Result, Stability, Status, WriteDone, need_regular};

/// The bits that a write by a user other than root clears.
const SET_ID: u16 = 0o6000;

/// See [`vfs::Backend::write`].
pub fn write(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    data: &[u8],
    stable: Stability,
) -> Result<WriteDone> {
    write_with(local, cx, fid, stable, |fd| write_all(local, fd, offset, data))
}

/// See [`vfs::Backend::write_piped`].
pub fn write_piped(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    pipe: BorrowedFd<'_>,
    len: usize,
) -> Result<WriteDone> {
    write_with(local, cx, fid, Stability::Unstable, |fd| splice_all(local, fd, offset, pipe, len))
}

/// A WRITE whose data `write` writes to the file; it returns how much.
fn write_with(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    stable: Stability,
    write: impl FnOnce(BorrowedFd<'_>) -> Result<usize>,
) -> Result<WriteDone> {
    let (file, before) = local.begin_change(cx, fid)?;
    need_regular(before.ftype)?;
    check_data(local, cx, &file, &before, true)?;
    let fd = local.writer_after_check(cx, &file, fid)?;
    act_as_writer(local, cx, &before)?;
    file.note_written(local.files.now_s());
    // an error of a sync from here on is reported to only one of the callers
    let promised = stable != Stability::Unstable && cx.durability == Durability::Sync;
    let failed = promised.then(|| file.group_sync().failed());
    // before anything is written: a call that is refused here may be run again
    if promised || (file.is_retired() && cx.durability == Durability::Sync) {
        local.will_block(cx)?;
    }
    let count = write(fd)?;
    if cx.durability == Durability::Sync {
        file.unsynced().note_write();
    }
    // before it is synced: others may write meanwhile
    let around = local.wcc_data(&file, &before);
    let committed = make_stable(local, cx, &file, fd, stable)?;
    if failed.is_some_and(|before| before != file.group_sync().failed()) {
        return Err(Status::Io);
    }
    Ok(WriteDone { count, committed, file: around, change_number: Some(file.number()) })
}

/// Quotas apply to the file's owner, whoever writes; but set-id bits are cleared only if the kernel
/// sees a user other than root write, and uid 0 may use the blocks that ext4 reserves for root,
/// with or without capabilities.
pub(super) fn act_as_writer(local: &LocalFs, cx: &Cx<'_>, before: &Attr) -> Result<()> {
    let identity = if before.mode & SET_ID != 0
        || local.mount.is_nearly_full(local.root.as_fd(), local.files.now_s())
    {
        local.identity.act_as_caller(&cx.cred)
    } else {
        local.identity.act_as_server()
    };
    identity.map_err(errno::from)
}

/// Writes all of it, or as much as there is space for.
fn write_all(local: &LocalFs, fd: BorrowedFd<'_>, offset: u64, data: &[u8]) -> Result<usize> {
    write_pieces(local, offset, data.len(), |at, count| {
        sys::io::write(fd, data.get(count..).unwrap_or_default(), at)
    })
}

/// The same for `len` bytes of a pipe. Data is copied if the file does not support splice.
fn splice_all(
    local: &LocalFs,
    fd: BorrowedFd<'_>,
    offset: u64,
    pipe: BorrowedFd<'_>,
    len: usize,
) -> Result<usize> {
    let mut copy = Vec::new();
    write_pieces(local, offset, len, |at, count| splice_once(fd, at, pipe, count..len, &mut copy))
}

/// Writes the next bytes of a pipe to a file: from `copy`, once the file has refused a splice. `left` is their
/// range in the whole.
fn splice_once(
    fd: BorrowedFd<'_>,
    at: u64,
    pipe: BorrowedFd<'_>,
    left: Range<usize>,
    copy: &mut Vec<u8>,
) -> io::Result<usize> {
    if copy.is_empty() {
        match sys::pipe::splice_to_file(pipe, fd, at, left.len()) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                *copy = vec![0; left.end];
                fill(copy.get_mut(left.clone()).unwrap_or_default(), pipe)?;
            }
            spliced => return spliced,
        }
    }
    sys::io::write(fd, copy.get(left).unwrap_or_default(), at)
}

/// Reads this many bytes from a pipe, which holds them.
fn fill(mut slot: &mut [u8], pipe: BorrowedFd<'_>) -> io::Result<()> {
    while !slot.is_empty() {
        let taken = sys::pipe::take(pipe, slot)?;
        slot = slot.get_mut(taken..).unwrap_or_default();
    }
    Ok(())
}

/// Writes `len` bytes to a file by `write`, which gets the offset of the next ones and the number of bytes before them, and
/// returns how many it has written; returns how many there was space for.
fn write_pieces(
    local: &LocalFs,
    offset: u64,
    len: usize,
    mut write: impl FnMut(u64, usize) -> io::Result<usize>,
) -> Result<usize> {
    let end = offset.checked_add(len as u64);
    if end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Status::FBig);
    }
    let mut count = 0;
    while count < len {
        match write(offset.saturating_add(count as u64), count) {
            Ok(0) => break,
            Ok(put) => count = count.saturating_add(put),
            Err(e) if errno::out_of_space(&e) && local.files.free_removed() => {}
            Err(e) if count == 0 => return Err(errno::from(e)),
            Err(_) => break,
        }
    }
    Ok(count)
}

/// Makes the written data as stable as requested. Blocks; that was announced, unless the file was retired since.
pub(super) fn make_stable(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    fd: BorrowedFd<'_>,
    stable: Stability,
) -> Result<Stability> {
    if cx.durability == Durability::Async {
        return Ok(Stability::FileSync);
    }
    let extent = match stable {
        Stability::Unstable if !file.is_retired() => return Ok(Stability::Unstable),
        Stability::Unstable | Stability::DataSync => Extent::Data,
        Stability::FileSync => Extent::File,
    };
    let until = file.unsynced().begin();
    local.sync_file(file, fd, extent)?;
    if let Some(until) = until {
        file.unsynced().done(until);
    }
    Ok(stable)
}

#[cfg(test)]
mod tests {
    use super::splice_once;
    use std::fs::File;
    use std::os::fd::AsFd;
    use sys::pipe::Pipe;

    #[test]
    fn data_is_copied_if_a_file_does_not_support_splice() {
        let path = std::env::temp_dir().join(format!("bowline-spliced-{}", std::process::id()));
        let plain = File::options().write(true).create(true).truncate(true).open(&path).unwrap();
        let append = File::options().append(true).open(&path).unwrap();
        let pipe = Pipe::new(1 << 16).unwrap();
        pipe.put(b"a beginning, and its end").unwrap();
        let mut copy = Vec::new();
        let splice_all = |fd: &File, at, left, copy: &mut Vec<u8>| {
            splice_once(fd.as_fd(), at, pipe.read_end(), left, copy).unwrap()
        };
        assert_eq!(splice_all(&plain, 0, 0..11, &mut copy), 11);
        assert!(copy.is_empty());
        // a file in append mode does not support splice
        assert_eq!(splice_all(&append, 11, 11..24, &mut copy), 13);
        assert!(!copy.is_empty());
        assert_eq!(std::fs::read(&path).unwrap(), b"a beginning, and its end");
        std::fs::remove_file(path).unwrap();
    }
}

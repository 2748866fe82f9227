//! WRITE: to the page cache, and to the disk as far as the client or the export asks for it.
//!
//! An `async` export answers FILE_SYNC at once, as the kernel's server does: the administrator has
//! chosen to lose data in a power cut.

use crate::access::check_data;
use crate::errno;
use crate::local::Local;
use crate::open_files::OpenFile;
use crate::rounds::Extent;
use std::os::fd::BorrowedFd;
use vfs::{Attr, Cx, Durability, Fid, Result, Stability, Status, WriteDone, need_regular};

/// The bits that a write by somebody else than root takes away.
const SET_ID: u32 = 0o6000;

/// See [`vfs::Backend::write`].
pub fn write(
    local: &Local,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    data: &[u8],
    stable: Stability,
) -> Result<WriteDone> {
    let (file, before) = local.begin_change(cx, fid)?;
    need_regular(before.ftype)?;
    check_data(local, cx, &file, &before, true)?;
    let fd = local.rightful_writer(cx, &file, fid)?;
    become_writer(local, cx, &before)?;
    file.note_written(local.files.now_s());
    // of a round that fails from here on, only one of those who sync is told
    let promised = stable != Stability::Unstable && cx.durability == Durability::Sync;
    let failed = promised.then(|| file.rounds().failed());
    let count = put(local, fd, offset, data)?;
    if cx.durability == Durability::Sync {
        file.unsynced().note_write();
    }
    // before it is synced: others may write meanwhile
    let around = file.around(local, &before);
    let committed = settle(local, cx, &file, fd, stable)?;
    if failed.is_some_and(|before| before != file.rounds().failed()) {
        return Err(Status::Io);
    }
    Ok(WriteDone { count, committed, file: around })
}

/// Quotas count for the file's owner whoever writes; but set-id bits fall only if the kernel sees
/// somebody else than root write, and of what ext4 keeps for root everybody gets who is user 0,
/// capabilities or not.
fn become_writer(local: &Local, cx: &Cx<'_>, before: &Attr) -> Result<()> {
    let identity = if before.mode & SET_ID != 0 || local.is_nearly_full() {
        local.actor.be_caller(&cx.cred)
    } else {
        local.actor.be_server()
    };
    identity.map_err(errno::from)
}

/// Writes all of it, or as much as there is room for.
fn put(local: &Local, fd: BorrowedFd<'_>, offset: u64, data: &[u8]) -> Result<usize> {
    let end = offset.checked_add(data.len() as u64);
    if end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Status::FBig);
    }
    let mut count = 0;
    while let Some(rest) = data.get(count..).filter(|rest| !rest.is_empty()) {
        match sys::io::write(fd, rest, offset.saturating_add(count as u64)) {
            Ok(0) => break,
            Ok(put) => count += put,
            Err(e) if errno::out_of_space(&e) && local.files.close_left() => {}
            Err(e) if count == 0 => return Err(errno::from(e)),
            Err(_) => break,
        }
    }
    Ok(count)
}

/// Makes what was written as safe as it was asked for.
fn settle(
    local: &Local,
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
    local.may_sleep(cx);
    let until = file.unsynced().begin();
    local.sync_file(file, fd, extent)?;
    if let Some(until) = until {
        file.unsynced().done(until);
    }
    Ok(stable)
}

//! COMMIT: the whole file, whatever the range, and nothing at all if every write through this server
//! is on disk already.
//!
//! The range is not used: `fdatasync` knows what is dirty, `sync_file_range` promises nothing about
//! the disk, and the Linux client asks for whole files.

use crate::errno;
use crate::local::Local;
use crate::write::change;
use vfs::{Change, Cx, Durability, Fid, Result, need_regular};

/// See [`vfs::Backend::commit`].
pub fn commit(local: &Local, cx: &Cx<'_>, fid: &Fid) -> Result<Change> {
    let (file, before) = local.hold(cx, fid)?;
    need_regular(before.ftype)?;
    if cx.durability == Durability::Sync
        && let Some(until) = file.unsynced().begin()
    {
        local.may_sleep(cx);
        local.actor.be_server().map_err(errno::from)?;
        // the one that was written through if it is there still, else any will do
        let fd = match file.writer().or_else(|| file.reader()) {
            Some(fd) => fd,
            None => local.reader(&file, fid).or_else(|_| local.writer(&file, fid))?,
        };
        local.synced(sys::io::sync_data(fd))?;
        file.unsynced().done(until);
    }
    Ok(change(local, &file, &before))
}

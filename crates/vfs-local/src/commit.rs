//! COMMIT: the whole file, whatever the range: `fdatasync` knows what is dirty, and
//! `sync_file_range` promises nothing about the disk.

use crate::errno;
use crate::local::Local;
use crate::write::change;
use vfs::{Change, Cx, Durability, Fid, Result, need_regular};

/// See [`vfs::Backend::commit`].
pub fn commit(local: &Local, cx: &Cx<'_>, fid: &Fid) -> Result<Change> {
    let (file, before) = local.hold(cx, fid)?;
    need_regular(before.ftype)?;
    if cx.durability == Durability::Sync {
        cx.sleep.about_to_sleep();
        local.actor.be_server().map_err(errno::from)?;
        let fd = match file.reader() {
            Some(fd) => fd,
            // written to and unreadable for an ordinary user's server: any descriptor will do
            None => local.writer(&file, fid).or_else(|_| local.reader(&file, fid))?,
        };
        local.synced(sys::io::sync_data(fd))?;
    }
    Ok(change(local, &file, &before))
}

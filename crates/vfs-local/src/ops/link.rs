//! LINK: another name for an open object.

use crate::errno;
use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use sys::namespace::make_link;
use vfs::{Attr, Change, Cx, Fid, FileType, Name, Result, Status};

/// See [`vfs::Backend::link`].
pub fn link(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    dir: &Fid,
    name: Name<'_>,
) -> Result<(Attr, Change)> {
    let dir_change = DirChange::new(local, cx, dir)?;
    let (file, attr) = local.hold(cx, fid)?;
    if attr.ftype == FileType::Directory {
        return Err(Status::Perm);
    }
    dir_change.as_caller(|| make_link(file.path(), dir_change.file.path(), name.bytes()))?;
    file.changes().note();
    let change = dir_change.change();
    local.resolver.remember(dir, name.bytes(), fid)?;
    dir_change.sync()?;
    dir_change.sync_linked(&file)?;
    let after = sys::stat::of_fd(file.path()).map_err(errno::from)?;
    Ok((local.attr_of(&after, &file), change))
}

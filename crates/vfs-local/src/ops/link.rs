//! LINK: another name for an open object.
//!
//! `fs.protected_hardlinks` lets a local process link only files that it owns or may read and write.
//! The kernel's NFS server does not apply it, because the client's kernel decides what its processes
//! may link; neither does this one: only the directory's permissions apply.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use crate::ops::permission;
use sys::namespace::make_link;
use vfs::access::Permission;
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
    make(&dir_change, &file, name)?;
    file.changes().note();
    if let Some(copies) = local.files.attrs.in_use() {
        copies.changed(file.id());
    }
    let change = dir_change.change();
    local.resolver.remember(dir, name.bytes(), fid)?;
    dir_change.sync()?;
    dir_change.sync_linked(&file)?;
    let after = sys::stat::of_fd(file.path()).map_err(errno::from)?;
    Ok((local.attr_of(&after, &file), change))
}

/// Creates the link as the caller; where `fs.protected_hardlinks` forbids that, as the server, if
/// the caller may add entries to the directory.
fn make(dir_change: &DirChange<'_>, file: &OpenFile, name: Name<'_>) -> Result<()> {
    let link = || make_link(file.path(), dir_change.file.path(), name.bytes());
    let (local, cx) = (dir_change.local, dir_change.cx);
    match dir_change.as_caller(link) {
        Err(Status::Perm) => {
            let add_entry =
                Permission::from_bits(Permission::WRITE.bits() | Permission::EXEC.bits());
            permission::check(local, cx, &dir_change.file, &dir_change.before, add_entry)?;
            let as_server = || {
                local.identity.act_as_server()?;
                link()
            };
            local.files.open_with_retry(as_server).map_err(errno::from)
        }
        made => made,
    }
}

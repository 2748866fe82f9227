//! LOOKUP: the entry is opened as a path, so that attributes and id are one object's, and stays
//! open for the calls that follow.
//!
//! First only as far as the kernel's caches reach; a name that needs the disk is looked up after
//! other calls were let on.

use crate::access::check;
use crate::attr::living;
use crate::errno;
use crate::local::Local;
use crate::naming::fid_of;
use crate::open_files::OpenFile;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::open::{How, open_entry, open_parent};
use sys::stat::Stat;
use vfs::access::Permission;
use vfs::{Attr, Component, Cx, Fid, FileType, Found, Node, Result, Status};

/// Directories between one and the root of its export: more than any path has.
const DEPTH_MAX: usize = 2048;

/// See [`vfs::Backend::lookup`].
pub fn lookup(local: &Local, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
    if let Component::Name(name) = name
        && let Some(found) = warm(local, cx, dir, name.bytes())?
    {
        return Ok(found);
    }
    let (file, attr) = local.hold_dir(cx, dir)?;
    check(local, cx, &file, &attr, Permission::EXEC)?;
    match name {
        Component::Dot => Ok(Found { node: Node { fid: *dir, attr }, dir: attr }),
        Component::DotDot => parent(local, cx, dir, &file, attr),
        Component::Name(name) => {
            cx.sleep.about_to_sleep();
            local.actor.be_server().map_err(errno::from)?;
            let fd = local
                .files
                .opening(|| open_entry(file.path(), name.bytes(), How::Path, false))
                .map_err(|e| entry_status(&e))?;
            let node = adopt(local, dir, name.bytes(), fd)?;
            Ok(Found { node, dir: attr })
        }
    }
}

/// The look-up as far as nothing has to be waited for; `None` if it takes more.
fn warm(local: &Local, cx: &Cx<'_>, dir: &Fid, name: &[u8]) -> Result<Option<Found>> {
    if local.actor.be_server().is_err() {
        return Ok(None);
    }
    let looked = local.files.with(&local.key(dir), |file: &Arc<OpenFile>| {
        let attr = local.stat(file)?;
        if attr.ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        check(local, cx, file, &attr, Permission::EXEC)?;
        match open_entry(file.path(), name, How::Path, true) {
            Ok(fd) => Ok(Some((fd, attr))),
            Err(e) if errno::status(&e) == Status::NoEnt => Err(Status::NoEnt),
            Err(_) => Ok(None),
        }
    });
    match looked {
        Some(Ok(Some((fd, attr)))) => {
            let node = adopt(local, dir, name, fd)?;
            Ok(Some(Found { node, dir: attr }))
        }
        Some(Ok(None)) | None => Ok(None),
        Some(Err(status)) => {
            if status == Status::Stale {
                local.files.remove(&local.key(dir));
            }
            Err(status)
        }
    }
}

/// The node of an entry that was just opened; it goes into the cache and into the table.
pub fn adopt(local: &Local, dir: &Fid, name: &[u8], fd: OwnedFd) -> Result<Node> {
    let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
    let attr: Attr = living(&stat).map_err(|_| Status::NoEnt)?;
    let fid = fid_of(fd.as_fd())?;
    local.finder.remember(dir, name, &fid)?;
    local.adopt(&fid, fd, attr.ftype);
    Ok(Node { fid, attr })
}

/// A mount point shows as a step into another mount: it is there, and closed.
pub fn entry_status(error: &io::Error) -> Status {
    match errno::status(error) {
        Status::XDev => Status::Acces,
        other => other,
    }
}

/// `..`: the root's is the root; another directory's only if going on upwards meets the root, so
/// that one that was moved out of the export leads nowhere.
fn parent(local: &Local, cx: &Cx<'_>, dir: &Fid, file: &OpenFile, attr: Attr) -> Result<Found> {
    if *dir == local.root_fid {
        return Ok(Found { node: Node { fid: *dir, attr }, dir: attr });
    }
    cx.sleep.about_to_sleep();
    local.actor.be_server().map_err(errno::from)?;
    let up = local.files.opening(|| open_parent(file.path())).map_err(errno::from)?;
    let stat = sys::stat::of_fd(up.as_fd()).map_err(errno::from)?;
    if !is_inside(local, up.as_fd(), &stat)? {
        return Err(Status::Acces);
    }
    let fid = fid_of(up.as_fd())?;
    Ok(Found { node: Node { fid, attr: living(&stat)? }, dir: attr })
}

/// Whether a directory is the exported one or below it, as it is now.
///
/// # Errors
/// What the kernel says.
pub fn is_inside(local: &Local, dir: BorrowedFd<'_>, stat: &Stat) -> Result<bool> {
    let id = |stat: &Stat| (stat.dev, stat.ino);
    let mut stat = *stat;
    let mut above: Option<OwnedFd> = None;
    for _ in 0..DEPTH_MAX {
        if id(&stat) == local.root_id {
            return Ok(true);
        }
        let here = above.as_ref().map_or(dir, AsFd::as_fd);
        let up = local.files.opening(|| open_parent(here)).map_err(errno::from)?;
        let next = sys::stat::of_fd(up.as_fd()).map_err(errno::from)?;
        // the top is its own parent, and a mount's root leads out of the file system
        if id(&next) == id(&stat) || stat.mount_root {
            return Ok(false);
        }
        (stat, above) = (next, Some(up));
    }
    Ok(false)
}

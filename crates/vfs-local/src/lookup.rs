//! LOOKUP, in three ways, the first that serves:
//!
//! 1. *Hinted*: the name was looked up lately and its object is still open here. One `statx` of the
//!    directory, for the right to search it, one of the name; if the name leads to the very object
//!    that is open, that is the answer. See [`crate::names`] for why a hint cannot mislead.
//! 2. *Warm*: the entry is opened as a path as far as the kernel's caches reach, so that attributes
//!    and id are one object's, and stays open for the calls that follow.
//! 3. *Cold*: the same after other calls were let on, for a name that needs the disk.

use crate::access::check;
use crate::attr::{convert, living};
use crate::errno;
use crate::local::Local;
use crate::names::{Hint, Tag};
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
            local.may_sleep(cx);
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
    // the right to search is checked below, so that the caller's own identity will do
    if local.actor.be_either(&cx.cred).is_err() {
        return Ok(None);
    }
    let tag = local.files.names().tag(&local.key(dir), name);
    let looked = local.files.with(&local.key(dir), |file: &Arc<OpenFile>| {
        let attr = local.stat(file)?;
        if attr.ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        check(local, cx, file, &attr, Permission::EXEC)?;
        if let Some(node) = hinted(local, file.path(), name, tag)? {
            return Ok(Warm::Found(Found { node, dir: attr }));
        }
        match open_entry(file.path(), name, How::Path, true) {
            Ok(fd) => Ok(Warm::Opened(fd, attr)),
            Err(e) if errno::status(&e) == Status::NoEnt => {
                local.files.names().note_absent(tag, local.files.now_s());
                Err(Status::NoEnt)
            }
            Err(_) => Ok(Warm::Cold),
        }
    });
    match looked {
        Some(Ok(Warm::Found(found))) => {
            // it may have been somewhere else in between
            local.finder.remember(dir, name, &found.node.fid)?;
            Ok(Some(found))
        }
        Some(Ok(Warm::Opened(fd, attr))) => {
            let node = adopt(local, dir, name, fd)?;
            Ok(Some(Found { node, dir: attr }))
        }
        Some(Ok(Warm::Cold)) | None => Ok(None),
        Some(Err(status)) => {
            if status == Status::Stale {
                local.files.remove(&local.key(dir));
            }
            Err(status)
        }
    }
}

/// How far a look-up came without waiting.
enum Warm {
    Found(Found),
    Opened(OwnedFd, Attr),
    Cold,
}

/// What a hint leads to, proven by one question to the kernel; `None` if there is no hint or it is
/// not what the name leads to now.
///
/// The object is held open from before the question until after the answer was compared, so its
/// inode number is nobody else's in between. A mount point shows as one, or by its device.
///
/// # Errors
/// [`Status::NoEnt`] if the name leads to nothing, as it did before.
pub fn hinted(local: &Local, dir: BorrowedFd<'_>, name: &[u8], tag: Tag) -> Result<Option<Node>> {
    let now_s = local.files.now_s();
    let names = local.files.names();
    match names.find(tag, now_s) {
        None => Ok(None),
        Some(Hint::Absent { renew }) => match sys::stat::of_name(dir, name) {
            Err(e) if errno::status(&e) == Status::NoEnt => {
                if renew {
                    names.note_absent(tag, now_s);
                }
                Err(Status::NoEnt)
            }
            Ok(_) | Err(_) => Ok(None),
        },
        Some(Hint::Object(fid, _)) => {
            let looked = local.files.with(&local.key(&fid), |file| {
                let stat = sys::stat::of_name(dir, name).ok()?;
                let same = file.is(&stat) && !stat.mount_root && stat.nlink > 0;
                same.then(|| Node { fid, attr: convert(&stat) })
            });
            Ok(looked.flatten())
        }
    }
}

/// The node of an entry that was just opened; it goes into the cache and into the table, and its
/// name leads to it from now on.
///
/// # Errors
/// What the kernel says; [`Status::NoEnt`] if it has gone meanwhile.
pub fn adopt(local: &Local, dir: &Fid, name: &[u8], fd: OwnedFd) -> Result<Node> {
    let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
    let file = OpenFile::new(fd, &stat);
    adopt_file(local, dir, name, file, &stat).map(|(node, _)| node)
}

/// The same for an object with its attributes; gives what is in the cache now.
///
/// # Errors
/// As [`adopt`].
pub fn adopt_file(
    local: &Local,
    dir: &Fid,
    name: &[u8],
    file: OpenFile,
    stat: &Stat,
) -> Result<(Node, Arc<OpenFile>)> {
    let attr: Attr = living(stat).map_err(|_| Status::NoEnt)?;
    let fid = fid_of(file.path())?;
    local.finder.remember(dir, name, &fid)?;
    let file = local.adopt(&fid, file);
    let names = local.files.names();
    let tag = names.tag(&local.key(dir), name);
    names.note(tag, &fid, names.settled(stat, &fid), local.files.now_s());
    Ok((Node { fid, attr }, file))
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
    local.may_sleep(cx);
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

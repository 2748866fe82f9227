//! LOOKUP, in three ways, the first that serves:
//!
//! 1. *Hinted*: the name was looked up recently and its object is still open here. One `statx` of the
//!    directory, for the right to search it, one of the name; if the name leads to the very object
//!    that is open, that is the answer. See [`crate::cache::name_cache`] for why a hint cannot mislead. Where attributes may
//!    be old (`attr-cache`), neither is needed if both have recent copies ([`crate::cache::attr_cache`]).
//! 2. *Warm*: the entry is opened as a path as far as the kernel's caches reach, so that attributes
//!    and id are one object's, and stays open for the calls that follow.
//! 3. *Cold*: the same after other calls were let on, for a name that needs the disk.

use crate::cache::name_cache::NameHint;
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::naming::fid::fid_of;
use crate::object::is_inside;
use crate::ops::entry::{EntryFound, RecentDir, cache_entry, lookup_hint, open_or_covered};
use crate::ops::permission::check;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::open::{How, open_entry, open_parent};
use vfs::access::Permission;
use vfs::{Attr, Component, Cx, Fid, FileType, Found, Name, Node, Result, Status};

/// How often a name is opened whose object is gone when its attributes are fetched: another may have taken its place.
const REPLACED_TRIES: u32 = 8;

/// See [`vfs::Backend::lookup`].
pub fn lookup(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
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
            local.will_block(cx)?;
            local.identity.act_as_server().map_err(errno::from)?;
            for _ in 0..REPLACED_TRIES {
                if let Some(node) = open_named(local, dir, file.path(), name.bytes())? {
                    return Ok(Found { node, dir: attr });
                }
            }
            Err(Status::NoEnt)
        }
    }
}

/// See [`vfs::Backend::remembers`].
pub fn remembers(local: &LocalFs, dir: &Fid, name: Name<'_>) -> bool {
    let (names, now_s) = (local.files.names(), local.files.now_s());
    match names.find(names.tag(&local.key(dir), name.bytes()), now_s) {
        Some(NameHint::Object(fid, _)) => local.files.with(&local.key(&fid), |_| ()).is_some(),
        Some(NameHint::Absent { .. }) | None => false,
    }
}

/// What a name leads to, which is opened for it; `None` if its object was replaced or removed since it was opened.
///
/// # Errors
/// [`Status::NoEnt`] if there is no such name.
fn open_named(local: &LocalFs, dir: &Fid, at: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Node>> {
    match open_or_covered(local, at, name) {
        Ok(EntryFound::Open(fd)) => match cache_entry(local, dir, name, fd) {
            Err(Status::NoEnt) => Ok(None),
            node => node.map(Some),
        },
        Ok(EntryFound::Covered(node)) => Ok(Some(node)),
        Err(Status::NoEnt) => {
            let names = local.files.names();
            names.note_absent(names.tag(&local.key(dir), name), local.files.now_s());
            Err(Status::NoEnt)
        }
        Err(status) => Err(status),
    }
}

/// The look-up as far as it needs no blocking; `None` if it must block.
fn warm(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, name: &[u8]) -> Result<Option<Found>> {
    // search permission is checked below, so that the caller's own identity is not needed
    if local.identity.act_as_caller_or_server(&cx.cred).is_err() {
        return Ok(None);
    }
    let tag = local.files.names().tag(&local.key(dir), name);
    let looked = local.files.with(&local.warm_key(dir), |file: &Arc<OpenFile>| {
        let (attr, copy) = local.recent(cx, file)?;
        if attr.ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        check(local, cx, file, &attr, Permission::EXEC)?;
        let recent = RecentDir::new(local, cx, copy);
        if let Some(node) = lookup_hint(local, file.path(), (name, tag), recent.as_ref())? {
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
            // it may have been moved in between
            local.resolver.remember(dir, name, &found.node.fid)?;
            Ok(Some(found))
        }
        Some(Ok(Warm::Opened(fd, attr))) => {
            match cache_entry(local, dir, name, fd) {
                // it was replaced or removed since it was opened
                Err(Status::NoEnt) => Ok(None),
                node => Ok(Some(Found { node: node?, dir: attr })),
            }
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

/// The result of a look-up without blocking.
enum Warm {
    Found(Found),
    Opened(OwnedFd, Attr),
    Cold,
}

/// `..`: the root's is the root; another directory's only if its ancestors include the root, so
/// that one that was moved out of the export is not followed.
fn parent(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, file: &OpenFile, attr: Attr) -> Result<Found> {
    if *dir == local.root_fid {
        return Ok(Found { node: Node { fid: *dir, attr }, dir: attr });
    }
    local.will_block(cx)?;
    local.identity.act_as_server().map_err(errno::from)?;
    let up = local.files.open_with_retry(|| open_parent(file.path())).map_err(errno::from)?;
    let stat = sys::stat::of_fd(up.as_fd()).map_err(errno::from)?;
    if !is_inside(local, up.as_fd(), &stat)? {
        return Err(Status::Acces);
    }
    if stat.nlink == 0 {
        return Err(Status::Stale);
    }
    let fid = fid_of(up.as_fd())?;
    Ok(Found { node: Node { fid, attr: local.attr_by_fid(&stat, &fid) }, dir: attr })
}

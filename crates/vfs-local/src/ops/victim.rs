//! The object of a name before it is removed or replaced ("victim", as in the kernel's fs/namei.c), so
//! that its cached descriptors can be closed, and copies of its attributes do not count any more. Where there are copies
//! (`attr-cache`), the object must be certain: if the directory was changed by another call at the same time, it may be
//! another one, and all copies are given up.

use crate::cache::attr_cache::ObjectId;
use crate::cache::name_cache::{NameHint, Tag};
use crate::cache::open_file::OpenFile;
use crate::errno::{out_of_descriptors, status};
use crate::naming::fid::fid_of;
use crate::ops::dir_change::DirChange;
use crate::ops::entry::lookup_hint;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::open::{How, open_entry};
use vfs::{Change, Fid, FileType, Result, Status};

/// A removed file that holds no more may be closed some milliseconds later.
const SMALL_BYTES: u64 = 1 << 20;

/// The object of a name that is about to be removed.
pub struct Victim {
    /// Its id; a probable one if it is not certain.
    pub fid: Fid,
    held: Held,
    /// Of the name.
    tag: Tag,
}

/// Keeps the victim's inode number in use until it is checked whether it was removed.
enum Held {
    /// The name refers to this open object.
    Cached(Arc<OpenFile>),
    /// The name recently referred to this open object. Whether it was removed is checked afterwards,
    /// by its links; if the name referred to another object, that one is closed when it is checked
    /// for removal ([`crate::cache::open_files`]).
    Likely(Arc<OpenFile>),
    /// The name refers to this.
    Opened(OwnedFd),
}

/// The object of a name; none if it cannot be determined. It is only probable if the kernel tracks
/// names, so that only an open descriptor depends on it.
///
/// # Errors
/// [`Status::Jukebox`] if there is no descriptor to open it by: a client may have it open, and it would be lost with its name.
/// Where there are copies of attributes, the kernel's error if it is there and cannot be determined.
pub fn victim_at(dir_change: &DirChange<'_>, name: &[u8]) -> Result<Option<Victim>> {
    let DirChange { local, cx, dir, file, .. } = dir_change;
    let tag = local.files.names().tag(&local.key(dir), name);
    let held = |fid: &Fid| local.files.with(&local.key(fid), Arc::clone);
    let has_copies = local.files.attrs.in_use().is_some();
    if !local.resolver.uses_table()
        && !has_copies
        && let Some(NameHint::Object(fid, _)) = local.files.names().find(tag, local.files.now_s())
        && let Some(held) = held(&fid)
    {
        return Ok(Some(Victim { fid, held: Held::Likely(held), tag }));
    }
    if local.identity.act_as_caller_or_server(&cx.cred).is_err() {
        return Ok(None);
    }
    if let Ok(Some(node)) = lookup_hint(local, file.path(), (name, tag), None)
        && let Some(held) = held(&node.fid)
    {
        return Ok(Some(Victim { fid: node.fid, held: Held::Cached(held), tag }));
    }
    if local.identity.act_as_server().is_err() {
        return Ok(None);
    }
    let open = || open_entry(file.path(), name, How::Path, false);
    match local.files.open_with_retry(open) {
        Ok(fd) => {
            let fid = fid_of(fd.as_fd()).ok();
            Ok(fid.map(|fid| Victim { fid, held: Held::Opened(fd), tag }))
        }
        Err(error) if out_of_descriptors(&error) => Err(Status::Jukebox),
        Err(error) if has_copies && status(&error) != Status::NoEnt => Err(status(&error)),
        Err(_) => Ok(None),
    }
}

/// After a change of names in a directory, which it is `around`: copies of the attributes of an object that has lost or got a name
/// there do not count any more, and none does if that object is not certain.
pub fn forget_copies(dir_change: &DirChange<'_>, around: &Change, object: Option<&Victim>) {
    let Some(copies) = dir_change.local.files.attrs.in_use() else { return };
    match object.and_then(Victim::object_id) {
        Some(id) if around.before.is_some() => copies.changed(id),
        Some(_) | None => copies.changed_unknown(),
    }
}

impl Victim {
    /// Device and inode number, if it is certain.
    fn object_id(&self) -> Option<ObjectId> {
        match &self.held {
            Held::Cached(file) => Some(file.id()),
            Held::Likely(_) => None,
            Held::Opened(fd) => {
                sys::stat::basic_of_fd(fd.as_fd()).ok().map(|stat| (stat.dev, stat.ino))
            }
        }
    }

    /// Its descriptor for attributes.
    pub fn path(&self) -> BorrowedFd<'_> {
        match &self.held {
            Held::Cached(file) | Held::Likely(file) => file.path(),
            Held::Opened(fd) => fd.as_fd(),
        }
    }

    /// Closes its descriptors. If another hard link is left, it is opened again when needed, by
    /// that name; else it is removed from the table, so that its id is stale without a search. Whether another hard
    /// link is left, but for so many `hidden` ones of the server's own.
    pub fn removed(self, dir_change: &DirChange<'_>, name: &[u8], hidden: u32) -> bool {
        let local = dir_change.local;
        let Self { fid, held, tag } = self;
        local.files.names().forget(tag);
        let (fd, cached) = match &held {
            Held::Cached(file) | Held::Likely(file) => (file.path(), Some(file.ftype())),
            Held::Opened(fd) => (fd.as_fd(), None),
        };
        let stat = sys::stat::basic_of_fd(fd).ok();
        let linked = stat.is_some_and(|stat| stat.nlink > hidden);
        let is_file = cached == Some(FileType::Regular);
        if matches!(held, Held::Likely(_)) && linked && is_file {
            return true;
        }
        let small = stat.is_some_and(|stat| stat.blocks.saturating_mul(512) <= SMALL_BYTES);
        let key = local.key(&fid);
        match held {
            Held::Cached(file) | Held::Likely(file) => {
                file.changes().note();
                if !linked {
                    local.files.pin_removed(key, &file);
                }
            }
            Held::Opened(fd) => {
                // by the same descriptor: there may be no other
                if let (false, Ok(stat)) = (linked, sys::stat::of_fd(fd.as_fd())) {
                    local.files.pin_removed_with(key, || local.entry_of(fd, &stat));
                }
            }
        }
        if is_file && small {
            local.files.close_later(key);
        } else {
            local.files.remove(&key);
        }
        if local.resolver.uses_table() && stat.is_some() {
            if linked || hidden > 0 {
                local.resolver.name_removed(&fid, dir_change.dir, name);
            } else {
                local.resolver.forget(&fid);
            }
        }
        linked
    }
}

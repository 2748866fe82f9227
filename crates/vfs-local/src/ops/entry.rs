//! The entry of a name: from the cache of names if it is known there, and stored in the caches once
//! it was opened.

use crate::cache::attr_cache::{AttrTable, CopyNumber, MaxAge};
use crate::cache::name_cache::{NameHint, Tag};
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::naming::fid::fid_of;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::open::{How, open_covered, open_entry};
use sys::stat::Stat;
use vfs::{Cx, Fid, Node, Result, Status};

/// A directory whose attributes may be old, and are a copy's: what is found in it may be old as well.
pub struct RecentDir<'c> {
    copies: &'c AttrTable,
    number: CopyNumber,
    age: MaxAge,
}

impl<'c> RecentDir<'c> {
    /// That of the copy with this number; `None` where attributes must not be old.
    #[inline]
    pub fn new(local: &'c LocalFs, cx: &Cx<'_>, number: Option<CopyNumber>) -> Option<Self> {
        let number = number?;
        Some(Self { copies: local.files.attrs.table(), number, age: MaxAge::now(cx.attr_cache_ms) })
    }

    /// The node of an open object, if a copy of its attributes says that this name led to it.
    fn find(&self, local: &LocalFs, tag: Tag, fid: &Fid, file: &OpenFile) -> Option<Node> {
        let copy = self.copies.find_born(file.id(), file.birth(), self.age)?;
        if !copy.has_name(tag, self.number) {
            return None;
        }
        self.copies.count(1, 0);
        Some(Node { fid: *fid, attr: local.attr_of_copy(&copy, || file.changes().count()) })
    }
}

/// The object of a hint, verified by one system call, or by the copies of attributes that may be old (`recent`); `None` if
/// there is no hint or the name refers to something else now.
///
/// The object is held open from before the call until its result was compared, so its inode number
/// cannot be reused in between. A mount point is recognised as one, or by its device.
///
/// # Errors
/// [`Status::NoEnt`] if the name is absent, as before.
pub fn lookup_hint(
    local: &LocalFs,
    dir: BorrowedFd<'_>,
    (name, tag): (&[u8], Tag),
    recent: Option<&RecentDir<'_>>,
) -> Result<Option<Node>> {
    let now_s = local.files.now_s();
    let names = local.files.names();
    match names.find(tag, now_s) {
        None => Ok(None),
        Some(NameHint::Absent { renew }) => match sys::stat::of_name(dir, name) {
            Err(e) if errno::status(&e) == Status::NoEnt => {
                if renew {
                    names.note_absent(tag, now_s);
                }
                Err(Status::NoEnt)
            }
            Ok(_) | Err(_) => Ok(None),
        },
        Some(NameHint::Object(fid, _)) => {
            let looked = local.files.with(&local.warm_key(&fid), |file| {
                if let Some(found) = recent.and_then(|dir| dir.find(local, tag, &fid, file)) {
                    return Some(found);
                }
                let fill = recent.map(|dir| (dir, dir.copies.begin_fill(file.id(), dir.age)));
                let stat = sys::stat::of_name(dir, name).ok()?;
                let same = file.is(&stat) && !stat.mount_root && stat.nlink > 0;
                if let (Some((dir, fill)), true) = (fill, same) {
                    dir.copies.count(0, 1);
                    let visible = file.visible_stat(&stat);
                    fill.store(&visible, local.is_settled(&stat), Some((tag, dir.number)));
                }
                same.then(|| Node { fid, attr: local.attr_of(&stat, file) })
            });
            Ok(looked.flatten())
        }
    }
}

/// The node of an entry that was just opened; it is stored in the cache and in the table, and in
/// the cache of names.
///
/// # Errors
/// The kernel's error; [`Status::NoEnt`] if it was removed meanwhile.
pub fn cache_entry(local: &LocalFs, dir: &Fid, name: &[u8], fd: OwnedFd) -> Result<Node> {
    let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
    let file = Arc::new(OpenFile::new(fd, &stat));
    cache_open_entry(local, dir, name, file, &stat).map(|(node, _)| node)
}

/// The same for an object with its attributes; returns the one that is in the cache now.
///
/// # Errors
/// As [`cache_entry`].
pub fn cache_open_entry(
    local: &LocalFs,
    dir: &Fid,
    name: &[u8],
    file: Arc<OpenFile>,
    stat: &Stat,
) -> Result<(Node, Arc<OpenFile>)> {
    if stat.nlink == 0 {
        return Err(Status::NoEnt);
    }
    let fid = fid_of(file.path())?;
    local.resolver.remember(dir, name, &fid)?;
    let file = local.cache(&fid, file);
    let names = local.files.names();
    let tag = names.tag(&local.key(dir), name);
    names.note(tag, &fid, names.settled(stat, &fid), local.files.now_s());
    Ok((Node { fid, attr: local.attr_of(stat, &file) }, file))
}

/// Opens an entry as a path; where something is mounted on it, the id and attributes of the directory below that, which
/// are all that there is of it here.
///
/// # Errors
/// The kernel's error; [`Status::Acces`] for a mount point if this process may not look below it.
pub fn open_or_covered(local: &LocalFs, dir: BorrowedFd<'_>, name: &[u8]) -> Result<EntryFound> {
    match local.files.open_with_retry(|| open_entry(dir, name, How::Path, false)) {
        Ok(fd) => Ok(EntryFound::Open(fd)),
        Err(e) if errno::status(&e) == Status::XDev => {
            covered(local, dir, name).map(EntryFound::Covered)
        }
        Err(e) => Err(errno::from(e)),
    }
}

/// What the name of an entry leads to.
pub enum EntryFound {
    /// An object, open as a path.
    Open(OwnedFd),
    /// A directory that something is mounted on.
    Covered(Node),
}

/// The directory that something is mounted on. Without handles it could not be found again.
fn covered(local: &LocalFs, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Node> {
    if local.resolver.uses_table() {
        return Err(Status::Acces);
    }
    let fd = local.files.open_with_retry(|| open_covered(dir, name)).map_err(|_| Status::Acces)?;
    let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
    let fid = fid_of(fd.as_fd())?;
    Ok(Node { fid, attr: local.attr_by_fid(&stat, &fid) })
}

/// A mount point is recognised by a step into another mount: it exists, and access is denied.
pub fn entry_status(error: &io::Error) -> Status {
    match errno::status(error) {
        Status::XDev => Status::Acces,
        other => other,
    }
}

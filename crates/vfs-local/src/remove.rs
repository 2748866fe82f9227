//! REMOVE and RMDIR: the kernel decides, as the caller; the descriptor kept of what went is closed.

use crate::local::Local;
use crate::lookup::hinted;
use crate::made::Place;
use crate::names::Hint;
use crate::naming::fid_of;
use crate::open_files::OpenFile;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use sys::namespace;
use sys::open::{How, open_entry};
use vfs::{Change, Cx, Fid, FileType, Name, Result};

/// A removed file that holds no more may be closed some milliseconds later.
const SMALL_BYTES: u64 = 1 << 20;

/// See [`vfs::Backend::remove`].
pub fn remove(local: &Local, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
    let place = Place::new(local, cx, dir)?;
    gone(&place, name, || namespace::remove(place.file.path(), name.bytes()))
}

/// See [`vfs::Backend::rmdir`].
pub fn rmdir(local: &Local, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
    let place = Place::new(local, cx, dir)?;
    gone(&place, name, || namespace::remove_dir(place.file.path(), name.bytes()))
}

fn gone(place: &Place<'_>, name: Name<'_>, remove: impl Fn() -> io::Result<()>) -> Result<Change> {
    let victim = victim_at(place, name.bytes());
    place.as_caller(remove)?;
    let change = place.change();
    if let Some(victim) = victim {
        victim.went(place, name.bytes());
    }
    place.sync()?;
    Ok(change)
}

/// What a name leads to before it goes.
pub struct Victim {
    /// Its id; of one that is only likely, what it probably is.
    pub fid: Fid,
    held: Held,
}

/// What keeps the victim's number its own until we have looked whether it is gone.
enum Held {
    /// The name leads to this open object.
    Cached(Arc<OpenFile>),
    /// The name led to this open object lately. Whether it has gone is seen afterwards, by its links;
    /// if the name led elsewhere by then, what did go is closed when it is asked whether it is still
    /// there ([`crate::open_files`]).
    Likely(Arc<OpenFile>),
    /// The name leads to this.
    Opened(OwnedFd),
}

/// What a name leads to; of no interest if it cannot be had. It is only likely where the kernel keeps
/// account of names, so that nothing but an open descriptor hangs on it.
pub fn victim_at(place: &Place<'_>, name: &[u8]) -> Option<Victim> {
    let Place { local, cx, dir, file, .. } = place;
    let tag = local.files.names().tag(&local.key(dir), name);
    let held = |fid: &Fid| local.files.with(&local.key(fid), Arc::clone);
    if !local.finder.remembers()
        && let Some(Hint::Object(fid, _)) = local.files.names().find(tag, local.files.now_s())
        && let Some(held) = held(&fid)
    {
        return Some(Victim { fid, held: Held::Likely(held) });
    }
    local.actor.be_either(&cx.cred).ok()?;
    if let Ok(Some(node)) = hinted(local, file.path(), name, tag)
        && let Some(held) = held(&node.fid)
    {
        return Some(Victim { fid: node.fid, held: Held::Cached(held) });
    }
    local.actor.be_server().ok()?;
    let open = || open_entry(file.path(), name, How::Path, false);
    let fd = local.files.opening(open).ok()?;
    Some(Victim { fid: fid_of(fd.as_fd()).ok()?, held: Held::Opened(fd) })
}

impl Victim {
    /// Closes what is kept of it. If another hard link is left, it is opened again when it is
    /// asked for, by a name that is left; else the table forgets it, so that its id is stale
    /// without a search.
    pub fn went(self, place: &Place<'_>, name: &[u8]) {
        let local = place.local;
        let Self { fid, held } = self;
        let (fd, cached) = match &held {
            Held::Cached(file) | Held::Likely(file) => (file.path(), Some(file.ftype())),
            Held::Opened(fd) => (fd.as_fd(), None),
        };
        let stat = sys::stat::basic_of_fd(fd).ok();
        let linked = stat.is_some_and(|stat| stat.nlink > 0);
        let is_file = cached == Some(FileType::Regular);
        if matches!(held, Held::Likely(_)) && linked && is_file {
            return;
        }
        let small = stat.is_some_and(|stat| stat.blocks.saturating_mul(512) <= SMALL_BYTES);
        drop(held);
        let key = local.key(&fid);
        if is_file && small {
            local.files.leave(key);
        } else {
            local.files.remove(&key);
        }
        if local.finder.remembers() && stat.is_some() {
            if linked {
                local.finder.left(&fid, place.dir, name);
            } else {
                local.finder.forget(&fid);
            }
        }
    }
}

//! REMOVE and RMDIR: the kernel decides, as the caller; the descriptor kept of what went is closed.

use crate::local::Local;
use crate::lookup::hinted;
use crate::made::Place;
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
    if let Some(victim) = victim {
        victim.went(place, name.bytes());
    }
    place.sync()?;
    Ok(place.change())
}

/// What a name leads to before it goes.
pub struct Victim {
    /// Its id.
    pub fid: Fid,
    /// Bytes that it holds on the disk.
    used: u64,
    held: Held,
}

/// What keeps the victim's number its own until we have looked whether it is gone.
enum Held {
    Cached(Arc<OpenFile>),
    Opened(OwnedFd),
}

/// What a name leads to; of no interest if it cannot be had.
pub fn victim_at(place: &Place<'_>, name: &[u8]) -> Option<Victim> {
    let Place { local, cx, dir, file, .. } = place;
    local.actor.be_either(&cx.cred).ok()?;
    let tag = local.files.names().tag(&local.key(dir), name);
    if let Ok(Some(node)) = hinted(local, file.path(), name, tag)
        && let Some(held) = local.files.with(&local.key(&node.fid), Arc::clone)
    {
        return Some(Victim { fid: node.fid, used: node.attr.used, held: Held::Cached(held) });
    }
    local.actor.be_server().ok()?;
    let open = || open_entry(file.path(), name, How::Path, false);
    let fd = local.files.opening(open).ok()?;
    Some(Victim { fid: fid_of(fd.as_fd()).ok()?, used: 0, held: Held::Opened(fd) })
}

impl Victim {
    /// Closes what is kept of it. If another hard link is left, it is opened again when it is
    /// asked for, by a name that is left; else the table forgets it, so that its id is stale
    /// without a search.
    pub fn went(self, place: &Place<'_>, name: &[u8]) {
        let local = place.local;
        let Self { fid, used, held } = self;
        let fd = match &held {
            Held::Cached(file) => file.path(),
            Held::Opened(fd) => fd.as_fd(),
        };
        let small = matches!(&held, Held::Cached(file) if file.ftype() == FileType::Regular)
            && used <= SMALL_BYTES;
        let nlink = local.finder.remembers().then(|| sys::stat::of_fd(fd).map(|stat| stat.nlink));
        drop(held);
        let key = local.key(&fid);
        if small {
            local.files.leave(key);
        } else {
            local.files.remove(&key);
        }
        match nlink {
            Some(Ok(0)) => local.finder.forget(&fid),
            Some(Ok(_)) => local.finder.left(&fid, place.dir, name),
            Some(Err(_)) | None => {}
        }
    }
}

//! REMOVE and RMDIR: the kernel decides, as the caller; the descriptor kept of what went is closed.

use crate::local::Local;
use crate::made::Place;
use crate::naming::fid_of;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::namespace;
use sys::open::{How, open_entry};
use vfs::{Change, Cx, Fid, Name, Result};

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
        victim.went(place);
    }
    place.sync()?;
    Ok(place.change())
}

/// What a name leads to before it goes.
pub struct Victim {
    /// Its id.
    pub fid: Fid,
    fd: OwnedFd,
}

/// What a name leads to; of no interest if it cannot be had.
pub fn victim_at(place: &Place<'_>, name: &[u8]) -> Option<Victim> {
    let open = || open_entry(place.file.path(), name, How::Path, false);
    let fd = place.local.files.opening(open).ok()?;
    Some(Victim { fid: fid_of(fd.as_fd()).ok()?, fd })
}

impl Victim {
    /// Closes what is kept of it. If another hard link is left, it is opened again when it is
    /// asked for; else the table forgets it, so that its id is stale without a search.
    pub fn went(self, place: &Place<'_>) {
        place.local.files.remove(&place.local.key(&self.fid));
        if sys::stat::of_fd(self.fd.as_fd()).is_ok_and(|stat| stat.nlink == 0) {
            place.local.finder.forget(&self.fid);
        }
    }
}

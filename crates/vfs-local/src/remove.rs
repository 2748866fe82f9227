//! REMOVE and RMDIR: the kernel decides, as the caller; the descriptor kept of what went is closed.

use crate::errno;
use crate::local::Local;
use crate::made::Place;
use crate::naming::fid_of;
use std::io;
use std::os::fd::AsFd;
use sys::namespace;
use sys::open::{How, open_entry};
use vfs::{Change, Cx, Fid, Name, Result, Status};

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
    let fid = fid_at(place, name.bytes());
    place.as_caller(remove).map_err(|status| match status {
        // a mount point below the export: there, and closed
        Status::Jukebox => Status::Acces,
        other => other,
    })?;
    if let Some(fid) = fid {
        // another hard link may be left: it is opened again when it is asked for
        place.local.files.remove(&place.local.key(&fid));
    }
    place.sync()?;
    Ok(place.change())
}

/// The id of what a name leads to, for the cache; of no interest if it cannot be had.
pub fn fid_at(place: &Place<'_>, name: &[u8]) -> Option<Fid> {
    let open = || open_entry(place.file.path(), name, How::Path, false);
    let fd = place.local.files.opening(open).map_err(errno::from).ok()?;
    fid_of(fd.as_fd()).ok()
}

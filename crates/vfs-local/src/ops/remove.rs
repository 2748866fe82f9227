//! REMOVE and RMDIR: permission is checked by the kernel, as the caller; the cached descriptor of
//! the object is closed, or the file gets another name if it is kept and may outlive the server.

use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use crate::ops::unlinked::{may_preserve, preserve, settle};
use crate::ops::victim::{forget_copies, victim_at};
use std::io;
use sys::namespace;
use vfs::{Change, Cx, Fid, Name, Result};

/// See [`vfs::Backend::remove`].
pub fn remove(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
    let dir_change = DirChange::new(local, cx, dir)?;
    remove_entry(&dir_change, name, || namespace::remove(dir_change.file.path(), name.bytes()))
}

/// See [`vfs::Backend::rmdir`].
pub fn rmdir(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
    let dir_change = DirChange::new(local, cx, dir)?;
    remove_entry(&dir_change, name, || namespace::remove_dir(dir_change.file.path(), name.bytes()))
}

fn remove_entry(
    dir_change: &DirChange<'_>,
    name: Name<'_>,
    remove: impl Fn() -> io::Result<()>,
) -> Result<Change> {
    let victim = victim_at(dir_change, name.bytes())?;
    let mut hidden = 0;
    if may_preserve(dir_change, victim.as_ref()) {
        let preserved = preserve(dir_change, victim.as_ref())?;
        let removed = dir_change.as_caller(&remove);
        hidden = settle(preserved, victim.as_ref());
        removed?;
    } else {
        dir_change.as_caller(remove)?;
    }
    let change = dir_change.change();
    forget_copies(dir_change, &change, victim.as_ref());
    if let Some(victim) = victim {
        victim.removed(dir_change, name.bytes(), hidden);
    }
    dir_change.sync()?;
    Ok(change)
}

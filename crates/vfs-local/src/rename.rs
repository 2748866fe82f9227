//! RENAME: as POSIX has it; what is replaced is closed, the new place is remembered.

use crate::local::Local;
use crate::made::Place;
use crate::remove::victim_at;
use sys::namespace;
use vfs::{Change, Cx, Fid, Name, Result};

/// See [`vfs::Backend::rename`].
pub fn rename(
    local: &Local,
    cx: &Cx<'_>,
    (from_dir, from): (&Fid, Name<'_>),
    (to_dir, to): (&Fid, Name<'_>),
) -> Result<(Change, Change)> {
    let source = Place::new(local, cx, from_dir)?;
    let target = Place::new(local, cx, to_dir)?;
    let moves = || victim_at(&source, from.bytes()).map(|moved| moved.fid);
    let moved = local.finder.remembers().then(moves).flatten();
    let replaced = victim_at(&target, to.bytes());
    source.as_caller(|| {
        namespace::rename(source.file.path(), from.bytes(), target.file.path(), to.bytes())
    })?;
    if let Some(replaced) = replaced.filter(|replaced| Some(replaced.fid) != moved) {
        replaced.went(&target, to.bytes());
    }
    if let Some(moved) = moved {
        local.finder.moved(&moved, (from_dir, from.bytes()), (to_dir, to.bytes()))?;
    }
    target.sync()?;
    if from_dir != to_dir {
        source.sync()?;
    }
    target.sync_moved(to)?;
    Ok((source.change(), target.change()))
}

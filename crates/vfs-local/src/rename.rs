//! RENAME: as POSIX has it; what is replaced is closed, the new place is remembered, in another directory before
//! it is one: a server that is killed in between must find the object again.

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
    let target = Place::new(local, cx, to_dir)?;
    // one directory is changed once
    let other = (from_dir != to_dir).then(|| Place::new(local, cx, from_dir)).transpose()?;
    let source = other.as_ref().unwrap_or(&target);
    let moves = || victim_at(source, from.bytes()).map(|moved| moved.fid);
    let moved = local.finder.remembers().then(moves).flatten();
    let replaced = victim_at(&target, to.bytes());
    // within one directory it is found by a search
    let expected = match moved {
        Some(moved) if other.is_some() => local.finder.expect(&moved, to_dir, to.bytes())?,
        _ => false,
    };
    let renamed = source.as_caller(|| {
        namespace::rename(source.file.path(), from.bytes(), target.file.path(), to.bytes())
    });
    if let (Err(status), Some(moved)) = (renamed, moved.filter(|_| expected)) {
        local.finder.left(&moved, to_dir, to.bytes());
        return Err(status);
    }
    renamed?;
    let changes = (source.change(), target.change());
    match (moved, replaced) {
        // two names of one file: POSIX leaves both as they are
        (Some(moved), Some(replaced)) if moved == replaced.fid => {}
        (moved, replaced) => {
            if let Some(replaced) = replaced {
                replaced.went(&target, to.bytes());
            }
            if let Some(moved) = moved {
                local.finder.moved(&moved, (from_dir, from.bytes()), (to_dir, to.bytes()))?;
            }
        }
    }
    target.sync()?;
    if let Some(source) = other {
        source.sync()?;
    }
    target.sync_moved(to)?;
    Ok(changes)
}

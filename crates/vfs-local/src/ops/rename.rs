//! RENAME: as in POSIX; a replaced object is closed, the new name is stored in the table, in another directory
//! before the rename: a server that is killed in between must find the object again.

use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use crate::ops::victim::victim_at;
use sys::namespace;
use vfs::{Change, Cx, Fid, Name, Result};

/// See [`vfs::Backend::rename`].
pub fn rename(
    local: &LocalFs,
    cx: &Cx<'_>,
    (from_dir, from): (&Fid, Name<'_>),
    (to_dir, to): (&Fid, Name<'_>),
) -> Result<(Change, Change)> {
    let target = DirChange::new(local, cx, to_dir)?;
    // one directory is changed once
    let other = (from_dir != to_dir).then(|| DirChange::new(local, cx, from_dir)).transpose()?;
    let source = other.as_ref().unwrap_or(&target);
    let moves = || victim_at(source, from.bytes()).map(|moved| moved.fid);
    let moved = local.resolver.uses_table().then(moves).flatten();
    let replaced = victim_at(&target, to.bytes());
    // within one directory it is found by a search
    let expected = match moved {
        Some(moved) if other.is_some() => {
            local.resolver.note_expected(&moved, to_dir, to.bytes())?
        }
        _ => false,
    };
    let renamed = source.as_caller(|| {
        namespace::rename(source.file.path(), from.bytes(), target.file.path(), to.bytes())
    });
    if let (Err(status), Some(moved)) = (renamed, moved.filter(|_| expected)) {
        local.resolver.name_removed(&moved, to_dir, to.bytes());
        return Err(status);
    }
    renamed?;
    let changes = (source.change(), target.change());
    match (moved, replaced) {
        // two names of one file: POSIX leaves both unchanged
        (Some(moved), Some(replaced)) if moved == replaced.fid => {}
        (moved, replaced) => {
            if let Some(replaced) = replaced {
                replaced.removed(&target, to.bytes());
            }
            if let Some(moved) = moved {
                local.resolver.renamed(&moved, (from_dir, from.bytes()), (to_dir, to.bytes()))?;
            }
        }
    }
    target.sync()?;
    if let Some(source) = other {
        source.sync()?;
    }
    target.sync_renamed(to)?;
    Ok(changes)
}

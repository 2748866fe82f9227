//! RENAME: as in POSIX; a replaced object is closed, the new name is stored in the table, in another directory
//! before the rename: a server that is killed in between must find the object again.

use crate::fs::LocalFs;
use crate::naming::fid::fid_of;
use crate::ops::dir_change::DirChange;
use crate::ops::unlinked::{preserve, settle};
use crate::ops::victim::{forget_copies, victim_at};
use std::os::fd::AsFd;
use sys::namespace;
use sys::open::{How, open_entry};
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
    // the other one is looked at with the change
    local.files.leases.check_directory(|| local.key(to_dir))?;
    let uses_table = local.resolver.uses_table();
    let is_needed = uses_table || local.files.attrs.in_use().is_some();
    let moving = if is_needed { victim_at(source, from.bytes())? } else { None };
    let moved = moving.as_ref().filter(|_| uses_table).map(|moved| moved.fid);
    let replaced = victim_at(&target, to.bytes())?;
    // within one directory it is found by a search
    let expected = match moved {
        Some(moved) if other.is_some() => {
            local.resolver.note_expected(&moved, to_dir, to.bytes())?
        }
        _ => false,
    };
    let preserved = preserve(&target, replaced.as_ref());
    let renamed = preserved.as_ref().map_err(|status| *status).and_then(|_| {
        source.as_caller(|| {
            namespace::rename(source.file.path(), from.bytes(), target.file.path(), to.bytes())
        })
    });
    if let (Err(_), Some(moved)) = (renamed, moved.filter(|_| expected)) {
        local.resolver.name_removed(&moved, to_dir, to.bytes());
    }
    let changes = renamed.map(|()| (source.change(), target.change()));
    let hidden = settle(preserved?, replaced.as_ref());
    let mut changes = changes?;
    forget_copies(source, &changes.0, moving.as_ref());
    // or nothing had that name
    if replaced.is_some() || changes.1.before.is_none() {
        forget_copies(&target, &changes.1, replaced.as_ref());
    }
    let mut nothing_done = other.is_none() && from.bytes() == to.bytes();
    match (moved, replaced) {
        // two names of one file: POSIX leaves both unchanged
        (Some(moved), Some(replaced)) if moved == replaced.fid => nothing_done = true,
        (moved, replaced) => {
            if let Some(replaced) = replaced.filter(|_| !nothing_done) {
                let fid = replaced.fid;
                let has_other_name = replaced.removed(&target, to.bytes(), hidden);
                nothing_done = has_other_name && is_at(source, from, &fid);
            }
            if let Some(moved) = moved {
                local.resolver.renamed(&moved, (from_dir, from.bytes()), (to_dir, to.bytes()))?;
            }
        }
    }
    if nothing_done {
        unchanged(&mut changes.0);
        unchanged(&mut changes.1);
    }
    target.sync()?;
    if let Some(source) = other {
        source.sync()?;
    }
    target.sync_renamed(to)?;
    Ok(changes)
}

/// Whether the old name is still that of the object which had the new one: both are names of one file. Asks the kernel,
/// as a remembered name may be wrong.
fn is_at(dir: &DirChange<'_>, name: Name<'_>, fid: &Fid) -> bool {
    let open = || open_entry(dir.file.path(), name.bytes(), How::Path, false);
    let opened = dir.local.files.open_with_retry(open);
    opened.is_ok_and(|fd| fid_of(fd.as_fd()).is_ok_and(|found| found == *fid))
}

/// The directory was not changed: the count of changes, which has gone on, does not show in this reply.
const fn unchanged(change: &mut Change) {
    if let (Some(before), Some(after)) = (&change.before, &mut change.after) {
        after.change = before.change;
    }
}

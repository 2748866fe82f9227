//! SETATTR: owner, then mode, then size, then times, each by the kernel as the caller.
//!
//! Changing the owner clears set-id bits, so the mode comes after it; so does changing the size, except as root, and the
//! mode is set again then: errors are detected before anything is truncated. Only the size does not need permission by the
//! mode: a caller that may write data at this call (the owner always, see [`vfs::access::data_access`]) may truncate.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::permission::{check, check_data};
use crate::ops::temporary_mode::ModeLock;
use std::io;
use sys::namespace::{When, set_mode, set_owner, set_times};
use vfs::access::Permission;
use vfs::{Attr, Change, Cx, Fid, FileType, Result, SetAttr, SetTime, Status, Time, need_regular};

/// The bits that a change by a user other than root clears.
const SET_ID: u32 = 0o6000;

/// See [`vfs::Backend::setattr`].
pub fn setattr(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    set: &SetAttr,
    guard: Option<Time>,
) -> Result<Change> {
    local.will_block(cx)?;
    let (file, before) = local.begin_change(cx, fid)?;
    if guard.is_some_and(|ctime| ctime != before.ctime) {
        return Err(Status::NotSync);
    }
    apply_to(local, cx, fid, &file, &before, set)?;
    let around = local.wcc_data(&file, &before);
    sync_set(local, cx, fid, &file, set)?;
    Ok(around)
}

/// Sets attributes and syncs them.
///
/// # Errors
/// The kernel's error.
pub fn apply_and_sync(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, set: &SetAttr) -> Result<()> {
    let (file, before) = local.begin_change(cx, fid)?;
    apply_to(local, cx, fid, &file, &before, set)?;
    file.end();
    sync_set(local, cx, fid, &file, set)
}

fn sync_set(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, file: &OpenFile, set: &SetAttr) -> Result<()> {
    if set.is_empty() || !local.has_to_sync(cx) {
        return Ok(());
    }
    local.sync_leased(cx, fid, file)
}

/// Sets attributes.
///
/// # Errors
/// The kernel's error.
pub fn apply(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, set: &SetAttr) -> Result<()> {
    let (file, before) = local.begin_change(cx, fid)?;
    apply_to(local, cx, fid, &file, &before, set)
}

/// The same on an object that is held open, with its attributes before.
fn apply_to(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    file: &OpenFile,
    attr: &Attr,
    set: &SetAttr,
) -> Result<()> {
    if attr.ftype == FileType::Directory {
        local.files.leases.check_directory(|| local.key(fid))?;
    }
    may_resize(local, cx, file, attr, set)?;
    owner_and_mode(local, cx, file, attr, set)?;
    size(local, cx, fid, file, set)?;
    if let (Some(mode), Some(_)) = (set.mode, set.size)
        && mode & SET_ID != 0
    {
        let again = SetAttr { mode: set.mode, ..SetAttr::default() };
        owner_and_mode(local, cx, file, attr, &again)?;
    }
    times(local, cx, file, attr, set)
}

fn as_caller(local: &LocalFs, cx: &Cx<'_>, work: impl FnOnce() -> io::Result<()>) -> Result<()> {
    local.identity.act_as_caller(&cx.cred).and_then(|()| work()).map_err(errno::from)
}

fn owner_and_mode(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    set: &SetAttr,
) -> Result<()> {
    let sets = set.uid.is_some() || set.gid.is_some() || set.mode.is_some();
    let _lock = (sets && !local.identity.can_switch()).then(|| ModeLock::acquire(file));
    // also if the value is the current one: only the owner may set it, and set-id bits are cleared
    if set.uid.is_some() || set.gid.is_some() {
        as_caller(local, cx, || set_owner(file.path(), set.uid, set.gid))?;
    }
    if let Some(mode) = set.mode
        && attr.ftype != FileType::Symlink
    {
        as_caller(local, cx, || set_mode(file.path(), mode))?;
    }
    Ok(())
}

/// Whether the size may be set: checked before anything else, so that nothing is done partially.
fn may_resize(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    set: &SetAttr,
) -> Result<()> {
    let Some(size) = set.size else { return Ok(()) };
    need_regular(attr.ftype).map_err(|status| match status {
        Status::IsDir => Status::IsDir,
        _ => Status::Inval,
    })?;
    if i64::try_from(size).is_err() {
        return Err(Status::FBig);
    }
    check_data(local, cx, file, attr, true)
}

fn size(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, file: &OpenFile, set: &SetAttr) -> Result<()> {
    let Some(size) = set.size else { return Ok(()) };
    let fd = local.writer_after_check(cx, file, fid)?;
    file.note_written(local.files.now_s());
    as_caller(local, cx, || sys::io::truncate(fd, size))
}

/// A caller with write permission may set times to the clock (RFC 1813 §3.3.2), also one of the two
/// alone, which the kernel's call reserves to the owner: a client sends that with each truncation.
fn times(local: &LocalFs, cx: &Cx<'_>, file: &OpenFile, attr: &Attr, set: &SetAttr) -> Result<()> {
    let set_them = || set_times(file.path(), when(set.atime), when(set.mtime));
    match (set.atime, set.mtime) {
        (SetTime::Keep, SetTime::Keep) => Ok(()),
        (SetTime::Keep, SetTime::Now) | (SetTime::Now, SetTime::Keep)
            if local.identity.cred(&cx.cred).uid != attr.uid =>
        {
            check(local, cx, file, attr, Permission::WRITE)?;
            local.identity.act_as_server().and_then(|()| set_them()).map_err(errno::from)
        }
        (SetTime::Delegated(_), _) | (_, SetTime::Delegated(_)) => {
            local.identity.act_as_server().and_then(|()| set_them()).map_err(errno::from)
        }
        (
            SetTime::Keep | SetTime::Now | SetTime::To(_),
            SetTime::Keep | SetTime::Now | SetTime::To(_),
        ) => as_caller(local, cx, set_them),
    }
}

pub(super) fn when(time: SetTime) -> When {
    match time {
        SetTime::Keep => When::Keep,
        SetTime::Now => When::Now,
        SetTime::To(time) | SetTime::Delegated(time) => When::At(time.sec, time.nsec),
    }
}

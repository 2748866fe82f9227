//! CREATE: a regular file, new or existing; exclusive creation survives a retry.
//!
//! An exclusive create has eight bytes of verifier (RFC 1813 §3.3.8). They are stored where a
//! restart cannot lose them, in the new file's times: the first four bytes as the seconds of atime,
//! the last four as those of mtime. A client sets the real times afterwards. A retry finds that the
//! name exists, with these times and no data: that is its own file.
//!
//! A server may be killed between any two system calls, and must not leave a file without its verifier: no
//! retry would recognise it. So the file gets its times before it has a name (`O_TMPFILE`, linkat(2)). Where
//! the file system or a sandbox does not allow that, the times are set directly after the name is created.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::dir_change::{DirChange, exists};
use crate::ops::entry::{cache_entry, entry_status, lookup_hint};
use crate::ops::lookup::remembers;
use crate::ops::permission::check;
use crate::ops::setattr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::namespace::{make_link, set_times};
use sys::open::{How, create_new, create_unnamed, open_entry};
use vfs::access::Permission;
use vfs::{
    Attr, Create, Created, Cx, Fid, FileType, Name, Node, Result, SetAttr, SetTime, Status, Time,
};

/// The mode of a file until its owner sets another.
const MODE_DEFAULT: u32 = 0o600;

/// Number of tries before the client must retry: each time another process has created the name and
/// removed it in between.
const TRIES: u32 = 8;

/// See [`vfs::Backend::create`].
pub fn create(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    how: Create,
) -> Result<Created> {
    let dir_change = DirChange::new(local, cx, dir)?;
    if let Create::Unchecked(set) = how
        && remembers(local, dir, name)
    {
        match use_existing(&dir_change, name, &set) {
            Err(Status::NoEnt | Status::Stale) => {}
            used => return used,
        }
    }
    for _ in 0..TRIES {
        if let Some(made) = create_or_use_existing(&dir_change, name, how)? {
            return Ok(made);
        }
    }
    Err(Status::Jukebox)
}

/// Creates the file, or uses the existing one; `None` if that was removed meanwhile.
fn create_or_use_existing(
    dir_change: &DirChange<'_>,
    name: Name<'_>,
    how: Create,
) -> Result<Option<Created>> {
    let set = match how {
        Create::Unchecked(set) | Create::Guarded(set) => set,
        Create::Exclusive(verifier) => times_of(verifier),
    };
    let mode = set.mode.unwrap_or(MODE_DEFAULT);
    let dir = dir_change.file.path();
    let (made, rest) = match how {
        Create::Unchecked(_) | Create::Guarded(_) => {
            (dir_change.as_caller(|| create_new(dir, name.bytes(), mode)), set)
        }
        Create::Exclusive(_) => {
            let make = || create_with_times(dir, name.bytes(), mode, &set);
            (dir_change.as_caller(make), SetAttr::default())
        }
    };
    let taken = match made {
        // The file that was created, whatever its name refers to by now; it stays open for the
        // writes that usually follow.
        Ok(made) => {
            let stat = sys::stat::of_fd(made.as_fd()).map_err(errno::from)?;
            let file = Arc::new(OpenFile::created(made, &stat, dir_change.local.files.now_s()));
            return dir_change.finish_open(name, file, &stat, &rest).map(Some);
        }
        Err(Status::Exist) => match how {
            Create::Guarded(_) => return Err(Status::Exist),
            Create::Unchecked(set) => use_existing(dir_change, name, &set),
            Create::Exclusive(verifier) => retried_exclusive(dir_change, name, verifier),
        },
        // nothing can be made in a directory that has been removed
        Err(Status::NoEnt) => return Err(Status::Stale),
        Err(status) => return Err(exists(status)),
    };
    match taken {
        Err(Status::NoEnt | Status::Stale) => Ok(None),
        taken => taken.map(Some),
    }
}

/// Creates a file that has these times as soon as it has its name, if possible.
fn create_with_times(
    dir: BorrowedFd<'_>,
    name: &[u8],
    mode: u32,
    set: &SetAttr,
) -> io::Result<OwnedFd> {
    let set_times = |file: &OwnedFd| {
        set_times(file.as_fd(), setattr::when(set.atime), setattr::when(set.mtime))
    };
    let named = create_unnamed(dir, mode).and_then(|made| {
        set_times(&made)?;
        make_link(made.as_fd(), dir, name)?;
        Ok(made)
    });
    match named {
        Err(error) if !is_final(&error) => {
            let made = create_new(dir, name, mode)?;
            set_times(&made)?;
            Ok(made)
        }
        named => named,
    }
}

/// Whether creating a file by its name would fail with the same error. The other errors are those of file
/// systems, sandboxes and security modules without `O_TMPFILE` or linkat(2), which are too many to be listed.
fn is_final(error: &io::Error) -> bool {
    matches!(
        errno::status(error),
        Status::Exist
            | Status::NoSpc
            | Status::DQuot
            | Status::Io
            | Status::RoFs
            | Status::NameTooLong
    ) || errno::out_of_descriptors(error)
}

/// The verifier as times.
fn times_of(verifier: [u8; 8]) -> SetAttr {
    let [a, b, c, d, e, f, g, h] = verifier;
    let time = |bytes| SetTime::To(Time { sec: i64::from(i32::from_be_bytes(bytes)), nsec: 0 });
    SetAttr { atime: time([a, b, c, d]), mtime: time([e, f, g, h]), ..SetAttr::default() }
}

/// UNCHECKED: an existing regular file is used, and truncated if the client requests it.
fn use_existing(dir_change: &DirChange<'_>, name: Name<'_>, set: &SetAttr) -> Result<Created> {
    let mut node = existing(dir_change, name)?;
    if node.attr.ftype != FileType::Regular {
        return Err(Status::Exist);
    }
    if let Some(size) = set.size {
        let cut = SetAttr { size: Some(size), ..SetAttr::default() };
        setattr::apply_and_sync(dir_change.local, dir_change.cx, &node.fid, &cut)?;
        node.attr = attr_of(dir_change, &node.fid)?;
    }
    // the same call may have created it, of a server that was killed before it had synced
    dir_change.sync()?;
    if dir_change.syncs_linked() {
        let (file, _) = dir_change.local.hold(dir_change.cx, &node.fid)?;
        dir_change.sync_linked(&file)?;
    }
    Ok(Created { node: Some(node), dir: dir_change.change() })
}

/// EXCLUSIVE over an existing name: ours if the verifier is in its times.
fn retried_exclusive(
    dir_change: &DirChange<'_>,
    name: Name<'_>,
    verifier: [u8; 8],
) -> Result<Created> {
    let node = existing(dir_change, name)?;
    let wanted = times_of(verifier);
    let same =
        |set: SetTime, is: Time| matches!(set, SetTime::To(t) if t.sec == is.sec && is.nsec == 0);
    let ours = node.attr.ftype == FileType::Regular
        && node.attr.size == 0
        && same(wanted.atime, node.attr.atime)
        && same(wanted.mtime, node.attr.mtime);
    if !ours {
        return Err(Status::Exist);
    }
    // its times too: the server may have been killed before it had synced
    if dir_change.local.has_to_sync(dir_change.cx) {
        let (file, _) = dir_change.local.hold(dir_change.cx, &node.fid)?;
        dir_change.local.sync_object(dir_change.cx, &file)?;
    }
    dir_change.sync()?;
    Ok(Created { node: Some(node), dir: dir_change.change() })
}

/// What the name leads to, for a caller who may search the directory: others must not learn whether it exists.
fn existing(dir_change: &DirChange<'_>, name: Name<'_>) -> Result<Node> {
    let DirChange { local, cx, dir, file, before } = dir_change;
    check(local, cx, file, before, Permission::EXEC)?;
    local.identity.act_as_caller_or_server(&cx.cred).map_err(errno::from)?;
    let tag = local.files.names().tag(&local.key(dir), name.bytes());
    if let Some(node) = lookup_hint(local, file.path(), (name.bytes(), tag), None)? {
        return Ok(node);
    }
    local.identity.act_as_server().map_err(errno::from)?;
    let fd = local
        .files
        .open_with_retry(|| open_entry(file.path(), name.bytes(), How::Path, false))
        .map_err(|e| entry_status(&e))?;
    cache_entry(local, dir, name.bytes(), fd)
}

fn attr_of(dir_change: &DirChange<'_>, fid: &Fid) -> Result<Attr> {
    let (file, _) = dir_change.local.hold(dir_change.cx, fid)?;
    let stat = sys::stat::of_fd(file.path().as_fd()).map_err(errno::from)?;
    Ok(dir_change.local.attr_of(&stat, &file))
}

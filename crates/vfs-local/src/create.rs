//! CREATE: a regular file, new or taken over; exclusive creation survives a retry.
//!
//! An exclusive create has eight bytes of verifier (RFC 1813 §3.3.8). They are kept where a restart
//! cannot lose them, in the new file's times: the first four bytes as the seconds of atime, the last
//! four as those of mtime. A client sets the real times right afterwards. A retry finds the name
//! taken, by a file with these times and no data: that is its own.

use crate::errno;
use crate::local::Local;
use crate::lookup::{adopt, entry_status};
use crate::made::{Place, exists};
use crate::open_files::OpenFile;
use crate::setattr;
use std::os::fd::AsFd;
use sys::open::{How, create_new, open_entry};
use vfs::{
    Attr, Create, Created, Cx, Fid, FileType, Name, Node, Result, SetAttr, SetTime, Status, Time,
};

/// The mode of a file until its owner says otherwise.
const MODE_DEFAULT: u32 = 0o600;

/// How often it is tried before the client is told to come again: each time somebody else has made the
/// name and removed it in between.
const TRIES: u32 = 8;

/// See [`vfs::Backend::create`].
pub fn create(
    local: &Local,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    how: Create,
) -> Result<Created> {
    let place = Place::new(local, cx, dir)?;
    for _ in 0..TRIES {
        if let Some(made) = made_or_taken(&place, name, how)? {
            return Ok(made);
        }
    }
    Err(Status::Jukebox)
}

/// Makes the file, or takes the one that is there; `None` if that has gone meanwhile.
fn made_or_taken(place: &Place<'_>, name: Name<'_>, how: Create) -> Result<Option<Created>> {
    let set = match how {
        Create::Unchecked(set) | Create::Guarded(set) => set,
        Create::Exclusive(verifier) => times_of(verifier),
    };
    let mode = set.mode.unwrap_or(MODE_DEFAULT);
    let taken = match place.as_caller(|| create_new(place.file.path(), name.bytes(), mode)) {
        // The very file that was made, whatever its name leads to by now; it stays open for the
        // writing that usually follows.
        Ok(made) => {
            let stat = sys::stat::of_fd(made.as_fd()).map_err(errno::from)?;
            let file = OpenFile::made(made, &stat, place.local.files.now_s());
            return place.finish_open(name, file, &stat, &set).map(Some);
        }
        Err(Status::Exist) => match how {
            Create::Guarded(_) => return Err(Status::Exist),
            Create::Unchecked(set) => take_over(place, name, &set),
            Create::Exclusive(verifier) => retried(place, name, verifier),
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

/// The verifier as times.
fn times_of(verifier: [u8; 8]) -> SetAttr {
    let [a, b, c, d, e, f, g, h] = verifier;
    let time = |bytes| SetTime::To(Time { sec: i64::from(i32::from_be_bytes(bytes)), nsec: 0 });
    SetAttr { atime: time([a, b, c, d]), mtime: time([e, f, g, h]), ..SetAttr::default() }
}

/// UNCHECKED: an existing regular file is taken, and cut if the client said so.
fn take_over(place: &Place<'_>, name: Name<'_>, set: &SetAttr) -> Result<Created> {
    let mut node = existing(place, name)?;
    if node.attr.ftype != FileType::Regular {
        return Err(Status::Exist);
    }
    if let Some(size) = set.size {
        let cut = SetAttr { size: Some(size), ..SetAttr::default() };
        setattr::apply_and_sync(place.local, place.cx, &node.fid, &cut)?;
        node.attr = attr_of(place, &node.fid)?;
    }
    // the same call may have made it, of a server that was killed before it had synced
    place.sync()?;
    let (file, _) = place.local.hold(place.cx, &node.fid)?;
    place.sync_named(&file)?;
    Ok(Created { node: Some(node), dir: place.change() })
}

/// EXCLUSIVE over an existing name: ours if the verifier is in its times.
fn retried(place: &Place<'_>, name: Name<'_>, verifier: [u8; 8]) -> Result<Created> {
    let node = existing(place, name)?;
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
    if place.local.has_to_sync(place.cx) {
        let (file, _) = place.local.hold(place.cx, &node.fid)?;
        place.local.sync_object(place.cx, &file)?;
    }
    place.sync()?;
    Ok(Created { node: Some(node), dir: place.change() })
}

fn existing(place: &Place<'_>, name: Name<'_>) -> Result<Node> {
    place.local.actor.be_server().map_err(errno::from)?;
    let fd = place
        .local
        .files
        .opening(|| open_entry(place.file.path(), name.bytes(), How::Path, false))
        .map_err(|e| entry_status(&e))?;
    // a client without search permission learns nothing of what is there
    place.as_caller(|| open_entry(place.file.path(), name.bytes(), How::Path, false).map(drop))?;
    adopt(place.local, place.dir, name.bytes(), fd)
}

fn attr_of(place: &Place<'_>, fid: &Fid) -> Result<Attr> {
    let (file, _) = place.local.hold(place.cx, fid)?;
    let stat = sys::stat::of_fd(file.path().as_fd()).map_err(errno::from)?;
    Ok(crate::attr::convert(&stat))
}

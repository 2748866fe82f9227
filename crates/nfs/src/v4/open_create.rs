//! OPEN that creates the file (RFC 8881 §18.16.3).
//!
//! An existing file is never created over: it is looked up, its reservation is made, and only then is it truncated. A new
//! file is created exclusively; if another client was faster, it is looked up again. A name that nobody has lately seen is
//! created without a look for it, which only finds out what creating it does as well.

use super::acl::{self, PosixAcls};
use super::attr::{EXCLUSIVE, change_info};
use super::attr_sets;
use super::frame::Frame;
use super::lookup;
use super::open::{OpenedFile, cut, open_remembered, reserve_found, reserve_kept, unchanged};
use super::settable_attrs::{self, Settable};
use super::stateids::check_denied;
use super::status::Failed;
use crate::audited_call::AuditedCall;
use crate::object::Object;
use crate::verbs;
use proto::nfs4::{Bitmap4, Createhow4, Nfsstat4, attr as a};
use state::{ShareBits, ShareMode};
use vfs::{Attr, Create, Created, FileType, Kept, Name, Status, need_regular};

/// Whether a file was there, by its name or a delegation or by its handle alone, or was open before the server's restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    There,
    ByHandle,
    Reclaimed,
}

/// A file that was just made, with what keeps it.
type Made = (Created, Option<Kept>);

/// How often a file that comes and goes is looked for.
const TRIES: usize = 4;

pub(super) fn open_or_create<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    name: &[u8],
    owner: &[u8],
    mode: ShareMode,
    how: Createhow4<'_>,
) -> Result<OpenedFile, Failed> {
    let mut entry = frame.nfs.begin_new_entry(dir, name, frame.client_id())?;
    let mut opened = create_as_asked(frame, dir, name, owner, mode, how)?;
    opened.dir = entry.end(opened.dir_ctime, opened.dir);
    Ok(opened)
}

fn create_as_asked<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    name: &[u8],
    owner: &[u8],
    mode: ShareMode,
    how: Createhow4<'_>,
) -> Result<OpenedFile, Failed> {
    match how {
        Createhow4::Guarded(attrs) => {
            let wanted = settable_attrs::parse(frame, &attrs)?.of_new(dir)?;
            let acls = acl::of_new(dir, wanted.acl(), FileType::Regular)?;
            let set = wanted.set;
            let made = verbs::create_open(dir, name, Create::Guarded(set))?;
            open_made(frame, dir, made, owner, mode, (wanted.mask(), acls.as_ref()))
        }
        Createhow4::Unchecked(attrs) => {
            unchecked(frame, dir, name, owner, mode, settable_attrs::parse(frame, &attrs)?)
        }
        Createhow4::Exclusive(verifier) => {
            exclusive(frame, dir, name, owner, mode, (verifier, Settable::default()))
        }
        Createhow4::Exclusive41(verifier, attrs) => {
            if !attr_sets::of_minor(frame.minor).and(&EXCLUSIVE).covers(&attrs.mask) {
                settable_attrs::parse(frame, &attrs)?;
                return Err(Nfsstat4::Inval.into());
            }
            exclusive(
                frame,
                dir,
                name,
                owner,
                mode,
                (verifier, settable_attrs::parse(frame, &attrs)?.of_new(dir)?),
            )
        }
    }
}

fn unchecked<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    name: &[u8],
    owner: &[u8],
    mode: ShareMode,
    wanted: Settable,
) -> Result<OpenedFile, Failed> {
    if lookup::into_junction(frame.caller, dir, name)?.is_some() {
        return Err(Nfsstat4::IsDir.into());
    }
    let acls = acl::of_new(dir, wanted.acl(), FileType::Regular)?;
    let wanted = wanted.of_new(dir)?;
    let set = wanted.set;
    let attrs = (wanted.mask(), acls.as_ref());
    if !may_be_there(dir, name) {
        match verbs::create_open(dir, name, Create::Guarded(set)) {
            Ok(made) => return open_made(frame, dir, made, owner, mode, attrs),
            Err(Status::Jukebox) => return Err(Nfsstat4::Delay.into()),
            // it is there, or cannot be made: then it may be there all the same
            Err(_) => {}
        }
    }
    for _ in 0..TRIES {
        let found = match open_remembered(dir, name, mode) {
            Some((found, kept)) => Ok((found, Some((kept, found.node.attr)))),
            None => verbs::lookup(dir, name).map(|found| (found, None)),
        };
        match found {
            Ok((found, kept)) => {
                if kept.is_none() && lookup::cross(frame.caller, dir, &found.node.fid)?.is_some() {
                    return Err(Nfsstat4::IsDir.into());
                }
                need_regular(found.node.attr.ftype)?;
                let mut file = dir.clone();
                file.fid = found.node.fid;
                match open_there(frame, (&found.dir, &file, kept), owner, mode, set.size) {
                    // it was replaced after its name was found
                    Err(Failed::File(Status::Stale)) => {}
                    opened => return opened,
                }
                continue;
            }
            Err(Status::NoEnt) => {}
            Err(_) => return Err(lookup::find(dir, name).err().unwrap_or(Nfsstat4::Delay.into())),
        }
        match verbs::create_open(dir, name, Create::Guarded(set)) {
            Err(Status::Exist) => {}
            made => return open_made(frame, dir, made?, owner, mode, attrs),
        }
    }
    Err(Nfsstat4::Delay.into())
}

/// Whether a file is to be looked for before it is created.
fn may_be_there(dir: &Object<'_>, name: &[u8]) -> bool {
    Name::new(name).map_or(true, |name| dir.backend().remembers(&dir.fid, name))
}

/// Opens a file that is there, and may be kept already. Of the attributes only a size of 0 counts then.
fn open_there<'f>(
    frame: &mut Frame<'f>,
    (dir, file, kept): (&Attr, &Object<'f>, Option<(Kept, Attr)>),
    owner: &[u8],
    mode: ShareMode,
    size: Option<u64>,
) -> Result<OpenedFile, Failed> {
    if size == Some(0) {
        check_cut(frame, file)?;
        // the client's own for reading as well: its lease would be in the way
        if frame.nfs.v4.state.any_delegations() {
            file.check_writable()?;
            frame.nfs.before_own_change(file, &file.fid, frame.client_id())?;
        }
    }
    let (opened, mut attr) = reserve_found(frame, file, owner, mode, kept)?;
    let mut set = Bitmap4::NONE;
    if size == Some(0) {
        if let Err(failed) = cut(frame, file, mode) {
            give_back(frame, file, opened);
            return Err(failed);
        }
        set = Bitmap4::of(&[a::SIZE]);
        attr = None;
    }
    frame.move_to(file.fid);
    Ok(OpenedFile { opened, dir: unchanged(dir), dir_ctime: None, set, attr })
}

/// Refuses to cut a file that somebody denies writing, also by an open that is only for reading.
fn check_cut(frame: &Frame<'_>, file: &Object<'_>) -> Result<(), Failed> {
    let key = super::frame::file_key(file.export().id.0, &file.fid);
    let key = key.ok_or(Nfsstat4::ServerFault)?;
    check_denied(frame, &key, ShareBits::WRITE).map_err(|failed| match failed {
        Failed::As(Nfsstat4::Locked) => Nfsstat4::ShareDenied.into(),
        other => other,
    })
}

/// Closes what was opened only for a request that fails after all. An open that was there before stays as it is now.
fn give_back(frame: &Frame<'_>, file: &Object<'_>, opened: state::v4::Opened) {
    if opened.again {
        return;
    }
    if frame.opener.is_some() {
        frame.v4().state.undo_open(frame.reading, &opened);
        return;
    }
    let key = super::frame::file_key(file.export().id.0, &file.fid);
    if let (Some(key), Ok(session)) = (key, frame.session()) {
        let _gone =
            frame.v4().state.close(frame.reading, session.client_id(), opened.stateid, &key);
    }
}

fn exclusive<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    name: &[u8],
    owner: &[u8],
    mode: ShareMode,
    (verifier, wanted): ([u8; 8], Settable),
) -> Result<OpenedFile, Failed> {
    let set = wanted.set;
    let (mut made, kept) = verbs::create_open(dir, name, Create::Exclusive(verifier))?;
    // the times hold the verifier: the client sets them
    let times = Bitmap4::of(&[a::TIME_ACCESS_SET, a::TIME_MODIFY_SET]);
    let mut is_known = true;
    if let Some(node) = &mut made.node
        && !set.is_empty()
    {
        let mut file = dir.clone();
        file.fid = node.fid;
        file.right = vfs::Right::Opened(vfs::OpenAccess::WRITE);
        let change = verbs::setattr(&file, Ok(set), None, &AuditedCall::UNRECORDED)?;
        is_known = change.after.is_some();
        node.attr = change.after.unwrap_or(node.attr);
    }
    let attrs = (wanted.mask().or(&times), None);
    let mut opened = open_made(frame, dir, (made, kept), owner, mode, attrs)?;
    opened.attr = opened.attr.filter(|_| is_known);
    Ok(opened)
}

/// Opens a file that was just made: whoever makes it may open it whatever its mode is.
fn open_made<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    (made, kept): Made,
    owner: &[u8],
    mode: ShareMode,
    (set, acls): (Bitmap4, Option<&PosixAcls>),
) -> Result<OpenedFile, Failed> {
    frame.changed = true;
    let node = made.node.ok_or(Nfsstat4::Delay)?;
    acl::apply_to_new(dir, node.fid, acls)?;
    let mut file = dir.clone();
    file.fid = node.fid;
    let opened = reserve_kept(frame, &file, (owner, mode), kept, None)?;
    frame.move_to(node.fid);
    let attr = acls.is_none().then_some(node.attr);
    let dir_ctime = made.dir.after.map(|attr| attr.ctime);
    Ok(OpenedFile { opened, dir: change_info(&made.dir), dir_ctime, set, attr })
}

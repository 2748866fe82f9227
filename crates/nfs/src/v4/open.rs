//! OPEN (RFC 8881 §18.16).
//!
//! The requested access is checked here as open(2) does, and the share reservation is made; READ and WRITE with the stateid
//! check neither again. Opening reserves no descriptor: the file is kept reachable, and its data goes through the same
//! cache of open files as that of version 3.
//!
//! A client that holds a delegation of the file can open it with that. An open that conflicts with delegations of other
//! clients waits until they are returned ([`delegations`](crate::delegations)).

use super::delegation::{self, OpenedBy};
use super::frame::{Frame, file_key, wire_stateid};
use super::lookup;
use super::name;
use super::open_create::{self, Found};
use super::recording::{self, Ended};
use super::status::Failed;
use crate::audited_call::AuditedCall;
use crate::object::Object;
use proto::nfs4::{
    Bitmap4, ChangeInfo4, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, Stateid4, share,
};
use state::v4::{OpenError, OpenRequest, Opened, Stateid};
use state::{ShareBits, ShareMode};
use std::any::Any;
use vfs::{Attr, Kept, Name, OpenAccess, Right, SetAttr, Status, Time, Want};
use xdr::{Reader, Writer};

/// `OPEN4_RESULT_LOCKTYPE_POSIX`: an owner's locks split and merge.
pub(super) const LOCKTYPE_POSIX: u32 = 4;
/// `OPEN4_RESULT_PRESERVE_UNLINKED`: the file outlives its last name, and a restart of the server.
const PRESERVE_UNLINKED: u32 = 8;
/// `OPEN4_RESULT_MAY_NOTIFY_LOCK`: who waits for a lock is called back.
const MAY_NOTIFY_LOCK: u32 = 0x20;
/// `OPEN4_RESULT_NO_OPEN_STATEID`: the delegation stands for the open (RFC 9754 §4).
const NO_OPEN_STATEID: u32 = 0x10;

/// How often a reservation is tried that opens of clients are in the way of whose lease is over.
const SHARE_ATTEMPTS: u32 = 4;
/// How often a name is looked up whose file is gone before it is opened.
const NAME_ATTEMPTS: u32 = 8;

/// A file that was opened.
pub(super) struct OpenedFile {
    pub opened: Opened,
    /// The directory around it.
    pub dir: ChangeInfo4,
    /// Its ctime since the file was made in it, if it was.
    pub dir_ctime: Option<Time>,
    /// The attributes that were set.
    pub set: Bitmap4,
    /// The file's attributes, if they were fetched and not changed since.
    pub attr: Option<Attr>,
}

impl OpenedFile {
    /// A file that was opened by its handle: of the directory around it nothing is said.
    pub const fn by_handle((opened, attr): (Opened, Option<Attr>)) -> Self {
        let dir = ChangeInfo4 { atomic: false, before: 0, after: 0 };
        Self { opened, dir, dir_ctime: None, set: Bitmap4::NONE, attr }
    }
}

pub(super) fn open<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: OpenArgs<'_> = args.get()?;
    let mode = share_mode(&a, frame.minor)?;
    let dir_or_file = frame.object()?.clone();
    let owner = a.owner.owner.0;
    let reclaims = matches!(a.claim, OpenClaim4::Previous(_));
    match recording::admit(frame, frame.session()?.requester(), reclaims) {
        // whoever has a delegation has it since before the restart
        Err(Failed::As(Nfsstat4::Grace)) if delegation::is_claimed(&a.claim) => {}
        admitted => admitted?,
    }
    let file = match (a.claim, a.how) {
        (OpenClaim4::Null(name), how) => {
            name::check(name.0, &dir_or_file)?;
            match how {
                OpenHow4::NoCreate => open_name(frame, &dir_or_file, name.0, owner, mode)?,
                OpenHow4::Create(how) => {
                    open_create::open_or_create(frame, &dir_or_file, name.0, owner, mode, how)?
                }
            }
        }
        (OpenClaim4::Fh, OpenHow4::NoCreate) => {
            OpenedFile::by_handle(reserve(frame, &dir_or_file, owner, mode, Found::ByHandle)?)
        }
        (OpenClaim4::Previous(_), OpenHow4::NoCreate) => {
            let opened = reserve(frame, &dir_or_file, owner, mode, Found::Reclaimed)?;
            frame.session()?.requester().reclaimed(frame.now, &frame.nfs.state);
            OpenedFile::by_handle(opened)
        }
        (OpenClaim4::DelegateCur(stateid, name), OpenHow4::NoCreate) => {
            name::check(name.0, &dir_or_file)?;
            delegation::check_claim_of_name(frame, stateid, &dir_or_file, name.0)?;
            open_name(frame, &dir_or_file, name.0, owner, mode)?
        }
        (OpenClaim4::DelegCurFh(stateid), OpenHow4::NoCreate) => {
            delegation::check_claim(frame, stateid, &dir_or_file)?;
            OpenedFile::by_handle(reserve(frame, &dir_or_file, owner, mode, Found::There)?)
        }
        (OpenClaim4::DelegatePrev(_) | OpenClaim4::DelegPrevFh, OpenHow4::NoCreate) => {
            return Err(Nfsstat4::NotSupp.into());
        }
        (_, OpenHow4::Create(_)) => return Err(Nfsstat4::Inval.into()),
    };
    frame.changed = true;
    delegation::recall_own(frame, mode)?;
    let granted = match a.claim {
        OpenClaim4::Null(name) => {
            let name = Some((&dir_or_file, name.0));
            delegation::decide(frame, a.share_access, &OpenedBy { mode, name })
        }
        OpenClaim4::Fh => delegation::decide(frame, a.share_access, &OpenedBy { mode, name: None }),
        OpenClaim4::Previous(had) => delegation::reclaimed(frame, had, a.share_access, mode),
        _ => delegation::none(a.share_access),
    };
    let stands_alone = a.share_access & share::WANT_OPEN_XOR_DELEGATION != 0
        && mode.deny == ShareBits::NONE
        && !file.opened.again
        && !reclaims;
    let replacing = granted.as_ref().ok().filter(|_| stands_alone).map(|granted| granted.stateid);
    put(frame, &file, replacing, reply)?;
    delegation::put(&granted, reply);
    // those from before others were held back do not count
    frame.fetched = match granted {
        Ok(granted) => granted.attr,
        Err(_) => file.attr.filter(|_| mode.deny == ShareBits::NONE),
    };
    Ok(())
}

/// Appends OPEN's result up to the delegation. One that replaces the open ends it.
fn put(
    frame: &mut Frame<'_>,
    file: &OpenedFile,
    replacing: Option<Stateid>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let session = frame.session()?;
    // a client that is told so asks seldom by itself
    let mut flags = LOCKTYPE_POSIX;
    if session.has_callbacks() {
        flags |= MAY_NOTIFY_LOCK;
    }
    // version 4.0 has no word for it
    if frame.minor > 0 && frame.nfs.preserves_unlinked(frame.object()?) {
        flags |= PRESERVE_UNLINKED;
    }
    let (open, current) = match replacing {
        None => (wire_stateid(file.opened.stateid), file.opened.stateid),
        Some(delegation) => {
            let (client, key) = (session.client_id(), frame.file_key()?);
            let stateid = file.opened.stateid;
            let _ended = frame.v4().state.close(frame.reading, client, stateid, &key);
            flags |= NO_OPEN_STATEID;
            (Stateid4::ANONYMOUS, delegation)
        }
    };
    frame.set_stateid(wire_stateid(current));
    reply.put(&open);
    reply.put(&file.dir);
    reply.u32(flags);
    reply.put(&file.set);
    Ok(())
}

/// What is wanted and denied.
fn share_mode(args: &OpenArgs<'_>, minor: u32) -> Result<ShareMode, Failed> {
    let want = args.share_access & share::WANT_MASK;
    let mut known = share::ACCESS_MASK | share::WANT_MASK | share::WANT_SIGNALS;
    if minor > 1 {
        known |= share::WANT_DELEG_TIMESTAMPS | share::WANT_OPEN_XOR_DELEGATION;
    }
    if args.share_access & !known != 0 || want > share::WANT_CANCEL {
        return Err(Nfsstat4::Inval.into());
    }
    let access = ShareBits::from_number(args.share_access & share::ACCESS_MASK);
    let deny = ShareBits::from_number(args.share_deny);
    match (access, deny) {
        (Some(access), Some(deny)) if access != ShareBits::NONE => Ok(ShareMode { access, deny }),
        _ => Err(Nfsstat4::Inval.into()),
    }
}

/// Opens a file that is there. One that was replaced after its name was found is no error: its successor is opened.
pub(super) fn open_name<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    name: &[u8],
    owner: &[u8],
    mode: ShareMode,
) -> Result<OpenedFile, Failed> {
    for _ in 1..NAME_ATTEMPTS {
        match open_found(frame, dir, name, owner, mode) {
            Err(Failed::File(Status::Stale)) => {}
            opened => return opened,
        }
    }
    open_found(frame, dir, name, owner, mode)
}

fn open_found<'f>(
    frame: &mut Frame<'f>,
    dir: &Object<'f>,
    name: &[u8],
    owner: &[u8],
    mode: ShareMode,
) -> Result<OpenedFile, Failed> {
    if lookup::into_junction(frame.caller, dir, name)?.is_some() {
        return Err(Nfsstat4::IsDir.into());
    }
    let (vfs::Found { node, dir: around }, kept) = match open_remembered(dir, name, mode) {
        Some((found, kept)) => (found, Some(kept)),
        None => (lookup::find(dir, name)?, None),
    };
    if kept.is_none() && lookup::cross(frame.caller, dir, &node.fid)?.is_some() {
        return Err(Nfsstat4::IsDir.into());
    }
    let mut file = dir.clone();
    file.fid = node.fid;
    let kept = kept.map(|kept| (kept, node.attr));
    let (opened, attr) = reserve_found(frame, &file, owner, mode, kept)?;
    frame.move_to(node.fid);
    Ok(OpenedFile { opened, dir: unchanged(&around), dir_ctime: None, set: Bitmap4::NONE, attr })
}

/// Finds the file of a name and keeps it in one step, where that can be done. No name of the pseudo file system is opened so.
pub(super) fn open_remembered(
    dir: &Object<'_>,
    name: &[u8],
    mode: ShareMode,
) -> Option<(vfs::Found, Kept)> {
    let access = access_of(mode);
    if access.has(OpenAccess::WRITE) {
        dir.check_writable().ok()?;
    }
    dir.backend().open_remembered(&dir.cx(), &dir.fid, Name::new(name).ok()?, access)
}

/// Makes the share reservation of a file that was found by its name, as [`reserve`] does; where it is kept already, that and its
/// attributes are given.
pub(super) fn reserve_found(
    frame: &Frame<'_>,
    file: &Object<'_>,
    owner: &[u8],
    mode: ShareMode,
    kept: Option<(Kept, Attr)>,
) -> Result<(Opened, Option<Attr>), Failed> {
    match kept {
        Some((kept, attr)) => {
            Ok((reserve_kept(frame, file, (owner, mode), Some(kept), None)?, Some(attr)))
        }
        None => reserve(frame, file, owner, mode, Found::There),
    }
}

/// `change_info4` of a directory that nothing was made in, whose attributes are those of the look-up.
pub(super) const fn unchanged(dir: &Attr) -> ChangeInfo4 {
    ChangeInfo4 { atomic: dir.change != 0, before: dir.change, after: dir.change }
}

/// What the file system is asked for.
pub(super) const fn access_of(mode: ShareMode) -> OpenAccess {
    match mode.access {
        ShareBits::READ => OpenAccess::READ,
        ShareBits::WRITE => OpenAccess::WRITE,
        _ => OpenAccess::BOTH,
    }
}

/// Makes the share reservation of a file, once its mode allows it to be opened so. With the file's attributes, if they were
/// looked at.
pub(super) fn reserve(
    frame: &Frame<'_>,
    file: &Object<'_>,
    owner: &[u8],
    mode: ShareMode,
    found: Found,
) -> Result<(Opened, Option<Attr>), Failed> {
    if access_of(mode).has(OpenAccess::WRITE) {
        file.check_writable()?;
    }
    let (kept, attr) = keep(file, access_of(mode), found)?;
    // it may be there just because a CLOSE is on its way. Who opens the file of a name by the handle that he knows, as Linux
    // does, looks the name up again if that is stale; else he would go on with a file that was replaced before.
    if let (Found::ByHandle, Some(Attr { nlink: 0, .. })) = (found, &attr) {
        return Err(Status::Stale.into());
    }
    let may_reclaim = || frame.nfs.state.may_reclaim();
    let reclaim: Option<&dyn Fn() -> bool> = match found {
        Found::Reclaimed => Some(&may_reclaim),
        Found::There | Found::ByHandle => None,
    };
    Ok((reserve_kept(frame, file, (owner, mode), kept, reclaim)?, attr))
}

/// Makes the share reservation of a file that is kept; a reclaimed one if `reclaim` still allows it.
pub(super) fn reserve_kept(
    frame: &Frame<'_>,
    file: &Object<'_>,
    (owner, mode): (&[u8], ShareMode),
    kept: Option<Kept>,
    reclaim: Option<&dyn Fn() -> bool>,
) -> Result<Opened, Failed> {
    let file = file_key(file.export().id.0, &file.fid).ok_or(Nfsstat4::ServerFault)?;
    let request = OpenRequest { file, owner, user: frame.principal, mode, reclaim };
    share(frame, &request, &mut kept.map(Kept::into_guard))
}

/// Keeps a file, if its mode allows it to be opened so; with its attributes. A back end that keeps nothing loses the file
/// with its last name.
fn keep(
    file: &Object<'_>,
    access: OpenAccess,
    found: Found,
) -> Result<(Option<Kept>, Option<Attr>), Failed> {
    let (backend, cx) = (file.backend(), file.cx());
    match backend.open(&cx, &file.fid, access) {
        Err(Status::Acces) if found == Found::Reclaimed => check_owner(file)?,
        opened => {
            let (kept, attr) = opened?;
            return Ok((kept, Some(attr)));
        }
    }
    match backend.keep(&cx, &file.fid) {
        Ok(kept) => Ok((Some(kept), None)),
        Err(Status::NotSupp) => Ok((None, None)),
        Err(status) => Err(status.into()),
    }
}

/// A file's owner opens it again whatever its mode has become: it was open before the restart, and may have been made
/// without the right to write it.
fn check_owner(file: &Object<'_>) -> Result<(), Failed> {
    let cx = file.cx();
    let attr = file.backend().getattr(&cx, &file.fid, Want::STAT)?;
    vfs::need_regular(attr.ftype)?;
    if attr.uid == cx.cred.uid { Ok(()) } else { Err(Status::Acces.into()) }
}

/// Makes the share reservation, after those of clients whose lease is over are gone. A new open takes what keeps its file.
fn share(
    frame: &Frame<'_>,
    request: &OpenRequest<'_>,
    kept: &mut Option<Box<dyn Any + Send + Sync>>,
) -> Result<Opened, Failed> {
    let (state, blocking) = (&frame.v4().state, frame.caller.blocking());
    for _ in 0..SHARE_ATTEMPTS {
        let opened = match &frame.opener {
            Some(ticket) => {
                let file = (request.file, request.mode);
                state.open_by_owner(frame.now, ticket, file, request.reclaim, kept)
            }
            None => state.open(frame.now, frame.session()?, request, kept),
        };
        match opened {
            Ok(opened) => return Ok(opened),
            Err(OpenError::Expired(clients)) => {
                if frame.nfs.end_expired(blocking, &clients) == Ended::NotStored {
                    break;
                }
            }
            Err(OpenError::Silent(host)) => frame.nfs.release_silent(blocking, host),
            Err(OpenError::Delegated(recalls)) => {
                if !frame.nfs.recall_for_open(blocking, &recalls) {
                    break;
                }
            }
            Err(OpenError::Full) => {
                if !frame.nfs.end_silent(blocking, 0) {
                    break;
                }
            }
            Err(OpenError::ShareDenied) if request.reclaim.is_some() => {
                return Err(Nfsstat4::ReclaimConflict.into());
            }
            Err(OpenError::ShareDenied) => return Err(Nfsstat4::ShareDenied.into()),
            Err(OpenError::NoGrace) => return Err(Nfsstat4::NoGrace.into()),
            Err(OpenError::NoRoom | OpenError::NotRecorded) => break,
        }
    }
    Err(Nfsstat4::Delay.into())
}

/// Cuts a file that OPEN was told to, after its reservation was made.
pub(super) fn cut(frame: &Frame<'_>, file: &Object<'_>, mode: ShareMode) -> Result<(), Failed> {
    let audit = AuditedCall::of_caller(frame.nfs, frame.caller);
    let mut file = file.clone();
    // open(2) with O_TRUNC wants the right to write, whatever the open is for
    if !access_of(mode).has(OpenAccess::WRITE) {
        file.backend().may_open(&file.cx(), &file.fid, OpenAccess::WRITE)?;
    }
    file.right = Right::Opened(OpenAccess::WRITE);
    let set = SetAttr { size: Some(0), ..SetAttr::default() };
    crate::verbs::setattr(&file, Ok(set), None, &audit)?;
    Ok(())
}

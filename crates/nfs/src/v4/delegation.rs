//! The delegation part of OPEN's result (RFC 8881 §10.4, §18.16.3), DELEGRETURN (§18.6), and what delegations of others
//! mean for attributes.
//!
//! A read delegation is granted with an OPEN for reading, a write delegation with one for writing of a file that nobody else
//! has open, if local programs can be held back from the file and nobody has locked it: its holder may keep locks to
//! itself. One that is reclaimed after the server's restart is granted as recalled already: what local programs have done
//! while the server was down is unknown.
//!
//! What the holder of a write delegation has written and not sent is not known here. It is asked for by whoever looks at
//! attributes that show it ([`delegated_attrs`](crate::delegated_attrs)). A client that wants to keeps the file's times
//! itself, and sets them by SETATTR before it returns the delegation (RFC 9754 §5). The kernel sets no time of access alone:
//! that would be a change of the file to all others. So it is set together with the time of the last change.
//!
//! A client that wants to gets no open where it gets a delegation (RFC 9754 §4), which then stands for the open.
//!
//! A client of version 4.0 gets delegations as those of later versions do, once its callback address answers; there its
//! stateids say who it is ([`minor0`]).
//!
//! Nothing is reserved for what a holder has not sent (`space_limit`): it sends everything when a program closes the file, which
//! then hears of a full disk, and whose data others find.

use super::frame::{Frame, file_key, stateid_of, wire_stateid};
use super::lookup;
use super::minor0;
use super::settable_attrs::HeldTimes;
use super::stateids::opened_for;
use super::status::Failed;
use crate::delegated_attrs::{accepted_time, file_time, wall_clock};
use crate::object::Object;
use crate::verbs;
use export::Delegate;
use proto::nfs4::{Bitmap4, Nfsstat4, OpenClaim4, Stateid4, attr as a, op, share};
use state::v4::{
    DelegatedTimes, DelegationConflict, DelegationKind, DelegationRequest, GrantedAttrs,
    NamedDelegation, NotDelegated, Session, Stateid, StateidAccess, StateidError,
};
use state::{FileKey, ShareBits, ShareMode};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use vfs::{Attr, Right, SetTime, Status, Time};
use xdr::{Reader, Writer};

/// `OPEN_DELEGATE_*`.
const NONE: u32 = 0;
const READ: u32 = 1;
const WRITE: u32 = 2;
const NONE_EXT: u32 = 3;
/// `OPEN_DELEGATE_WRITE_ATTRS_DELEG`: the client keeps the times (RFC 9754 §5).
const WRITE_ATTRS: u32 = 5;
/// `WND4_*`: why there is none.
const NOT_WANTED: u32 = 0;
const CONTENTION: u32 = 1;
const RESOURCE: u32 = 2;
const CANCELLED: u32 = 7;
/// `NFS_LIMIT_BLOCKS`: a bound of the data that the client has not sent.
const LIMIT_BLOCKS: u32 = 2;
/// Bytes of the longest `open_delegation4` that is sent.
pub(super) const DELEGATION_BYTES: u32 = 4 + 16 + 4 + 3 * 4 + 4 * 4;
/// The attributes that show what the holder of a write delegation has done.
pub(super) const SHOW_WRITES: Bitmap4 = Bitmap4::of(&[
    a::CHANGE,
    a::SIZE,
    a::SPACE_USED,
    a::TIME_ACCESS,
    a::TIME_METADATA,
    a::TIME_MODIFY,
]);

/// A name by which a file was opened, and the directory.
pub(super) type OpenedName<'a> = (&'a Object<'a>, &'a [u8]);

/// A delegation that an OPEN gets.
pub(super) struct Granted {
    kind: DelegationKind,
    pub stateid: Stateid,
    /// It is to be returned at once.
    recalled: bool,
    keeps_times: bool,
    /// The attributes when others were held back, if they were fetched: the client's own idea of what it has not changed.
    pub attr: Option<Attr>,
}

/// Why there is none.
pub(super) struct NotGranted {
    want: u32,
    why: NotDelegated,
}

/// What an OPEN of this client gets besides the open.
pub(super) type Outcome = Result<Granted, NotGranted>;

/// A file that a client has opened, and what for.
pub(super) struct OpenedBy<'a> {
    pub mode: ShareMode,
    pub name: Option<OpenedName<'a>>,
}

/// Gives the client the delegation of the current file that its OPEN asks for, if it may have one.
pub(super) fn decide(frame: &Frame<'_>, share_access: u32, opened: &OpenedBy<'_>) -> Outcome {
    let want = share_access & share::WANT_MASK;
    let kind = match opened.mode.access {
        ShareBits::READ => DelegationKind::Read,
        _ => DelegationKind::Write,
    };
    let keeps_times =
        kind == DelegationKind::Write && share_access & share::WANT_DELEG_TIMESTAMPS != 0;
    let granted = match (want, kind) {
        (share::WANT_NO_DELEG | share::WANT_CANCEL, _)
        | (share::WANT_READ_DELEG, DelegationKind::Write) => Err(NotDelegated::Resource),
        _ => grant(frame, (kind, keeps_times), opened),
    };
    granted.map_err(|why| NotGranted { want, why })
}

/// Gives the client the delegation of the current file again that it had before the server's restart (RFC 8881 §10.2.1).
pub(super) fn reclaimed(
    frame: &Frame<'_>,
    had: u32,
    share_access: u32,
    mode: ShareMode,
) -> Outcome {
    let kind = match had {
        READ => DelegationKind::Read,
        WRITE | WRITE_ATTRS => DelegationKind::Write,
        _ => return none(share_access),
    };
    match reclaim(frame, kind, mode) {
        Ok(stateid) => {
            Ok(Granted { kind, stateid, recalled: true, keeps_times: false, attr: None })
        }
        Err(_) => none(share_access),
    }
}

/// A claim that gets no delegation.
pub(super) fn none(share_access: u32) -> Outcome {
    Err(NotGranted { want: share_access & share::WANT_MASK, why: NotDelegated::Resource })
}

/// Appends a delegation (`open_read_delegation4`, `open_write_delegation4`), or why there is none.
pub(super) fn put(outcome: &Outcome, reply: &mut Writer) {
    let granted = match outcome {
        Ok(granted) => granted,
        Err(NotGranted { want, why }) => return put_why(*want, *why, reply),
    };
    reply.u32(match (granted.kind, granted.keeps_times) {
        (DelegationKind::Read | DelegationKind::Directory, _) => READ,
        (DelegationKind::Write, false) => WRITE,
        (DelegationKind::Write, true) => WRITE_ATTRS,
    });
    reply.put(&wire_stateid(granted.stateid));
    reply.bool(granted.recalled);
    if granted.kind == DelegationKind::Write {
        // no blocks, of whatever length
        reply.words([LIMIT_BLOCKS, 0, 1]);
    }
    // the client asks itself who may do what (ALLOW, no flags, nothing, nobody)
    reply.words([0, 0, 0, 0]);
}

fn reclaim(
    frame: &Frame<'_>,
    kind: DelegationKind,
    mode: ShareMode,
) -> Result<Stateid, NotDelegated> {
    let resource = |_| NotDelegated::Resource;
    let (nfs, client) = (frame.nfs, frame.client().map_err(resource)?);
    let (object, key) = (frame.object().map_err(resource)?, frame.file_key().map_err(resource)?);
    let handle = object.seal(&object.fid);
    let request = DelegationRequest {
        kind,
        file: &key,
        handle: handle.bytes(),
        opened: opened_as(frame, mode),
        attrs: GrantedAttrs::default(),
        pending: None,
    };
    let stateid = nfs.v4.state.reclaim_delegation(frame.now, client, &request)?;
    nfs.delegations.note_granted();
    // the lock timer looks after it until it is returned
    nfs.delegations.wake();
    Ok(stateid)
}

fn opened_as(frame: &Frame<'_>, mode: ShareMode) -> StateidAccess {
    StateidAccess { access: mode.access, user: Some(frame.principal) }
}

fn put_why(want: u32, why: NotDelegated, reply: &mut Writer) {
    match (want, why) {
        (0, _) => reply.u32(NONE),
        (share::WANT_NO_DELEG, _) => reply.words([NONE_EXT, NOT_WANTED]),
        (share::WANT_CANCEL, _) => reply.words([NONE_EXT, CANCELLED]),
        // and the server will not signal when it could be had
        (_, NotDelegated::Contention) => reply.words([NONE_EXT, CONTENTION, 0]),
        (_, NotDelegated::Resource) => reply.words([NONE_EXT, RESOURCE, 0]),
    }
}

/// Recalls the read delegation of whoever has opened the file for writing: the server's own writes would break its lease.
pub(super) fn recall_own(frame: &Frame<'_>, mode: ShareMode) -> Result<(), Failed> {
    let state = &frame.v4().state;
    if mode.access == ShareBits::READ || !state.any_delegations() {
        return Ok(());
    }
    if let DelegationConflict::Recalled(recalls) =
        state.recall_for_own_change(frame.now, &frame.file_key()?, frame.client_id())
    {
        frame.nfs.recall(&recalls);
    }
    Ok(())
}

/// Gives the client a delegation of the current file.
fn grant(
    frame: &Frame<'_>,
    (kind, keeps_times): (DelegationKind, bool),
    opened: &OpenedBy<'_>,
) -> Result<Granted, NotDelegated> {
    let resource = |_| NotDelegated::Resource;
    let (nfs, client) = (frame.nfs, frame.client().map_err(resource)?);
    let object = frame.object().map_err(resource)?;
    let given = object.delegations().unwrap_or_else(|| nfs.settings.delegations());
    let is_given = match kind {
        DelegationKind::Read => given != Delegate::Off,
        DelegationKind::Write => given == Delegate::Write,
        DelegationKind::Directory => false,
    };
    if !is_given || !has_callbacks(frame) {
        return Err(NotDelegated::Resource);
    }
    let key = frame.file_key().map_err(resource)?;
    let state = &frame.v4().state;
    let disturbed = Arc::new(AtomicBool::new(false));
    // before the attributes are fetched that the client gets
    let pending = (kind == DelegationKind::Write).then(|| state.await_write_delegation(&key));
    let guard = match state.may_delegate(frame.now, client, kind, &key)? {
        true => Some(hold_back(frame, object, (kind, key), &disturbed)?),
        false => None,
    };
    let attr = match kind {
        DelegationKind::Read | DelegationKind::Directory => None,
        DelegationKind::Write => Some(verbs::getattr(object).map_err(|_| NotDelegated::Resource)?),
    };
    let handle = object.seal(&object.fid);
    let request = DelegationRequest {
        kind,
        file: &key,
        handle: handle.bytes(),
        opened: opened_as(frame, opened.mode),
        attrs: attr
            .as_ref()
            .map_or_else(GrantedAttrs::default, |attr| granted_attrs(attr, keeps_times)),
        pending: pending.as_ref(),
    };
    let stateid = state.delegate(frame.now, client, &request, guard)?;
    // whoever locks the file from now on has delegations recalled first; of what a local program did to the name before
    // the file was watched nobody tells, and the client would go on by that name
    let is_locked = nfs.lock_manager().is_some_and(|locks| locks.is_locked(&key));
    let found = opened.name.map(|(dir, name)| verbs::lookup(dir, name));
    let is_gone =
        found.is_some_and(|found| found.map_or(true, |found| found.node.fid != object.fid));
    if is_locked || is_gone {
        let held = (stateid, &key);
        let _ended = state.return_delegation(frame.reading, frame.now, client.id(), held);
        return Err(NotDelegated::Contention);
    }
    nfs.delegations.note_granted();
    if state.delegations_are_scarce() {
        nfs.delegations.note_scarce();
    }
    // whoever came before it was in the table has not found it
    if disturbed.load(SeqCst) {
        nfs.disturb(key);
    }
    Ok(Granted { kind, stateid, recalled: false, keeps_times, attr })
}

/// Whether the client can be told to return a delegation.
fn has_callbacks(frame: &Frame<'_>) -> bool {
    match &frame.opener {
        Some(ticket) => minor0::has_callbacks(frame, ticket),
        None => frame.session().is_ok_and(Session::has_callbacks),
    }
}

/// The delegation of this file that a client's stateid names, and the client.
fn named(
    frame: &Frame<'_>,
    stateid: Stateid4,
    file: &FileKey,
) -> Result<(u64, NamedDelegation), Failed> {
    let stateid = stateid_of(frame.named_stateid(stateid)?);
    if frame.minor == 0 {
        return Ok(minor0::delegation_of(frame, stateid, file)?);
    }
    let client = frame.session()?.client_id();
    Ok((client, frame.reading.check_delegation(client, stateid, Some(file))?))
}

fn granted_attrs(attr: &Attr, keeps_times: bool) -> GrantedAttrs {
    let times = DelegatedTimes { accessed: file_time(attr.atime), modified: file_time(attr.mtime) };
    GrantedAttrs { change: attr.change, times: keeps_times.then_some(times) }
}

/// Holds local programs back from a file, and keeps it: its client opens and reads it without asking, and returns the
/// delegation by its filehandle, also if a local program has removed the last name. A directory is not kept.
pub(super) fn hold_back(
    frame: &Frame<'_>,
    object: &Object<'_>,
    (kind, key): (DelegationKind, FileKey),
    disturbed: &Arc<AtomicBool>,
) -> Result<Box<dyn Any + Send + Sync>, NotDelegated> {
    let leases = object.backend().leases().ok_or(NotDelegated::Resource)?;
    let file = if kind == DelegationKind::Directory {
        None
    } else {
        match object.backend().keep(&object.cx(), &object.fid) {
            Ok(file) => Some(file),
            Err(Status::NotSupp) => None,
            Err(_) => return Err(NotDelegated::Resource),
        }
    };
    let disturbed = Arc::clone(disturbed);
    let called = frame.nfs.delegations.disturbed(key, move || disturbed.store(true, SeqCst));
    let lease = match kind {
        DelegationKind::Read => leases.hold_back_writers(&object.cx(), &object.fid, called),
        DelegationKind::Write => leases.hold_back_everybody(&object.cx(), &object.fid, called),
        DelegationKind::Directory => leases.hold_back_changes(&object.cx(), &object.fid, called),
    };
    match lease {
        Ok(Some(lease)) => Ok(Box::new((lease, file))),
        Ok(None) => Err(NotDelegated::Contention),
        Err(Status::Jukebox) => {
            frame.nfs.delegations.note_scarce();
            Err(NotDelegated::Resource)
        }
        Err(_) => Err(NotDelegated::Resource),
    }
}

/// Whether a file is opened by a delegation, which is checked before it is opened.
pub(super) const fn is_claimed(claim: &OpenClaim4<'_>) -> bool {
    matches!(claim, OpenClaim4::DelegateCur(..) | OpenClaim4::DelegCurFh(_))
}

/// Checks the delegation by which a file is opened (CLAIM_DELEG_CUR_FH).
pub(super) fn check_claim(
    frame: &Frame<'_>,
    stateid: Stateid4,
    file: &Object<'_>,
) -> Result<(), Failed> {
    let key = file_key(file.export().id.0, &file.fid).ok_or(Nfsstat4::ServerFault)?;
    // in version 4.0 the owner in the arguments says who opens it
    let opens = frame.client_id();
    let (client, _held) = named(frame, stateid, &key)?;
    if Some(client) == opens { Ok(()) } else { Err(Nfsstat4::BadStateid.into()) }
}

/// The same of a name (CLAIM_DELEGATE_CUR).
pub(super) fn check_claim_of_name(
    frame: &Frame<'_>,
    stateid: Stateid4,
    dir: &Object<'_>,
    name: &[u8],
) -> Result<(), Failed> {
    let mut file = dir.clone();
    file.fid = lookup::find(dir, name)?.node.fid;
    check_claim(frame, stateid, &file)
}

/// What a delegation gives the right to, that a stateid names which is no open's: to read or also to write, for whom it was
/// given whatever the file's mode is now, as if it were an open, else as the caller's user.
pub(super) fn right(
    frame: &Frame<'_>,
    stateid: Stateid4,
    file: &FileKey,
    access: ShareBits,
) -> Result<Right, Failed> {
    let (_, held) = named(frame, stateid, file)?;
    if held.kind == DelegationKind::Read && access != ShareBits::READ {
        return Err(StateidError::OpenMode.into());
    }
    let opened = held.opened;
    let covers = opened.access.number() & access.number() == access.number();
    let is_by_opener = covers && opened.user == Some(frame.principal);
    Ok(if is_by_opener { opened_for(opened.access) } else { Right::Check })
}

/// What another client that has a write delegation of the current object says of these attributes; `None` if there is no
/// such client, or none any more. What was fetched of them does not count then.
#[cold]
pub(super) fn attrs_by_holder(
    frame: &mut Frame<'_>,
    asked: &Bitmap4,
) -> Result<Option<Attr>, Failed> {
    if !asked.intersects(&SHOW_WRITES) {
        return Ok(None);
    }
    let (object, want) = (frame.object()?, super::attr::want(asked));
    let held = frame.nfs.attrs_by_holder(object, &object.fid, frame.client_id(), want)?;
    frame.fetched = None;
    Ok(held)
}

/// The times that SETATTR is to set for the holder of a delegation that keeps them (RFC 9754 §5): of access and of the last
/// change. None are in the future. An earlier change than when it was granted is one that a program has set by utimensat(2),
/// which the client has not passed on: it counts if the caller may set it himself.
///
/// # Errors
/// NFS4ERR_BAD_STATEID if the stateid is not of such a delegation; those of a stateid that is not good.
pub(super) fn times_to_set(
    frame: &Frame<'_>,
    stateid: Stateid4,
    asked: &HeldTimes,
) -> Result<(SetTime, SetTime), Failed> {
    let (_, held) = named(frame, stateid, &frame.file_key()?)?;
    let granted = held.times.ok_or(Nfsstat4::BadStateid)?;
    let now = wall_clock();
    let later = |time: Option<Time>, granted| {
        let accepted = time.and_then(|time| accepted_time(time, granted, now));
        accepted.map_or(SetTime::Keep, SetTime::Delegated)
    };
    let by_caller = |time: Option<Time>| {
        let past = |time: Time| if file_time(time) < file_time(now) { time } else { now };
        time.map_or(SetTime::Keep, |time| SetTime::To(past(time)))
    };
    Ok(match asked.modified {
        Some(modified) if file_time(modified) < granted.modified => {
            (by_caller(asked.accessed), by_caller(asked.modified))
        }
        modified => match later(modified, granted.modified) {
            SetTime::Keep => (SetTime::Keep, SetTime::Keep),
            modified => (later(asked.accessed, granted.accessed), modified),
        },
    })
}

/// Refuses attributes (NFS4ERR_ACCESS) in front of a DELEGRETURN of what the client has lost: by a revocation, or by the end
/// of its lease, of which it hears only when the recall reaches it at last. Linux asks for them together, takes whatever has
/// changed for its own doing, and would go on with the data in its cache; refused, it returns the delegation alone, and
/// finds others' changes when it opens the file. `rest` is what follows GETATTR.
#[inline]
pub(super) fn check_not_lost(frame: &Frame<'_>, rest: &[u8]) -> Result<(), Failed> {
    match rest.split_first_chunk() {
        Some((number, rest)) if u32::from_be_bytes(*number) == op::DELEGRETURN => {
            check_held(frame, &mut Reader::new(rest))
        }
        _ => Ok(()),
    }
}

#[cold]
fn check_held(frame: &Frame<'_>, rest: &mut Reader<'_>) -> Result<(), Failed> {
    let (stateid, file) = (rest.get()?, frame.file_key()?);
    named(frame, stateid, &file).map(drop).map_err(|_| Nfsstat4::Access.into())
}

pub(super) fn delegreturn<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let stateid: Stateid4 = args.get()?;
    let file = frame.file_key()?;
    let (client, _held) = named(frame, stateid, &file)?;
    let stateid = stateid_of(frame.named_stateid(stateid)?);
    let state = &frame.v4().state;
    let now = frame.nfs.clock.now();
    let recalled = state.return_delegation(frame.reading, now, client, (stateid, &file))?;
    frame.nfs.delegations.note_returned(recalled);
    frame.changed = true;
    Ok(())
}

//! The delegation part of OPEN's result (RFC 8881 §10.4, §18.16.3), DELEGRETURN (§18.6), and what delegations of others
//! mean for attributes.
//!
//! A read delegation is granted with an OPEN for reading, a write delegation with one for writing of a file that nobody else
//! has open, if local programs can be held back from the file and nobody has locked it: its holder may keep locks to
//! itself. One that is reclaimed after the server's restart is granted as recalled already: what local programs have done
//! while the server was down is unknown.
//!
//! What the holder of a write delegation has written and not sent is not known here. Whoever asks for attributes that show
//! it has the delegation recalled: CB_GETATTR (§20.1) would tell the size and that something has changed, but not the times
//! that versions 2 and 3 go by, and its answer may be old when the data is read.
//!
//! Nothing is reserved for what a holder has not sent (`space_limit`): it sends everything when a program closes the file, which
//! then hears of a full disk, and whose data others find.

use super::frame::{Frame, file_key, stateid_of, wire_stateid};
use super::lookup;
use super::status::Failed;
use crate::object::Object;
use crate::verbs;
use export::Delegate;
use proto::nfs4::{Bitmap4, Nfsstat4, OpenClaim4, Stateid4, attr as a, op, share};
use state::v4::{DelegationConflict, DelegationKind, NotDelegated, Stateid, StateidError};
use state::{FileKey, ShareBits, ShareMode};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use vfs::Status;
use xdr::{Reader, Writer};

/// `OPEN_DELEGATE_*`.
const NONE: u32 = 0;
const READ: u32 = 1;
const WRITE: u32 = 2;
const NONE_EXT: u32 = 3;
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

/// Appends the delegation that an OPEN gets, or why it gets none; whether it gets one. The file is the current one.
pub(super) fn put(
    frame: &Frame<'_>,
    share_access: u32,
    (mode, name): (ShareMode, Option<OpenedName<'_>>),
    reply: &mut Writer,
) -> bool {
    let want = share_access & share::WANT_MASK;
    let kind = match mode.access {
        ShareBits::READ => DelegationKind::Read,
        _ => DelegationKind::Write,
    };
    let granted = match (want, kind) {
        (share::WANT_NO_DELEG | share::WANT_CANCEL, _)
        | (share::WANT_READ_DELEG, DelegationKind::Write) => Err(NotDelegated::Resource),
        _ => grant(frame, kind, name),
    };
    match granted {
        Ok(stateid) => put_granted(kind, stateid, false, reply),
        Err(why) => put_why(want, why, reply),
    }
    granted.is_ok()
}

/// Appends a delegation (`open_read_delegation4`, `open_write_delegation4`).
fn put_granted(kind: DelegationKind, stateid: Stateid, recalled: bool, reply: &mut Writer) {
    reply.u32(match kind {
        DelegationKind::Read => READ,
        DelegationKind::Write => WRITE,
    });
    reply.put(&wire_stateid(stateid));
    reply.bool(recalled);
    if kind == DelegationKind::Write {
        // no blocks, of whatever length
        reply.words([LIMIT_BLOCKS, 0, 1]);
    }
    // the client asks itself who may do what (ALLOW, no flags, nothing, nobody)
    reply.words([0, 0, 0, 0]);
}

/// Appends the delegation of the current file that the client had before the server's restart (RFC 8881 §10.2.1); whether
/// it gets it again.
pub(super) fn put_reclaimed(
    frame: &Frame<'_>,
    had: u32,
    share_access: u32,
    reply: &mut Writer,
) -> bool {
    let kind = match had {
        READ => Some(DelegationKind::Read),
        WRITE => Some(DelegationKind::Write),
        _ => None,
    };
    let reclaimed = kind.and_then(|kind| Some((kind, reclaim(frame, kind).ok()?)));
    match reclaimed {
        Some((kind, stateid)) => put_granted(kind, stateid, true, reply),
        None => put_none(share_access, reply),
    }
    reclaimed.is_some()
}

fn reclaim(frame: &Frame<'_>, kind: DelegationKind) -> Result<Stateid, NotDelegated> {
    let resource = |_| NotDelegated::Resource;
    let (nfs, session) = (frame.nfs, frame.session().map_err(resource)?);
    let (object, key) = (frame.object().map_err(resource)?, frame.file_key().map_err(resource)?);
    let handle = object.seal(&object.fid);
    let file = (&key, handle.bytes());
    let stateid = nfs.v4.state.reclaim_delegation(frame.now, session, kind, file)?;
    nfs.delegations.note_granted();
    // the keeper looks after it until it is returned
    nfs.delegations.wake();
    Ok(stateid)
}

/// Appends that a claim gets no delegation.
pub(super) fn put_none(share_access: u32, reply: &mut Writer) {
    put_why(share_access & share::WANT_MASK, NotDelegated::Resource, reply);
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

/// Gives the session's client a delegation of the current file, which it opened by `name`.
fn grant(
    frame: &Frame<'_>,
    kind: DelegationKind,
    name: Option<OpenedName<'_>>,
) -> Result<Stateid, NotDelegated> {
    let resource = |_| NotDelegated::Resource;
    let (nfs, session) = (frame.nfs, frame.session().map_err(resource)?);
    let object = frame.object().map_err(resource)?;
    let given = object.delegations().unwrap_or_else(|| nfs.settings.delegations());
    let is_given = match kind {
        DelegationKind::Read => given != Delegate::Off,
        DelegationKind::Write => given == Delegate::Write,
    };
    if !is_given || !session.has_callbacks() {
        return Err(NotDelegated::Resource);
    }
    let key = frame.file_key().map_err(resource)?;
    let state = &frame.v4().state;
    let disturbed = Arc::new(AtomicBool::new(false));
    let guard = match state.may_delegate(frame.now, session, kind, &key)? {
        true => Some(hold_back(frame, object, (kind, key), &disturbed)?),
        false => None,
    };
    let handle = object.seal(&object.fid);
    let stateid = state.delegate(frame.now, session, kind, (&key, handle.bytes()), guard)?;
    // whoever locks the file from now on has delegations recalled first; of what a local program did to the name before
    // the file was watched nobody tells, and the client would go on by that name
    let is_locked = nfs.lock_manager().is_some_and(|locks| locks.is_locked(&key));
    let found = name.map(|(dir, name)| verbs::lookup(dir, name));
    let is_gone =
        found.is_some_and(|found| found.map_or(true, |found| found.node.fid != object.fid));
    if is_locked || is_gone {
        let client = session.client_id();
        let _ended = state.return_delegation(frame.reading, frame.now, client, (stateid, &key));
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
    Ok(stateid)
}

/// Holds local programs back from a file, and keeps it: its client opens and reads it without asking, and returns the
/// delegation by its filehandle, also if a local program has removed the last name.
fn hold_back(
    frame: &Frame<'_>,
    object: &Object<'_>,
    (kind, key): (DelegationKind, FileKey),
    disturbed: &Arc<AtomicBool>,
) -> Result<Box<dyn Any + Send + Sync>, NotDelegated> {
    let leases = object.backend().leases().ok_or(NotDelegated::Resource)?;
    let file = match object.backend().keep(&object.cx(), &object.fid) {
        Ok(file) => Some(file),
        Err(Status::NotSupp) => None,
        Err(_) => return Err(NotDelegated::Resource),
    };
    let disturbed = Arc::clone(disturbed);
    let called = frame.nfs.delegations.disturbed(key, move || disturbed.store(true, SeqCst));
    let lease = match kind {
        DelegationKind::Read => leases.hold_back_writers(&object.cx(), &object.fid, called),
        DelegationKind::Write => leases.hold_back_everybody(&object.cx(), &object.fid, called),
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
    let client = frame.session()?.client_id();
    let stateid = stateid_of(frame.named_stateid(stateid)?);
    frame.reading.check_delegation(client, stateid, Some(&key))?;
    Ok(())
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

/// What a delegation gives the right to, that a stateid names which is no open's: to read or also to write, as the caller's
/// user.
pub(super) fn check_right(
    frame: &Frame<'_>,
    stateid: Stateid4,
    file: &FileKey,
    access: ShareBits,
) -> Result<(), Failed> {
    let client = frame.session()?.client_id();
    let kind = frame.reading.check_delegation(client, stateid_of(stateid), Some(file))?;
    match kind {
        DelegationKind::Read if access != ShareBits::READ => Err(StateidError::OpenMode.into()),
        DelegationKind::Read | DelegationKind::Write => Ok(()),
    }
}

/// Has another client's write delegation recalled before these attributes of the current object are read; what was fetched
/// of them does not count then.
#[cold]
pub(super) fn before_attrs(frame: &mut Frame<'_>, asked: &Bitmap4) -> Result<(), Failed> {
    if asked.meets(&SHOW_WRITES) {
        let object = frame.object()?;
        frame.nfs.before_read(object, &object.fid, frame.client_id())?;
        frame.fetched = None;
    }
    Ok(())
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
    let stateid = stateid_of(frame.named_stateid(rest.get()?)?);
    let (file, client) = (frame.file_key()?, frame.session()?.client_id());
    let held = frame.reading.check_delegation(client, stateid, Some(&file));
    held.map(drop).map_err(|_| Nfsstat4::Access.into())
}

pub(super) fn delegreturn<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let stateid: Stateid4 = args.get()?;
    let file = frame.file_key()?;
    let stateid = stateid_of(frame.named_stateid(stateid)?);
    let client = frame.session()?.client_id();
    let state = &frame.v4().state;
    let now = frame.nfs.clock.now();
    let recalled = state.return_delegation(frame.reading, now, client, (stateid, &file))?;
    frame.nfs.delegations.note_returned(recalled);
    frame.changed = true;
    Ok(())
}

//! LOCK, LOCKT and LOCKU (RFC 8881 §18.10 to §18.12).
//!
//! Locks are kept in the table that NLM uses, and set in the kernel, so that clients of all versions and local programs
//! exclude each other. This file handles the stateids. No call waits: LOCK with READW or WRITEW is answered NFS4ERR_DENIED
//! like READ and WRITE, and the client is called back when it should retry (CB_NOTIFY_LOCK), if it has a back channel.

use super::cached_locks;
use super::frame::{Frame, stateid_of, wire_stateid};
use super::recording;
use super::status::Failed;
use crate::byte_range_locks::{ByteRangeLocks, LockAnswer, LockWanted};
use proto::layout::Bytes;
use proto::nfs4::{
    LockArgs, LockDenied, LockOwner4, LockType4, Locker4, LocktArgs, LockuArgs, Nfsstat4,
};
use state::v4::{LockRef, Stateid};
use state::{ByteRange, Conflict, FileKey, HostId, Mode, ShareBits, Transport, Who};
use std::sync::Arc;
use vfs::Want;
use xdr::{Reader, Writer};

/// The name that is given of owners whom no client of version 4 can know.
const LOCAL_OWNER: &[u8] = b"local";

pub(super) fn lock<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: LockArgs<'f> = args.get()?;
    let file = current_file(frame)?;
    let (range, mode) = (range(a.offset, a.length)?, mode(a.kind));
    if let LockType4::Write | LockType4::WriteWait = a.kind {
        frame.object()?.check_writable()?;
    }
    recording::admit(frame, frame.session()?.requester(), a.reclaim)?;
    let manager = manager(frame)?;
    let (owner, from) = match a.locker {
        Locker4::New(new) => {
            let open = stateid_of(frame.named_stateid(new.open)?);
            (new.owner.owner.0, From::Open(open))
        }
        Locker4::Known(known_owner) => {
            let lock = stateid_of(frame.named_stateid(known_owner.lock)?);
            let lock = known(frame, lock, &file)?;
            (lock.who().name(), From::Lock(lock))
        }
    };
    from.check_mode(frame, &file, mode)?;
    let (host, client) = host(frame, &manager)?;
    let who = Who::V4 { host, client, owner };
    let give_back = || {
        let _gone = manager.unlock(frame.caller.blocking(), &file, &who, range);
    };
    let held = frame.nfs.state.holds_of(&file, &who, range);
    if held && from.is_open() {
        cached_locks::check_taken(frame, &file, client).inspect_err(|_| give_back())?;
    }
    let waits = !a.reclaim && matches!(a.kind, LockType4::ReadWait | LockType4::WriteWait);
    let object = frame.object()?;
    let handle = (waits && frame.session()?.has_callbacks()).then(|| object.seal(&object.fid));
    let notify = handle.as_ref().map(|handle| handle.bytes());
    let wanted = LockWanted { who, range, mode, reclaim: a.reclaim, notify };
    let answer = manager.lock(frame.caller.blocking(), frame.object()?.clone(), wanted);
    if a.reclaim && matches!(answer, LockAnswer::Denied(_)) {
        return Err(Nfsstat4::ReclaimConflict.into());
    }
    done(answer, reply)?;
    match a.reclaim {
        true => frame.session()?.requester().reclaimed(frame.now, &frame.nfs.state),
        false if held => {}
        false => {
            cached_locks::check_known(frame, &file, client, waits).inspect_err(|_| give_back())?
        }
    }
    frame.changed = true;
    // without a stateid nobody could give it back
    let stateid = from.changed(frame, &file, host, owner).inspect_err(|_| give_back())?;
    let stateid = wire_stateid(stateid);
    reply.put(&stateid);
    frame.set_stateid(stateid);
    Ok(())
}

/// What a request for a lock goes out from.
#[derive(Clone, Copy)]
enum From<'f> {
    Open(Stateid),
    Lock(LockRef<'f>),
}

impl<'f> From<'f> {
    const fn is_open(self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Whether the file is open for what the lock excludes others from.
    fn check_mode(self, frame: &Frame<'f>, file: &FileKey, mode: Mode) -> Result<(), Failed> {
        let granted = match self {
            Self::Open(open) => {
                let client = frame.session()?.client_id();
                let found = frame.reading.find_open(client, open)?;
                if found.file() != file {
                    return Err(Nfsstat4::BadStateid.into());
                }
                found.access()
            }
            Self::Lock(lock) => frame.reading.lock_access(lock)?,
        };
        check_open_mode(granted, mode)
    }

    /// The owner has got a lock: his stateid from now on.
    fn changed(
        self,
        frame: &Frame<'f>,
        file: &FileKey,
        host: HostId,
        owner: &[u8],
    ) -> Result<Stateid, Failed> {
        match self {
            Self::Lock(lock) => Ok(lock.changed()),
            Self::Open(open) => {
                let client = frame.session()?.client_id();
                let state = &frame.v4().state;
                let made = state.locked(frame.reading, open, (file, host, owner), client)?;
                // the client has too many
                made.ok_or_else(|| Nfsstat4::Delay.into())
            }
        }
    }
}

/// Whether a file that is open for `granted` is open for what a lock excludes others from.
pub(super) fn check_open_mode(granted: ShareBits, mode: Mode) -> Result<(), Failed> {
    let needed = match mode {
        Mode::Read => ShareBits::READ,
        Mode::Write => ShareBits::WRITE,
    };
    if granted.number() & needed.number() == 0 { Err(Nfsstat4::OpenMode.into()) } else { Ok(()) }
}

pub(super) fn lockt<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: LocktArgs<'f> = args.get()?;
    current_file(frame)?;
    let (range, mode) = (range(a.offset, a.length)?, mode(a.kind));
    // whoever writes may keep locks to itself
    let object = frame.object()?;
    frame.nfs.before_read(object, &object.fid, frame.client_id())?;
    let manager = manager(frame)?;
    let (host, client) = host(frame, &manager)?;
    let who = Who::V4 { host, client, owner: a.owner.owner.0 };
    let wanted = LockWanted { who, range, mode, reclaim: false, notify: None };
    let answer = manager.test(frame.caller.blocking(), frame.object()?.clone(), wanted);
    done(answer, reply)
}

pub(super) fn locku<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: LockuArgs = args.get()?;
    let file = frame.file_key()?;
    let range = range(a.offset, a.length)?;
    let lock = known(frame, stateid_of(frame.named_stateid(a.stateid)?), &file)?;
    give_back(frame, &file, lock, range)?;
    frame.changed = true;
    let stateid = wire_stateid(lock.changed());
    reply.put(&stateid);
    frame.set_stateid(stateid);
    Ok(())
}

/// Gives bytes of a lock state back.
pub(super) fn give_back(
    frame: &Frame<'_>,
    file: &FileKey,
    lock: LockRef<'_>,
    range: ByteRange,
) -> Result<(), Failed> {
    let manager = manager(frame)?;
    match manager.unlock(frame.caller.blocking(), file, &lock.who(), range) {
        LockAnswer::Done => Ok(()),
        // of locks there is no denial here
        LockAnswer::Denied(_) | LockAnswer::Grace | LockAnswer::NoGrace | LockAnswer::Later => {
            Err(Nfsstat4::Delay.into())
        }
        LockAnswer::Failed(status) => Err(status.into()),
    }
}

/// The name of the current file, which must be a regular one.
pub(super) fn current_file(frame: &Frame<'_>) -> Result<FileKey, Failed> {
    let object = frame.object()?;
    let attr = object.backend().getattr(&object.cx(), &object.fid, Want::STAT)?;
    vfs::need_regular(attr.ftype)?;
    frame.file_key()
}

/// The lock state of a stateid, for this file.
fn known<'f>(frame: &Frame<'f>, stateid: Stateid, file: &FileKey) -> Result<LockRef<'f>, Failed> {
    let lock = frame.reading.find_lock(frame.session()?.client_id(), stateid)?;
    if lock.file() == file { Ok(lock) } else { Err(Nfsstat4::BadStateid.into()) }
}

/// The range of a request.
pub(super) fn range(offset: u64, length: u64) -> Result<ByteRange, Failed> {
    let range = match length {
        0 => None,
        u64::MAX => ByteRange::new(offset, u64::MAX),
        // the sum is what may not overflow, not the last byte (RFC 8881 §18.10.3)
        length => {
            offset.checked_add(length).and_then(|end| ByteRange::new(offset, end.wrapping_sub(1)))
        }
    };
    range.ok_or_else(|| Nfsstat4::Inval.into())
}

pub(super) const fn mode(kind: LockType4) -> Mode {
    match kind {
        LockType4::Read | LockType4::ReadWait => Mode::Read,
        LockType4::Write | LockType4::WriteWait => Mode::Write,
    }
}

pub(super) fn manager(frame: &Frame<'_>) -> Result<Arc<dyn ByteRangeLocks>, Failed> {
    // the server is stopping
    frame.nfs.lock_manager().ok_or_else(|| Nfsstat4::Delay.into())
}

/// The client as a host of the table of locks, and its id.
fn host(frame: &Frame<'_>, manager: &Arc<dyn ByteRangeLocks>) -> Result<(HostId, u64), Failed> {
    let session = frame.session()?;
    let make = |client: u64, name: &[u8]| add_client(frame, manager, client, name);
    let host = frame.v4().state.lock_host(session, make);
    // the client has just been removed
    Ok((host.ok_or(Nfsstat4::Delay)?, session.client_id()))
}

/// Makes a client a host of the table of locks.
pub(super) fn add_client(
    frame: &Frame<'_>,
    manager: &Arc<dyn ByteRangeLocks>,
    client: u64,
    name: &[u8],
) -> HostId {
    let peer = frame.caller.peer();
    let name = name.get(..state::NAME_MAX).unwrap_or(name);
    let caller = state::Caller {
        addr: peer.addr.ip(),
        name,
        local: peer.local.ip(),
        nlm_version: 0,
        transport: Transport::Tcp,
        nsm_state: 0,
    };
    manager.add_client(&caller, client)
}

/// What an answer comes to; of a denial, what is in the way is appended.
pub(super) fn done(answer: LockAnswer, reply: &mut Writer) -> Result<(), Failed> {
    match answer {
        LockAnswer::Done => Ok(()),
        LockAnswer::Denied(conflict) => {
            put_denied(&conflict, reply);
            Err(Failed::WithResult(Nfsstat4::Denied))
        }
        LockAnswer::Grace => Err(Nfsstat4::Grace.into()),
        LockAnswer::NoGrace => Err(Nfsstat4::NoGrace.into()),
        LockAnswer::Later => Err(Nfsstat4::Delay.into()),
        LockAnswer::Failed(status) => Err(status.into()),
    }
}

fn put_denied(conflict: &Conflict, reply: &mut Writer) {
    let (range, mode, clientid, owner) = match conflict {
        Conflict::Lock { holder, range, mode } => match holder.who() {
            Who::V4 { client, owner, .. } => (*range, *mode, client, owner),
            Who::Nlm { oh, .. } => (*range, *mode, 0, oh),
        },
        Conflict::Local(found) => (found.range, found.mode, 0, LOCAL_OWNER),
        Conflict::Share(_) | Conflict::Open => (ByteRange::ALL, Mode::Write, 0, LOCAL_OWNER),
    };
    reply.put(&LockDenied {
        offset: range.start(),
        length: match range.wire_len() {
            0 => u64::MAX,
            length => length,
        },
        kind: match mode {
            Mode::Read => LockType4::Read,
            Mode::Write => LockType4::Write,
        },
        owner: LockOwner4 { clientid, owner: Bytes(owner) },
    });
}

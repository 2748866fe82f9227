//! LOCK in version 4.0 (RFC 7530 §16.10): a request of the lock owner, and of the open owner as well when the lock owner has no
//! lock by the open yet. No request waits: a conflict is answered NFS4ERR_DENIED, and the client asks again.

use super::super::cached_locks;
use super::super::frame::{Frame, stateid_of, wire_stateid};
use super::super::lock::{check_open_mode, current_file, done, manager, mode, range};
use super::super::recording;
use super::super::status::Failed;
use super::lock_owner;
use super::owner_request::{end, replay, request_of, run_or_replay};
use crate::byte_range_locks::{LockAnswer, LockWanted};
use proto::nfs4::{ExistLockOwner4, LockArgs, LockType4, Locker4, Nfsstat4, OpenToLockOwner4, op};
use state::v4::{LockBegun, LockOwnerName, Minor0Client, OwnerTicket, Request};
use state::{FileKey, HostId, ShareBits, Who};
use xdr::{Reader, Writer};

pub(super) fn lock<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let before = args.rest();
    let a: LockArgs<'f> = args.get()?;
    frame.object()?;
    match a.locker {
        Locker4::New(new) => {
            let request = request_of(frame, (op::LOCK, new.open_seqid), before, args);
            first(frame, &a, (new, request), reply)
        }
        Locker4::Known(known) => {
            let request = request_of(frame, (op::LOCK, known.lock_seqid), before, args);
            again(frame, &a, (known, request), reply)
        }
    }
}

/// LOCK of an owner that has no lock state by this open.
fn first<'f>(
    frame: &mut Frame<'f>,
    a: &LockArgs<'f>,
    (new, request): (OpenToLockOwner4<'f>, Request),
    reply: &mut Writer,
) -> Result<(), Failed> {
    let name = new.owner.owner.0;
    let owner = LockOwnerName { client_id: new.owner.clientid, name, seqid: new.lock_seqid };
    let stateid = stateid_of(new.open);
    let (state, reading) = (&frame.v4().state, frame.reading);
    let begun = state.begin_first_lock(frame.now, reading, stateid, (owner, request))?;
    let mut tickets = match begun {
        LockBegun::Replay(kept) => return replay(frame, &kept, reply),
        LockBegun::Run(ticket, lock_ticket) => (ticket, lock_ticket),
    };
    frame.named_client.set(Some(tickets.0.client_id()));
    let body = reply.mark();
    let client = state.client_of_request(&tickets.0);
    let access = |file: &FileKey| Ok(state.open_access(reading, stateid, file)?);
    let named = |file: &FileKey, host: HostId| {
        let file = (file, host);
        let now = (frame.now, reading);
        let made = state.first_lock(now, stateid, file, &mut tickets, (owner, request))?;
        // the client has too many
        made.ok_or_else(|| Nfsstat4::Resource.into())
    };
    let ended = take(frame, a, (&client, name), (access, named), reply);
    let tickets = [Some(tickets.0), tickets.1];
    end(frame, tickets, (op::LOCK, ended), (body, reply));
    ended
}

/// LOCK of an owner that has a lock state.
fn again<'f>(
    frame: &mut Frame<'f>,
    a: &LockArgs<'f>,
    (known, request): (ExistLockOwner4, Request),
    reply: &mut Writer,
) -> Result<(), Failed> {
    let stateid = stateid_of(known.lock);
    let (state, reading) = (&frame.v4().state, frame.reading);
    let begun = state.begin_by_lock(frame.now, reading, stateid, request);
    run_or_replay(frame, reply, (op::LOCK, begun), |frame, ticket: &mut OwnerTicket, reply| {
        let client = state.client_of_request(ticket);
        let lock = |file: &FileKey| state.lock_by_owner(reading, ticket, stateid, file);
        let access = |file: &FileKey| Ok(reading.lock_access(lock(file)?)?);
        let named = |file: &FileKey, _: HostId| Ok(lock(file)?.changed());
        take(frame, a, (&client, ticket.owner_name()), (access, named), reply)
    })
}

/// Acquires the lock. `access` returns what the file is open for, `named` the stateid once the lock is held.
fn take<'f>(
    frame: &Frame<'f>,
    a: &LockArgs<'f>,
    (client, owner): (&Minor0Client, &[u8]),
    (access, named): (
        impl FnOnce(&FileKey) -> Result<ShareBits, Failed>,
        impl FnOnce(&FileKey, HostId) -> Result<state::v4::Stateid, Failed>,
    ),
    reply: &mut Writer,
) -> Result<(), Failed> {
    let file = current_file(frame)?;
    let (range, mode) = (range(a.offset, a.length)?, mode(a.kind));
    let granted = access(&file)?;
    check_open_mode(granted, mode)?;
    if let LockType4::Write | LockType4::WriteWait = a.kind {
        frame.object()?.check_writable()?;
    }
    let requester = client.requester();
    recording::admit(frame, requester, a.reclaim)?;
    let manager = manager(frame)?;
    let host = lock_owner::host(frame, &manager, client)?;
    let who = Who::V4 { host, client: client.id(), owner };
    let held = frame.nfs.state.holds_of(&file, &who, range);
    let wanted = LockWanted { who, range, mode, reclaim: a.reclaim, notify: None };
    let answer = manager.lock(frame.caller.blocking(), frame.object()?.clone(), wanted);
    if a.reclaim && matches!(answer, LockAnswer::Denied(_)) {
        return Err(Nfsstat4::ReclaimConflict.into());
    }
    done(answer, reply)?;
    let give_back = || {
        let _gone = manager.unlock(frame.caller.blocking(), &file, &who, range);
    };
    let waits = matches!(a.kind, LockType4::ReadWait | LockType4::WriteWait);
    match a.reclaim {
        true => requester.reclaimed(frame.now, &frame.nfs.state),
        false if held => {}
        false => {
            cached_locks::check_known(frame, &file, client.id(), waits)
                .inspect_err(|_| give_back())?;
        }
    }
    // without a stateid the client could not release it
    let stateid = named(&file, host).inspect_err(|_| give_back())?;
    reply.put(&wire_stateid(stateid));
    Ok(())
}

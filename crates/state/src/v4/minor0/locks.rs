//! Lock states of version 4.0: LOCK and LOCKU as requests of a lock owner, and RELEASE_LOCKOWNER (RFC 7530 §9.1.9, §16.10,
//! §16.37).
//!
//! The first LOCK of a lock owner by an open is a request of the open owner as well. A lock owner is made when it gets its
//! first lock; it has one lock state for each open that it has locked by.

use super::super::lock_state::LockRef;
use super::super::server::{Reading, V4State};
use super::super::stateid::{Stateid, StateidError};
use super::access::Minor0Client;
use super::owner::{KeptReply, OwnerError, OwnerKind, Request};
use super::owner_ticket::{Begun, OwnerTicket};
use crate::holder::Who;
use crate::key::{FileKey, HostId, Now};
use crate::share::ShareBits;
use crate::sync::Arc;

/// The lock owner in the arguments of LOCK.
#[derive(Debug, Clone, Copy)]
pub struct LockOwnerName<'a> {
    /// The client ID in it.
    pub client_id: u64,
    /// Its name within the client.
    pub name: &'a [u8],
    /// The lock owner's seqid (`lock_seqid`).
    pub seqid: u32,
}

/// How a LOCK of a new lock owner begins.
#[derive(Debug)]
pub enum LockBegun {
    /// It runs: a request of the open owner, and one of the lock owner if that is known already.
    Run(OwnerTicket, Option<OwnerTicket>),
    /// It is a retransmission; this was its reply.
    Replay(KeptReply),
}

/// Why a lock owner is not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseError {
    /// There is no such client.
    Client(OwnerError),
    /// It holds locks.
    LocksHeld,
}

impl V4State {
    /// Begins a LOCK with `new_lock_owner`. If the owner has a lock by this open already its seqid must be the next one;
    /// RFC 7530 §16.10.5 has such a request fail, but some clients set `new_lock_owner` each time.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn begin_first_lock(
        &self,
        now: Now,
        reading: &Reading<'_>,
        stateid: Stateid,
        (owner, request): (LockOwnerName<'_>, Request),
    ) -> Result<LockBegun, OwnerError> {
        let ticket = match self.begin_by_open(now, reading, stateid, request)? {
            Begun::Replay(reply) => return Ok(LockBegun::Replay(reply)),
            Begun::Run(ticket) => ticket,
        };
        if owner.client_id != ticket.client_id() {
            self.minor0_client(now, owner.client_id)?;
            return Err(OwnerError::Stateid(StateidError::Bad));
        }
        let found = ticket.client.owners();
        let found = found.and_then(|owners| owners.find(OwnerKind::Lock, owner.name));
        let Some(found) = found else { return Ok(LockBegun::Run(ticket, None)) };
        match OwnerTicket::begin(
            &ticket.client,
            &found,
            now,
            Request { seqid: owner.seqid, ..request },
        )? {
            Begun::Run(lock_ticket) => Ok(LockBegun::Run(ticket, Some(lock_ticket))),
            // by another open owner with another seqid: not the same request
            Begun::Replay(_) => Err(OwnerError::BadSeqid),
        }
    }

    /// Begins a request that names a lock state: LOCKU, and LOCK of an owner that has one.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn begin_by_lock(
        &self,
        now: Now,
        reading: &Reading<'_>,
        stateid: Stateid,
        request: Request,
    ) -> Result<Begun, OwnerError> {
        let lock = reading.lock(&stateid.other);
        let owner = lock.and_then(|lock| Some((&lock.client, lock.locker.as_ref()?)));
        self.begin_by_stateid(now, stateid, owner, request)
    }

    /// The access of the open of a stateid, by which a lock owner locks for the first time.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn open_access(
        &self,
        reading: &Reading<'_>,
        stateid: Stateid,
        file: &FileKey,
    ) -> Result<ShareBits, StateidError> {
        Ok(self.usable_open(reading, stateid, file)?.mode().access)
    }

    /// The lock state of a stateid by a request of its owner.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn lock_by_owner<'r>(
        &self,
        reading: &'r Reading<'_>,
        ticket: &OwnerTicket,
        stateid: Stateid,
        file: &FileKey,
    ) -> Result<LockRef<'r>, StateidError> {
        let found = reading.find_lock(ticket.client_id(), stateid)?;
        if found.file() == file { Ok(found) } else { Err(StateidError::Bad) }
    }

    /// Makes the lock state of an owner that has just got its first lock by an open; returns its stateid. The owner is
    /// added if it was not known, with the request's `lock_seqid`.
    ///
    /// # Errors
    /// [`StateidError::Bad`]: the open has been closed; `Ok(None)`: there are too many owners or lock states.
    pub fn first_lock(
        &self,
        (now, reading): (Now, &Reading<'_>),
        stateid: Stateid,
        (file, host): (&FileKey, HostId),
        tickets: &mut (OwnerTicket, Option<OwnerTicket>),
        (owner, request): (LockOwnerName<'_>, Request),
    ) -> Result<Option<Stateid>, StateidError> {
        let client = Arc::clone(&tickets.0.client);
        let Some(owners) = client.owners() else { return Err(StateidError::Bad) };
        if tickets.1.is_none() {
            let most = (now, self.limits.owners_per_client);
            let Some(found) = owners.find_or_add(OwnerKind::Lock, owner.name, most) else {
                return Ok(None);
            };
            match OwnerTicket::begin(
                &client,
                &found,
                now,
                Request { seqid: owner.seqid, ..request },
            ) {
                Ok(Begun::Run(ticket)) => tickets.1 = Some(ticket),
                Ok(Begun::Replay(_)) | Err(_) => return Err(StateidError::Bad),
            }
        }
        let locker = tickets.1.as_ref().map(|ticket| &ticket.owner);
        let wanted = (file, host, owner.name);
        let made = self.locked_by(reading, stateid, wanted, (client.id, locker));
        if !matches!(made, Ok(Some(_)))
            && let Some(ticket) = tickets.1.take()
            && ticket.owner.last_seqid().is_none()
        {
            owners.remove(&ticket.owner);
        }
        made
    }

    /// Releases a lock owner, unless `holds` returns that one of its lock states has a lock.
    ///
    /// # Errors
    /// [`ReleaseError`]; then nothing has changed.
    pub fn release_lock_owner(
        &self,
        now: Now,
        reading: &Reading<'_>,
        (client_id, name): (u64, &[u8]),
        holds: impl Fn(&FileKey, &Who<'_>) -> bool,
    ) -> Result<(), ReleaseError> {
        let client = self.minor0_client(now, client_id).map_err(ReleaseError::Client)?;
        let Some(owners) = client.owners() else { return Ok(()) };
        let Some(owner) = owners.find(OwnerKind::Lock, name) else { return Ok(()) };
        let states = owner.states();
        let locks = || states.iter().filter_map(|other| reading.lock(other));
        if owner.is_running() || locks().any(|lock| holds(&lock.file, &lock.who())) {
            return Err(ReleaseError::LocksHeld);
        }
        for lock in locks() {
            self.free_lock(reading, LockRef::of(lock));
        }
        owners.remove(&owner);
        Ok(())
    }

    /// The client of a request.
    pub fn client_of_request(&self, ticket: &OwnerTicket) -> Minor0Client {
        Minor0Client { client: Arc::clone(&ticket.client) }
    }
}

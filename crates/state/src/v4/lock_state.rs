//! Lock states: what a lock stateid names (RFC 8881 §8.2, §18.10).
//!
//! A lock state belongs to an open and one lock owner. Which bytes the owner holds stands in the table of locks that all
//! protocols share ([`State`](crate::State)); here is only the stateid. A lock state goes with its open, or by
//! FREE_STATEID once the owner holds nothing of the file.
//!
//! What ends here has locks there: it is noted (`Released`) and given back by whoever reads the notes, because the kernel
//! may have to be asked.

use super::file_opens::FileOpens;
use super::lock_entry::{LockState, Released};
use super::minor0::Owner;
use super::open_access::of_file;
use super::open_entry::Open;
use super::server::{Entry, Reading, V4State};
use super::session::Session;
use super::stateid::{Stateid, StateidError, check_version, key_of};
use crate::acquire::acquire;
use crate::holder::Who;
use crate::key::{FileKey, HostId};
use crate::share::ShareBits;
use crate::sync::{Arc, AtomicUsize};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A lock state that a stateid names, as long as the map is read.
#[derive(Clone, Copy)]
pub struct LockRef<'r> {
    lock: &'r Arc<LockState>,
}

impl<'r> LockRef<'r> {
    pub(super) const fn of(lock: &'r Arc<LockState>) -> Self {
        Self { lock }
    }

    /// The owner.
    pub fn who(&self) -> Who<'r> {
        self.lock.who()
    }

    /// The file.
    pub fn file(&self) -> &'r FileKey {
        &self.lock.file
    }

    /// Counts a change of what the owner holds: the stateid from now on.
    pub fn changed(&self) -> Stateid {
        self.lock.bump()
    }
}

impl Reading<'_> {
    /// The lock state of a client's stateid.
    ///
    /// # Errors
    /// [`StateidError::Bad`], [`StateidError::Old`].
    pub fn find_lock(&self, client_id: u64, stateid: Stateid) -> Result<LockRef<'_>, StateidError> {
        let lock =
            self.lock(&stateid.other).ok_or_else(|| self.missing(client_id, &stateid.other))?;
        if lock.client.id != client_id || lock.is_ended() {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, lock.seqid.load(Acquire))?;
        Ok(LockRef { lock })
    }

    /// Whether a client's stateid names an open, a lock state or a delegation in its present version.
    ///
    /// # Errors
    /// [`StateidError::Bad`], [`StateidError::Old`].
    pub fn test(&self, client_id: u64, stateid: Stateid) -> Result<(), StateidError> {
        match self.entry(&stateid.other) {
            Some(Entry::Lock(_)) => self.find_lock(client_id, stateid).map(drop),
            Some(Entry::Delegation(_)) => self.check_delegation(client_id, stateid, None).map(drop),
            _ => self.find_open(client_id, stateid).map(drop),
        }
    }

    /// What the open is for that a lock state belongs to.
    ///
    /// # Errors
    /// [`StateidError::Bad`]: it has been closed.
    pub fn lock_access(&self, lock: LockRef<'_>) -> Result<ShareBits, StateidError> {
        Ok(self.open_of_lock(lock)?.mode().access)
    }

    /// The open that a lock state belongs to.
    pub(super) fn open_of_lock(&self, lock: LockRef<'_>) -> Result<&Arc<Open>, StateidError> {
        let open = self.open(&lock.lock.open).filter(|open| !open.is_ended());
        open.ok_or(StateidError::Bad)
    }
}

impl V4State {
    /// The session's client as a host of the table of locks; `make` makes it one. `None`: the client has ended.
    pub fn lock_host(
        &self,
        session: &Session,
        make: impl FnOnce(u64, &[u8]) -> HostId,
    ) -> Option<HostId> {
        let client = &session.client;
        client.lock_host(|| make(client.id, &client.owner))
    }

    /// The stateid of an owner who has just got a lock by the open of this stateid: a new one, or the next version of the
    /// one that he has.
    ///
    /// # Errors
    /// [`StateidError::Bad`]: the open has been closed; `Ok(None)`: there are too many lock states.
    pub fn locked(
        &self,
        reading: &Reading<'_>,
        open: Stateid,
        wanted: (&FileKey, HostId, &[u8]),
        client_id: u64,
    ) -> Result<Option<Stateid>, StateidError> {
        self.locked_by(reading, open, wanted, (client_id, None))
    }

    /// The same, for an owner whose requests are numbered, if there is `locker`.
    pub(super) fn locked_by(
        &self,
        reading: &Reading<'_>,
        open: Stateid,
        (file, host, owner): (&FileKey, HostId, &[u8]),
        (client_id, locker): (u64, Option<&Arc<Owner>>),
    ) -> Result<Option<Stateid>, StateidError> {
        let current = Stateid { seqid: 0, ..open };
        let open = of_file(reading.find_open(client_id, current), file)?.open;
        let mut locks = acquire(&open.locks);
        if open.is_ended() {
            return Err(StateidError::Bad);
        }
        if let Some(lock) = locks.iter().find(|lock| *lock.owner == *owner) {
            return Ok(Some(lock.bump()));
        }
        let client = Arc::clone(&open.client);
        if locks.len() >= self.limits.lock_owners_per_open
            || !client.add_lock_state(self.limits.lock_states_per_client)
        {
            return Ok(None);
        }
        let lock = Arc::new(LockState {
            other: self.other(),
            seqid: AtomicU32::new(1),
            open: open.other,
            file: *file,
            client,
            host,
            owner: owner.into(),
            locker: locker.map(Arc::clone),
            ended: AtomicUsize::new(0),
        });
        self.entries.pin().insert(key_of(&lock.other), Entry::Lock(Arc::clone(&lock)));
        let stateid = Stateid { seqid: 1, other: lock.other };
        if let Some(locker) = locker {
            locker.add_state(lock.other);
        }
        locks.push(lock);
        Ok(Some(stateid))
    }

    /// FREE_STATEID of a lock state whose owner holds nothing of the file, which the caller has checked.
    pub fn free_lock(&self, reading: &Reading<'_>, lock: LockRef<'_>) {
        if let Some(open) = reading.open(&lock.lock.open) {
            acquire(&open.locks).retain(|other| !Arc::ptr_eq(other, lock.lock));
        }
        self.end_lock(lock.lock);
    }

    fn end_lock(&self, lock: &Arc<LockState>) {
        if lock.ended.swap(1, Release) == 0 {
            lock.client.forget_lock_state();
            if let Some(locker) = &lock.locker {
                locker.forget_state(&lock.other);
            }
            self.entries.pin().remove(&key_of(&lock.other));
        }
    }

    /// Ends the lock states of an open that has ended. `siblings` are the other opens of the file: what an owner holds
    /// stays if he has a lock state by another open of the client.
    pub(super) fn end_locks_of(&self, open: &Open, siblings: &FileOpens) {
        let locks = std::mem::take(&mut *acquire(&open.locks));
        for lock in locks {
            self.end_lock(&lock);
            let by_another = |other: &Arc<Open>| {
                acquire(&other.locks).iter().any(|other| other.owner == lock.owner)
            };
            if !siblings.of_client(open.client_id()).any(by_another) {
                let (file, host, client) = (lock.file, lock.host, lock.client.id);
                self.note(Released::Owner { file, host, client, owner: lock.owner.clone() });
            }
        }
    }

    pub(super) fn note(&self, released: Released) {
        let mut notes = acquire(&self.released);
        notes.push(released);
        self.released_count.store(notes.len(), Release);
    }

    /// Whether something has ended that may have locks, which are to be given back.
    #[inline]
    pub fn has_released(&self) -> bool {
        self.released_count.load(Acquire) != 0
    }

    /// What has ended since the last call and may have locks. Costs one load if nothing has.
    pub fn take_released(&self) -> Vec<Released> {
        if !self.has_released() {
            return Vec::new();
        }
        let mut notes = acquire(&self.released);
        self.released_count.store(0, Release);
        std::mem::take(&mut *notes)
    }
}

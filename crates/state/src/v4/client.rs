//! A client, and what it has (RFC 8881 §18.35.4).

use super::host_share::HostShare;
use super::machine::MachineCredential;
use super::minor0::Owners;
use super::open_entry::Open;
use super::revoked_stateids::Revoked;
use super::rows::OpenRow;
use super::stateid::SessionId;
use crate::acquire::acquire;
use crate::client_record::ClientName;
use crate::key::{HostId, Now};
use crate::principal::Principal;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A client record.
pub(super) struct Client {
    pub id: u64,
    /// The number of this life in the records; rises over all instances, and each time that the record is taken back.
    /// Written with the lock of the opens held.
    life: AtomicU64,
    pub owner: Box<[u8]>,
    pub verifier: [u8; 8],
    pub principal: Principal,
    /// Its state protection, if it has one.
    pub machine: Option<MachineCredential>,
    /// Where it made itself known from.
    pub address: IpAddr,
    /// What all clients of that host have.
    pub host: Arc<HostShare>,
    /// When it last renewed its lease.
    renewed_ms: AtomicU64,
    reclaimed: AtomicUsize,
    /// Not 0 if the record by which it may reclaim is stored. Written with the lock of the opens held.
    recorded: AtomicUsize,
    /// Not 0 while its record is being taken back, after which it ends.
    leaving: AtomicUsize,
    /// Taken with the lock of the table of clients held.
    sessions: Mutex<Vec<SessionId>>,
    opens: Mutex<ClientOpens>,
    lock_host: Mutex<LockHost>,
    /// What was taken from it, as long as it has not freed it.
    pub revoked: Revoked,
    /// The delegations that it did not return in time, as long as it has not freed them.
    pub revoked_delegations: Revoked,
    /// How many lock states it has.
    lock_states: AtomicUsize,
    /// Its owners, if it is a client of version 4.0.
    owners: Option<Owners>,
}

/// The client as a host of the table of locks.
#[derive(Default)]
enum LockHost {
    /// It has never asked for a lock.
    #[default]
    None,
    Host(HostId),
    /// The client has been removed.
    Ended,
}

#[derive(Default)]
struct ClientOpens {
    /// The client has been removed: nothing is added any more.
    ended: bool,
    /// Its record was taken back, or never needed: nothing is added before it is stored.
    unrecorded: bool,
    opens: BTreeMap<[u8; 12], Arc<Open>>,
    delegations: BTreeSet<[u8; 12]>,
    /// How many opens and delegations were ever added.
    added: u64,
    /// How many there were when the client was last seen with nothing.
    idle_at: Option<u64>,
}

/// Why a client gets no open or delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdded {
    /// It has been removed, or has too many.
    NoRoom,
    /// Its record is not stored.
    NotRecorded,
}

impl ClientOpens {
    fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.delegations.is_empty()
    }

    fn check_room(&self, count: usize, most: usize) -> Result<(), NotAdded> {
        match self.ended || count >= most {
            true => Err(NotAdded::NoRoom),
            false if self.unrecorded => Err(NotAdded::NotRecorded),
            false => Ok(()),
        }
    }
}

impl Client {
    /// A client that makes itself known from this address.
    pub fn new(
        (id, life): (u64, u64),
        (owner, verifier): (&[u8], [u8; 8]),
        principal: Principal,
        (address, host): (IpAddr, Arc<HostShare>),
        now: Now,
    ) -> Self {
        Self {
            id,
            life: AtomicU64::new(life),
            owner: owner.into(),
            verifier,
            principal,
            machine: None,
            address,
            host,
            renewed_ms: AtomicU64::new(now.0),
            reclaimed: AtomicUsize::new(0),
            recorded: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            sessions: Mutex::default(),
            opens: Mutex::default(),
            lock_host: Mutex::default(),
            revoked: Revoked::default(),
            revoked_delegations: Revoked::default(),
            lock_states: AtomicUsize::new(0),
            owners: None,
        }
    }

    /// The same with the state protection that it asks for.
    pub fn protected_by(self, machine: Option<MachineCredential>) -> Self {
        Self { machine, ..self }
    }

    /// The same as a client of version 4.0.
    pub fn of_minor0(self) -> Self {
        Self { owners: Some(Owners::default()), ..self }
    }

    /// Its owners, if it is a client of version 4.0.
    pub const fn owners(&self) -> Option<&Owners> {
        self.owners.as_ref()
    }

    pub const fn is_minor0(&self) -> bool {
        self.owners.is_some()
    }

    /// Whether it has been removed.
    pub fn has_ended(&self) -> bool {
        acquire(&self.opens).ended
    }

    /// Renews the lease. The line is written once a second at the most.
    pub fn renew(&self, now: Now) {
        if now.0 / 1000 != self.renewed_ms.load(Relaxed) / 1000 {
            self.renewed_ms.store(now.0, Relaxed);
        }
    }

    /// For how long it has not called, at the least: what came within the second of the last note is not noted, and no
    /// lease may end early for that.
    pub fn silent_ms(&self, now: Now) -> u64 {
        let noted_ms = self.renewed_ms.load(Relaxed);
        now.since(noted_ms.saturating_sub(noted_ms % 1000).saturating_add(999))
    }

    pub fn complete_reclaim(&self) -> bool {
        self.reclaimed.swap(1, AcqRel) == 0
    }

    pub fn has_reclaimed(&self) -> bool {
        self.reclaimed.load(Relaxed) != 0
    }

    /// Who it is, over all its lives.
    pub fn name(&self) -> ClientName {
        let (minor, principal) = (u8::from(!self.is_minor0()), self.principal);
        ClientName { minor, principal, owner: self.owner.clone() }
    }

    pub fn is_recorded(&self) -> bool {
        self.recorded.load(Acquire) != 0
    }

    /// The number of this life in the records.
    pub fn life(&self) -> u64 {
        self.life.load(Acquire)
    }

    /// A record of this life is stored. Nothing changes if that life is over, because the record has been taken back
    /// meanwhile.
    pub fn set_recorded(&self, life: u64) {
        let mut opens = acquire(&self.opens);
        if self.life() == life {
            opens.unrecorded = false;
            self.recorded.store(1, Release);
        }
    }

    /// Its record is no longer stored: it gets nothing more before another is.
    pub fn set_unrecorded(&self) {
        let mut opens = acquire(&self.opens);
        opens.unrecorded = true;
        self.recorded.store(0, Release);
    }

    /// The same if it has nothing; false if it has something.
    pub fn set_unrecorded_if_empty(&self) -> bool {
        let mut opens = acquire(&self.opens);
        let empty = opens.is_empty();
        if empty {
            opens.unrecorded = true;
            self.recorded.store(0, Release);
        }
        empty
    }

    /// If it is recorded and has had nothing since the last call: its record is to be taken back, and this is the number
    /// of the life that it was of. The next record is of another life, so that it does not matter which of the two is
    /// stored first.
    pub fn take_idle_record(&self, next_life: impl FnOnce() -> u64) -> Option<u64> {
        let mut opens = acquire(&self.opens);
        if opens.ended || !opens.is_empty() || !self.is_recorded() || self.is_leaving() {
            opens.idle_at = None;
            return None;
        }
        let added = opens.added;
        if opens.idle_at.replace(added) != Some(added) {
            return None;
        }
        opens.unrecorded = true;
        self.recorded.store(0, Release);
        Some(self.life.swap(next_life(), AcqRel))
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed) != 0
    }

    pub fn set_leaving(&self, leaving: bool) {
        self.leaving.store(leaving.into(), Relaxed);
    }

    pub fn session_count(&self) -> usize {
        acquire(&self.sessions).len()
    }

    pub fn session_ids(&self) -> Vec<SessionId> {
        acquire(&self.sessions).clone()
    }

    pub fn add_session(&self, id: SessionId) {
        acquire(&self.sessions).push(id);
        self.host.add_session();
    }

    pub fn forget_session(&self, id: &SessionId) {
        let mut sessions = acquire(&self.sessions);
        let before = sessions.len();
        sessions.retain(|session| session != id);
        self.host.forget_sessions(before - sessions.len());
    }

    pub fn take_sessions(&self) -> Vec<SessionId> {
        let sessions = std::mem::take(&mut *acquire(&self.sessions));
        self.host.forget_sessions(sessions.len());
        sessions
    }

    pub fn open_count(&self) -> usize {
        acquire(&self.opens).opens.len()
    }

    /// Adds an open.
    pub fn add_open(&self, open: &Arc<Open>, most: usize) -> Result<(), NotAdded> {
        let mut opens = acquire(&self.opens);
        opens.check_room(opens.opens.len(), most)?;
        opens.opens.insert(open.other, Arc::clone(open));
        self.host.add_open();
        opens.added = opens.added.wrapping_add(1);
        Ok(())
    }

    pub fn forget_open(&self, other: &[u8; 12]) {
        if acquire(&self.opens).opens.remove(other).is_some() {
            self.host.forget_opens(1);
        }
    }

    /// All opens that there are now.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        acquire(&self.opens).opens.values().cloned().collect()
    }

    /// Takes all opens; none is added after that.
    pub fn take_opens(&self) -> Vec<Arc<Open>> {
        let mut opens = acquire(&self.opens);
        opens.ended = true;
        let taken = std::mem::take(&mut opens.opens);
        self.host.forget_opens(taken.len());
        taken.into_values().collect()
    }

    pub fn delegation_count(&self) -> usize {
        acquire(&self.opens).delegations.len()
    }

    /// Adds a delegation.
    pub fn add_delegation(
        &self,
        other: [u8; 12],
        is_reclaimable: bool,
        most: usize,
    ) -> Result<(), NotAdded> {
        let mut opens = acquire(&self.opens);
        match opens.check_room(opens.delegations.len(), most) {
            // a client is recorded for what it may reclaim after a restart
            Err(NotAdded::NotRecorded) if !is_reclaimable => {}
            room => room?,
        }
        opens.delegations.insert(other);
        opens.added = opens.added.wrapping_add(1);
        Ok(())
    }

    pub fn forget_delegation(&self, other: &[u8; 12]) {
        acquire(&self.opens).delegations.remove(other);
    }

    /// Takes the stateids of all delegations.
    pub fn take_delegations(&self) -> BTreeSet<[u8; 12]> {
        std::mem::take(&mut acquire(&self.opens).delegations)
    }

    pub fn open_rows(&self) -> Vec<OpenRow> {
        let row = |open: &Arc<Open>| OpenRow {
            client: self.id,
            owner: open.owner.clone(),
            file: open.file.file,
            mode: open.mode(),
        };
        acquire(&self.opens).opens.values().map(row).collect()
    }

    /// The client as a host, made by `make` if it is none; `None` if the client has been removed.
    pub fn lock_host(&self, make: impl FnOnce() -> HostId) -> Option<HostId> {
        let mut host = acquire(&self.lock_host);
        match *host {
            LockHost::Host(id) => Some(id),
            LockHost::Ended => None,
            LockHost::None => {
                let id = make();
                *host = LockHost::Host(id);
                Some(id)
            }
        }
    }

    /// The host that it was; it becomes none after that.
    pub fn end_lock_host(&self) -> Option<HostId> {
        let mut host = acquire(&self.lock_host);
        match std::mem::replace(&mut *host, LockHost::Ended) {
            LockHost::Host(id) => Some(id),
            LockHost::None | LockHost::Ended => None,
        }
    }

    /// Counts one more lock state; false if there are too many.
    pub fn add_lock_state(&self, most: usize) -> bool {
        let more = |count| (count < most).then_some(count + 1);
        self.lock_states.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    pub fn forget_lock_state(&self) {
        self.lock_states.fetch_sub(1, Relaxed);
    }

    pub fn has_state(&self) -> bool {
        !acquire(&self.opens).is_empty()
    }
}

//! All clients, sessions and opens.

use super::client::Client;
use super::clients::Clients;
use super::delegation_entry::{Delegation, Delegations};
use super::files::Files;
use super::key_hash::KeyHashing;
use super::limits::V4Limits;
use super::lock_entry::{LockState, Released};
use super::minor0::Ended;
use super::name_conflicts::NameConflicts;
use super::open_entry::Open;
use super::session::{Session, SessionId};
use super::slots::{SlotTotal, Slots};
use super::stateid::{Key, key_of};
use crate::acquire::acquire;
use crate::key::Now;
use crate::record::Record;
use crate::server::State;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex};
use std::sync::atomic::Ordering::Relaxed;

/// What the map holds.
pub(super) enum Entry {
    Session(Arc<Session>),
    Open(Arc<Open>),
    Lock(Arc<LockState>),
    Delegation(Arc<Delegation>),
    /// The stateid of a state that was taken from this client.
    Revoked(Arc<Client>),
}

/// Numbers that nobody can guess; the crate has no source of its own.
pub type Random = fn() -> u64;

/// The state of version 4.
pub struct V4State {
    /// What this is on top of: the locks of all versions, and the share reservations of NLM.
    pub(super) core: Arc<State>,
    pub(super) limits: V4Limits,
    /// Differs from that of every earlier life of the server.
    pub(super) instance: u32,
    pub(super) random: Random,
    pub(super) clients: Mutex<Clients>,
    pub(super) entries: papaya::HashMap<Key, Entry, KeyHashing>,
    pub(super) files: Files,
    pub(super) delegations: Delegations,
    /// How many slots all sessions have.
    pub(super) slot_total: Arc<SlotTotal>,
    /// How many opens there are.
    pub(super) opens: AtomicUsize,
    /// What has ended and may have locks.
    pub(super) released: Mutex<Vec<Released>>,
    /// How many there are.
    pub(super) released_count: AtomicUsize,
    /// What clients of version 4.0 have lost.
    pub(super) ended: Ended,
    /// Clients that call themselves the same.
    pub(super) name_conflicts: NameConflicts,
    /// The records to be taken back of clients that had nothing.
    pub(super) forgotten: Mutex<Vec<Record>>,
    /// How many there are.
    pub(super) forgotten_count: AtomicUsize,
    lease_ms: AtomicU64,
    /// How often the server has started, as far as its records know.
    epoch: u32,
    serials: AtomicU64,
    /// The lives of clients that the records know of.
    lives: AtomicU64,
}

impl V4State {
    /// Without any client, on top of `core`. `instance` must differ from that of every earlier life of the server whose
    /// clients may still come.
    pub fn new(core: Arc<State>, instance: u32, random: Random, limits: V4Limits) -> Self {
        Self {
            core,
            limits,
            instance,
            random,
            clients: Mutex::new(Clients::default()),
            entries: papaya::HashMap::with_hasher(KeyHashing),
            files: Files::default(),
            delegations: Delegations::default(),
            slot_total: Arc::new(SlotTotal::new(limits.slots_most, limits.slots_in_all)),
            opens: AtomicUsize::new(0),
            released: Mutex::default(),
            released_count: AtomicUsize::new(0),
            ended: Ended::default(),
            name_conflicts: NameConflicts::default(),
            forgotten: Mutex::default(),
            forgotten_count: AtomicUsize::new(0),
            lease_ms: AtomicU64::new(limits.lease_ms),
            epoch: 0,
            serials: AtomicU64::new(1),
            lives: AtomicU64::new(1),
        }
    }

    /// The same, with the number of starts that the records count: the lives of clients are numbered by it.
    #[must_use]
    pub fn with_epoch(self, epoch: u32) -> Self {
        Self { epoch, ..self }
    }

    /// What this is on top of.
    pub const fn core(&self) -> &Arc<State> {
        &self.core
    }

    /// The lease, in milliseconds.
    pub fn lease_ms(&self) -> u64 {
        self.lease_ms.load(Relaxed)
    }

    /// Changes the lease, also that of clients that have asked for it: they ask again now and then.
    pub fn set_lease_ms(&self, lease_ms: u64) {
        self.lease_ms.store(lease_ms, Relaxed);
    }

    /// An id for a client that makes itself known, and the number of its life in the records.
    pub(super) fn client_id(&self) -> (u64, u64) {
        let serial = self.serial() & 0xffff_ffff;
        (u64::from(self.instance) << 32 | serial, self.next_life())
    }

    /// The number of another life in the records, higher than all before it.
    pub(super) fn next_life(&self) -> u64 {
        (u64::from(self.epoch) << 32).wrapping_add(self.lives.fetch_add(1, Relaxed))
    }

    /// What one session may have of slots.
    pub fn session_slots_most(&self) -> usize {
        self.slot_total.session_most()
    }

    /// Changes that. The sessions that have more, each with the highest slot that its client is to use from now on.
    pub fn set_session_slots_most(&self, most: usize) -> Vec<(SessionId, u32)> {
        self.slot_total.set_session_most(most);
        self.shrink(Slots::shrink_to_most)
    }

    /// If a session has got fewer slots than its client wanted: those that have grown since they were made give back what
    /// they have grown by. Each of them with the highest slot that its client is to use from now on. Costs one load if
    /// there are enough.
    pub fn take_slot_recalls(&self) -> Vec<(SessionId, u32)> {
        if self.slot_total.take_scarce() { self.shrink(Slots::shrink) } else { Vec::new() }
    }

    fn shrink(&self, lower: impl Fn(&Slots) -> Option<u32>) -> Vec<(SessionId, u32)> {
        let ids: Vec<SessionId> =
            acquire(&self.clients).all().flat_map(|client| client.session_ids()).collect();
        let reading = self.read();
        let lowered = |id: SessionId| Some((id, lower(&reading.session(&id)?.slots)?));
        ids.into_iter().filter_map(lowered).collect()
    }

    /// Whether the client is known, or its lease is over and nobody has wanted what it has.
    pub fn has_client(&self, id: u64) -> bool {
        acquire(&self.clients).get(id).is_some()
    }

    /// The limits, as they were at first.
    pub const fn limits(&self) -> &V4Limits {
        &self.limits
    }

    /// Opens the map for reading, as long as the result lives: what is found does not go meanwhile.
    pub fn read(&self) -> Reading<'_> {
        Reading { entries: self.entries.pin() }
    }

    pub(super) fn serial(&self) -> u64 {
        self.serials.fetch_add(1, Relaxed)
    }

    /// Ends what has ended by itself: unconfirmed records and clients without state, a lease after their last call. Those
    /// with state stay until somebody wants it, or until [`V4State::begin_overdue`].
    pub fn sweep(&self, now: Now) {
        let gone = acquire(&self.clients).take_expired(now, self.lease_ms());
        for client in gone {
            self.forget(&client);
            self.end_client(&client);
        }
    }

    /// Drops everything of a client whose record is no longer in the table.
    pub(super) fn end_client(&self, client: &Client) {
        for session in client.take_sessions() {
            self.remove_session(&session);
        }
        for open in client.take_opens() {
            if client.is_minor0() {
                self.note_lost(&open);
            }
            self.remove_open(&open);
        }
        for delegation in self.take_delegations(client) {
            if client.is_minor0() {
                self.ended.add_stateid(delegation.other);
            }
            self.end_delegation(&delegation);
        }
        if let Some(owners) = client.owners() {
            self.ended.add_client(client.id);
            owners.end().iter().for_each(|owner| self.end_owner(owner));
        }
        for other in client.revoked.take().into_iter().chain(client.revoked_delegations.take()) {
            self.entries.pin().remove(&key_of(&other));
        }
        if let Some(host) = client.end_lock_host() {
            self.note(Released::Client(host));
        }
    }

    /// Remembers the stateids of an open of version 4.0 that is lost with its client.
    fn note_lost(&self, open: &Open) {
        self.ended.add_stateid(open.other);
        for lock in acquire(&open.locks).iter() {
            self.ended.add_stateid(lock.other);
        }
    }

    fn remove_session(&self, id: &SessionId) {
        let entries = self.entries.pin();
        if let Some(Entry::Session(session)) = entries.remove(id) {
            session.end();
        }
    }
}

/// The sessions and opens, as long as it lives.
pub struct Reading<'s> {
    entries: papaya::HashMapRef<'s, Key, Entry, KeyHashing, papaya::LocalGuard<'s>>,
}

impl Reading<'_> {
    /// A session.
    pub fn session(&self, id: &SessionId) -> Option<&Session> {
        match self.entries.get(id)? {
            Entry::Session(session) => Some(session),
            Entry::Open(_) | Entry::Lock(_) | Entry::Delegation(_) | Entry::Revoked(_) => None,
        }
    }

    /// The same, to be kept.
    pub fn shared_session(&self, id: &SessionId) -> Option<Arc<Session>> {
        match self.entries.get(id)? {
            Entry::Session(session) => Some(Arc::clone(session)),
            Entry::Open(_) | Entry::Lock(_) | Entry::Delegation(_) | Entry::Revoked(_) => None,
        }
    }

    pub(super) fn entry(&self, other: &[u8; 12]) -> Option<&Entry> {
        self.entries.get(&key_of(other))
    }

    pub(super) fn open(&self, other: &[u8; 12]) -> Option<&Arc<Open>> {
        match self.entries.get(&key_of(other))? {
            Entry::Open(open) => Some(open),
            Entry::Session(_) | Entry::Lock(_) | Entry::Delegation(_) | Entry::Revoked(_) => None,
        }
    }

    pub(super) fn lock(&self, other: &[u8; 12]) -> Option<&Arc<LockState>> {
        match self.entries.get(&key_of(other))? {
            Entry::Lock(lock) => Some(lock),
            Entry::Session(_) | Entry::Open(_) | Entry::Delegation(_) | Entry::Revoked(_) => None,
        }
    }
}

//! A delegation, and the table of delegations by file.
//!
//! Invariant: a delegated file is in the table with the guard that holds local programs back; the guard is removed with the
//! last delegation, and dropped by the thread that removed it, without a lock.

use super::client::Client;
use super::granted_attrs::GrantedAttrs;
use super::open_entry::Guard;
use super::stateid::Stateid;
use super::stateid_access::StateidAccess;
use crate::acquire::acquire;
use crate::key::{FileKey, Now};
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Shards of the table.
const SHARDS: usize = 16;
/// Places in which it is noted until when a file is not delegated: two files may share one.
const REST_PLACES: usize = 8192;
/// How long a file is not delegated again after a recall.
const CONTENDED_MS: u64 = 30_000;
/// Places in which changes without an open are counted: two files may share one.
const CHANGE_PLACES: usize = 1024;
/// How long there is no read delegation of a file, and none of a directory, after somebody was allowed to change it: that takes
/// place meanwhile.
const CHANGED_MS: u64 = 1000;
/// No time.
const NEVER: u64 = u64::MAX;

/// What a client may take for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationKind {
    /// Nobody changes the file.
    Read,
    /// Nobody else reads or changes it: the server does not know what the client has written.
    Write,
    /// Nobody changes the entries or attributes of a directory (RFC 8881 §10.9).
    Directory,
}

/// A delegation that a client is to get.
pub struct DelegationRequest<'a> {
    /// What for.
    pub kind: DelegationKind,
    /// The file.
    pub file: &'a FileKey,
    /// The file as the client names it.
    pub handle: &'a [u8],
    /// What its user has opened the file for: for that the delegation stands for the file's permissions, as an open does.
    pub opened: StateidAccess,
    /// What the server knows of the file now.
    pub attrs: GrantedAttrs,
    /// For one for writing: since before `attrs` were fetched.
    pub pending: Option<&'a PendingWrite<'a>>,
}

/// A delegation (RFC 8881 §10.4).
pub(super) struct Delegation {
    pub(super) other: [u8; 12],
    pub(super) kind: DelegationKind,
    pub(super) file: FileKey,
    pub(super) client: Arc<Client>,
    pub(super) opened: StateidAccess,
    pub(super) attrs: GrantedAttrs,
    /// The file as the client names it.
    pub(super) handle: Box<[u8]>,
    /// The highest change attribute that others were shown of a file that the client had changed; 0 at first.
    shown_change: AtomicU64,
    /// When it was granted.
    granted_ms: u64,
    /// When it was first recalled, or [`NEVER`].
    recalled_ms: AtomicU64,
    /// When the recall is to be sent again, or [`NEVER`].
    again_ms: AtomicU64,
    /// Not 0 once it is no more.
    ended: AtomicUsize,
}

impl Delegation {
    pub fn new(
        other: [u8; 12],
        request: &DelegationRequest<'_>,
        client: &Arc<Client>,
        now: Now,
    ) -> Self {
        Self {
            other,
            kind: request.kind,
            file: *request.file,
            client: Arc::clone(client),
            opened: request.opened,
            attrs: request.attrs,
            handle: request.handle.into(),
            shown_change: AtomicU64::new(0),
            granted_ms: now.0,
            recalled_ms: AtomicU64::new(NEVER),
            again_ms: AtomicU64::new(NEVER),
            ended: AtomicUsize::new(0),
        }
    }

    pub fn is_ended(&self) -> bool {
        self.ended.load(Acquire) != 0
    }

    /// Ends it; false if it has ended before.
    pub fn end(&self) -> bool {
        self.ended.swap(1, Release) == 0
    }

    /// Whether a client other than `except` writes the file by it.
    pub fn is_written_by_other(&self, except: Option<u64>) -> bool {
        self.kind == DelegationKind::Write && Some(self.client.id) != except
    }

    /// See [`super::Holder::shown_change`].
    pub fn shown_change(&self, found: u64, is_modified: bool) -> u64 {
        let next = |shown: u64| {
            let is_seen = shown != 0 && found <= shown;
            (is_modified || is_seen).then(|| found.max(shown).saturating_add(1))
        };
        match self.shown_change.fetch_update(Relaxed, Relaxed, next) {
            Ok(shown) => next(shown).unwrap_or(found),
            Err(_) => found,
        }
    }

    /// For how long it has been recalled.
    pub fn recalled_for_ms(&self, now: Now) -> Option<u64> {
        let since = self.recalled_ms.load(Relaxed);
        (since != NEVER).then(|| now.since(since))
    }

    pub fn age_ms(&self, now: Now) -> u64 {
        now.since(self.granted_ms)
    }

    /// When the recall is to be sent again, if it is.
    pub fn again_ms(&self) -> Option<u64> {
        Some(self.again_ms.load(Relaxed)).filter(|again| *again != NEVER)
    }

    /// Begins to recall it, or does so once more; whether a recall is to be sent now.
    pub fn recall(&self, now: Now) -> bool {
        if self.recalled_ms.compare_exchange(NEVER, now.0, Relaxed, Relaxed).is_ok() {
            return true;
        }
        let again = self.again_ms.load(Relaxed);
        again <= now.0 && self.again_ms.compare_exchange(again, NEVER, Relaxed, Relaxed).is_ok()
    }
}

/// A delegation that its client is to be told to return.
#[derive(Clone)]
pub struct Recall {
    pub(super) delegation: Arc<Delegation>,
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recall").field(&self.stateid()).finish()
    }
}

impl PartialEq for Recall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.delegation, &other.delegation)
    }
}

impl Eq for Recall {}

impl Recall {
    /// The client's id.
    pub fn client_id(&self) -> u64 {
        self.delegation.client.id
    }

    /// The delegation.
    pub fn stateid(&self) -> Stateid {
        Stateid { seqid: 1, other: self.delegation.other }
    }

    /// The file as the client names it.
    pub fn handle(&self) -> &[u8] {
        &self.delegation.handle
    }

    /// For how long the delegation has been recalled.
    pub fn waited_ms(&self, now: Now) -> u64 {
        self.delegation.recalled_for_ms(now).unwrap_or(0)
    }

    /// The client could not be told, or did not know the delegation yet: it is to be told again at this time, if the
    /// delegation lives.
    pub fn again_at(&self, at: Now) {
        self.delegation.again_ms.store(at.0, Relaxed);
    }
}

/// The delegations of a file.
#[derive(Default)]
pub(super) struct DelegatedFile {
    pub delegations: Vec<Arc<Delegation>>,
    /// Holds local programs back.
    pub guard: Option<Guard>,
}

/// The delegated files of one shard.
pub(super) type DelegatedShard = Mutex<HashMap<FileKey, DelegatedFile>>;

/// All delegations.
pub(super) struct Delegations {
    shards: Box<[DelegatedShard]>,
    hash: RandomState,
    /// How many there are.
    pub count: AtomicUsize,
    /// How many of them are for writing, with [`Delegations::pending`].
    pub writing: AtomicUsize,
    /// How many for writing are about to be given.
    pub pending: AtomicUsize,
    /// How many of them are of directories.
    pub of_directories: AtomicUsize,
    /// How many of them are recalled; changed with the lock of their shard held.
    pub recalled: AtomicUsize,
    /// How many were revoked since the start.
    pub revoked: AtomicU64,
    /// Until when a file is not delegated because of a recall, by the file's hash; 0 at first.
    contended_until_ms: Box<[AtomicU64]>,
    /// Until when there is no read delegation of it because a change that was allowed may take place.
    changed_until_ms: Box<[AtomicU64]>,
    /// How often a file was changed without an open while there was one for writing, or one was about to be given; by the
    /// file's hash.
    changes: Box<[AtomicU64]>,
}

/// A write delegation that is about to be given. Whoever has changed the file without an open counts that first, and then
/// takes the lock of the file's shard, under which the count is compared: he finds the delegation, or is found.
pub struct PendingWrite<'s> {
    delegations: &'s Delegations,
    place: usize,
    /// The count when it began.
    seen: u64,
}

impl PendingWrite<'_> {
    /// Whether the file was changed since. With the lock of its shard held.
    pub(super) fn is_changed(&self) -> bool {
        self.delegations.change_count(self.place) != self.seen
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        self.delegations.pending.fetch_sub(1, Relaxed);
        self.delegations.writing.fetch_sub(1, Relaxed);
    }
}

impl Default for Delegations {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hash: RandomState::new(),
            count: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            of_directories: AtomicUsize::new(0),
            recalled: AtomicUsize::new(0),
            revoked: AtomicU64::new(0),
            contended_until_ms: (0..REST_PLACES).map(|_| AtomicU64::new(0)).collect(),
            changed_until_ms: (0..REST_PLACES).map(|_| AtomicU64::new(0)).collect(),
            changes: (0..CHANGE_PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Delegations {
    /// The counter of those of a kind, besides that of all.
    pub fn count_of(&self, kind: DelegationKind) -> Option<&AtomicUsize> {
        match kind {
            DelegationKind::Read => None,
            DelegationKind::Write => Some(&self.writing),
            DelegationKind::Directory => Some(&self.of_directories),
        }
    }

    fn place(&self, file: &FileKey) -> usize {
        usize::try_from(self.hash.hash_one(file)).unwrap_or(0)
    }

    pub fn shard(&self, file: &FileKey) -> Option<&DelegatedShard> {
        self.shards.get(self.place(file) % SHARDS).or_else(|| self.shards.first())
    }

    /// All shards, one after the other.
    pub fn shards(&self) -> impl Iterator<Item = &DelegatedShard> {
        self.shards.iter()
    }

    /// A delegation of a file is recalled: none is given for a while.
    pub fn note_contention(&self, now: Now, file: &FileKey) {
        self.rest(&self.contended_until_ms, file, now.0.saturating_add(CONTENDED_MS));
    }

    /// A change of a file is allowed: no read delegation is given until it has had time to take place. Who then takes the
    /// lock of its shard finds there those that were given before; none is added any more.
    pub fn note_change(&self, now: Now, file: &FileKey) {
        self.rest(&self.changed_until_ms, file, now.0.saturating_add(CHANGED_MS));
    }

    /// One for writing is about to be given.
    pub fn await_write(&self, file: &FileKey) -> PendingWrite<'_> {
        // before the file is looked at: who has changed it and does not see this has changed it before
        self.writing.fetch_add(1, SeqCst);
        self.pending.fetch_add(1, Relaxed);
        let place = self.place(file) % CHANGE_PLACES;
        PendingWrite { delegations: self, place, seen: self.change_count(place) }
    }

    /// A file was changed without an open.
    pub fn note_done_change(&self, file: &FileKey) {
        if let Some(count) = self.changes.get(self.place(file) % CHANGE_PLACES) {
            count.fetch_add(1, SeqCst);
        }
    }

    fn change_count(&self, place: usize) -> u64 {
        self.changes.get(place).map_or(0, |count| count.load(SeqCst))
    }

    fn rest(&self, places: &[AtomicU64], file: &FileKey, until_ms: u64) {
        if let Some(place) = places.get(self.place(file) % REST_PLACES) {
            place.fetch_max(until_ms, Relaxed);
        }
    }

    /// Whether a file is not to be delegated now, or may not be. With the lock of its shard held.
    pub fn rests(&self, now: Now, kind: DelegationKind, file: &FileKey) -> bool {
        let at = self.place(file) % REST_PLACES;
        let rests =
            |places: &[AtomicU64]| places.get(at).is_some_and(|until| now.0 < until.load(Relaxed));
        rests(&self.contended_until_ms)
            || kind != DelegationKind::Write && rests(&self.changed_until_ms)
    }

    /// Takes a delegation out of the table; the guard, if it was the file's last. Dropping that must not wait.
    pub fn remove(&self, delegation: &Arc<Delegation>) -> Option<Guard> {
        let mut files = acquire(self.shard(&delegation.file)?);
        let file = files.get_mut(&delegation.file)?;
        file.delegations.retain(|other| !Arc::ptr_eq(other, delegation));
        if delegation.recalled_for_ms(Now(0)).is_some() {
            self.recalled.fetch_sub(1, Relaxed);
        }
        if !file.delegations.is_empty() {
            return None;
        }
        files.remove(&delegation.file)?.guard
    }
}

//! How the clients are reached whose requests wait, from the request until the client has confirmed that it has the
//! lock.
//!
//! An entry is made before the core is asked, because the grant may come before the answer. It goes with the request's
//! CANCEL or the grant's answer; an entry whose request no longer exists (its host was dropped) is removed by the sweep in
//! `Nlm::tick`. The mutex is held for map operations.

use proto::nlm::Status;
use rpc::{CallerAddress, Transport};
use siphasher::sip::SipHasher13;
use state::{FileKey, Granted, Now, Tag};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries at the most: those of all requests that may wait (`waiters` of [`state::Limits`]), and as many that have
/// ended and were not swept yet.
const ENTRIES_MAX: usize = 131_072;
/// An entry that is younger may belong to a request that the core has not seen yet, in milliseconds.
const SWEEP_AGE_MS: u64 = 60_000;
/// Bytes of a cookie of ours: the tag, and a keyed hash of it.
const COOKIE_LEN: usize = 16;

/// Patience with a first call; it doubles with each.
const PATIENCE_FIRST_MS: u64 = 2000;
/// Patience at the most.
const PATIENCE_MAX_MS: u64 = 30_000;

/// How long to wait for an answer after so many calls.
pub(super) fn patience_ms(calls: u32) -> u64 {
    let doubled = PATIENCE_FIRST_MS.checked_shl(calls.min(16)).unwrap_or(PATIENCE_MAX_MS);
    doubled.min(PATIENCE_MAX_MS)
}

/// By which procedures a client wants to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrantCallback {
    /// GRANTED, whose reply is the answer.
    Granted,
    /// GRANTED_MSG, whose answer is GRANTED_RES.
    GrantedMsg,
}

impl GrantCallback {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Granted => Self::GrantedMsg,
            Self::GrantedMsg => Self::Granted,
        }
    }
}

/// How a client is reached.
#[derive(Debug, Clone)]
pub(super) struct GrantTarget {
    pub to: CallerAddress,
    pub transport: Transport,
    pub version: u32,
    pub callback: GrantCallback,
    /// The file, as the client named it.
    pub handle: Box<[u8]>,
}

/// The calls about one grant.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub granted: Granted,
    pub since: Now,
    /// How many were made.
    pub calls: u32,
    /// When the next is due.
    pub due_ms: u64,
}

struct Entry {
    file: FileKey,
    since: Now,
    target: Arc<GrantTarget>,
    grant: Option<Grant>,
}

/// The table.
pub(super) struct Waiting {
    entries: Mutex<HashMap<Tag, Entry>>,
    next: AtomicU64,
    keys: (u64, u64),
}

impl Default for Waiting {
    fn default() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self { entries: Mutex::default(), next: AtomicU64::new(1), keys: (random(), random()) }
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tag, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for a request that no other has.
    pub fn new_tag(&self) -> Tag {
        Tag(self.next.fetch_add(1, Relaxed))
    }

    /// A new request of this client; `None` if there are too many.
    pub fn add(&self, now: Now, file: FileKey, target: GrantTarget) -> Option<Tag> {
        let tag = self.new_tag();
        let entry = Entry { file, since: now, target: Arc::new(target), grant: None };
        let mut entries = self.lock();
        if entries.len() >= ENTRIES_MAX {
            return None;
        }
        entries.insert(tag, entry);
        Some(tag)
    }

    /// The request does not wait, or no longer.
    pub fn remove(&self, tag: Tag) -> Option<FileKey> {
        self.lock().remove(&tag).map(|entry| entry.file)
    }

    /// The request was granted; the first call is due at once.
    pub fn granted(&self, now: Now, granted: &Granted) -> bool {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(&granted.tag) else { return false };
        let granted = granted.clone();
        entry.grant = Some(Grant { granted, since: now, calls: 0, due_ms: now.0 });
        true
    }

    /// The next call about a grant, if one is due, and how the client is reached; the one after it is due later.
    pub fn next_call(&self, now: Now, tag: Tag) -> Option<(Grant, Arc<GrantTarget>)> {
        let mut entries = self.lock();
        let entry = entries.get_mut(&tag)?;
        let grant = entry.grant.as_mut().filter(|grant| grant.due_ms <= now.0)?;
        let call = grant.clone();
        grant.due_ms = now.0.saturating_add(patience_ms(grant.calls));
        grant.calls = grant.calls.saturating_add(1);
        Some((call, Arc::clone(&entry.target)))
    }

    /// The grants about which a call is due.
    pub fn due(&self, now: Now) -> Vec<(Tag, FileKey, Now)> {
        let entries = self.lock();
        let due = entries.iter().filter_map(|(tag, entry)| {
            let grant = entry.grant.as_ref().filter(|grant| grant.due_ms <= now.0)?;
            Some((*tag, entry.file, grant.since))
        });
        due.collect()
    }

    /// When the next call is due.
    pub fn next_due_ms(&self) -> Option<u64> {
        let entries = self.lock();
        entries.values().filter_map(|entry| Some(entry.grant.as_ref()?.due_ms)).min()
    }

    /// Whether `addr` is the address of the client whose grant this is.
    pub fn is_of(&self, tag: Tag, addr: IpAddr) -> bool {
        let entries = self.lock();
        entries.get(&tag).is_some_and(|entry| entry.target.to.addr() == addr)
    }

    /// Since when a request waits.
    pub fn since(&self, tag: Tag) -> Option<Now> {
        self.lock().get(&tag).map(|entry| entry.since)
    }

    /// The entries that have stood here for a while without a grant: candidates for a sweep.
    pub fn old(&self, now: Now) -> Vec<(Tag, FileKey)> {
        let entries = self.lock();
        let old = entries.iter().filter(|(_, entry)| {
            entry.grant.is_none() && now.0.saturating_sub(entry.since.0) >= SWEEP_AGE_MS
        });
        old.map(|(tag, entry)| (*tag, entry.file)).collect()
    }

    /// The cookie of a grant, which nobody can guess who has not got it.
    pub fn cookie(&self, tag: Tag) -> [u8; COOKIE_LEN] {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write_u64(tag.0);
        let words = [tag.0.to_be_bytes(), hasher.finish().to_be_bytes()];
        let mut cookie = [0; COOKIE_LEN];
        cookie.copy_from_slice(words.as_flattened());
        cookie
    }

    /// The grant of a cookie of ours.
    pub fn tag(&self, cookie: &[u8]) -> Option<Tag> {
        let tag = Tag(u64::from_be_bytes(*cookie.first_chunk()?));
        (self.cookie(tag) == cookie).then_some(tag)
    }
}

/// What a client answers to a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrantAnswer {
    /// It has the lock.
    Confirmed,
    /// It does not want it: the process is gone.
    Refused,
}

impl From<Status> for GrantAnswer {
    fn from(status: Status) -> Self {
        match status {
            Status::Granted => Self::Confirmed,
            // a client that recovers from its own restart may want it still, and asks again
            _ => Self::Refused,
        }
    }
}

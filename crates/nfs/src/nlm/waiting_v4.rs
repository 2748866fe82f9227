//! Requests of version 4 that wait: in the queue of their file as those of NLM, so that who came first is first.
//!
//! A client of version 4 does not wait for an answer: it was told that the lock is held, and asks again now and then.
//! When its turn has come the owner gets the lock at once, which keeps others from it, and the client is told by
//! CB_NOTIFY_LOCK that it is worth asking (RFC 8881 §20.11). By asking it learns that it has the lock. It has a moment
//! for that: the process may have been killed while it waited, of which version 4 tells nobody, and then the lock is
//! taken back. For the same reason a request ends that has not been asked again for longer than clients let pass.
//!
//! An entry is made before the core is asked, because the grant may come before the answer. The mutex is held for map
//! operations. What clients answer arrives on a thread that must not block, is noted, and is followed by
//! [`Nlm::tick`](super::Nlm::tick).

use state::{ByteRange, FileKey, HostId, Mode, Now, Tag, Who};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries at the most: those of all requests that may wait, and as many that have ended and were not swept yet.
const ENTRIES_MAX: usize = 131_072;
/// A request that was not repeated for so long has ended: clients let 30 s pass.
const REPEAT_MAX_MS: u64 = 75_000;
/// How long the lock is kept for a client that is being told of it: as long as a callback may take over two connections.
const TELL_MS: u64 = 20_000;
/// How long it is kept once the client has answered.
const FETCH_MS: u64 = 3_000;
/// An entry that is younger may belong to a request that the core has not seen yet.
const SWEEP_AGE_MS: u64 = 60_000;

/// A request that waits.
#[derive(Debug, Clone)]
pub(super) struct WaitingV4 {
    pub file: FileKey,
    /// The file, as the client named it.
    pub handle: Box<[u8]>,
    pub host: HostId,
    pub client: u64,
    pub owner: Box<[u8]>,
    pub range: ByteRange,
    pub mode: Mode,
    asked_ms: u64,
    /// It was granted, and the lock is kept so long for the client to fetch it.
    until_ms: Option<u64>,
}

impl WaitingV4 {
    /// A request for this range; `None` if it is not one of version 4.
    pub fn new(
        now: Now,
        file: FileKey,
        (who, handle): (&Who<'_>, &[u8]),
        (range, mode): (ByteRange, Mode),
    ) -> Option<Self> {
        let Who::V4 { host, client, owner } = *who else { return None };
        let (handle, owner) = (handle.into(), owner.into());
        let (asked_ms, until_ms) = (now.0, None);
        Some(Self { file, handle, host, client, owner, range, mode, asked_ms, until_ms })
    }

    pub fn who(&self) -> Who<'_> {
        Who::V4 { host: self.host, client: self.client, owner: &self.owner }
    }
}

/// What is due.
#[derive(Debug)]
pub(super) enum DueV4 {
    /// The client has not fetched the lock in time.
    Withdraw(Tag, FileKey),
    /// The client has not asked again for a long time.
    Cancel(Tag, WaitingV4),
    /// The core may know nothing of it any more.
    Check(Tag, FileKey),
}

#[derive(Default)]
struct Table {
    entries: HashMap<Tag, WaitingV4>,
    /// When a grant is to be looked at first; too early does no harm.
    next_ms: Option<u64>,
}

/// All requests of version 4 that wait.
#[derive(Default)]
pub(super) struct WaitsV4(Mutex<Table>);

impl WaitsV4 {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new request; `false` if there are too many.
    pub fn add(&self, tag: Tag, request: WaitingV4) -> bool {
        let mut table = self.lock();
        let fits = table.entries.len() < ENTRIES_MAX;
        if fits {
            table.entries.insert(tag, request);
        }
        fits
    }

    /// The request does not wait, or no longer.
    pub fn remove(&self, tag: Tag) -> Option<FileKey> {
        self.lock().entries.remove(&tag).map(|entry| entry.file)
    }

    /// The client has asked again.
    pub fn asked(&self, now: Now, tag: Tag) {
        if let Some(entry) = self.lock().entries.get_mut(&tag) {
            entry.asked_ms = now.0;
        }
    }

    /// The request was granted; what the client is to be told of.
    pub fn granted(&self, now: Now, tag: Tag) -> Option<WaitingV4> {
        let mut table = self.lock();
        let entry = table.entries.get_mut(&tag)?;
        entry.until_ms = Some(now.0.saturating_add(TELL_MS));
        let told = entry.clone();
        table.look_at(now.0.saturating_add(TELL_MS));
        Some(told)
    }

    /// The client knows of the grant, or cannot be told.
    pub fn told(&self, now: Now, tag: Tag, knows: bool) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&tag) else { return };
        let until = if knows { now.0.saturating_add(FETCH_MS) } else { now.0 };
        entry.until_ms = Some(until);
        table.look_at(until);
    }

    /// The grants that their clients have not fetched in time, and, if `sweep`, what has ended otherwise.
    pub fn due(&self, now: Now, sweep: bool) -> Vec<DueV4> {
        let mut table = self.lock();
        if !sweep && table.next_ms.is_none_or(|next| next > now.0) {
            return Vec::new();
        }
        table.next_ms = table.entries.values().filter_map(|entry| entry.until_ms).min();
        let mut due = Vec::new();
        for (tag, entry) in &table.entries {
            let age_ms = now.0.saturating_sub(entry.asked_ms);
            match entry.until_ms {
                Some(until) if until <= now.0 => due.push(DueV4::Withdraw(*tag, entry.file)),
                None if age_ms >= REPEAT_MAX_MS => due.push(DueV4::Cancel(*tag, entry.clone())),
                None if sweep && age_ms >= SWEEP_AGE_MS => {
                    due.push(DueV4::Check(*tag, entry.file));
                }
                Some(_) | None => {}
            }
        }
        due
    }

    /// When something is due next.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.lock().next_ms
    }
}

impl Table {
    fn look_at(&mut self, at_ms: u64) {
        self.next_ms = Some(self.next_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

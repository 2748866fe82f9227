//! The stateids that were taken from a client, and when it is told.
//!
//! SEQUENCE's answers say that there are some until the client has freed them all (RFC 8881 §18.46.3). Clients that hear so
//! begin anew to test what they have, also while they do it: Linux 6.1 then tests the first of its delegations over and over,
//! and never comes to the one that was revoked, as long as anything else of it is answered. So a client that tests is not told
//! again until it has paused. What it has missed in one search it hears of after the pause, which is longer after each: a
//! client that does not know the stateid, and so cannot free it, does not search all the time.
//!
//! What is revoked meanwhile the client is told at once.

use crate::acquire::acquire;
use crate::key::Now;
use crate::sync::{AtomicU64, AtomicUsize, Mutex};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// How long a client tests nothing before it is told again.
const PAUSE_MS: u64 = 1000;

/// The stateids of a client that were revoked and that it has not freed.
#[derive(Default)]
pub(super) struct Revoked {
    stateids: Mutex<BTreeSet<[u8; 12]>>,
    count: AtomicUsize,
    /// Until when the client is not told, in milliseconds of [`Now`]; 0 if it has not begun to search. Changed with the lock of
    /// the stateids held.
    untold_until_ms: AtomicU64,
    /// The pause after this search; the same.
    pause_ms: AtomicU64,
}

impl Revoked {
    /// Notes one; false if there are too many.
    pub fn add(&self, other: [u8; 12], most: usize) -> bool {
        let mut stateids = acquire(&self.stateids);
        let added = stateids.len() < most && stateids.insert(other);
        self.count.store(stateids.len(), Release);
        self.untold_until_ms.store(0, Relaxed);
        added
    }

    pub fn remove(&self, other: &[u8; 12]) -> bool {
        let mut stateids = acquire(&self.stateids);
        let known = stateids.remove(other);
        self.count.store(stateids.len(), Release);
        known
    }

    pub fn has(&self, other: &[u8; 12]) -> bool {
        self.any() && acquire(&self.stateids).contains(other)
    }

    pub fn take(&self) -> BTreeSet<[u8; 12]> {
        self.count.store(0, Release);
        std::mem::take(&mut *acquire(&self.stateids))
    }

    pub fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Whether the client is to be told now that there are some. Costs one load if there are none.
    #[inline(always)]
    pub fn is_told(&self, now: Now) -> bool {
        self.any() && now.0 >= self.untold_until_ms.load(Relaxed)
    }

    /// The client searches: it has tested stateids. `most_ms` is the longest pause.
    pub fn note_search(&self, now: Now, most_ms: u64) {
        if !self.any() {
            return;
        }
        let _stateids = acquire(&self.stateids);
        let pause_ms = match self.untold_until_ms.load(Relaxed) {
            0 => PAUSE_MS,
            until_ms if now.0 < until_ms => self.pause_ms.load(Relaxed),
            // this is another search: the last one has not found all
            _ => self.pause_ms.load(Relaxed).saturating_mul(2),
        };
        let pause_ms = pause_ms.min(most_ms);
        self.pause_ms.store(pause_ms, Relaxed);
        self.untold_until_ms.store(now.0.saturating_add(pause_ms), Relaxed);
    }
}

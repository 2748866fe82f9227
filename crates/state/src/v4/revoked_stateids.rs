//! The stateids that were taken from a client.

use crate::acquire::acquire;
use crate::sync::{AtomicUsize, Mutex};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// The stateids of a client that were revoked and that it has not freed.
#[derive(Default)]
pub(super) struct Revoked {
    stateids: Mutex<BTreeSet<[u8; 12]>>,
    count: AtomicUsize,
}

impl Revoked {
    /// Notes one; false if there are too many.
    pub fn add(&self, other: [u8; 12], most: usize) -> bool {
        let mut stateids = acquire(&self.stateids);
        let added = stateids.len() < most && stateids.insert(other);
        self.count.store(stateids.len(), Release);
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
}

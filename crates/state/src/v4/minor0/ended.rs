//! Stateids and client IDs that were lost: their use is answered NFS4ERR_EXPIRED (RFC 7530 §9.1.4.4) instead of
//! NFS4ERR_BAD_STATEID or NFS4ERR_STALE_CLIENTID. The newest are remembered.

use crate::acquire::acquire;
use crate::sync::Mutex;
use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// Stateids that are remembered.
const STATEIDS: usize = 16_384;
/// Client ids that are remembered.
const CLIENTS: usize = 4_096;

/// The newest names of a kind.
struct Newest<T> {
    found: HashSet<T>,
    order: VecDeque<T>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { found: HashSet::new(), order: VecDeque::new() }
    }
}

impl<T: Copy + Eq + Hash> Newest<T> {
    fn add(&mut self, name: T, most: usize) {
        if !self.found.insert(name) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.found.remove(&oldest);
        }
    }
}

/// The stateids and client IDs that were lost.
#[derive(Default)]
pub(in super::super) struct Ended {
    stateids: Mutex<Newest<[u8; 12]>>,
    clients: Mutex<Newest<u64>>,
}

impl Ended {
    pub fn add_stateid(&self, other: [u8; 12]) {
        acquire(&self.stateids).add(other, STATEIDS);
    }

    pub fn add_client(&self, id: u64) {
        acquire(&self.clients).add(id, CLIENTS);
    }

    pub fn has_stateid(&self, other: &[u8; 12]) -> bool {
        acquire(&self.stateids).found.contains(other)
    }

    pub fn has_client(&self, id: u64) -> bool {
        acquire(&self.clients).found.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::{CLIENTS, Ended};

    #[test]
    fn the_newest_are_remembered() {
        let ended = Ended::default();
        for id in 0..=CLIENTS as u64 {
            ended.add_client(id);
            ended.add_client(id);
        }
        assert!(!ended.has_client(0));
        assert!(ended.has_client(1) && ended.has_client(CLIENTS as u64));
    }
}

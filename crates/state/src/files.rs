//! The files with state: a map in shards, an entry for each file while somebody has something there.
//!
//! Each shard's mutex guards its map, each slot's mutex the state of one file. Lock order: shard, then file; a shard is
//! never locked with a file locked, but to remove the file. A slot that left the map is marked, and who has found it
//! before looks again.

use crate::acquire::acquire;
use crate::file::FileState;
use crate::key::FileKey;
use crate::plan::Kept;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) type Slot = Arc<Mutex<FileState>>;
type Shard = Mutex<HashMap<FileKey, Slot>>;

/// The map.
pub(crate) struct Files {
    first: Shard,
    others: Box<[Shard]>,
    random: RandomState,
    count: AtomicUsize,
}

impl Files {
    /// A map of so many shards.
    pub fn new(shards: usize) -> Self {
        let shard = || Mutex::new(HashMap::new());
        Self {
            first: shard(),
            others: (1..shards).map(|_| shard()).collect(),
            random: RandomState::new(),
            count: AtomicUsize::new(0),
        }
    }

    /// How many files have state.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    fn shard(&self, key: &FileKey) -> &Shard {
        let shards = self.others.len() as u64 + 1;
        let at = self.random.hash_one(key) % shards;
        let other = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
        other.and_then(|at| self.others.get(at)).unwrap_or(&self.first)
    }

    /// Runs `change` on the state of a file that has some.
    pub fn with<R>(&self, key: &FileKey, change: impl FnOnce(&mut FileState) -> R) -> Option<R> {
        loop {
            let slot = Arc::clone(acquire(self.shard(key)).get(key)?);
            let mut file = acquire(&slot);
            if !file.removed {
                return Some(change(&mut file));
            }
        }
    }

    /// Runs `change` on the state of a file, new if need be; `None` if there are `most` already.
    pub fn with_new<R>(
        &self,
        key: &FileKey,
        most: usize,
        change: impl FnOnce(&mut FileState) -> R,
    ) -> Option<R> {
        loop {
            let slot = self.slot(key, most)?;
            let mut file = acquire(&slot);
            if !file.removed {
                return Some(change(&mut file));
            }
        }
    }

    fn slot(&self, key: &FileKey, most: usize) -> Option<Slot> {
        let mut shard = acquire(self.shard(key));
        if let Some(slot) = shard.get(key) {
            return Some(Arc::clone(slot));
        }
        if self.count() >= most {
            return None;
        }
        self.count.fetch_add(1, Relaxed);
        let slot = Slot::default();
        shard.insert(*key, Arc::clone(&slot));
        Some(slot)
    }

    /// Removes the file if nobody has anything there; answers what kept it.
    pub fn remove_if_empty(&self, key: &FileKey) -> Option<Kept> {
        let mut shard: MutexGuard<'_, _> = acquire(self.shard(key));
        let slot = Arc::clone(shard.get(key)?);
        let mut file = acquire(&slot);
        if !file.is_empty() {
            return None;
        }
        file.removed = true;
        shard.remove(key);
        self.count.fetch_sub(1, Relaxed);
        file.kept.take()
    }

    /// The keys of all files, a shard at a time.
    pub fn keys(&self) -> Vec<FileKey> {
        let shards = std::iter::once(&self.first).chain(&self.others);
        let mut keys = Vec::with_capacity(self.count());
        for shard in shards {
            keys.extend(acquire(shard).keys());
        }
        keys
    }
}

impl Clone for Files {
    /// A copy of what there is now, for an explorer of what may happen next.
    fn clone(&self) -> Self {
        let copy = |shard: &Shard| {
            let slots = acquire(shard);
            let slots = slots.iter();
            let copy = |slot: &Slot| Arc::new(Mutex::new(acquire(slot).clone()));
            Mutex::new(slots.map(|(key, slot)| (*key, copy(slot))).collect())
        };
        Self {
            first: copy(&self.first),
            others: self.others.iter().map(copy).collect(),
            random: self.random.clone(),
            count: AtomicUsize::new(self.count()),
        }
    }
}

//! The files with state: a map in shards, an entry for each file while somebody has something there.
//!
//! Each shard's mutex guards its map, each slot's mutex the state of one file. Lock order: shard, then file; a shard is
//! never locked with a file locked, but to remove the file. A slot that left the map is marked, and who has found it
//! before looks again.

use crate::acquire::acquire;
use crate::file::FileState;
use crate::hashed_file::{FileHashing, FileMap, HashedFile};
use crate::key::FileKey;
use crate::plan::Kept;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) type Slot = Arc<Mutex<FileState>>;
type Shard = Mutex<FileMap<Slot>>;

/// The map.
pub(crate) struct Files {
    first: Shard,
    others: Box<[Shard]>,
    hashing: FileHashing,
    count: AtomicUsize,
}

impl Files {
    /// A map of so many shards.
    pub fn new(shards: usize) -> Self {
        let shard = || Mutex::new(FileMap::default());
        Self {
            first: shard(),
            others: (1..shards).map(|_| shard()).collect(),
            hashing: FileHashing::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// How many files have state.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    fn shard(&self, file: &HashedFile) -> &Shard {
        let other = file.shard(self.others.len().saturating_add(1)).checked_sub(1);
        other.and_then(|at| self.others.get(at)).unwrap_or(&self.first)
    }

    /// Runs `change` on the state of a file that has some.
    pub fn with<R>(&self, key: &FileKey, change: impl FnOnce(&mut FileState) -> R) -> Option<R> {
        let hashed = self.hashing.of(key);
        loop {
            let slot = Arc::clone(acquire(self.shard(&hashed)).get(&hashed)?);
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
        let hashed = self.hashing.of(key);
        loop {
            let slot = self.slot(&hashed, most)?;
            let mut file = acquire(&slot);
            if !file.removed {
                return Some(change(&mut file));
            }
        }
    }

    fn slot(&self, file: &HashedFile, most: usize) -> Option<Slot> {
        let mut shard = acquire(self.shard(file));
        if let Some(slot) = shard.get(file) {
            return Some(Arc::clone(slot));
        }
        if self.count() >= most {
            return None;
        }
        self.count.fetch_add(1, Relaxed);
        let slot = Slot::default();
        shard.insert(*file, Arc::clone(&slot));
        Some(slot)
    }

    /// Removes the file if nobody has anything there; answers what kept it.
    pub fn remove_if_empty(&self, key: &FileKey) -> Option<Kept> {
        let hashed = self.hashing.of(key);
        let mut shard: MutexGuard<'_, _> = acquire(self.shard(&hashed));
        let slot = Arc::clone(shard.get(&hashed)?);
        let mut file = acquire(&slot);
        if !file.is_empty() {
            return None;
        }
        file.removed = true;
        shard.remove(&hashed);
        self.count.fetch_sub(1, Relaxed);
        file.kept.take()
    }

    /// The keys of all files, a shard at a time.
    pub fn keys(&self) -> Vec<FileKey> {
        let shards = std::iter::once(&self.first).chain(&self.others);
        let mut keys = Vec::with_capacity(self.count());
        for shard in shards {
            keys.extend(acquire(shard).keys().map(|hashed| hashed.file));
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
            hashing: self.hashing.clone(),
            count: AtomicUsize::new(self.count()),
        }
    }
}

//! Which files are kept ([`vfs::Backend::keep`]), and by how many guards.
//!
//! A kept file's entry in the cache of open files is *pinned*: it is not closed, so that the file
//! survives without a name. This table outlives the entry: if more files are kept than may be open,
//! entries of files that still have a name are closed all the same, and the next entry of such a file
//! is pinned again.
//!
//! The table is in shards, so that opens of different files seldom meet. A shard's lock guards its counts; an entry is unpinned
//! under it, so that a thread that keeps the file again does not lose the pin.

use crate::cache::key::Key;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that may be kept: 80 MB of memory.
const KEPT_MAX: usize = 1 << 20;
/// A power of two.
const SHARDS: usize = 32;

/// How often each file is kept.
type Guards = HashMap<Key, u32, foldhash::fast::RandomState>;

/// The files of one shard, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    guards: Mutex<Guards>,
    /// How many files there are: read without the lock.
    len: AtomicUsize,
}

/// The kept files.
#[derive(Default)]
pub struct KeptFiles {
    shards: [Shard; SHARDS],
}

impl KeptFiles {
    /// Files that are kept.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len.load(Relaxed)).sum()
    }

    /// Whether a file is kept.
    pub fn has(&self, key: &Key) -> bool {
        let shard = self.shard(key);
        shard.len.load(Relaxed) > 0 && shard.lock().contains_key(key)
    }

    /// Whether a backend has kept files.
    pub fn has_any_of(&self, backend: u32) -> bool {
        self.shards.iter().any(|shard| shard.lock().keys().any(|key| key.backend == backend))
    }

    /// Adds a guard; false if too many files are kept.
    pub fn add(&self, key: Key) -> bool {
        let shard = self.shard(&key);
        let mut guards = shard.lock();
        // no more are counted than necessary
        let is_full = guards.len() >= KEPT_MAX / SHARDS && self.len() >= KEPT_MAX;
        if is_full && !guards.contains_key(&key) {
            return false;
        }
        let count = guards.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        shard.len.store(guards.len(), Relaxed);
        true
    }

    /// Removes a guard. If it was the last one, `unpin` is called under the lock; what that gives.
    pub fn remove<R>(&self, key: &Key, unpin: impl FnOnce() -> R) -> Option<R> {
        let shard = self.shard(key);
        let mut guards = shard.lock();
        let Entry::Occupied(mut entry) = guards.entry(*key) else { return None };
        let count = entry.get_mut();
        *count = count.saturating_sub(1);
        if *count > 0 {
            return None;
        }
        entry.remove();
        shard.len.store(guards.len(), Relaxed);
        Some(unpin())
    }

    /// The shard of a file: by its id, of which every byte counts.
    fn shard(&self, key: &Key) -> &Shard {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let (words, _) = key.fid.padded().as_chunks::<8>();
        let mix = |mixed: u64, word: &[u8; 8]| {
            (mixed ^ u64::from_ne_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29)
        };
        let mixed = words.iter().fold(u64::from(key.backend), mix);
        let [first, ..] = &self.shards;
        let at = usize::try_from(mixed % SHARDS as u64).unwrap_or(0);
        self.shards.get(at).unwrap_or(first)
    }
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, Guards> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::KeptFiles;
    use crate::cache::key::Key;
    use vfs::Fid;

    #[test]
    fn the_last_guard_unpins() {
        let kept = KeptFiles::default();
        let key = Key { backend: 0, fid: Fid::from_u64(1) };
        assert!(kept.add(key) && kept.add(key));
        assert_eq!((kept.len(), kept.has(&key)), (1, true));
        assert!(kept.remove(&key, || panic!("there is another")).is_none());
        let unpinned = std::cell::Cell::new(false);
        assert!(kept.remove(&key, || unpinned.set(true)).is_some() && unpinned.get());
        assert!(!kept.has(&key));
        assert!(kept.remove(&key, || panic!("nobody keeps it")).is_none());
    }

    #[test]
    fn files_are_spread_over_the_shards() {
        let kept = KeptFiles::default();
        // as handles are: a number that rises, and one that hardly changes
        for n in 0..4096_u64 {
            let id = [&[1, 0, 0, 0][..], &n.to_ne_bytes(), &[7; 8]].concat();
            assert!(kept.add(Key { backend: 3, fid: Fid::new(&id).unwrap() }));
        }
        let lens = kept.shards.each_ref().map(|shard| shard.lock().len());
        assert_eq!((lens.iter().sum::<usize>(), kept.len()), (4096, 4096));
        assert!(lens.iter().all(|len| (64..256).contains(len)), "{lens:?}");
    }
}

//! Which files are kept ([`vfs::Backend::keep`]), and by how many guards.
//!
//! A kept file's entry in the cache of open files is *pinned*: it is not closed, so that the file
//! survives without a name. This table outlives the entry: if more files are kept than may be open,
//! entries of files that still have a name are closed all the same, and the next entry of such a file
//! is pinned again.
//!
//! The lock guards the counts; an entry is unpinned under it, so that a thread that keeps the file
//! again does not lose the pin.

use crate::cache::key::Key;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that may be kept: 80 MB of memory.
const KEPT_MAX: usize = 1 << 20;

/// The kept files.
#[derive(Default)]
pub struct KeptFiles {
    guards: Mutex<HashMap<Key, u32, foldhash::fast::RandomState>>,
    /// How many there are: read without the lock.
    len: AtomicUsize,
}

impl KeptFiles {
    /// Files that are kept.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether a file is kept.
    pub fn has(&self, key: &Key) -> bool {
        self.len() > 0 && self.lock().contains_key(key)
    }

    /// Adds a guard; false if too many files are kept.
    pub fn add(&self, key: Key) -> bool {
        let mut guards = self.lock();
        if guards.len() >= KEPT_MAX && !guards.contains_key(&key) {
            return false;
        }
        let count = guards.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        self.len.store(guards.len(), Relaxed);
        true
    }

    /// Removes a guard. If it was the last one, `unpin` is called under the lock; what that gives.
    pub fn remove<R>(&self, key: &Key, unpin: impl FnOnce() -> R) -> Option<R> {
        let mut guards = self.lock();
        let Entry::Occupied(mut entry) = guards.entry(*key) else { return None };
        let count = entry.get_mut();
        *count = count.saturating_sub(1);
        if *count > 0 {
            return None;
        }
        entry.remove();
        self.len.store(guards.len(), Relaxed);
        Some(unpin())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, u32, foldhash::fast::RandomState>> {
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
}

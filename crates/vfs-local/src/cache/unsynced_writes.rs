//! Whether COMMIT has work to do: the number of writes through an open file that are not synced.
//!
//! A write counts itself when its data is in the page cache and before it is answered; a sync notes
//! the count that it found *before* it began. So a sync never covers more than it did, and equal
//! counts mean that every answered write is on disk.
//!
//! The count belongs to one open descriptor in the cache. Writes through another one of the same
//! object are not known: a new one begins with one write that has not been synced. A write that
//! finds at its end that its descriptor was removed from the cache meanwhile cannot update the next
//! one, and syncs by itself ([`crate::cache::open_file::OpenFile::is_retired`]).
//!
//! Other processes of this machine sync their own writes.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The initial state: a write of which nothing is known.
const UNKNOWN: u64 = 1;

/// The writes of one open file.
#[derive(Debug)]
pub struct UnsyncedWrites {
    written: AtomicU64,
    synced: AtomicU64,
}

/// How many writes there were when a sync began.
#[derive(Debug, Clone, Copy)]
pub struct SyncPoint(u64);

impl Default for UnsyncedWrites {
    fn default() -> Self {
        Self { written: AtomicU64::new(UNKNOWN), synced: AtomicU64::new(0) }
    }
}

impl UnsyncedWrites {
    /// Counts a write whose data is in the page cache.
    pub fn note_write(&self) {
        self.written.fetch_add(1, SeqCst);
    }

    /// Whether writes were answered whose data may not be on disk.
    pub fn has_unsynced(&self) -> bool {
        let written = self.written.load(SeqCst);
        written > UNKNOWN && written != self.synced.load(SeqCst)
    }

    /// The count that a sync starting now will cover; `None` if there is nothing to sync.
    pub fn begin(&self) -> Option<SyncPoint> {
        let written = self.written.load(SeqCst);
        (written != self.synced.load(SeqCst)).then_some(SyncPoint(written))
    }

    /// Notes that a sync succeeded.
    pub fn done(&self, until: SyncPoint) {
        self.synced.fetch_max(until.0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::UnsyncedWrites;

    #[test]
    fn a_write_during_a_sync_is_left_for_the_next() {
        let file = UnsyncedWrites::default();
        assert!(!file.has_unsynced(), "somebody else may, not this one");
        let first = file.begin().unwrap();
        file.note_write();
        file.done(first);
        let second = file.begin().unwrap();
        file.done(second);
        assert!(file.begin().is_none());
        file.done(first);
        assert!(file.begin().is_none(), "an older sync takes nothing back");
        file.note_write();
        assert!(file.begin().is_some() && file.has_unsynced());
    }
}

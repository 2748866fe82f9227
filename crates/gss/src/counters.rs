//! Counters of contexts and of refused messages. Only rare events are counted, nothing per successful call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters; shared by all threads.
#[derive(Default)]
pub struct Counters {
    pub established: AtomicU64,
    pub refused: AtomicU64,
    pub dropped: AtomicU64,
    pub evicted: AtomicU64,
    pub expired: AtomicU64,
    pub wrong_checksums: AtomicU64,
    pub replays: AtomicU64,
    pub unknown_contexts: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GssCounts {
    /// Contexts that exist.
    pub contexts: u64,
    /// Contexts that were established.
    pub established: u64,
    /// Tokens that were refused.
    pub refused: u64,
    /// Tokens for which there was no place in the queue.
    pub dropped: u64,
    /// Contexts that were evicted.
    pub evicted: u64,
    /// Messages of expired contexts.
    pub expired: u64,
    /// Headers, arguments and tokens with a wrong checksum.
    pub wrong_checksums: u64,
    /// Messages whose sequence number was repeated or is behind the window.
    pub replays: u64,
    /// Messages of unknown contexts, as after a restart.
    pub unknown_contexts: u64,
}

impl Counters {
    pub fn counts(&self, contexts: u64) -> GssCounts {
        GssCounts {
            contexts,
            established: self.established.load(Relaxed),
            refused: self.refused.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            expired: self.expired.load(Relaxed),
            wrong_checksums: self.wrong_checksums.load(Relaxed),
            replays: self.replays.load(Relaxed),
            unknown_contexts: self.unknown_contexts.load(Relaxed),
        }
    }
}

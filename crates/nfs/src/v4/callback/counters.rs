//! How many callbacks there were, of all minor versions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many callbacks there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallbackCounts {
    /// Messages sent, repeated ones included.
    pub sent: u64,
    /// Callbacks that the client has run.
    pub answered: u64,
    /// Callbacks that could not be delivered.
    pub failed: u64,
}

/// The same as they are counted.
#[derive(Default)]
pub(super) struct Counters {
    pub sent: AtomicU64,
    pub answered: AtomicU64,
    pub failed: AtomicU64,
}

impl Counters {
    pub fn counts(&self) -> CallbackCounts {
        CallbackCounts {
            sent: self.sent.load(Relaxed),
            answered: self.answered.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

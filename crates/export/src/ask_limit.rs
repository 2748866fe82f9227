//! How many calls may wait for the name services at a time, so that other threads are left.
//!
//! No lock: a count. A question that panics ends its count as well.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the calls that ask.
#[derive(Debug)]
pub(crate) struct AskLimit {
    asking: AtomicUsize,
    most: usize,
}

impl AskLimit {
    /// At most so many at a time.
    pub const fn new(most: usize) -> Self {
        Self { asking: AtomicUsize::new(0), most }
    }

    /// Counts one that asks, until the guard is dropped; `None` if too many ask.
    pub fn enter(&self) -> Option<AskingGuard<'_>> {
        let guard = AskingGuard(&self.asking);
        (self.asking.fetch_add(1, Ordering::AcqRel) < self.most).then_some(guard)
    }

    /// How many ask now.
    #[cfg(test)]
    pub fn asking(&self) -> usize {
        self.asking.load(Ordering::SeqCst)
    }
}

/// A call that asks.
#[must_use = "it is counted only as long as this lives"]
pub(crate) struct AskingGuard<'a>(&'a AtomicUsize);

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

//! A counter with one writer: plain loads and stores, no read-modify-write.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Adds, as the only writer.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value.
    pub fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Replaces the value, as the only writer.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
}

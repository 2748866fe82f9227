//! Threads that the system does not let the server start: a limit on processes, or no memory.
//!
//! Each call that may sleep would try again. While a shortage lasts nobody does, for [`REST_MS`] after each
//! attempt that failed, and the log hears of it once in [`TOLD_MS`]: the threads that there are have
//! better things to do. No lock: who looks at the same moment as another tries once more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Milliseconds without an attempt after one that failed.
const REST_MS: u64 = 100;
/// Milliseconds between two times that the log is told.
const TOLD_MS: u64 = 60_000;

/// Whether threads are to be had, as far as is known; one for all pools.
#[derive(Debug, Default)]
pub(crate) struct ThreadShortage {
    rest_until_ms: AtomicU64,
    tell_after_ms: AtomicU64,
}

impl ThreadShortage {
    /// Whether an attempt would most likely fail.
    pub fn lasts(&self, now_ms: u64) -> bool {
        now_ms < self.rest_until_ms.load(Relaxed)
    }

    /// An attempt has failed; whether the log is to be told.
    pub fn is_seen(&self, now_ms: u64) -> bool {
        self.rest_until_ms.store(now_ms.saturating_add(REST_MS), Relaxed);
        let tell = self.tell_after_ms.load(Relaxed) <= now_ms;
        if tell {
            self.tell_after_ms.store(now_ms.saturating_add(TOLD_MS), Relaxed);
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::{REST_MS, TOLD_MS, ThreadShortage};

    #[test]
    fn a_shortage_is_tried_now_and_then_and_told_of_rarely() {
        let shortage = ThreadShortage::default();
        assert!(!shortage.lasts(0));
        assert!(shortage.is_seen(5));
        assert!(shortage.lasts(5 + REST_MS - 1) && !shortage.lasts(5 + REST_MS));
        assert!(!shortage.is_seen(5 + REST_MS));
        assert!(shortage.lasts(5 + REST_MS));
        assert!(shortage.is_seen(5 + TOLD_MS));
    }
}

//! Threads that the system does not let the server start: a limit on processes, or no memory.
//!
//! Each call that may block would try again. For [`RETRY_AFTER_MS`] after an attempt that failed nobody tries, and
//! it is logged once in [`LOG_EVERY_MS`]. No lock: two threads may try at the same moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Milliseconds without an attempt after one that failed.
const RETRY_AFTER_MS: u64 = 100;
/// Milliseconds between two messages in the log.
const LOG_EVERY_MS: u64 = 60_000;

/// Whether threads are to be had, as far as is known; one for all pools.
#[derive(Debug, Default)]
pub(crate) struct ThreadShortage {
    retry_at_ms: AtomicU64,
    log_at_ms: AtomicU64,
}

impl ThreadShortage {
    /// Whether an attempt would most likely fail.
    pub fn is_recent(&self, now_ms: u64) -> bool {
        now_ms < self.retry_at_ms.load(Relaxed)
    }

    /// An attempt has failed; whether it is to be logged.
    pub fn record(&self, now_ms: u64) -> bool {
        self.retry_at_ms.store(now_ms.saturating_add(RETRY_AFTER_MS), Relaxed);
        let log = self.log_at_ms.load(Relaxed) <= now_ms;
        if log {
            self.log_at_ms.store(now_ms.saturating_add(LOG_EVERY_MS), Relaxed);
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::{LOG_EVERY_MS, RETRY_AFTER_MS, ThreadShortage};

    #[test]
    fn a_thread_shortage_is_retried_and_rarely_logged() {
        let shortage = ThreadShortage::default();
        assert!(!shortage.is_recent(0));
        assert!(shortage.record(5));
        assert!(
            shortage.is_recent(5 + RETRY_AFTER_MS - 1) && !shortage.is_recent(5 + RETRY_AFTER_MS)
        );
        assert!(!shortage.record(5 + RETRY_AFTER_MS));
        assert!(shortage.is_recent(5 + RETRY_AFTER_MS));
        assert!(shortage.record(5 + LOG_EVERY_MS));
    }
}

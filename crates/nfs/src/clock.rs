//! The clock of all state: locks, the grace period, and version 4's leases.

use state::Now;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A clock that starts at 0 when it is created.
pub struct Clock {
    begun: Instant,
    /// An offset to the monotonic clock; only tests set it.
    ahead_ms: AtomicU64,
}

impl Clock {
    /// The time.
    pub fn now(&self) -> Now {
        let passed = self.begun.elapsed();
        let passed_ms =
            passed.as_secs().saturating_mul(1000).saturating_add(passed.subsec_millis().into());
        Now(passed_ms.saturating_add(self.ahead_ms.load(Relaxed)))
    }

    /// Moves it forward, for tests that do not wait.
    pub fn advance_ms(&self, by_ms: u64) {
        self.ahead_ms.fetch_add(by_ms, Relaxed);
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self { begun: Instant::now(), ahead_ms: AtomicU64::new(0) }
    }
}

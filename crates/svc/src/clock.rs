//! The server's clock.

/// The server's clock: starts with the server, never goes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began_ns: u64,
}

impl Clock {
    pub fn new() -> Self {
        Self { began_ns: sys::clock::monotonic_ns() }
    }

    pub fn now_ns(&self) -> u64 {
        sys::clock::monotonic_ns().saturating_sub(self.began_ns)
    }

    pub fn now_ms(&self) -> u64 {
        self.now_ns() / NS_PER_MS
    }
}

/// Nanoseconds of a millisecond.
pub(crate) const NS_PER_MS: u64 = 1_000_000;

//! The write verifier: a new one for each start of the server, and after each failed sync.
//!
//! A client that sees it change sends all its unstable data again (RFC 1813 §3.3.7).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The verifier of one backend.
#[derive(Debug)]
pub struct WriteVerifier(AtomicU64);

impl Default for WriteVerifier {
    fn default() -> Self {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // the clock in case there is no randomness, randomness in case the clock does not advance
        Self(AtomicU64::new(RandomState::new().hash_one(clock.as_nanos())))
    }
}

impl WriteVerifier {
    /// The current verifier.
    pub fn now(&self) -> vfs::Verifier {
        self.0.load(Ordering::Acquire).to_ne_bytes()
    }

    /// Data may have been lost: changes the verifier.
    pub fn change(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::WriteVerifier;

    #[test]
    fn every_start_and_every_loss_changes_the_verifier() {
        let (a, b) = (WriteVerifier::default(), WriteVerifier::default());
        assert_ne!(a.now(), b.now());
        let before = a.now();
        a.change();
        assert_ne!(a.now(), before);
    }
}

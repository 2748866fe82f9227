//! What version 4 keeps between calls, and the source of random numbers.

use super::callback::Callbacks;
use state::v4::{V4Limits, V4State};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// What version 4 keeps between calls.
pub struct V4 {
    /// Clients, sessions and opens.
    pub state: V4State,
    /// The way to clients.
    pub callbacks: Arc<Callbacks>,
}

/// A number that nobody can guess: the hash of a counter under a key that the system made for this process.
fn random() -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    KEY.hash_one(COUNTER.fetch_add(1, Relaxed))
}

impl V4 {
    /// Without any client.
    pub fn new(limits: V4Limits) -> Self {
        // Random rather than the time: a server that is restarted twice within a second must not give a client id again.
        let instance = (random() >> 32) as u32;
        Self { state: V4State::new(instance, random, limits), callbacks: Arc::default() }
    }

    /// The same with the number of starts that the records count.
    #[must_use]
    pub fn with_epoch(self, epoch: u32) -> Self {
        Self { state: self.state.with_epoch(epoch), ..self }
    }
}

impl Default for V4 {
    fn default() -> Self {
        Self::new(V4Limits::default())
    }
}

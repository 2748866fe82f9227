//! What version 4 keeps between calls, and the source of random numbers.

use super::callback::{Callbacks, Done, Operation, Recipient};
use super::copies::Copies;
use state::State;
use state::v4::{NameConflict, Session, SessionId, V4Limits, V4State};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

/// Who is told of clients that call themselves the same.
pub type NameConflictSink = Box<dyn Fn(&NameConflict) + Send + Sync>;

/// What version 4 keeps between calls.
pub struct V4 {
    /// Clients, sessions and opens.
    pub state: V4State,
    /// The way to clients.
    pub callbacks: Arc<Callbacks>,
    /// Copies that go on after they were answered.
    pub copies: Copies,
    name_conflicts: OnceLock<NameConflictSink>,
    /// A part of the hashes by which retries of requests are known.
    pub request_key: u64,
}

/// A number that nobody can guess: the hash of a counter under a key that the system made for this process.
fn random() -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    KEY.hash_one(COUNTER.fetch_add(1, Relaxed))
}

impl V4 {
    /// Without any client, on top of what clients of all versions hold.
    pub fn new(core: Arc<State>, limits: V4Limits) -> Self {
        // Random rather than the time: a server that is restarted twice within a second must not give a client id again.
        let instance = (random() >> 32) as u32;
        Self {
            state: V4State::new(core, instance, random, limits),
            callbacks: Arc::default(),
            copies: Copies::default(),
            name_conflicts: OnceLock::new(),
            request_key: random(),
        }
    }

    /// Changes how many slots a session may have; clients of sessions that have more are told.
    pub fn set_session_slots(&self, most: usize) {
        self.recall_slots(self.state.set_session_slots_most(most));
    }

    /// Tells clients to use fewer slots of their sessions: at once those that can be called back (CB_RECALL_SLOT, RFC 8881
    /// §20.8), the others hear of it with their next request.
    pub fn recall_slots(&self, recalls: Vec<(SessionId, u32)>) {
        for (session, highest) in recalls {
            let calls = self.state.read().session(&session).is_some_and(Session::has_callbacks);
            if calls {
                let (to, operation) =
                    (Recipient::Session(session), Operation::RecallSlot { highest });
                // one that is lost is told with the next request as well
                self.callbacks.call(to, operation, Box::new(|_| {}));
            }
        }
    }

    /// Calls a client back, by its sessions or at its address; `done` is called with the answer. No thread waits for it.
    pub fn call_client(&self, client: u64, operation: Operation, done: Done) {
        match self.state.callback_of(client) {
            Some(to) => self.callbacks.by_address.call((client, to), operation, done),
            None => self.callbacks.call(Recipient::Client(client), operation, done),
        }
    }

    /// Has `sink` told of clients that call themselves the same; the first one stays.
    pub fn set_name_conflict_sink(&self, sink: NameConflictSink) {
        let _first = self.name_conflicts.set(sink);
    }

    /// Tells of clients that were just seen to call themselves the same. Costs one load if there are none.
    pub(super) fn tell_name_conflicts(&self) {
        for conflict in self.state.take_name_conflicts() {
            if let Some(sink) = self.name_conflicts.get() {
                sink(&conflict);
            }
        }
    }

    /// The same with the number of starts that the records count.
    #[must_use]
    pub fn with_epoch(self, epoch: u32) -> Self {
        Self { state: self.state.with_epoch(epoch), ..self }
    }
}

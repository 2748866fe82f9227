//! Whether a call was the only one that changed an object, which decides whether `wcc_data` is
//! returned (RFC 1813 §2.6).
//!
//! A client that finds in a reply the object's attributes from before the call unchanged takes the
//! attributes after the call for its own change, and keeps its cached data. If another client's change
//! lies between the two, it never learns of that one. So attributes from before a change are returned
//! only if no other change through this server started, or was in progress, between the two system
//! calls; changes by other processes of this machine in that time cannot be detected.
//!
//! The counts belong to an entry of the cache of open files. They are not valid for an entry that
//! has been removed, because another may count for the object by then.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The changes of one object.
#[derive(Debug, Default)]
pub struct ChangeCounter {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl ChangeCounter {
    /// The current state of the counts, to be compared later with
    /// [`ChangeCounter::unchanged_since`].
    pub fn now(&self) -> ChangeState {
        let ended = self.ended.load(SeqCst);
        let begun = self.begun.load(SeqCst);
        ChangeState { begun, quiet: begun == ended }
    }

    /// Starts a change: the state with it. It is quiet if no other was in progress.
    pub fn begin(&self) -> ChangeState {
        let before = self.begun.fetch_add(1, SeqCst);
        // if one that began later has ended, it is not quiet in the end either
        let quiet = self.ended.load(SeqCst) == before;
        ChangeState { begun: before.wrapping_add(1), quiet }
    }

    /// Ends a change.
    pub fn end(&self) {
        self.ended.fetch_add(1, SeqCst);
    }

    /// The number of started changes plus the number of ended ones: it differs before, during and after a
    /// change.
    pub fn count(&self) -> u64 {
        self.ended.load(SeqCst).wrapping_add(self.begun.load(SeqCst))
    }

    /// Counts a change that has just been made.
    pub fn note(&self) {
        self.begin();
        self.end();
    }

    /// Whether nothing was in progress and nothing has started since.
    pub fn unchanged_since(&self, state: &ChangeState) -> bool {
        state.quiet && self.begun.load(SeqCst) == state.begun
    }
}

/// How many changes had begun at a time.
#[derive(Debug, Clone, Copy)]
pub struct ChangeState {
    pub begun: u64,
    /// All of them had ended.
    quiet: bool,
}

//! Whether a call was the only one that changed an object: what `wcc_data` is worth (RFC 1813 §2.6).
//!
//! A client that finds in a reply the object as it knew it before the call takes what the object is
//! after the call for its own doing, and goes on trusting what it has cached. If another client's
//! change lies between the two, it never learns of that one. So attributes from before a change are
//! given only if no other change through this server began, or was under way, between the two
//! questions to the kernel; what other processes of this machine change in that moment cannot be known.
//!
//! The counts belong to an entry of the cache of open files. One that has been taken out says
//! nothing, because another may count for the object by now.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The changes of one object.
#[derive(Debug, Default)]
pub struct ChangeCounter {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl ChangeCounter {
    /// The state of the counts now, to be compared later with [`ChangeCounter::unchanged_since`].
    pub fn now(&self) -> ChangeState {
        let ended = self.ended.load(SeqCst);
        let begun = self.begun.load(SeqCst);
        ChangeState { begun, quiet: begun == ended }
    }

    /// A change begins: the state with it. It is quiet if no other was under way.
    pub fn begin(&self) -> ChangeState {
        let before = self.begun.fetch_add(1, SeqCst);
        // if one that began later has ended, it is not quiet in the end either
        let quiet = self.ended.load(SeqCst) == before;
        ChangeState { begun: before.wrapping_add(1), quiet }
    }

    /// A change that has begun ends.
    pub fn end(&self) {
        self.ended.fetch_add(1, SeqCst);
    }

    /// How many changes have begun and how many have ended, added up: it differs before and after a change, and
    /// while it is under way.
    pub fn count(&self) -> u64 {
        self.ended.load(SeqCst).wrapping_add(self.begun.load(SeqCst))
    }

    /// Counts a change that has just been made.
    pub fn note(&self) {
        self.begin();
        self.end();
    }

    /// Whether nothing was under way and nothing has begun since.
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

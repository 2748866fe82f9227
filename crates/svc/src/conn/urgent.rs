//! Which connections are used for urgent calls, those that must be answered under overload: which calls
//! these are, the programs' tables say ([`rpc::Plan::urgent`]). They are few and short, and must not wait
//! behind a queue of reads or for a disk that hangs. Only pools with a queue ask.
//!
//! The first call of a connection is looked at when the connection first becomes ready; from then on all
//! its calls count as that one did, until an urgent connection sends one that is not. So each connection
//! costs one look in its life.

use rpc::Dispatcher;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What a connection is used for. Written by whoever holds its `Rx`.
#[derive(Debug, Default)]
pub(crate) struct UrgentMark(AtomicU8);

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const URGENT: u8 = 2;

impl UrgentMark {
    /// Whether the connection goes before others; `look` is asked at its first time.
    pub fn has_priority(&self, look: impl FnOnce() -> bool) -> bool {
        match self.0.load(Relaxed) {
            PLAIN => false,
            URGENT => true,
            UNKNOWN | 3.. => {
                let urgent = look();
                self.0.store(if urgent { URGENT } else { PLAIN }, Relaxed);
                urgent
            }
        }
    }

    /// A service round begins with this record: a connection that was urgent is so no longer if it is not.
    pub fn check(&self, dispatcher: &Dispatcher, record: &[u8]) {
        if self.0.load(Relaxed) == URGENT && !dispatcher.is_urgent(record) {
            self.0.store(PLAIN, Relaxed);
        }
    }
}

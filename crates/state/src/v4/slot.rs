//! A slot of a session: exactly once (RFC 8881 §2.10.6).
//!
//! The state is one word: the number of the last request, and what became of it. A request takes the slot by one
//! compare-exchange, so that of two that come at once one runs. Whoever has taken it writes the rest:
//!
//! - `request`, before the reply: a hash of the request, by which a retry is told from another request of the
//!   same number.
//! - `reply`, under its mutex, while the word still says that the request runs. A replay looks at the word again
//!   under the mutex: as long as it says "kept", the bytes are those of that request.
//!
//! A request whose data goes to its file before all of it has come *arrives*: between two pieces of its data the slot says
//! so. Its client may send it again by another connection meanwhile, because the first one is broken and the server has
//! not noticed: then the request that came again has the slot, and the first one, which takes the slot back for each piece,
//! finds out and does nothing more. If its record never becomes whole the slot is put back as it was before.

use crate::acquire::acquire;
use crate::sync::{AtomicU64, Mutex};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The request runs.
const RUNS: u64 = 0;
/// It has ended, and its reply is not kept.
const UNCACHED: u64 = 1;
/// It has ended, and its reply is kept.
const KEPT: u64 = 2;
/// The slot was taken back from the client, and has been given to it again since.
const RETIRED: u64 = 3;

/// The request arrives; none of its data is being used at this moment.
const ARRIVES: u64 = 4;

/// What a slot was before a request that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    word: u64,
    request: u64,
}

/// How a request found its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The slot is this request's; [`Slot::finish`] must follow.
    Run,
    /// It has run; this was its reply.
    Replay(Vec<u8>),
    /// It runs.
    Running,
    /// It has run, and its reply was not kept.
    Uncached,
    /// Another request with its number has run.
    FalseRetry,
    /// Its number is neither the last one nor the next.
    Misordered,
}

/// One slot, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// The number of the last request, and above it what became of it.
    word: AtomicU64,
    request: AtomicU64,
    reply: Mutex<Vec<u8>>,
    /// Of which change of the target for the client's slots the last reply of this slot told it.
    told: AtomicU64,
}

const fn word(seqid: u32, phase: u64) -> u64 {
    phase << 32 | seqid as u64
}

const fn seqid(word: u64) -> u32 {
    word as u32
}

/// Whether a request has the slot.
const fn is_taken(word: u64) -> bool {
    matches!(word >> 32, RUNS | ARRIVES)
}

impl Slot {
    /// A slot whose first request has the number 1: "the request of number 0" has no reply.
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(word(0, UNCACHED)),
            request: AtomicU64::new(0),
            reply: Mutex::default(),
            told: AtomicU64::new(0),
        }
    }

    /// Takes the slot for a request, or says why not. Anything but [`Begin::Run`] leaves it as it is.
    #[inline(always)]
    pub fn begin(&self, number: u32, request: u64) -> Begin {
        let seen = self.word.load(Acquire);
        let last = seqid(seen);
        if number != last.wrapping_add(1) {
            return self.not_next(seen, number, request);
        }
        if is_taken(seen) {
            // the client uses the slot for another request before it has the reply
            return Begin::Misordered;
        }
        self.take(seen, number, request)
    }

    /// A request without the next number. On a slot that was retired it may begin with 1: the client need not remember
    /// the number of a slot that it had to give back.
    #[cold]
    fn not_next(&self, seen: u64, number: u32, request: u64) -> Begin {
        if seen >> 32 == RETIRED {
            return if number == 1 { self.take(seen, number, request) } else { Begin::Misordered };
        }
        if number == seqid(seen) { self.again(seen, request) } else { Begin::Misordered }
    }

    #[inline(always)]
    fn take(&self, seen: u64, number: u32, request: u64) -> Begin {
        match self.word.compare_exchange(seen, word(number, RUNS), AcqRel, Acquire) {
            Ok(_) => {
                // released, so that a thread that sees it also sees that the word has changed
                self.request.store(request, Release);
                Begin::Run
            }
            Err(_) => Begin::Running,
        }
    }

    /// A request with the number of the last one.
    fn again(&self, seen: u64, request: u64) -> Begin {
        match seen >> 32 {
            RUNS => Begin::Running,
            // nothing has run on a new slot
            _ if seen == word(0, UNCACHED) && self.request.load(Relaxed) == 0 => Begin::Misordered,
            _ if self.request.load(Acquire) != request => {
                if self.word.load(Acquire) == seen {
                    Begin::FalseRetry
                } else {
                    // the next request has come meanwhile
                    Begin::Misordered
                }
            }
            UNCACHED => Begin::Uncached,
            // the client has given up the connection by which it arrives
            ARRIVES if self.resume(seqid(seen)) => Begin::Run,
            ARRIVES => Begin::Running,
            _ => {
                let reply = acquire(&self.reply);
                if self.word.load(Acquire) == seen {
                    Begin::Replay(reply.clone())
                } else {
                    Begin::Misordered
                }
            }
        }
    }

    /// Takes the slot back from the client, and forgets the reply; false if a request has it.
    pub fn retire(&self) -> bool {
        let retired = |seen: u64| (!is_taken(seen)).then(|| word(seqid(seen), RETIRED));
        let retired = self.word.fetch_update(AcqRel, Acquire, retired).is_ok();
        if retired {
            *acquire(&self.reply) = Vec::new();
        }
        retired
    }

    /// Notes that the reply of the request that begins tells the client of this change of the target; whether the reply
    /// before it has. As the client has had that reply when it sends another request, it knows of the change then.
    pub fn tell(&self, change: u64) -> bool {
        self.told.swap(change, Relaxed) == change
    }

    /// Whether a request has ever had it.
    pub fn was_used(&self) -> bool {
        self.request.load(Relaxed) != 0
    }

    /// Whether a request has it now.
    pub fn is_running(&self) -> bool {
        is_taken(self.word.load(Relaxed))
    }

    /// Takes the slot for a request that arrives, if it is the next one and none has the slot.
    pub fn begin_arriving(&self, number: u32, request: u64) -> Option<Before> {
        let seen = self.word.load(Acquire);
        let before = Before { word: seen, request: self.request.load(Acquire) };
        let is_next = number == seqid(seen).wrapping_add(1);
        if !is_next || is_taken(seen) || seen >> 32 == RETIRED {
            return None;
        }
        match self.take(seen, number, request) {
            Begin::Run => {
                self.pause(number);
                Some(before)
            }
            _ => None,
        }
    }

    /// Takes the slot back for a request that arrives; false if it has come again and that has the slot.
    pub fn resume(&self, number: u32) -> bool {
        let (arrives, runs) = (word(number, ARRIVES), word(number, RUNS));
        self.word.compare_exchange(arrives, runs, AcqRel, Acquire).is_ok()
    }

    /// Ends that: more of the request is to come.
    pub fn pause(&self, number: u32) {
        self.word.store(word(number, ARRIVES), Release);
    }

    /// Puts the slot back as it was before a request that never became whole, unless the request has come again.
    pub fn abandon(&self, number: u32, before: Before) {
        if self.resume(number) {
            self.request.store(before.request, Release);
            self.word.store(before.word, Release);
        }
    }

    /// Ends the request that has the slot, and keeps its reply if there is one to keep.
    pub fn finish(&self, reply: Option<&[u8]>) {
        let number = seqid(self.word.load(Relaxed));
        let phase = match reply {
            None => UNCACHED,
            Some(bytes) => {
                let mut kept = acquire(&self.reply);
                kept.clear();
                kept.extend_from_slice(bytes);
                KEPT
            }
        };
        self.word.store(word(number, phase), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{Begin, Slot};

    #[test]
    fn a_request_runs_once() {
        let slot = Slot::new();
        assert_eq!(slot.begin(0, 7), Begin::Misordered, "nothing has run");
        assert_eq!(slot.begin(2, 7), Begin::Misordered);
        assert_eq!(slot.begin(1, 7), Begin::Run);
        assert_eq!(slot.begin(1, 7), Begin::Running);
        assert_eq!(slot.begin(2, 8), Begin::Misordered, "its reply was not sent");
        slot.finish(Some(b"first"));
        assert_eq!(slot.begin(1, 7), Begin::Replay(b"first".to_vec()));
        assert_eq!(slot.begin(1, 9), Begin::FalseRetry);
        assert_eq!(slot.begin(0, 7), Begin::Misordered);
        assert_eq!(slot.begin(3, 7), Begin::Misordered);
        assert_eq!(slot.begin(1, 7), Begin::Replay(b"first".to_vec()), "failures change nothing");
        assert_eq!(slot.begin(2, 8), Begin::Run);
        slot.finish(None);
        assert_eq!(slot.begin(2, 8), Begin::Uncached);
        assert_eq!(slot.begin(1, 7), Begin::Misordered);
    }

    #[test]
    fn a_retired_slot_begins_anew_or_goes_on() {
        for first in [1, 3] {
            let slot = Slot::new();
            for number in [1, 2] {
                assert_eq!(slot.begin(number, 7), Begin::Run);
                assert!(!slot.retire(), "a request runs");
                slot.finish(Some(b"kept"));
            }
            assert!(slot.retire());
            assert!(slot.reply.lock().unwrap().capacity() == 0);
            assert_eq!(slot.begin(2, 7), Begin::Misordered, "its reply is gone");
            assert_eq!(slot.begin(4, 7), Begin::Misordered);
            assert_eq!(slot.begin(first, 8), Begin::Run);
            slot.finish(Some(b"new"));
            assert_eq!(slot.begin(first, 8), Begin::Replay(b"new".to_vec()));
            assert_eq!(slot.begin(first + 1, 9), Begin::Run);
        }
        let slot = Slot::new();
        assert!(slot.retire(), "one that was never used");
        assert_eq!(slot.begin(0, 1), Begin::Misordered);
        assert_eq!(slot.begin(1, 1), Begin::Run);
    }

    #[test]
    fn a_request_that_arrives_can_be_sent_again() {
        let slot = Slot::new();
        assert_eq!(slot.begin(1, 7), Begin::Run);
        slot.finish(Some(b"first"));
        assert!(slot.begin_arriving(1, 7).is_none() && slot.begin_arriving(3, 7).is_none());
        let before = slot.begin_arriving(2, 8).unwrap();
        assert!(slot.is_running() && !slot.retire());
        assert_eq!(slot.begin(3, 9), Begin::Misordered, "its reply was not sent");
        assert_eq!(slot.begin(2, 9), Begin::FalseRetry);
        assert!(slot.begin_arriving(2, 8).is_none(), "one that came again is received whole");
        assert!(slot.resume(2));
        assert_eq!(slot.begin(2, 8), Begin::Running, "a piece is being written");
        slot.pause(2);
        assert_eq!(slot.begin(2, 8), Begin::Run);
        assert!(!slot.resume(2), "the slot is that of the request that came again");
        slot.abandon(2, before);
        assert_eq!(slot.begin(2, 8), Begin::Running);
        slot.finish(Some(b"second"));
        assert!(!slot.resume(2));
        assert_eq!(slot.begin(2, 8), Begin::Replay(b"second".to_vec()));
    }

    #[test]
    fn a_request_that_never_becomes_whole_has_not_run() {
        let slot = Slot::new();
        let before = slot.begin_arriving(1, 7).unwrap();
        slot.abandon(1, before);
        assert_eq!(slot.begin(0, 7), Begin::Misordered, "nothing has run");
        assert!(!slot.was_used());
        assert_eq!(slot.begin(1, 6), Begin::Run);
        slot.finish(Some(b"first"));
        let before = slot.begin_arriving(2, 8).unwrap();
        slot.abandon(2, before);
        assert_eq!(slot.begin(1, 6), Begin::Replay(b"first".to_vec()));
        assert!(slot.retire());
        assert!(slot.begin_arriving(2, 8).is_none(), "of a slot that was retired");
    }

    #[test]
    fn numbers_wrap() {
        let slot = Slot::new();
        slot.word.store(super::word(u32::MAX, super::UNCACHED), super::Relaxed);
        assert_eq!(slot.begin(0, 1), Begin::Run);
        slot.finish(Some(b"wrapped"));
        assert_eq!(slot.begin(0, 1), Begin::Replay(b"wrapped".to_vec()));
        assert_eq!(slot.begin(1, 1), Begin::Run);
    }
}

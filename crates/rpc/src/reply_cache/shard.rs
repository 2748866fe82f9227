//! A part of the reply cache: which calls run, and what others were answered.
//!
//! Invariant: the ring of bytes holds the results of the answers in the queue and nothing else.
//!
//! Nothing here is locked: the cache has each shard under a mutex.

use super::byte_ring::ByteRing;
use super::table::{QueueSpan, Table};
use super::{Key, Origin, Stored};
use crate::Outcome;
use std::collections::VecDeque;

/// What an answer costs besides its reply's bytes: what is known of it, and its number.
pub(crate) const ENTRY_COST: usize = size_of::<Answer>() + Table::COST;
/// The part of the memory that this has; the rest is for the replies' bytes, of which there are about three
/// times as many.
const ENTRIES_PART: usize = 4;
/// Bytes of results that are prefetched before they are written: those of CREATE have as many.
const PREFETCHED: usize = 320;

/// A call that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub key: Key,
    /// How it came.
    pub origin: Origin,
    /// A copy of it waits for its end.
    pub awaited: bool,
}

/// An answered call.
#[derive(Debug)]
struct Answer {
    key: Key,
    /// How it came.
    first: Origin,
    /// How its last copy came that was answered, if any.
    last: Origin,
    at_ms: u64,
    outcome: Outcome,
    /// Where its reply is.
    start: u64,
    len: usize,
}

impl Answer {
    fn came_by(&self, origin: Origin) -> bool {
        self.first == origin || self.last == origin
    }
}

/// The shard.
#[derive(Debug)]
pub(super) struct Shard {
    /// As many as threads and pending replies, which all shards share: searched one by one.
    running: Vec<Running>,
    /// The numbers of the answered calls.
    numbers: Table,
    /// The answered calls, the oldest in front.
    answers: VecDeque<Answer>,
    /// The number of the one in front.
    first: u32,
    /// The results of `answers`, in the same order.
    replies: ByteRing,
    /// The most answered calls.
    answers_max: usize,
    /// The latest time that a look-up came with.
    now_ms: u64,
    /// Before this nothing is too old.
    expires_ms: u64,
}

impl Shard {
    /// A shard of `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let entries = bytes / ENTRIES_PART;
        let answers_max = entries / ENTRY_COST;
        Self {
            running: Vec::new(),
            numbers: Table::with_capacity(answers_max),
            answers: VecDeque::with_capacity(answers_max),
            first: 0,
            replies: ByteRing::with_capacity(bytes.saturating_sub(entries)),
            answers_max,
            now_ms: 0,
            expires_ms: 0,
        }
    }

    /// Running and answered calls.
    pub fn calls(&self) -> usize {
        self.running.len().saturating_add(self.answers.len())
    }

    /// What all of it costs.
    pub fn bytes(&self) -> usize {
        self.calls().saturating_mul(ENTRY_COST).saturating_add(self.replies.len())
    }

    /// A call begins.
    pub fn begin(&mut self, key: Key, origin: Origin) {
        self.running.push(Running { key, origin, awaited: false });
    }

    /// A call that runs.
    pub fn runs(&mut self, key: Key, origin: Origin) -> Option<&mut Running> {
        self.running.iter_mut().find(|call| call.key == key && call.origin == origin)
    }

    /// Takes a call out that has run.
    pub fn end(&mut self, key: Key, origin: Origin) -> Option<Running> {
        let is_it = |call: &Running| call.key == key && call.origin == origin;
        let at = self.running.iter().position(is_it)?;
        Some(self.running.swap_remove(at))
    }

    /// How the calls with this key came that run, each with `true`, and that were answered, the oldest first.
    pub fn origins(&self, key: Key) -> impl Iterator<Item = (Origin, bool)> {
        let answered = self.found(key).map(|answer| (answer.last, false));
        let running = self.running.iter().filter(move |call| call.key == key);
        answered.chain(running.map(|call| (call.origin, true)))
    }

    /// Whether nothing is known of calls with this key.
    pub fn is_unknown(&self, key: Key) -> bool {
        self.origins(key).next().is_none()
    }

    /// Appends an answer, and evicts the oldest for it. Not kept: results longer than the whole ring.
    pub fn answer(&mut self, key: Key, origin: Origin, reply: &[u8], outcome: Outcome) {
        while !self.has_room(reply.len()) && !self.answers.is_empty() {
            self.remove_oldest();
        }
        if !self.has_room(reply.len()) {
            return;
        }
        let Some(start) = self.replies.push(reply) else { return };
        let (at_ms, len) = (self.now_ms, reply.len());
        let answer = Answer { key, first: origin, last: origin, at_ms, outcome, start, len };
        self.numbers.put(key, self.span());
        self.answers.push_back(answer);
        self.prefetch();
    }

    /// What a call was answered, if that is still kept.
    pub fn stored(&self, key: Key, origin: Origin) -> Option<Stored> {
        let answer = self.found(key).find(|answer| answer.came_by(origin))?;
        let results = self.replies.get(answer.start, answer.len)?;
        Some(Stored { results, outcome: answer.outcome })
    }

    /// What a call was answered that came by `from` and has been sent again by another connection, `to`.
    pub fn take_over(&mut self, key: Key, from: Origin, to: Origin) -> Option<Stored> {
        let stored = self.stored(key, from)?;
        let is_it = |at: &usize| {
            self.answers.get(*at).is_some_and(|answer| answer.key == key && answer.came_by(from))
        };
        let at = self.numbers.find(key, self.span()).find(is_it);
        if let Some(answer) = at.and_then(|at| self.answers.get_mut(at)) {
            answer.last = to;
        }
        Some(stored)
    }

    fn found(&self, key: Key) -> impl Iterator<Item = &Answer> {
        let known = self.numbers.find(key, self.span()).filter_map(|at| self.answers.get(at));
        known.filter(move |answer| answer.key == key)
    }

    /// It is `now_ms`, or later: evicts what is older than `age_ms`.
    pub fn expire(&mut self, now_ms: u64, age_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        while self.expires_ms <= self.now_ms {
            // asked only then: the oldest answer is in no cache of the processor
            let Some(oldest) = self.answers.front() else { return };
            self.expires_ms = oldest.at_ms.saturating_add(age_ms);
            if self.expires_ms <= self.now_ms {
                self.remove_oldest();
            }
        }
    }

    fn span(&self) -> QueueSpan {
        QueueSpan { first: self.first, count: self.answers.len() }
    }

    fn has_room(&self, reply: usize) -> bool {
        self.replies.fits(reply) && self.answers.len() < self.answers_max
    }

    fn remove_oldest(&mut self) {
        let Some(answer) = self.answers.pop_front() else { return };
        self.first = self.first.wrapping_add(1);
        self.replies.remove_before(answer.start.saturating_add(answer.len as u64));
    }

    /// Prefetches what the next answer will need: the oldest, and the space of its results.
    fn prefetch(&self) {
        if let Some(oldest) = self.answers.front() {
            sys::prefetch::for_reading(oldest);
        }
        self.replies.prefetch(PREFETCHED);
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Origin, Shard};
    use crate::Outcome;

    const ROOM: usize = 8192;
    const KEPT: usize = ROOM / super::ENTRIES_PART / super::ENTRY_COST;

    const HERE: Origin = Origin(1);

    fn key(n: u64) -> Key {
        // as far from each other as can be, so that all find room in the table
        Key { shard: n, place: (n % KEPT as u64) * (u64::MAX / KEPT as u64) + n }
    }

    #[test]
    fn replies_are_found_across_sequence_wraparound() {
        let mut shard = Shard { first: u32::MAX - 20, ..Shard::with_capacity(ROOM) };
        for n in 0..200_u64 {
            shard.begin(key(n), HERE);
            assert!(shard.end(key(n), HERE).is_some_and(|call| !call.awaited));
            shard.answer(key(n), HERE, &n.to_be_bytes(), Outcome::default());
            let first = (n + 1).saturating_sub(KEPT as u64);
            assert!(first == 0 || shard.stored(key(first - 1), HERE).is_none());
            for n in first..=n {
                assert_eq!(*shard.stored(key(n), HERE).unwrap().results, n.to_be_bytes());
            }
        }
        assert_eq!(shard.calls(), KEPT);
        shard.expire(1000, 1001);
        assert_eq!(shard.calls(), KEPT);
        shard.expire(1001, 1001);
        assert_eq!((shard.calls(), shard.bytes()), (0, 0));
        assert!((0..200).all(|n| shard.stored(key(n), HERE).is_none()));
    }

    #[test]
    fn a_reply_larger_than_the_shard_is_not_kept() {
        let mut shard = Shard::with_capacity(1000);
        shard.answer(key(1), HERE, &[1; 700], Outcome::default());
        shard.answer(key(2), HERE, &[1; 800], Outcome::default());
        assert!(shard.stored(key(2), HERE).is_none());
        let mut none = Shard::with_capacity(0);
        none.answer(key(1), HERE, b"reply", Outcome::default());
        assert_eq!(none.calls(), 0);
    }
}

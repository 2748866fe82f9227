//! The slots of a session, whose number grows and shrinks (RFC 8881 §2.10.6.1): it doubles when the client uses the
//! highest one, until it is the most that a session may have, or all sessions together have as many as there may be. It
//! shrinks when a new session finds too few left, or by the operator's word: the client is told to use fewer (the
//! *target*), and when it says in a request of which it follows that it knows of the target that it uses no slot above,
//! these are retired.
//!
//! Slots never move and never go before the session does, so that a request reaches its slot without a lock; what goes
//! when one is retired is its reply. They are in parts: those of the first grant, and as many as there were before with
//! each doubling.
//!
//! Invariants: every slot below the count is in a part that is there; the target is at least 1 and at most the count.

use super::slot::Slot;
use crate::sync::{Arc, AtomicU64, AtomicUsize};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Parts at the most: the first one, and ten doublings.
const PARTS: usize = 11;
/// Slots of a session at the most, whatever the limits are.
const MOST: usize = 0xffff;

/// How many slots all sessions have, and may have.
#[derive(Debug)]
pub(super) struct SlotTotal {
    count: AtomicUsize,
    /// What one session may have.
    session: AtomicUsize,
    /// What all may have.
    all: usize,
    /// How many sessions there are.
    sessions: AtomicUsize,
    /// Not 0 if a session has got fewer than it wanted since this was last looked at.
    scarce: AtomicUsize,
}

impl SlotTotal {
    pub fn new(session: usize, all: usize) -> Self {
        let session = AtomicUsize::new(session.clamp(1, MOST));
        let (count, sessions) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { count, session, all, sessions, scarce: AtomicUsize::new(0) }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    /// Whether there are as many slots as there may be: a new session has a few all the same.
    pub fn is_full(&self) -> bool {
        self.count.load(Relaxed) >= self.all
    }

    /// Takes as many of `wanted` as there may be beside those that there are.
    fn take(&self, wanted: usize) -> usize {
        let mut granted = 0;
        let more = |total: usize| {
            granted = wanted.min(self.all.saturating_sub(total));
            Some(total.saturating_add(granted))
        };
        let _before = self.count.fetch_update(Relaxed, Relaxed, more);
        granted
    }

    /// Takes some for a new session: no more than a share of what is left, so that of thousands of sessions none is left
    /// with nothing, and `least` in any case.
    fn take_first(&self, wanted: usize, least: usize) -> usize {
        let left = self.all.saturating_sub(self.count.load(Relaxed));
        // where there are few, so that a few sessions have enough each
        let share = (self.all / SHARE).clamp(SHARE_MIN, SHARE);
        let granted = wanted.min((left / share).max(least));
        if granted < wanted {
            self.scarce.store(1, Relaxed);
        }
        self.count.fetch_add(granted, Relaxed);
        granted
    }

    fn give_back(&self, slots: usize) {
        self.count.fetch_sub(slots, Relaxed);
    }

    /// Whether a session has got fewer than it wanted since the last call.
    pub fn take_scarce(&self) -> bool {
        self.scarce.load(Relaxed) != 0 && self.scarce.swap(0, Relaxed) != 0
    }

    /// What one session may have.
    pub fn session_most(&self) -> usize {
        self.session.load(Relaxed)
    }

    /// Changes what one session may have.
    pub fn set_session_most(&self, most: usize) {
        self.session.store(most.clamp(1, MOST), Relaxed);
    }

    /// How many there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

/// A new session gets at most this part of the slots that are left; where memory is small a larger one, at most an eighth.
const SHARE: usize = 512;
const SHARE_MIN: usize = 8;
/// Slots that a new session gets whatever there is.
const LEAST: usize = 4;

/// How many slots there are, how many the client is to use, and how often the latter was lowered; one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    count: usize,
    target: usize,
    changes: u64,
}

impl Bounds {
    const fn of_word(word: u64) -> Self {
        let (count, target) = (word as usize & MOST, (word >> 16) as usize & MOST);
        Self { count, target, changes: word >> 32 }
    }

    const fn word(self) -> u64 {
        self.changes << 32 | (self.target as u64) << 16 | self.count as u64
    }
}

/// The slots of a session.
#[derive(Debug)]
pub(super) struct Slots {
    first: usize,
    bounds: AtomicU64,
    parts: [OnceLock<Box<[Slot]>>; PARTS],
    total: Arc<SlotTotal>,
    /// Not 0 while the session counts as one of all.
    counts: AtomicUsize,
}

fn part(slots: usize) -> Box<[Slot]> {
    (0..slots).map(|_| Slot::new()).collect()
}

impl Slots {
    /// So many slots, or fewer if there are many already: at least a few, so that the client gets a session.
    pub fn new(wanted: usize, total: Arc<SlotTotal>) -> Self {
        let wanted = wanted.clamp(1, total.session_most());
        let first = total.take_first(wanted, LEAST.min(wanted));
        total.sessions.fetch_add(1, Relaxed);
        let parts = [const { OnceLock::new() }; PARTS];
        if let Some(place) = parts.first() {
            place.get_or_init(|| part(first));
        }
        let bounds = Bounds { count: first, target: first, changes: 0 };
        let (bounds, counts) = (AtomicU64::new(bounds.word()), AtomicUsize::new(1));
        Self { first, bounds, parts, total, counts }
    }

    fn bounds(&self) -> Bounds {
        Bounds::of_word(self.bounds.load(Acquire))
    }

    fn change(&self, before: Bounds, after: Bounds) -> bool {
        self.bounds.compare_exchange(before.word(), after.word(), AcqRel, Acquire).is_ok()
    }

    /// The session has ended: another may take its place. Its memory is free a little later.
    pub fn end(&self) {
        self.total.sessions.fetch_sub(self.counts.swap(0, Relaxed), Relaxed);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bounds().count
    }

    /// How many there are, and how many the client is to use.
    pub fn count_and_target(&self) -> (usize, usize) {
        let bounds = self.bounds();
        (bounds.count, bounds.target)
    }

    /// A slot.
    pub fn get(&self, slot: usize) -> Option<&Slot> {
        self.within(self.count(), slot)
    }

    /// One of so many.
    #[inline]
    pub fn within(&self, count: usize, slot: usize) -> Option<&Slot> {
        if slot >= count { None } else { self.place(slot) }
    }

    fn place(&self, slot: usize) -> Option<&Slot> {
        if slot < self.first {
            return self.parts.first()?.get()?.get(slot);
        }
        // the part after n doublings begins at the first grant times two to the power of n
        let doublings = (slot / self.first).ilog2() as usize;
        let begin = self.first.checked_shl(u32::try_from(doublings).ok()?)?;
        self.parts.get(doublings.checked_add(1)?)?.get()?.get(slot.checked_sub(begin)?)
    }

    /// Doubles their number, if that may be; to be called when the highest is used.
    pub fn grow(&self) {
        let before = self.bounds();
        if before.target < before.count {
            return;
        }
        let count = match before.count {
            // after it has shrunk to less
            count if count < self.first => count.saturating_mul(2).min(self.first),
            count => count.saturating_mul(2),
        };
        if count > self.total.session_most() {
            return;
        }
        let wanted = count.saturating_sub(before.count);
        let taken = self.total.take(wanted);
        let after = Bounds { count, target: count, ..before };
        let added = taken == wanted && self.make(count) && self.change(before, after);
        if !added {
            // too many, or another request was faster
            self.total.give_back(taken);
        }
    }

    /// Makes the part of the highest of so many slots, if it is not there; false if there can be no such part.
    fn make(&self, count: usize) -> bool {
        if count <= self.first {
            return true;
        }
        let half = count / 2;
        let doublings = (half / self.first).ilog2() as usize;
        let place = self.parts.get(doublings.saturating_add(1));
        place.map(|place| place.get_or_init(|| part(half))).is_some()
    }

    /// Lowers the target: to the first grant, or to less if a session may have less. The highest slot that the client is to
    /// use from now on, if that is a change.
    pub fn shrink(&self) -> Option<u32> {
        self.lower_to(self.first.min(self.total.session_most()))
    }

    /// Lowers the target if there are more slots than a session may have.
    pub fn shrink_to_most(&self) -> Option<u32> {
        let most = self.total.session_most();
        let mut target = self.first;
        while target > most {
            target /= 2;
        }
        while target.saturating_mul(2) <= most {
            target = target.saturating_mul(2);
        }
        self.lower_to(target)
    }

    fn lower_to(&self, target: usize) -> Option<u32> {
        let target = target.max(1);
        loop {
            let before = self.bounds();
            if before.target <= target {
                return None;
            }
            let changes = before.changes.wrapping_add(1) & u64::from(u32::MAX);
            if self.change(before, Bounds { target, changes, ..before }) {
                return u32::try_from(target.saturating_sub(1)).ok();
            }
        }
    }

    /// A new request on this slot says that the client uses none above `highest`. If it has been told of the target and
    /// keeps to it, the slots above are retired, unless a request has one of them.
    pub fn heard(&self, slot: &Slot, highest: u32) {
        let before = self.bounds();
        if before.target == before.count || !slot.tell(before.changes) {
            return;
        }
        let keeps_to_it = usize::try_from(highest).is_ok_and(|highest| highest < before.target);
        let retire = |slot| self.place(slot).is_none_or(Slot::retire);
        if keeps_to_it && (before.target..before.count).all(retire) {
            let after = Bounds { count: before.target, ..before };
            if self.change(before, after) {
                self.total.give_back(before.count.saturating_sub(before.target));
            }
        }
    }

    /// All that there are.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.parts.iter().filter_map(OnceLock::get).flat_map(|part| part.iter()).take(self.count())
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.end();
        self.total.give_back(self.count());
    }
}

#[cfg(test)]
mod tests {
    use super::{SlotTotal, Slots};
    use crate::sync::Arc;
    use crate::v4::slot::{Begin, Slot};

    fn limited(session: usize, all: usize) -> Arc<SlotTotal> {
        Arc::new(SlotTotal::new(session, all))
    }

    #[test]
    fn slots_double_up_to_the_limits_and_stay_where_they_are() {
        let total = limited(64, 100);
        // a small total has no share for a new session but the least one
        let slots = Slots::new(4, Arc::clone(&total));
        let first: Vec<_> =
            (0..4).map(|slot| std::ptr::from_ref(slots.get(slot).unwrap())).collect();
        for count in [8, 16, 32, 64, 64] {
            slots.grow();
            assert_eq!((slots.count(), total.count()), (count, count));
            assert_eq!(slots.iter().count(), count);
            let mut all: Vec<_> =
                (0..count).map(|slot| std::ptr::from_ref(slots.get(slot).unwrap())).collect();
            assert_eq!(all[..4], first);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "each is another");
            assert!(slots.get(count).is_none());
        }
        let other = Slots::new(64, Arc::clone(&total));
        assert_eq!(other.count(), 4, "whatever there is");
        (0..5).for_each(|_| other.grow());
        assert_eq!((other.count(), total.count()), (32, 96), "what is left");
        drop((slots, other));
        assert_eq!(total.count(), 0);
    }

    #[test]
    fn thousands_of_sessions_get_a_share_each() {
        let total = limited(1024, 131_072);
        let sessions: Vec<_> = (0..10_000).map(|_| Slots::new(64, Arc::clone(&total))).collect();
        assert_eq!((sessions[0].count(), sessions[1000].count()), (64, 64));
        assert!(sessions.iter().all(|slots| slots.count() >= 4));
        assert!(total.take_scarce() && !total.take_scarce());
        // beyond the limit by no more than the least
        assert!(total.count() <= 131_072 + 4 * 10_000, "{}", total.count());
    }

    #[test]
    fn of_threads_that_use_the_highest_slot_at_once_one_grows() {
        let total = limited(1024, 1_000_000);
        let slots = Slots::new(1, Arc::clone(&total));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| slots.grow()));
            }
        });
        assert_eq!((slots.count(), slots.iter().count(), total.count()), (1024, 1024, 1024));
    }

    /// A request on a slot, with the next number.
    fn request(slots: &Slots, at: usize, number: u32, highest: u32) -> &Slot {
        let slot = slots.get(at).unwrap();
        assert_eq!(slot.begin(number, 1), Begin::Run);
        slots.heard(slot, highest);
        slot
    }

    #[test]
    fn slots_are_retired_once_the_client_knows_of_it_and_uses_none() {
        let total = limited(64, 1_000_000);
        let slots = Slots::new(8, Arc::clone(&total));
        (0..3).for_each(|_| slots.grow());
        assert_eq!(slots.count_and_target(), (64, 64));
        assert_eq!((slots.shrink(), slots.shrink()), (Some(7), None), "told once");
        assert_eq!(slots.count_and_target(), (64, 8));
        let high = request(&slots, 20, 1, 20);
        // this reply tells it, and whether it has arrived is not known
        request(&slots, 0, 1, 3).finish(None);
        assert_eq!(slots.count(), 64);
        // it is known now, but a request runs above
        request(&slots, 0, 2, 3).finish(None);
        assert_eq!(slots.count(), 64);
        high.finish(Some(b"reply"));
        // the client says that it uses one above
        request(&slots, 0, 3, 20).finish(None);
        assert_eq!(slots.count(), 64);
        request(&slots, 0, 4, 7).finish(None);
        assert_eq!((slots.count_and_target(), total.count()), ((8, 8), 8));
        assert!(slots.get(8).is_none());
        // it grows again, by slots that were used before
        (0..4).for_each(|_| slots.grow());
        assert_eq!((slots.count_and_target(), total.count()), ((64, 64), 64));
        assert_eq!(slots.get(20).unwrap().begin(1, 1), Begin::Run);
        drop(slots);
        assert_eq!(total.count(), 0);
    }

    #[test]
    fn a_session_may_be_made_to_have_fewer_than_at_first() {
        let total = limited(64, 1_000_000);
        let slots = Slots::new(24, Arc::clone(&total));
        slots.grow();
        assert_eq!(slots.count(), 48);
        for (most, highest) in [(48, None), (30, Some(23)), (10, Some(5)), (1, Some(0))] {
            total.set_session_most(most);
            assert_eq!(slots.shrink_to_most(), highest, "{most}");
        }
        request(&slots, 0, 1, 0).finish(None);
        request(&slots, 0, 2, 0).finish(None);
        assert_eq!((slots.count(), total.count()), (1, 1));
        total.set_session_most(64);
        for count in [2, 4, 8, 16, 24, 48, 48] {
            slots.grow();
            assert_eq!((slots.count(), total.count()), (count, count));
        }
    }
}

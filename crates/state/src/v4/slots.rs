//! The slots of a session, whose number grows (RFC 8881 §2.10.6.1): it doubles when the client uses the highest one,
//! until it is the most that a session may have, or all sessions together have as many as there may be.
//!
//! Slots never move and never go before the session does, so that a request reaches its slot without a lock. They are
//! in parts: those of the first grant, and as many as there were before with each doubling.
//!
//! Invariant: every slot below `count` is in a part that is there.

use super::slot::Slot;
use crate::sync::{Arc, AtomicUsize};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Parts at the most: the first one, and ten doublings.
const PARTS: usize = 11;

/// How many slots all sessions have.
#[derive(Debug, Default)]
pub(super) struct SlotTotal(AtomicUsize);

impl SlotTotal {
    /// Takes as many of `wanted` as there may be beside those that there are.
    fn take(&self, wanted: usize, most: usize) -> usize {
        let mut granted = 0;
        let more = |total: usize| {
            granted = wanted.min(most.saturating_sub(total));
            Some(total.saturating_add(granted))
        };
        let _before = self.0.fetch_update(Relaxed, Relaxed, more);
        granted
    }

    fn give_back(&self, slots: usize) {
        self.0.fetch_sub(slots, Relaxed);
    }

    /// How many there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// What slots may grow to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotLimits {
    /// Those of a session.
    pub session: usize,
    /// Those of all sessions.
    pub all: usize,
}

/// The slots of a session.
#[derive(Debug)]
pub(super) struct Slots {
    first: usize,
    count: AtomicUsize,
    limits: SlotLimits,
    parts: [OnceLock<Box<[Slot]>>; PARTS],
    total: Arc<SlotTotal>,
}

fn part(slots: usize) -> Box<[Slot]> {
    (0..slots).map(|_| Slot::new()).collect()
}

impl Slots {
    /// So many slots, or fewer if there are too many already: at least one, so that the client gets a session.
    pub fn new(wanted: usize, limits: SlotLimits, total: Arc<SlotTotal>) -> Self {
        let first = match total.take(wanted.max(1), limits.all) {
            0 => total.take(1, usize::MAX),
            granted => granted,
        };
        let parts = [const { OnceLock::new() }; PARTS];
        if let Some(place) = parts.first() {
            place.get_or_init(|| part(first));
        }
        Self { first, count: AtomicUsize::new(first), limits, parts, total }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Acquire)
    }

    /// A slot.
    pub fn get(&self, slot: usize) -> Option<&Slot> {
        if slot >= self.count() {
            return None;
        }
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
        let count = self.count();
        let doublings = (count / self.first).ilog2() as usize;
        let Some(place) = self.parts.get(doublings.saturating_add(1)) else { return };
        if count.saturating_mul(2) > self.limits.session {
            return;
        }
        let taken = self.total.take(count, self.limits.all);
        let added = taken == count && place.set(part(count)).is_ok();
        if added {
            self.count.store(count.saturating_mul(2), Release);
        } else {
            // too many, or another request was faster
            self.total.give_back(taken);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.parts.iter().filter_map(OnceLock::get).flat_map(|part| part.iter())
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.total.give_back(self.count());
    }
}

#[cfg(test)]
mod tests {
    use super::{SlotLimits, SlotTotal, Slots};
    use crate::sync::Arc;

    const LIMITS: SlotLimits = SlotLimits { session: 64, all: 100 };

    #[test]
    fn slots_double_up_to_the_limits_and_stay_where_they_are() {
        let total = Arc::new(SlotTotal::default());
        let slots = Slots::new(5, LIMITS, Arc::clone(&total));
        let first: Vec<_> =
            (0..5).map(|slot| std::ptr::from_ref(slots.get(slot).unwrap())).collect();
        for count in [10, 20, 40, 40] {
            slots.grow();
            assert_eq!((slots.count(), total.count()), (count, count));
            assert_eq!(slots.iter().count(), count);
            let mut all: Vec<_> =
                (0..count).map(|slot| std::ptr::from_ref(slots.get(slot).unwrap())).collect();
            assert_eq!(all[..5], first);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "each is another");
            assert!(slots.get(count).is_none());
        }
        let other = Slots::new(64, LIMITS, Arc::clone(&total));
        assert_eq!(other.count(), 60, "what is left");
        let least = Slots::new(64, LIMITS, Arc::clone(&total));
        assert_eq!(least.count(), 1);
        least.grow();
        assert_eq!(least.count(), 1);
        drop((slots, other, least));
        assert_eq!(total.count(), 0);
    }

    #[test]
    fn of_threads_that_use_the_highest_slot_at_once_one_grows() {
        let total = Arc::new(SlotTotal::default());
        let limits = SlotLimits { session: 1024, all: 100_000 };
        let slots = Slots::new(1, limits, Arc::clone(&total));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| slots.grow()));
            }
        });
        assert_eq!((slots.count(), slots.iter().count(), total.count()), (1024, 1024, 1024));
    }
}

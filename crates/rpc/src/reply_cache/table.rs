//! The index of a shard: numbers of answers in its queue, by the keys of their calls.
//!
//! A bucket is one cache line with a few numbers; there are as many buckets as keep the table half empty. A
//! number goes to its key's bucket, over one of an answer that has left the queue; if there is none of these,
//! over the oldest, whose answer is then found no more: of those that are kept, one in a hundred, and nearly the
//! oldest of all. So nothing is ever removed, moved or rehashed, and a call touches one line, the one that it
//! was looked up in.
//!
//! Invariant: each number in the queue is here at most once. That a number belongs to a key is checked in the
//! queue.

use super::Key;

/// Numbers in a bucket: what a cache line holds.
const WAYS: usize = 8;
/// Numbers in a bucket on average, if all are in the queue.
const FILLED: usize = WAYS / 2;

/// One cache line: numbers, and of each the part of its key that does not choose the bucket; 0 for none.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    numbers: [u32; WAYS],
    tags: [u32; WAYS],
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    buckets: Box<[Bucket]>,
}

/// The numbers that are in the queue: `count` from `first` on, counted modulo 2^32.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueSpan {
    pub first: u32,
    pub count: usize,
}

impl QueueSpan {
    /// How many are before this number, if it is in the queue.
    pub fn behind(self, number: u32) -> Option<usize> {
        let behind = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        (behind < self.count).then_some(behind)
    }

    /// The number that the next answer gets.
    pub fn next(self) -> u32 {
        self.first.wrapping_add(u32::try_from(self.count).unwrap_or_default())
    }
}

impl Table {
    /// Bytes for each answer.
    pub const COST: usize = size_of::<Bucket>() / FILLED;

    /// One for this many answers.
    pub fn with_capacity(answers: usize) -> Self {
        let empty = Bucket { numbers: [0; WAYS], tags: [0; WAYS] };
        Self { buckets: vec![empty; answers.div_ceil(FILLED).max(1)].into_boxed_slice() }
    }

    /// The numbers in the queue whose keys may be this.
    pub fn find(&self, key: Key, span: QueueSpan) -> impl Iterator<Item = usize> {
        let slots = self.buckets.get(self.at(key)).into_iter();
        let slots = slots.flat_map(|place| place.tags.iter().zip(&place.numbers));
        let tag = tag(key);
        slots
            .filter(move |(its, _)| **its == tag)
            .filter_map(move |(_, number)| span.behind(*number))
    }

    /// Puts a number in that is going to be the next of the queue.
    pub fn put(&mut self, key: Key, span: QueueSpan) {
        let at = self.at(key);
        let Some(place) = self.buckets.get_mut(at) else { return };
        // those that are not in the queue go first
        let rank = |number: u32, its: u32| match span.behind(number) {
            Some(behind) if its != 0 => behind.saturating_add(1),
            _ => 0,
        };
        let slots = place.numbers.iter_mut().zip(&mut place.tags);
        if let Some((number, its)) = slots.min_by_key(|(number, its)| rank(**number, **its)) {
            *number = span.next();
            *its = tag(key);
        }
    }

    /// The place of a key: its upper half as a part of all buckets.
    fn at(&self, key: Key) -> usize {
        let part = u128::from(key.place).saturating_mul(self.buckets.len() as u128) >> u64::BITS;
        usize::try_from(part).unwrap_or_default()
    }
}

/// What is compared of a key before the queue is asked; not 0.
const fn tag(key: Key) -> u32 {
    (key.place & 0xffff_ffff) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::{QueueSpan, Table};
    use crate::reply_cache::Key;
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher;

    fn key(n: u32) -> Key {
        let mut hasher = SipHasher13::new();
        hasher.write_u32(n);
        Key { shard: 0, place: hasher.finish() }
    }

    #[test]
    fn nearly_all_queued_keys_are_found_and_no_others() {
        let mut table = Table::with_capacity(1000);
        let begin = u32::MAX - 1500;
        for n in 0..5000_u32 {
            let count = n.min(1000) as usize;
            let first = begin.wrapping_add(n - count as u32);
            table.put(key(n), QueueSpan { first, count });
        }
        let span = QueueSpan { first: begin.wrapping_add(4000), count: 1000 };
        let finds = |n: u32, behind: usize| table.find(key(n), span).any(|found| found == behind);
        assert!((0..4000).all(|n| table.find(key(n), span).next().is_none()), "they have gone");
        let lost: Vec<_> = (0..1000).filter(|n| !finds(4000 + n, *n as usize)).collect();
        assert!(lost.len() < 20, "{lost:?}");
        assert!(lost.iter().all(|n| *n < 500), "of the older ones: {lost:?}");
    }
}

//! A map with a limit that evicts its oldest entries (first in, first out).

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// At most `entries_max` entries; the first inserted is evicted first.
#[derive(Debug)]
pub(super) struct FifoMap<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
    entries_max: usize,
}

impl<K: Copy + Eq + Hash, V> FifoMap<K, V> {
    /// An empty map; allocates nothing.
    pub fn new(entries_max: usize) -> Self {
        Self { map: HashMap::new(), order: VecDeque::new(), entries_max }
    }

    /// The value of a key.
    pub fn find(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Sets the value of a key, and evicts the oldest entry beyond the limit.
    pub fn insert(&mut self, key: K, value: V) {
        if self.map.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > self.entries_max {
            if let Some(oldest) = self.order.pop_front() {
                self.map.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FifoMap;

    #[test]
    fn the_oldest_entry_is_evicted_first() {
        let mut map = FifoMap::new(2);
        map.insert(1, 'a');
        map.insert(2, 'b');
        map.insert(1, 'c');
        assert_eq!((map.find(&1), map.find(&2)), (Some(&'c'), Some(&'b')));
        map.insert(3, 'd');
        assert_eq!((map.find(&1), map.find(&2), map.find(&3)), (None, Some(&'b'), Some(&'d')));
    }
}

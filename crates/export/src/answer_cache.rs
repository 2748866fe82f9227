//! Answers of name services, read without a lock: of the caches of a user's groups and of owners' names.
//!
//! An answer is used for [`TTL`]; that there is none, and a failure, for [`TTL_UNKNOWN`]. While the services do not answer, their last
//! answer is used for [`STALE_MAX`]. A full cache drops one entry in [`DROPPED_ONE_IN`].

use papaya::HashMap;
use std::hash::Hash;
use std::io;
use std::time::{Duration, Instant};

/// Lifetime of an answer.
pub(crate) const TTL: Duration = Duration::from_secs(300);
/// Lifetime of the answer that there is none, and of a failure.
const TTL_UNKNOWN: Duration = Duration::from_secs(30);
/// How long the last answer is used while the services do not answer.
const STALE_MAX: Duration = Duration::from_secs(3600);

/// A full cache drops one entry in so many, from all of the map. If it dropped the first one for each new one, the front of the
/// map would be empty, which each search for the first one goes through, and its end so crowded that papaya (0.2.5) finds no
/// place for another.
pub(crate) const DROPPED_ONE_IN: usize = 8;

/// What is known of a key.
#[derive(Debug)]
pub(crate) struct CachedAnswer<V> {
    /// `None`: there is none.
    pub value: Option<V>,
    /// When to ask again.
    pub until: Instant,
    /// When the services last answered; `None` if they never did.
    answered_at: Option<Instant>,
}

impl<V> CachedAnswer<V> {
    /// Whether the services have said so.
    pub const fn is_answer(&self) -> bool {
        self.answered_at.is_some()
    }
}

/// The cache.
pub(crate) struct AnswerCache<K, V> {
    known: HashMap<K, CachedAnswer<V>>,
    most: usize,
}

impl<K: Hash + Eq, V: Clone> AnswerCache<K, V> {
    /// With room for so many keys.
    pub fn new(most: usize) -> Self {
        Self { known: HashMap::new(), most }
    }

    /// Passes on what is known of a key.
    pub fn with<T>(&self, key: &K, work: impl FnOnce(Option<&CachedAnswer<V>>) -> T) -> T {
        let guard = self.known.guard();
        work(self.known.get(key, &guard))
    }

    /// Stores an answer; a failure keeps what was known.
    pub fn store(&self, key: K, answer: io::Result<Option<V>>, now: Instant) {
        let guard = self.known.guard();
        let before = self.known.get(&key, &guard);
        let (value, answered_at, ttl) = match answer {
            Ok(Some(value)) => (Some(value), Some(now), TTL),
            Ok(None) => (None, Some(now), TTL_UNKNOWN),
            Err(_) => {
                let is_fresh = |at| now.saturating_duration_since(at) < STALE_MAX;
                let last = before.filter(|known| known.answered_at.is_some_and(is_fresh));
                let value = last.and_then(|known| known.value.clone());
                (value, last.and_then(|known| known.answered_at), TTL_UNKNOWN)
            }
        };
        if before.is_none() && self.known.len() >= self.most {
            // whichever: who is still used is asked for again
            for (other, _) in self.known.iter(&guard).step_by(DROPPED_ONE_IN) {
                self.known.remove(other, &guard);
            }
        }
        self.known.insert(key, CachedAnswer { value, until: now + ttl, answered_at }, &guard);
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.known.pin().clear();
    }

    /// How many keys something is known of.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerCache, STALE_MAX, TTL, TTL_UNKNOWN};
    use std::io;
    use std::time::{Duration, Instant};

    type Known = Option<(Option<u32>, bool, Duration)>;

    fn known(cache: &AnswerCache<u32, u32>, key: u32, now: Instant) -> Known {
        cache.with(&key, |known| {
            let known = known?;
            Some((known.value, known.is_answer(), known.until.saturating_duration_since(now)))
        })
    }

    #[test]
    fn an_answer_outlives_failures_for_an_hour() {
        let (cache, start) = (AnswerCache::new(9), Instant::now());
        let failed = || Err(io::ErrorKind::TimedOut.into());
        assert_eq!(known(&cache, 1, start), None);
        cache.store(1, failed(), start);
        assert_eq!(known(&cache, 1, start), Some((None, false, TTL_UNKNOWN)));
        cache.store(1, Ok(Some(7)), start);
        assert_eq!(known(&cache, 1, start), Some((Some(7), true, TTL)));
        let later = start + STALE_MAX - Duration::from_secs(1);
        cache.store(1, failed(), later);
        assert_eq!(known(&cache, 1, later), Some((Some(7), true, TTL_UNKNOWN)));
        let too_late = start + STALE_MAX;
        cache.store(1, failed(), too_late);
        assert_eq!(known(&cache, 1, too_late), Some((None, false, TTL_UNKNOWN)));
        cache.store(1, Ok(None), too_late);
        assert_eq!(known(&cache, 1, too_late), Some((None, true, TTL_UNKNOWN)));
    }

    #[test]
    fn a_full_cache_drops_entries_for_new_ones() {
        let (cache, now) = (AnswerCache::new(3), Instant::now());
        for key in 0..9 {
            cache.store(key, Ok(Some(key)), now);
            assert_eq!(cache.len(), 3.min(key as usize + 1));
            assert!(known(&cache, key, now).is_some());
        }
        cache.store(8, Ok(Some(1)), now);
        assert_eq!(cache.len(), 3, "a known key takes no other's place");
        cache.clear();
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_full_cache_takes_any_number_of_keys() {
        let (cache, now) = (AnswerCache::new(6_000), Instant::now());
        for key in 0..100_000 {
            cache.store(key, Ok(Some(key)), now);
            assert!(cache.len() <= 6_000);
        }
        assert!(cache.len() > 5_000, "one in eight is dropped");
    }
}

//! Keeps lines of the log that anybody can cause down to one a minute for each reason.
//!
//! Lock: `LineLimiter::logged`, for one look-up. At most [`REASONS_MAX`] reasons are told apart: clients can make up
//! others, and then all are forgotten.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines with the same reason.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// Reasons that are told apart.
const REASONS_MAX: usize = 256;

/// Lines that were left out since the last one; printed behind the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut(u64);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, "; {more} more for the same reason since the last line"),
        }
    }
}

/// When each reason was last logged, and how often it was left out since.
#[derive(Debug)]
pub struct LineLimiter<K> {
    logged: Mutex<HashMap<K, (Instant, u64)>>,
}

impl<K> Default for LineLimiter<K> {
    fn default() -> Self {
        Self { logged: Mutex::default() }
    }
}

impl<K: Hash + Eq> LineLimiter<K> {
    /// If a line is to be logged now, what was left out before it.
    pub fn due(&self, reason: K, now: Instant) -> Option<LeftOut> {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, left_out)) = logged.get_mut(&reason)
            && now.saturating_duration_since(*then) < LOG_EVERY
        {
            *left_out = left_out.saturating_add(1);
            return None;
        }
        if logged.len() >= REASONS_MAX {
            logged.clear();
        }
        let before = logged.insert(reason, (now, 0));
        Some(LeftOut(before.map_or(0, |(_, left_out)| left_out)))
    }
}

#[cfg(test)]
mod tests {
    use super::{LOG_EVERY, LeftOut, LineLimiter, REASONS_MAX};
    use std::time::{Duration, Instant};

    #[test]
    fn each_reason_is_logged_once_a_minute() {
        let limiter = LineLimiter::default();
        let now = Instant::now();
        assert_eq!(limiter.due("a", now), Some(LeftOut(0)));
        assert_eq!(limiter.due("a", now), None);
        assert_eq!(limiter.due("b", now), Some(LeftOut(0)));
        assert_eq!(limiter.due("a", now + LOG_EVERY - Duration::from_secs(1)), None);
        assert_eq!(limiter.due("a", now + LOG_EVERY), Some(LeftOut(2)));
        assert_eq!(LeftOut(0).to_string(), "");
        assert!(LeftOut(2).to_string().contains("2 more"));
    }

    #[test]
    fn reasons_that_clients_make_up_take_no_more_room() {
        let limiter = LineLimiter::default();
        let now = Instant::now();
        for number in 0..3 * REASONS_MAX {
            assert_eq!(limiter.due(number, now), Some(LeftOut(0)));
        }
        assert!(limiter.logged.lock().unwrap().len() <= REASONS_MAX);
    }
}

//! Calls per second of late, for any number of askers.
//!
//! The rate covers the time since a sample that is at least [`WINDOW`] old, or since the oldest one. Samples
//! are taken when somebody asks, so an idle server does nothing, and two askers use the same samples instead
//! of ending each other's interval.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time that a rate covers, if somebody asked then.
const WINDOW: Duration = Duration::from_secs(10);
/// The least time between two samples; bounds their number.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Samples of a counter of calls, the oldest first; never empty.
#[derive(Debug)]
pub struct RecentCalls {
    samples: VecDeque<(Instant, u64)>,
}

impl RecentCalls {
    /// Begins to count.
    pub fn new(now: Instant) -> Self {
        Self { samples: VecDeque::from([(now, 0)]) }
    }

    /// Calls per second up to now, when `calls` have been counted since the start.
    pub fn per_second(&mut self, now: Instant, calls: u64) -> f64 {
        let age = |at: Instant| now.saturating_duration_since(at);
        while self.samples.get(1).is_some_and(|(at, _)| age(*at) >= WINDOW) {
            self.samples.pop_front();
        }
        let (since, before) = self.samples.front().copied().unwrap_or((now, calls));
        if self.samples.back().is_none_or(|(at, _)| age(*at) >= SAMPLE_EVERY) {
            self.samples.push_back((now, calls));
        }
        rate(calls.saturating_sub(before), age(since))
    }
}

/// Calls per second; 0 for no time.
pub fn rate(calls: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { calls as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::RecentCalls;
    use std::time::{Duration, Instant};

    #[test]
    fn two_clients_get_the_same_rate() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut recent = RecentCalls::new(start);
        for second in 1..=20_u32 {
            recent.per_second(at(second.into()), u64::from(second) * 100);
        }
        let first = recent.per_second(at(20.5), 2050);
        let second = recent.per_second(at(20.5), 2050);
        assert_eq!(first.to_bits(), second.to_bits());
        assert!((first - 100.0).abs() < 1e-9, "{first}");
        assert!(recent.samples.len() <= 12, "{}", recent.samples.len());
    }

    #[test]
    fn after_a_pause_the_rate_covers_the_pause() {
        let start = Instant::now();
        let mut recent = RecentCalls::new(start);
        recent.per_second(start + Duration::from_secs(5), 500);
        let rate = recent.per_second(start + Duration::from_secs(105), 1500);
        assert!((rate - 10.0).abs() < 1e-9, "{rate}");
    }
}

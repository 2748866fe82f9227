//! The monotonic clock, as one number: what the hot path reads before and after each call.

use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`, which counts from some time before now and never goes back.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (s, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    s.unwrap_or(0).saturating_mul(NS_PER_S).saturating_add(ns.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::monotonic_ns;
    use std::time::{Duration, Instant};

    #[test]
    fn the_monotonic_clock_agrees_with_instant() {
        let (since, began_ns) = (Instant::now(), monotonic_ns());
        std::thread::sleep(Duration::from_millis(20));
        let past_ns = monotonic_ns() - began_ns;
        let around = since.elapsed();
        assert!(past_ns >= 20_000_000 && u128::from(past_ns) <= around.as_nanos(), "{past_ns}");
    }
}

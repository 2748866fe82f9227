//! What a pool's scheduler counts, and how long work and threads wait. Guarded by the scheduler's lock.

use telemetry::{BUCKETS, bucket_of, upper_ns};

/// A distribution of delays.
#[derive(Debug, Clone)]
pub(crate) struct DelayHistogram {
    pub count: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    /// [`BUCKETS`] of them.
    buckets: Vec<u64>,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self { count: 0, total_ns: 0, max_ns: 0, buckets: vec![0; BUCKETS] }
    }
}

impl DelayHistogram {
    /// One more delay.
    pub fn count(&mut self, ns: u64) {
        self.count = self.count.wrapping_add(1);
        self.total_ns = self.total_ns.wrapping_add(ns);
        self.max_ns = self.max_ns.max(ns);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket = bucket.wrapping_add(1);
        }
    }

    /// What 99 of 100 did not exceed, to the resolution of the buckets.
    pub fn p99_ns(&self) -> u64 {
        let mut beyond = self.count / 100;
        for (index, bucket) in self.buckets.iter().enumerate().rev() {
            match beyond.checked_sub(*bucket) {
                Some(left) => beyond = left,
                None => return upper_ns(index).min(self.max_ns),
            }
        }
        0
    }
}

/// What is counted: the kernel's `pool_stats`, and more. Under the lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct SchedulerCounters {
    /// Pieces of work put into the queue.
    pub enqueued: u64,
    /// Of them, those for which nobody was woken at once.
    pub waited: u64,
    /// Of these, those for which no parked thread was woken because enough were waking.
    pub overloads_avoided: u64,
    /// Threads woken.
    pub woken: u64,
    /// Threads that ended after nobody had woken them for a while.
    pub timed_out: u64,
    /// Times that every thread was blocked and no more could be started.
    pub exhausted: u64,
    /// Times that the watchdog woke a thread for work that no other thread was woken for.
    pub unstuck: u64,
    /// How long work was in the queue.
    pub queue_delay: DelayHistogram,
    /// From being woken to running.
    pub wake_delay: DelayHistogram,
}

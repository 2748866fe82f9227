//! What the server tells about its pools.

use crate::pool::scheduler_counters::DelayHistogram;
use crate::settings::WakePolicy;
use serde::Serialize;

/// What a pool's leader does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Leader {
    /// The leader waits for events.
    Waiting,
    /// The leader waits for events and queues what is ready.
    Queueing,
    /// The leader runs a call.
    Serving,
    /// Nobody leads: a follower has been woken, or all threads are busy.
    Vacant,
    /// The pool has stopped.
    Retired,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolInfo {
    /// Its number.
    pub index: usize,
    /// The CPUs that its threads are bound to; empty: any.
    pub cpus: Vec<usize>,
    /// Threads.
    pub threads: usize,
    /// Threads that are parked.
    pub parked: usize,
    /// Fewest threads.
    pub threads_min: usize,
    /// Most threads.
    pub threads_max: usize,
    /// What its leader does.
    pub leader: Leader,
    /// Its connections.
    pub connections: usize,
    /// Calls that arrived.
    pub calls: u64,
    /// Times that a follower was promoted because a call was about to block.
    pub promotions: u64,
    /// Times that no follower was free and none could be started.
    pub promotions_failed: u64,
    /// Times that the watchdog replaced a leader whose call blocked without announcing it.
    pub rescues: u64,
    /// Threads woken (the kernel's "threads-woken").
    pub wakeups: u64,
    /// Who is woken for a call.
    pub wake_policy: WakePolicy,
    /// Threads whose calls have announced that they block.
    pub blocked: usize,
    /// Reserve threads: beyond the most, for MOUNT and portmap while all others are blocked.
    pub reserves: usize,
    /// Connections and datagrams that wait in the queue now.
    pub queued: usize,
    /// Times that a connection or socket became ready (the kernel's "packets-arrived").
    pub arrived: u64,
    /// Connections and datagrams put into the queue.
    pub enqueued: u64,
    /// Of these, those for which no thread was woken (the kernel's "sockets-enqueued").
    pub waited: u64,
    /// Of these, those for which there was a parked thread, but enough others had been woken
    /// (the "overloads-avoided" of 2009).
    pub overloads_avoided: u64,
    /// Threads that ended after some seconds without work (the kernel's "threads-timedout").
    pub timed_out: u64,
    /// Times that every thread was blocked and no more could be started.
    pub exhausted: u64,
    /// Times that the watchdog woke a thread for a queue that nobody came for.
    pub unstuck: u64,
    /// How long work waited in the queue.
    pub queue_delay: Delay,
    /// How long it took from waking a thread until it ran.
    pub wake_delay: Delay,
}

/// How long something took, over all times since the pool was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Delay {
    /// How often.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// What 99 of 100 did not exceed, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl From<&DelayHistogram> for Delay {
    fn from(delays: &DelayHistogram) -> Self {
        let mean_ns = delays.total_ns.checked_div(delays.count).unwrap_or(0);
        Self { count: delays.count, mean_ns, p99_ns: delays.p99_ns(), max_ns: delays.max_ns }
    }
}

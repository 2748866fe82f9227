//! The watchdog: finds leaders that are stuck in a call that did not announce that it blocks, ends connections
//! that make no progress, and keeps as many pools as the load needs (`pool_sizing.rs`). When the server is idle,
//! it returns free memory to the system.
//!
//! While calls run it looks now and then when each pool's call under way began, and sleeps without any timer when
//! nothing has run for a while. A leader that begins a round wakes it ([`WatchdogWaker::wake`], which also says
//! why no wake-up is lost): one load of a flag that hardly ever changes. A look costs a timer, two context
//! switches and cold caches, some 30 µs: each millisecond that would be three percent of all that the server
//! uses. So it looks each millisecond for a fifth of a second after it found a stuck call, and less often while
//! all calls announce when they block.
//!
//! [`WatchdogWaker::wake`]: crate::pool::watchdog_waker::WatchdogWaker::wake

use crate::clock::NS_PER_MS;
use crate::conn::connection::Conn;
use crate::limits::IDLE_THREAD_AGE;
use crate::pool::scheduler::Wakeup;
use crate::pool::shared::Shared;
use crate::pool::unread;
use crate::server::pool_layout::replace_pools;
use crate::server::pool_sizing::{Load, PoolSizer};
use crate::server::pools::Pools;
use crate::server::state::{PoolSettings, State};
use crate::settings::PoolMode;
use crate::sync::lock;
use std::sync::TryLockError;
use std::sync::atomic::{
    Ordering::{Relaxed, SeqCst},
    fence,
};
use std::time::Duration;
use telemetry::{Counter, WorkerStats};

/// A call whose thread sleeps and that has run for this long without announcing it is stuck.
const STUCK_NS: u64 = 1_000_000;
/// A thread that does not sleep computes, or waits for a processor, for which another leader could only wait as
/// well. After this long its call is taken for stuck all the same.
const LONG_NS: u64 = 5_000_000;
/// Between two looks at the pools after a stuck call: a call that blocks without announcing it delays others in
/// its pool by one to two milliseconds.
const TICK: Duration = Duration::from_millis(1);
/// Between two looks otherwise: the first such call delays others by one to five.
const CALM_TICK: Duration = Duration::from_millis(4);
/// For how long after a stuck call others are expected. Where they are rarer, more looks would cost more than
/// they save.
const ALERT_NS: u64 = 200_000_000;
/// Without any call for this long the watchdog goes to sleep.
const QUIET_NS: u64 = 16_000_000;
/// Without any call for this long the server is idle: its workers have freed their buffers by then.
const REST: Duration = IDLE_THREAD_AGE.saturating_add(Duration::from_secs(1));
/// A client that has taken nothing for this long is charged what the kernel holds for it.
const KERNEL_BUFFER_AGE: Duration = Duration::from_secs(10);
/// Between two looks for connections without progress, while there may be any.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The watchdog's state.
struct Watchdog<'a> {
    state: &'a State,
    shared: &'a Shared,
    stats: WorkerStats,
    swept_ms: u64,
    sizer: PoolSizer,
    /// CPUs that the process may use.
    cpus: usize,
    /// When a call was last seen to run, in milliseconds; `None`: memory was returned after it.
    worked_ms: Option<u64>,
    /// Until when calls are expected to be stuck.
    alert_until_ns: u64,
}

/// The machine, as far as the process may use it.
struct Machine<'a>(&'a Pools);

impl Load for Machine<'_> {
    fn cpu_time(&self) -> Duration {
        sys::thread::own_cpu_time()
    }

    fn calls(&self) -> u64 {
        self.0.current().iter().map(|pool| pool.counters.calls.load(Relaxed)).sum()
    }

    fn idle_time(&self) -> Option<Duration> {
        sys::thread::cpu_times().ok().map(|times| times.idle)
    }
}

/// The watchdog's thread.
pub(crate) fn watch(state: &State) {
    let shared = &*state.shared;
    *lock(&shared.watchdog.thread) = Some(std::thread::current());
    let stats = shared.telemetry.worker();
    let cpus = sys::thread::allowed_cpus().map_or(1, |cpus| cpus.len());
    let sizer = PoolSizer::new(cpus);
    let mut watchdog = Watchdog {
        state,
        shared,
        stats,
        swept_ms: 0,
        sizer,
        cpus,
        worked_ms: None,
        alert_until_ns: 0,
    };
    let mut busy_ns = 0;
    while !state.stopped.load(Relaxed) {
        let now_ns = shared.clock.now_ns();
        if watchdog.check_pools(now_ns) {
            busy_ns = now_ns;
            watchdog.worked_ms = Some(now_ns / NS_PER_MS);
        }
        if shared.blocked.has_postponed() {
            shared.blocked.admit_hung();
            busy_ns = now_ns;
        }
        watchdog.sweep();
        watchdog.resize_pools();
        if now_ns.saturating_sub(busy_ns) < QUIET_NS {
            let alert = now_ns < watchdog.alert_until_ns;
            std::thread::park_timeout(if alert { TICK } else { CALM_TICK });
        } else if watchdog.may_sleep() {
            watchdog.sleep();
            shared.watchdog.asleep.store(false, Relaxed);
            busy_ns = shared.clock.now_ns();
        }
    }
}

impl Watchdog<'_> {
    /// Looks whether a call is stuck, in a pool's leader or in a queue's workers; whether any call
    /// runs, or has run since the last look.
    fn check_pools(&mut self, now_ns: u64) -> bool {
        let mut busy = false;
        for pool in &self.state.pools.all() {
            let before = *lock(&pool.watched);
            let mut seen = before;
            let call = pool.scheduler.wake_if_stalled(&mut seen.taken, now_ns);
            let mut found = matches!(call, Wakeup::Unpark(_) | Wakeup::Start(_));
            pool.wake(call, &self.stats);
            seen.calls = pool.counters.calls.load(Relaxed);
            let beat = pool.call_start_ns();
            let age_ns = if beat == 0 { 0 } else { now_ns.saturating_sub(beat) };
            if age_ns >= STUCK_NS {
                let sleeps = pool.leader_is_asleep();
                if sleeps || age_ns >= LONG_NS {
                    found |= pool.rescue(beat, &self.stats) && sleeps;
                }
            }
            if found {
                self.alert_until_ns = now_ns.saturating_add(ALERT_NS);
            }
            busy |= beat != 0 || seen != before || !pool.scheduler.is_empty();
            *lock(&pool.watched) = seen;
        }
        busy
    }

    /// Has as many pools as the load needs, where that is left to the server.
    fn resize_pools(&mut self) {
        let mut set = match self.state.pool_settings.try_lock() {
            Ok(set) => set,
            Err(TryLockError::Poisoned(set)) => set.into_inner(),
            // Somebody changes a setting: it is tried again later.
            Err(TryLockError::WouldBlock) => return,
        };
        if set.pool_mode != PoolMode::Auto || self.state.stopping.load(Relaxed) {
            return;
        }
        // Calls that hang keep the threads of a drained pool: there are never more than twice as many as are
        // set, however often the load changes.
        if self.state.pools.are_draining() {
            return;
        }
        let now = Duration::from_nanos(self.shared.clock.now_ns());
        let most = self.cpus.min(set.threads.1);
        let machine = Machine(&self.state.pools);
        let Some(auto_pools) = self.sizer.sample(now, &machine, set.auto_pools, most) else {
            return;
        };
        match replace_pools(self.state, &mut set, |set| PoolSettings { auto_pools, ..set }) {
            Ok(()) => {
                tracing::debug!(pools = auto_pools, "the number of pools has changed");
                self.sizer.changed(now, self.shared.conns.len());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot change to {auto_pools} pools");
                self.sizer.failed(now);
            }
        }
    }

    /// Raises the flag and makes sure that nothing began before it was seen.
    fn may_sleep(&self) -> bool {
        self.shared.watchdog.asleep.store(true, Relaxed);
        let serving = self.state.pools.all().iter().any(|pool| pool.is_serving());
        if serving || self.state.stopped.load(Relaxed) {
            self.shared.watchdog.asleep.store(false, Relaxed);
            return false;
        }
        fence(SeqCst);
        true
    }

    /// Sleeps until it is woken, there may be something to sweep, or the server has been idle for so long that
    /// memory can be returned.
    fn sleep(&mut self) {
        if self.shared.blocked.has_postponed() {
            return;
        }
        let sweep = self.has_to_sweep().then(|| self.period());
        let rest = self.worked_ms.map(|_| REST);
        match sweep.into_iter().chain(rest).min() {
            Some(patience) => std::thread::park_timeout(patience),
            None => std::thread::park(),
        }
        let woken = !self.shared.watchdog.asleep.load(Relaxed);
        let rested_ms = |since_ms| self.shared.clock.now_ms().saturating_sub(since_ms);
        if !woken && self.worked_ms.is_some_and(|ms| u128::from(rested_ms(ms)) >= REST.as_millis())
        {
            sys::limits::give_memory_back();
            self.worked_ms = None;
        }
    }

    /// Whether there may be connections without progress.
    fn has_to_sweep(&self) -> bool {
        let shared = self.shared;
        shared.partial.used() > 0
            || shared.queued.used() > 0
            || shared.limits.idle_age_max.is_some()
    }

    /// Ends connections whose record makes no progress, whose client takes no replies, or that were
    /// silent for too long.
    fn sweep(&mut self) {
        let now_ms = self.shared.clock.now_ms();
        let since_ms = now_ms.saturating_sub(self.swept_ms);
        if u128::from(since_ms) < self.period().as_millis() || !self.has_to_sweep() {
            return;
        }
        self.swept_ms = now_ms;
        let limits = &self.shared.limits;
        for conn in self.shared.conns.all() {
            let seen = &conn.counters;
            let unread = seen.queued.load(Relaxed) > 0;
            let silent = client_silence(&conn, unread, now_ms);
            if unread {
                if silent > limits.reply_age_max {
                    self.stats.add(Counter::RepliesTimedOut, 1);
                    conn.end_unread(&self.shared.queued);
                } else if silent > KERNEL_BUFFER_AGE.min(limits.reply_age_max / 2) {
                    conn.charge_kernel_buffer(&self.shared.queued);
                }
            } else if seen.partial.load(Relaxed) > 0 && silent > limits.partial_age_max {
                self.stats.add(Counter::RecordsTimedOut, 1);
                conn.shut_down();
            } else if limits.idle_age_max.is_some_and(|most| silent > most) {
                conn.shut_down();
            }
        }
        if self.shared.queued.is_over() {
            unread::end_conns_over_budget(self.shared, &self.stats);
        }
    }

    /// Between two sweeps: a twelfth of the shortest age, for tests and short limits.
    fn period(&self) -> Duration {
        let limits = &self.shared.limits;
        let age = limits.partial_age_max.min(limits.reply_age_max);
        let age = limits.idle_age_max.map_or(age, |idle| idle.min(age));
        (age / 12).clamp(TICK, SWEEP_EVERY)
    }
}

/// For how long the server has waited for a connection's client, as far as the sweeps have seen;
/// `unread`: replies wait for it.
///
/// While a worker has the connection, or it waits for one, or a call of it blocks, it is the server that makes no
/// progress, however long ago the client sent something: what it sends meanwhile is not received. So the time
/// counts from the first sweep after its last sign of life that found none of this.
///
/// Where replies wait, a sign of life is that it acknowledges some. That something leaves the queue is not enough:
/// a full socket takes nothing before a third of it is empty, which is minutes of a slow link.
fn client_silence(conn: &Conn, unread: bool, now_ms: u64) -> Duration {
    let seen = &conn.counters;
    let sleeps = !unread && seen.in_flight.load(Relaxed) > 0;
    if sleeps || !conn.rx_slot.is_present() {
        seen.waiting_since_ms.store(0, Relaxed);
        return Duration::ZERO;
    }
    let (since_ms, taken_ms) = (seen.waiting_since_ms.load(Relaxed), seen.taken_ms.load(Relaxed));
    let word_ms = if unread { taken_ms } else { taken_ms.max(seen.last_ms.load(Relaxed)) };
    if since_ms <= word_ms || (unread && has_acknowledged_more(conn)) {
        seen.waiting_since_ms.store(now_ms, Relaxed);
        return Duration::ZERO;
    }
    Duration::from_millis(now_ms.saturating_sub(since_ms))
}

/// Whether a client has acknowledged anything since this was last asked.
fn has_acknowledged_more(conn: &Conn) -> bool {
    let left = conn.stream.unacknowledged_bytes() as u64;
    let now = conn.counters.bytes_out.load(Relaxed).wrapping_sub(left);
    conn.counters.acknowledged.swap(now, Relaxed) != now
}

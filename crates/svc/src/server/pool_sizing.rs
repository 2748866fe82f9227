//! `pool-mode=auto`: how many pools a load gets.
//!
//! A leader that is busy finds the next call waiting when it has answered one: no thread is woken for it, and its
//! caches are warm. Two leaders that are half busy each sleep and wake for nearly every call. So a load gets as
//! few leaders as can serve it: another one when those that there are are nearly always running *and* the machine
//! has a CPU that nobody uses; one less when the rest could do the work at half their speed for a while.
//!
//! That a CPU is free counts as much as the load. Where clients run on the same machine and both sides are out of
//! CPU, a second leader takes from the clients what it gives to the server.
//!
//! Waking a thread costs as much as a short call, and nothing compared with a long one. Where calls are short it
//! is also tried to do with one pool less, when the rest might just manage (there will be fewer threads to wake),
//! or when no CPU is idle and others need theirs. If the rest is short of CPUs then and one is idle, that was an
//! error, which is not repeated for a while. The longer the calls, the less of a CPU has to be idle for another
//! pool; where they are long, nothing is tried.
//!
//! Sampled are the calls and the CPU time of the process, every [`PERIOD`] or less often; and, where it matters,
//! the time that the machine's CPUs were idle.

use std::time::Duration;

/// Between two samples.
const PERIOD: Duration = Duration::from_millis(100);
/// From this share of its pools' CPUs on the server is short of them.
const HIGH: f64 = 0.75;
/// CPUs that must be idle for another pool where calls are short,
const IDLE_CPUS_SHORT_CALLS: f64 = 0.5;
/// and where they are long; between these lengths, proportionally.
const IDLE_CPUS_LONG_CALLS: f64 = 0.15;
/// CPU time of a call up to which it is short: most that carry no data.
const SHORT_CALL: Duration = Duration::from_micros(15);
/// CPU time of a call from which on it is long.
const LONG_CALL: Duration = Duration::from_micros(40);
/// CPUs of which no more are idle on a machine that is full.
const FULL: f64 = 0.1;
/// CPUs that others use at least on a machine that they share.
const SHARED: f64 = 0.5;
/// One pool less is enough if the rest would be busy for this share.
const LOW: f64 = 0.5;
/// Where calls are short it might be enough if the rest would be busy for this share.
const LOW_SHORT_CALLS: f64 = 0.9;
/// How busy each is to be after a change.
const TARGET: f64 = 0.6;
/// For how long there must have been a reason to have one pool less.
const PATIENCE: Duration = Duration::from_millis(300);
/// For each connection there are no two changes in so much time: some twenty times of what it takes
/// to send one over.
const PER_CONNECTION: Duration = Duration::from_micros(100);
/// A CPU that is idle so soon after it was tried to do with one pool less shows that this was an error,
const FAILED_WITHIN: Duration = Duration::from_secs(2);
/// which is not tried again for so long; for twice as long each time,
const RETRY_DELAY: Duration = Duration::from_secs(4);
/// up to this.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(64);

/// What is sampled.
pub(crate) trait Load {
    /// CPU time that the process has used.
    fn cpu_time(&self) -> Duration;
    /// Calls of the pools that there are; begins anew when they are others.
    fn calls(&self) -> u64;
    /// Time for which the CPUs that the process may use have been idle, all together; `None` if that
    /// is not known. Costs more than `cpu_time`.
    fn idle_time(&self) -> Option<Duration>;
}

/// The last sample and the state of earlier decisions.
#[derive(Debug)]
pub(crate) struct PoolSizer {
    /// CPUs that the process may use.
    cpus: usize,
    sampled_at: Duration,
    cpu_time: Duration,
    calls: u64,
    /// Idle time at the last sample, if it mattered then.
    idle_time: Option<Duration>,
    /// Since when one pool less would have been enough, or the machine was full.
    fewer_since: Option<Duration>,
    /// No change before.
    paused_until: Duration,
    /// When it was last tried to do with one less.
    tried_fewer: Option<Duration>,
    /// Not to be tried before.
    try_fewer_after: Duration,
    /// How long it is not to be tried after the next error.
    retry_delay: Duration,
}

impl PoolSizer {
    /// For a process that may use so many CPUs.
    pub const fn new(cpus: usize) -> Self {
        let zero = Duration::ZERO;
        Self {
            cpus,
            sampled_at: zero,
            cpu_time: zero,
            calls: 0,
            idle_time: None,
            fewer_since: None,
            paused_until: zero,
            tried_fewer: None,
            try_fewer_after: zero,
            retry_delay: RETRY_DELAY,
        }
    }

    /// The change was made at `now`, for so many connections.
    pub fn changed(&mut self, now: Duration, connections: usize) {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        self.paused_until = now.saturating_add(PER_CONNECTION.saturating_mul(connections));
    }

    /// The change could not be made at `now`.
    pub const fn failed(&mut self, now: Duration) {
        self.paused_until = now.saturating_add(RETRY_DELAY_MAX);
    }

    /// Samples again, if it is time, at `now` of a clock that never goes back. How many pools there should be
    /// instead of `pools`, of `most` that there may be; `None`: no change.
    pub fn sample(
        &mut self,
        now: Duration,
        load: &impl Load,
        pools: usize,
        most: usize,
    ) -> Option<usize> {
        if now < self.paused_until {
            return None;
        }
        let past = now.saturating_sub(self.sampled_at);
        if past < PERIOD {
            return None;
        }
        let cpu_time = load.cpu_time();
        let share = |time: Duration| time.as_secs_f64() / past.as_secs_f64();
        let spent = cpu_time.saturating_sub(std::mem::replace(&mut self.cpu_time, cpu_time));
        let busy = share(spent);
        let calls = load.calls();
        let answered = calls.saturating_sub(std::mem::replace(&mut self.calls, calls));
        let answered = u32::try_from(answered).unwrap_or(u32::MAX);
        let call = spent.checked_div(answered).unwrap_or_default();
        let long = call >= LONG_CALL;
        let before = std::mem::replace(&mut self.sampled_at, now);
        let high = busy >= HIGH * count(pools);
        let low = pools > 1 && busy <= LOW * count(pools.saturating_sub(1));
        let idle_time = if high || pools > 1 && !low { load.idle_time() } else { None };
        let idle_before = std::mem::replace(&mut self.idle_time, idle_time);
        let free = idle_time
            .zip(idle_before)
            .map(|(idle_time, before)| share(idle_time.saturating_sub(before)));
        let needed = needed(call);
        if high && pools < most && free.is_some_and(|free| free >= needed) {
            self.fewer_since = None;
            if !long
                && self
                    .tried_fewer
                    .take()
                    .is_some_and(|tried_fewer| now.saturating_sub(tried_fewer) < FAILED_WITHIN)
            {
                self.try_fewer_after = now.saturating_add(self.retry_delay);
                self.retry_delay = self.retry_delay.saturating_mul(2).min(RETRY_DELAY_MAX);
            }
            let wanted = whole(busy / TARGET)
                .min(pools.saturating_add(whole(free? - needed).max(1)))
                .min(most);
            return (wanted > pools).then_some(wanted);
        }
        let fewer = pools.saturating_sub(1);
        let full =
            free.is_some_and(|free| free <= FULL && count(self.cpus) - free - busy >= SHARED);
        let perhaps = full || busy <= LOW_SHORT_CALLS * count(fewer);
        let worth_a_try = pools > 1 && !long && now >= self.try_fewer_after && perhaps;
        if !low && !worth_a_try {
            self.fewer_since = None;
            return None;
        }
        let since = *self.fewer_since.get_or_insert(before);
        if now.saturating_sub(since) < PATIENCE {
            return None;
        }
        self.fewer_since = None;
        if low {
            return Some(whole(busy / TARGET).clamp(1, fewer));
        }
        if self.tried_fewer.replace(now).is_some() {
            self.retry_delay = RETRY_DELAY;
        }
        Some(fewer)
    }
}

/// CPUs that must be idle for another pool, where a call takes so much CPU time.
fn needed(call: Duration) -> f64 {
    let above = call.saturating_sub(SHORT_CALL).as_secs_f64();
    let share = above / LONG_CALL.saturating_sub(SHORT_CALL).as_secs_f64();
    IDLE_CPUS_SHORT_CALLS - (IDLE_CPUS_SHORT_CALLS - IDLE_CPUS_LONG_CALLS) * share.min(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "pools are thousands at most")]
const fn count(pools: usize) -> f64 {
    pools as f64
}

/// Rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "CPUs: not negative, thousands at most"
)]
fn whole(cpus: f64) -> usize {
    cpus.ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::{Load, PERIOD, PoolSizer};
    use std::cell::Cell;
    use std::time::Duration;

    /// A machine whose process uses, and leaves idle, so many CPUs.
    struct Machine {
        now: Cell<Duration>,
        cpu_time: Cell<Duration>,
        idle_time: Cell<Duration>,
        /// CPU time of a call.
        call: Duration,
    }

    impl Load for Machine {
        fn cpu_time(&self) -> Duration {
            self.cpu_time.get()
        }

        fn idle_time(&self) -> Option<Duration> {
            Some(self.idle_time.get())
        }

        fn calls(&self) -> u64 {
            u64::try_from(self.cpu_time.get().as_nanos() / self.call.as_nanos()).unwrap()
        }
    }

    impl Machine {
        fn new() -> Self {
            let none = || Cell::new(Duration::ZERO);
            Self {
                now: none(),
                cpu_time: none(),
                idle_time: none(),
                call: Duration::from_micros(12),
            }
        }

        /// The pools after so many samples.
        fn run(
            &self,
            sizer: &mut PoolSizer,
            (pools, most): (usize, usize),
            (cpu_time, idle_time): (f64, f64),
            looks: u32,
        ) -> usize {
            let mut pools = pools;
            for _ in 0..looks {
                self.now.set(self.now.get() + PERIOD);
                self.cpu_time.set(self.cpu_time.get() + PERIOD.mul_f64(cpu_time));
                self.idle_time.set(self.idle_time.get() + PERIOD.mul_f64(idle_time));
                pools = sizer.sample(self.now.get(), self, pools, most).unwrap_or(pools);
            }
            pools
        }
    }

    #[test]
    fn a_busy_leader_gets_help_where_a_cpu_is_free() {
        let (machine, mut sizer) = (Machine::new(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (1, 8), (1.0, 7.0), 1), 1, "two looks at the least");
        assert_eq!(machine.run(&mut sizer, (1, 8), (1.0, 7.0), 1), 2);
        assert_eq!(machine.run(&mut sizer, (2, 8), (2.0, 6.0), 3), 4);
        assert_eq!(machine.run(&mut sizer, (4, 8), (4.0, 1.0), 1), 5, "no more than are free");
        assert_eq!(machine.run(&mut sizer, (8, 8), (8.0, 0.9), 9), 8, "no more than there may be");
    }

    #[test]
    fn a_second_leader_is_not_added_while_clients_use_the_cpu() {
        let (machine, mut sizer) = (Machine::new(), PoolSizer::new(2));
        assert_eq!(machine.run(&mut sizer, (1, 2), (1.0, 0.1), 50), 1);
    }

    #[test]
    fn a_leader_is_removed_when_clients_need_the_cpu() {
        let (machine, mut sizer) = (Machine::new(), PoolSizer::new(2));
        assert_eq!(machine.run(&mut sizer, (2, 2), (1.2, 0.0), 3), 2, "not at once");
        assert_eq!(machine.run(&mut sizer, (2, 2), (1.2, 0.0), 2), 1);
        assert_eq!(machine.run(&mut sizer, (1, 2), (1.0, 0.1), 99), 1);
        // alone on the machine it keeps all of it
        let mut sizer = PoolSizer::new(2);
        assert_eq!(machine.run(&mut sizer, (2, 2), (1.9, 0.0), 99), 2);
    }

    #[test]
    fn long_calls_are_spread_over_idle_cpus() {
        let machine = Machine { call: Duration::from_micros(600), ..Machine::new() };
        let mut sizer = PoolSizer::new(2);
        assert_eq!(machine.run(&mut sizer, (1, 2), (0.8, 0.2), 3), 2);
        assert_eq!(machine.run(&mut sizer, (2, 2), (1.2, 0.0), 99), 2);
        assert_eq!(machine.run(&mut sizer, (2, 2), (0.4, 1.6), 9), 1);
    }

    #[test]
    fn the_longer_a_call_the_less_has_to_be_idle() {
        for (call_us, idle_time, pools) in
            [(12, 0.45, 1), (25, 0.45, 2), (25, 0.3, 1), (35, 0.3, 2)]
        {
            let machine = Machine { call: Duration::from_micros(call_us), ..Machine::new() };
            let got = machine.run(&mut PoolSizer::new(2), (1, 2), (1.0, idle_time), 3);
            assert_eq!(got, pools, "{call_us} us, {idle_time} idle_time");
        }
    }

    #[test]
    fn a_wrong_pool_change_is_undone_and_retried_later() {
        for (cpu_time, idle_time) in [(1.2, 0.0), (0.88, 1.1)] {
            let (machine, mut sizer) = (Machine::new(), PoolSizer::new(2));
            for pause in [0, 38, 78, 158, 318, 638, 638] {
                assert_eq!(machine.run(&mut sizer, (2, 2), (cpu_time, idle_time), pause), 2);
                let mut looks = 0..10;
                let tried_fewer =
                    looks.any(|_| machine.run(&mut sizer, (2, 2), (cpu_time, idle_time), 1) == 1);
                assert!(tried_fewer, "after {pause} looks");
                assert_eq!(machine.run(&mut sizer, (1, 2), (0.8, 0.8), 2), 2, "an error");
            }
        }
    }

    #[test]
    fn a_load_for_one_leader_uses_one_leader() {
        let (machine, mut sizer) = (Machine::new(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (2, 8), (0.45, 7.0), 2), 2, "not at once");
        assert_eq!(machine.run(&mut sizer, (2, 8), (0.45, 7.0), 1), 1);
        assert_eq!(machine.run(&mut sizer, (8, 8), (1.1, 6.0), 4), 2);
        assert_eq!(machine.run(&mut sizer, (2, 8), (0.95, 7.0), 99), 2, "not what it cannot do");
        assert_eq!(machine.run(&mut sizer, (1, 8), (0.0, 8.0), 99), 1);
    }

    #[test]
    fn connections_are_rarely_moved_between_pools() {
        let (machine, mut sizer) = (Machine::new(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (4, 8), (0.45, 7.0), 3), 1);
        sizer.changed(machine.now.get(), 10_000);
        assert_eq!(machine.run(&mut sizer, (1, 8), (1.0, 7.0), 9), 1);
        assert_eq!(machine.run(&mut sizer, (1, 8), (1.0, 7.0), 9), 2);
    }

    #[test]
    fn a_pause_is_weighted_by_its_length() {
        let (machine, mut sizer) = (Machine::new(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (4, 8), (3.0, 5.0), 5), 4);
        machine.now.set(machine.now.get() + Duration::from_secs(60));
        assert_eq!(machine.run(&mut sizer, (4, 8), (0.0, 8.0), 1), 1);
    }
}

//! `pool-mode=auto`: how many pools a load gets.
//!
//! A leader that is busy finds the next call waiting when it has answered one: no thread is woken for it, and its
//! caches are warm. Two leaders that are half busy each sleep and wake for nearly every call. So a load gets as
//! few leaders as can serve it. How much a second leader gains and costs depends on what waking a thread costs
//! here, on how long the calls are, and on whether the clients run on the same machine; no constant says it.
//! So another number is **tried**, and what it did is measured:
//!
//! - **One more** is tried when the leaders are nearly always running *and* a CPU is idle meanwhile ([`HIGH`],
//!   [`IDLE`]).
//! - **One less** is tried when the rest might just manage ([`MIGHT_DO`]), or when no CPU is idle and others need
//!   theirs ([`FULL`], [`SHARED`]): a leader then takes from the clients what it gives to the server.
//! - A trial lasts [`TRIAL`] samples, after one in which the connections move. The larger number stays if it makes
//!   [`GAIN`] more calls per second, and if it gains more in calls than it costs in CPU time per call; else the smaller.
//!   The smaller is held to its best sample, the larger to the mean: a load that begins or falters while the smaller
//!   is measured must not make the larger look good.
//! - A number that was tried and not kept is not tried again for [`RETRY_DELAY`], twice as long each time, up to
//!   [`RETRY_DELAY_MAX`]; or until the load has become another one ([`OTHER_LOAD`]).
//!
//! Nothing is tried where the answer is plain: when the rest could do the work at half their speed for a while,
//! there is one less.
//!
//! Sampled are the calls and the CPU time of the process, every [`PERIOD`] or less often, and the time that the
//! machine's CPUs were idle.

use std::time::Duration;

/// Between two samples.
const PERIOD: Duration = Duration::from_millis(100);
/// From this share of its pools' CPUs on the server may be short of them: a leader that shares its CPU with a client
/// waits for it a third of the time.
const HIGH: f64 = 0.65;
/// CPUs that must be idle meanwhile for another pool to be tried.
const IDLE: f64 = 0.1;
/// For so many samples on end; in the first of them the load may have begun.
const HIGH_SAMPLES: u32 = 3;
/// CPUs of which no more are idle on a machine that is full.
const FULL: f64 = 0.1;
/// CPUs that others use at least on a machine that they share.
const SHARED: f64 = 0.5;
/// One pool less is enough if the rest would be busy for this share.
const LOW: f64 = 0.5;
/// It might be enough if the rest would be busy for this share.
const MIGHT_DO: f64 = 0.9;
/// How busy each is to be after a change.
const TARGET: f64 = 0.6;
/// For how long there must have been a reason to have one pool less.
const PATIENCE: Duration = Duration::from_millis(300);
/// For each connection there are no two changes in so much time: some twenty times of what it takes
/// to send one over.
const PER_CONNECTION: Duration = Duration::from_micros(100);
/// Samples of a trial.
const TRIAL: u32 = 3;
/// How many times as many calls per second the larger number of pools has to make.
const GAIN: f64 = 1.05;
/// What was tried and kept may be undone after so long.
const FIRST_DELAY: Duration = Duration::from_secs(2);
/// What was tried and not kept is not tried again for so long; for twice as long each time,
const RETRY_DELAY: Duration = Duration::from_secs(4);
/// up to this.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(64);
/// A load is another one when a call costs so many times as much, or as little, or so many times as many are made.
const OTHER_LOAD: f64 = 2.0;

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

/// The counters at one time.
#[derive(Debug)]
struct Counters {
    at: Duration,
    cpu_time: Duration,
    calls: u64,
    idle_time: Option<Duration>,
}

/// What happened between two samples, or in several such intervals together.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    seconds: f64,
    calls: f64,
    /// Seconds.
    cpu_time: f64,
    /// Seconds, of all CPUs; `None` if that is not known.
    idle_time: Option<f64>,
}

impl Interval {
    /// CPUs that the process used.
    fn busy(&self) -> f64 {
        self.cpu_time / self.seconds
    }

    /// CPUs that were idle.
    fn free(&self) -> Option<f64> {
        self.idle_time.map(|idle_time| idle_time / self.seconds)
    }

    /// Calls per second; one at least, so that it can be divided by.
    fn rate(&self) -> f64 {
        (self.calls / self.seconds).max(1.0)
    }

    /// Seconds of CPU time per call.
    fn call(&self) -> f64 {
        (self.cpu_time / self.calls.max(1.0)).max(1e-9)
    }

    /// This or the other, whichever made more calls per second.
    fn best(self, other: Self) -> Self {
        if other.rate() > self.rate() { other } else { self }
    }

    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.calls += other.calls;
        self.cpu_time += other.cpu_time;
        self.idle_time =
            self.idle_time.zip(other.idle_time).map(|(idle_time, more)| idle_time + more);
    }

    /// Whether this load, with more pools, is done better than the `other` with fewer.
    fn is_better_than(&self, other: &Self) -> bool {
        let gain = self.rate() / other.rate();
        gain >= GAIN && gain >= self.call() / other.call()
    }

    /// Whether it is another load than at the time of the `other`.
    fn is_another_load(&self, other: &Self) -> bool {
        let differs = |ratio: f64| !(OTHER_LOAD.recip()..=OTHER_LOAD).contains(&ratio);
        differs(self.call() / other.call()) || differs(self.rate() / other.rate())
    }
}

/// When a number of pools that was not kept may be tried again.
#[derive(Debug, Default)]
struct Retry {
    after: Duration,
    delay: Duration,
    /// The load at the time, with the number that was kept.
    load: Option<Interval>,
}

impl Retry {
    fn is_due(&self, now: Duration, load: &Interval) -> bool {
        now >= self.after || self.load.is_some_and(|then| load.is_another_load(&then))
    }

    /// The trial was in vain, with this `load` before it.
    fn put_off(&mut self, now: Duration, load: Interval) {
        if self.load.is_some_and(|then| load.is_another_load(&then)) {
            self.delay = Duration::ZERO;
        }
        self.delay = self.delay.saturating_mul(2).clamp(RETRY_DELAY, RETRY_DELAY_MAX);
        self.after = now.saturating_add(self.delay);
        self.load = Some(load);
    }

    /// The opposite has just proved right.
    fn opposite_kept(&mut self, now: Duration) {
        *self = Self { after: now.saturating_add(FIRST_DELAY), ..Self::default() };
    }
}

/// A number of pools that is tried.
#[derive(Debug)]
struct Trial {
    /// The number before it, and how that did.
    pools: usize,
    before: Interval,
    samples: u32,
    total: Interval,
    best: Interval,
}

/// The last sample and the state of earlier decisions.
#[derive(Debug)]
pub(crate) struct PoolSizer {
    /// CPUs that the process may use.
    cpus: usize,
    /// At the last sample; `None` before the first, and after a change.
    last: Option<Counters>,
    /// For how many samples the server has been short of CPUs while some were idle, and the best of them.
    high: (u32, Interval),
    /// Since when there is a reason to have one pool less, and how the server did since.
    fewer: Option<(Duration, Interval)>,
    trial: Option<Trial>,
    retry_more: Retry,
    retry_fewer: Retry,
    /// No sample before.
    paused_until: Duration,
}

impl PoolSizer {
    /// For a process that may use so many CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            last: None,
            high: (0, Interval::default()),
            fewer: None,
            trial: None,
            retry_more: Retry::default(),
            retry_fewer: Retry::default(),
            paused_until: Duration::ZERO,
        }
    }

    /// The change was made at `now`, for so many connections.
    pub fn changed(&mut self, now: Duration, connections: usize) {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        let moving = PERIOD.max(PER_CONNECTION.saturating_mul(connections));
        self.paused_until = now.saturating_add(moving);
    }

    /// The change could not be made at `now`.
    pub fn failed(&mut self, now: Duration) {
        self.trial = None;
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
        let interval = self.interval(now, load)?;
        if self.trial.is_some() {
            return self.continue_trial(now, &interval, pools, most);
        }
        self.more(now, &interval, pools, most).or_else(|| self.fewer(now, &interval, pools))
    }

    /// What happened since the last sample, if it is time for one.
    fn interval(&mut self, now: Duration, load: &impl Load) -> Option<Interval> {
        let since = self.last.as_ref().map_or(self.paused_until, |last| last.at + PERIOD);
        if now < since {
            return None;
        }
        let new = Counters {
            at: now,
            cpu_time: load.cpu_time(),
            calls: load.calls(),
            idle_time: load.idle_time(),
        };
        let interval = self.last.as_ref().map(|last| Interval {
            seconds: now.saturating_sub(last.at).as_secs_f64(),
            calls: calls(new.calls.saturating_sub(last.calls)),
            cpu_time: new.cpu_time.saturating_sub(last.cpu_time).as_secs_f64(),
            idle_time: (new.idle_time.zip(last.idle_time))
                .map(|(idle_time, before)| idle_time.saturating_sub(before).as_secs_f64()),
        });
        self.last = Some(new);
        interval
    }

    /// Begins anew with another number of pools.
    fn change(&mut self, to: usize) -> usize {
        (self.last, self.high, self.fewer) = (None, (0, Interval::default()), None);
        to
    }

    /// Begins to try `to` pools instead of `pools`, which did as in `before`.
    fn try_out(&mut self, to: usize, pools: usize, before: Interval) -> usize {
        self.trial = Some(Trial {
            pools,
            before,
            samples: 0,
            total: Interval::default(),
            best: Interval::default(),
        });
        self.change(to)
    }

    /// Whether more pools should be tried.
    fn more(
        &mut self,
        now: Duration,
        interval: &Interval,
        pools: usize,
        most: usize,
    ) -> Option<usize> {
        let high = interval.busy() >= HIGH * count(pools);
        if !high || pools >= most || interval.free().is_none_or(|free| free < IDLE) {
            self.high.0 = 0;
            return None;
        }
        if self.high.0 == 0 {
            self.high.1 = *interval;
        } else {
            self.high.1 = self.high.1.best(*interval);
        }
        self.high.0 = self.high.0.saturating_add(1);
        let load = self.high.1;
        if self.high.0 < HIGH_SAMPLES {
            return None;
        }
        if !self.retry_more.is_due(now, &load) {
            self.high = (1, *interval);
            return None;
        }
        let free = whole(load.free()?);
        let wanted = whole(load.busy() / TARGET).min(pools.saturating_add(free)).min(most);
        (wanted > pools).then(|| self.try_out(wanted, pools, load))
    }

    /// Whether there should be fewer pools, or it should be tried.
    fn fewer(&mut self, now: Duration, interval: &Interval, pools: usize) -> Option<usize> {
        let (busy, fewer) = (interval.busy(), pools.saturating_sub(1));
        let low = busy <= LOW * count(fewer);
        let full = interval
            .free()
            .is_some_and(|free| free <= FULL && count(self.cpus) - free - busy >= SHARED);
        let worth_a_try =
            (full || busy <= MIGHT_DO * count(fewer)) && self.retry_fewer.is_due(now, interval);
        if pools <= 1 || !low && !worth_a_try {
            self.fewer = None;
            return None;
        }
        let (since, load) = match &mut self.fewer {
            Some((since, load)) => {
                load.add(interval);
                (*since, *load)
            }
            none => {
                let since = now.saturating_sub(Duration::from_secs_f64(interval.seconds));
                *none = Some((since, *interval));
                (since, *interval)
            }
        };
        if now.saturating_sub(since) < PATIENCE {
            return None;
        }
        if low {
            return Some(self.change(whole(busy / TARGET).clamp(1, fewer)));
        }
        Some(self.try_out(fewer, pools, load))
    }

    /// Goes on with the trial; at its end decides which number stays.
    fn continue_trial(
        &mut self,
        now: Duration,
        interval: &Interval,
        pools: usize,
        most: usize,
    ) -> Option<usize> {
        let trial = self.trial.as_mut()?;
        if trial.samples == 0 {
            (trial.total, trial.best) = (*interval, *interval);
        } else {
            trial.total.add(interval);
            trial.best = trial.best.best(*interval);
        }
        trial.samples = trial.samples.saturating_add(1);
        if trial.samples < TRIAL {
            return None;
        }
        let Trial { pools: previous, before, total, best, .. } = self.trial.take()?;
        if pools > previous {
            if total.is_better_than(&before) {
                self.retry_more = Retry::default();
                self.retry_fewer.opposite_kept(now);
                // nothing has to be waited for if that is not enough yet
                self.high = (HIGH_SAMPLES, total);
                return self.more(now, interval, pools, most);
            }
            self.retry_more.put_off(now, before);
            return Some(self.change(previous));
        }
        let load_ended = total.rate() * OTHER_LOAD < before.rate() && total.busy() <= LOW;
        if before.is_better_than(&best) && !load_ended {
            self.retry_fewer.put_off(now, before);
            return Some(self.change(previous.min(most)));
        }
        self.retry_fewer = Retry::default();
        self.retry_more.opposite_kept(now);
        None
    }
}

#[expect(clippy::cast_precision_loss, reason = "the calls of some seconds")]
const fn calls(calls: u64) -> f64 {
    calls as f64
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

    /// A machine; its clock is set by hand.
    #[derive(Default)]
    struct Machine {
        now: Cell<Duration>,
        cpu_time: Cell<Duration>,
        idle_time: Cell<Duration>,
        calls: Cell<u64>,
    }

    /// What a load does with a number of pools: CPUs used, CPUs idle, µs per call.
    type Behaviour = fn(usize) -> (f64, f64, f64);

    impl Load for Machine {
        fn cpu_time(&self) -> Duration {
            self.cpu_time.get()
        }

        fn idle_time(&self) -> Option<Duration> {
            Some(self.idle_time.get())
        }

        fn calls(&self) -> u64 {
            self.calls.get()
        }
    }

    impl Machine {
        fn pass(&self, (busy, idle, call_us): (f64, f64, f64)) {
            self.now.set(self.now.get() + PERIOD);
            self.cpu_time.set(self.cpu_time.get() + PERIOD.mul_f64(busy));
            self.idle_time.set(self.idle_time.get() + PERIOD.mul_f64(idle));
            let calls =
                PERIOD.mul_f64(busy).as_nanos() / Duration::from_secs_f64(call_us / 1e6).as_nanos();
            self.calls.set(self.calls.get() + u64::try_from(calls).unwrap());
        }

        /// The numbers of pools that there were, one after the other, in so many samples.
        fn run(
            &self,
            sizer: &mut PoolSizer,
            (pools, most): (usize, usize),
            load: Behaviour,
            samples: u32,
        ) -> Vec<usize> {
            let mut numbers = vec![pools];
            for _ in 0..samples {
                let pools = *numbers.last().unwrap();
                self.pass(load(pools));
                if let Some(other) = sizer.sample(self.now.get(), self, pools, most) {
                    numbers.push(other);
                    self.calls.set(0);
                    sizer.changed(self.now.get(), 16);
                }
            }
            numbers
        }

        /// The share of samples with each number of pools but `main`.
        fn trials(&self, sizer: &mut PoolSizer, main: usize, most: usize, load: Behaviour) -> f64 {
            let (mut pools, mut others) = (main, 0.0);
            for _ in 0..3000 {
                let numbers = self.run(sizer, (pools, most), load, 1);
                pools = *numbers.last().unwrap();
                others += f64::from(u8::from(pools != main));
            }
            others / 3000.0
        }
    }

    #[test]
    fn busy_leaders_get_help_while_it_gains_calls() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(8));
        // each of up to six pools adds a CPU's worth of calls
        let load: Behaviour = |pools| {
            let busy = pools.min(6) as f64;
            (busy, 8.0 - busy, 12.0)
        };
        let numbers = machine.run(&mut sizer, (1, 8), load, 50);
        assert_eq!(numbers[..3], [1, 2, 4], "no more than are needed");
        assert!(matches!(numbers.last(), Some(6..=7)), "{numbers:?}");
        let mut sizer = PoolSizer::new(8);
        assert_eq!(
            machine.run(&mut sizer, (1, 3), load, 50),
            [1, 2, 3],
            "no more than there may be"
        );
    }

    #[test]
    fn a_short_burst_changes_nothing() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (1, 8), |_| (1.0, 7.0, 12.0), 3), [1]);
        assert_eq!(machine.run(&mut sizer, (1, 8), |_| (0.1, 7.9, 12.0), 9), [1]);
    }

    #[test]
    fn no_leader_is_added_where_no_cpu_is_idle() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(2));
        assert_eq!(machine.run(&mut sizer, (1, 2), |_| (1.0, 0.05, 12.0), 99), [1]);
    }

    #[test]
    fn what_gains_nothing_is_undone_and_rarely_tried_again() {
        // the clients limit the rate: two leaders only sleep more
        let load: Behaviour = |pools| if pools == 1 { (0.8, 0.3, 4.0) } else { (1.0, 0.1, 5.0) };
        for (start, most) in [(1, 2), (2, 2)] {
            let (machine, mut sizer) = (Machine::default(), PoolSizer::new(2));
            let numbers = machine.run(&mut sizer, (start, most), load, 20);
            assert!(numbers.contains(&2) && numbers.last() == Some(&1), "{numbers:?}");
            let trials = machine.trials(&mut sizer, 1, 2, load);
            assert!(trials > 0.0 && trials < 0.03, "{trials}");
        }
    }

    #[test]
    fn what_gains_calls_is_kept_however_short_they_are() {
        // as NULL of 16 connections from two threads on two CPUs
        let load: Behaviour =
            |pools| if pools == 1 { (0.78, 0.33, 4.8) } else { (0.99, 0.01, 4.6) };
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(2));
        assert_eq!(machine.run(&mut sizer, (1, 2), load, 20), [1, 2]);
        let trials = machine.trials(&mut sizer, 2, 2, load);
        assert!(trials > 0.0 && trials < 0.03, "{trials}");
    }

    #[test]
    fn what_costs_more_than_it_gains_is_not_kept() {
        let load: Behaviour = |pools| if pools == 1 { (0.8, 0.3, 4.0) } else { (1.3, 0.0, 6.0) };
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(2));
        assert_eq!(machine.run(&mut sizer, (1, 2), load, 30), [1, 2, 1]);
    }

    #[test]
    fn another_load_is_tried_at_once() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(2));
        let short: Behaviour = |pools| if pools == 1 { (0.8, 0.3, 4.0) } else { (1.0, 0.1, 5.0) };
        assert_eq!(machine.run(&mut sizer, (1, 2), short, 20), [1, 2, 1]);
        let long: Behaviour =
            |pools| if pools == 1 { (0.9, 0.5, 600.0) } else { (1.3, 0.0, 620.0) };
        assert_eq!(machine.run(&mut sizer, (1, 2), long, 20), [1, 2]);
    }

    #[test]
    fn a_load_for_one_leader_uses_one_leader() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (2, 8), |_| (0.45, 7.0, 12.0), 3), [2], "not at once");
        assert_eq!(machine.run(&mut sizer, (2, 8), |_| (0.45, 7.0, 12.0), 1), [2, 1]);
        assert_eq!(machine.run(&mut sizer, (8, 8), |_| (1.1, 6.0, 12.0), 6), [8, 2]);
        let not_enough = machine.run(&mut sizer, (2, 8), |_| (0.95, 7.0, 12.0), 99);
        assert_eq!(not_enough, [2], "not what it cannot do");
        assert_eq!(machine.run(&mut sizer, (1, 8), |_| (0.0, 8.0, 12.0), 99), [1]);
    }

    #[test]
    fn fewer_stay_when_the_load_ends_during_the_trial() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(2));
        let numbers = machine.run(&mut sizer, (2, 2), |_| (0.88, 1.0, 12.0), 5);
        assert_eq!(numbers, [2, 1]);
        assert_eq!(machine.run(&mut sizer, (1, 2), |_| (0.0, 2.0, 12.0), 9), [1]);
    }

    #[test]
    fn connections_are_rarely_moved_between_pools() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (4, 8), |_| (0.45, 7.0, 12.0), 4), [4, 1]);
        sizer.changed(machine.now.get(), 10_000);
        let busy: Behaviour = |pools| (pools.min(2) as f64, 6.0, 12.0);
        assert_eq!(machine.run(&mut sizer, (1, 8), busy, 11), [1]);
        assert_eq!(machine.run(&mut sizer, (1, 8), busy, 12)[..2], [1, 2]);
    }

    #[test]
    fn a_pause_is_weighted_by_its_length() {
        let (machine, mut sizer) = (Machine::default(), PoolSizer::new(8));
        assert_eq!(machine.run(&mut sizer, (4, 4), |_| (3.0, 5.0, 12.0), 5), [4]);
        machine.now.set(machine.now.get() + Duration::from_secs(60));
        assert_eq!(machine.run(&mut sizer, (4, 4), |_| (0.0, 8.0, 12.0), 1), [4, 1]);
    }
}

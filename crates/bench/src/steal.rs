//! Repeats trials in which the host of a virtual machine took CPU time for others (steal time).
//!
//! A virtual CPU that is not run for some milliseconds is a server that does not answer: figures of such a
//! trial are the host's and not the server's. The kernel reports the time taken (`steal`). It comes in
//! periods of seconds, so a trial is repeated a little later; the number of repetitions is bounded,
//! because a host that always takes time is part of the machine. The try with the least steal time is
//! used, whatever its results are.

use crate::experiments::{RunContext, RunError};
use std::time::Duration;

/// A trial is valid if no more than this share of the CPUs was taken.
const STOLEN_MAX: f64 = 0.01;
/// Pause before a trial is repeated; in a quick run, and if there is time to wait for the end of a
/// period.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Tries of one trial at the most.
const TRIES_MAX: u32 = 4;

/// How many trials may be repeated, and how many were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialRetries {
    left: u32,
    pause: Duration,
    /// The number of repetitions.
    pub made: u32,
}

impl TrialRetries {
    /// For this many trials: as many repetitions; an eighth if there is little time.
    pub(crate) fn of(trials: u32, ctx: &RunContext<'_>) -> Self {
        let [quick, full] = PAUSES;
        Self {
            left: trials.div_ceil(ctx.quick_or_full(8, 1)),
            pause: ctx.quick_or_full(quick, full),
            made: 0,
        }
    }

    /// Runs a trial, and repeats it if too much time was taken from it. Also returns the share of
    /// the CPUs that was taken from the valid one.
    ///
    /// # Errors
    /// The trial's.
    pub(crate) fn run<T>(
        &mut self,
        ctx: &RunContext<'_>,
        mut trial: impl FnMut() -> Result<T, RunError>,
    ) -> Result<(T, f64), RunError> {
        self.least_disturbed(ctx, || {
            let before = sys::thread::cpu_times().unwrap_or_default();
            let found = trial()?;
            let after = sys::thread::cpu_times().unwrap_or_default();
            Ok((found, after.stolen_since(&before)))
        })
    }

    /// The same for a trial that returns its own steal time.
    fn least_disturbed<T>(
        &mut self,
        ctx: &RunContext<'_>,
        mut trial: impl FnMut() -> Result<(T, f64), RunError>,
    ) -> Result<(T, f64), RunError> {
        let mut best = trial()?;
        for _ in 1..TRIES_MAX {
            if best.1 <= STOLEN_MAX || self.left == 0 {
                break;
            }
            self.left -= 1;
            self.made += 1;
            ctx.go_on()?;
            std::thread::sleep(self.pause);
            let other = trial()?;
            if other.1 < best.1 {
                best = other;
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::TrialRetries;
    use crate::experiments::{RunContext, RunError};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    /// The index of the try that is used, given the shares taken from each and the number of
    /// repetitions left; and how many are left then.
    fn counts(taken: &[f64], left: u32) -> (usize, u32) {
        let stop = AtomicBool::new(false);
        let (bowline, scratch) = ("bowline".into(), std::env::temp_dir());
        let ctx = RunContext { quick: false, bowline, scratch, stop: &stop, say: &|_| {} };
        let mut retries = TrialRetries { left, pause: Duration::ZERO, made: 0 };
        let mut trials = taken.iter().copied().enumerate();
        let (found, stolen) =
            retries.least_disturbed(&ctx, || Ok(trials.next().expect("a trial too many"))).unwrap();
        assert_eq!((retries.made, taken[found]), (left - retries.left, stolen));
        (found, retries.left)
    }

    #[test]
    fn the_try_with_the_least_steal_time_is_used() {
        assert_eq!(counts(&[0.0], 9), (0, 9));
        assert_eq!(counts(&[0.3, 0.01], 9), (1, 8));
        assert_eq!(counts(&[0.3, 0.02, 0.2, 0.1], 9), (1, 6), "four tries at the most");
        assert_eq!(counts(&[0.02, 0.3], 1), (0, 0), "no more than may be repeated");
        assert_eq!(counts(&[0.3], 0), (0, 0));
    }

    #[test]
    fn a_failed_trial_is_not_repeated() {
        let (stop, mut tried) = (AtomicBool::new(false), 0);
        let (bowline, scratch) = ("bowline".into(), std::env::temp_dir());
        let ctx = RunContext { quick: false, bowline, scratch, stop: &stop, say: &|_| {} };
        let mut retries = TrialRetries::of(10, &ctx);
        assert_eq!((retries.left, retries.made), (10, 0));
        let failed: Result<((), f64), _> = retries.run(&ctx, || {
            tried += 1;
            Err(RunError::Failed("no server".into()))
        });
        assert!(failed.is_err() && tried == 1);
    }
}

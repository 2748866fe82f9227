//! The thread `lock-timer`, which does for locks what is due at a time: requests and callbacks are tried again, the grace
//! period ends, clients are told of a restart.
//!
//! It sleeps until the next of these, or until it is woken because something is due earlier. While the grace period runs
//! it looks each second whether everybody who may reclaim has.
//!
//! Lock: whether it was woken or is to end; held for a moment.

use super::status_monitor;
use nfs::nlm::Nlm;
use nfs::nsm::{Notifier, NotifierProgress};
use state::{GraceOutcome, Phase, State};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How often the grace period is looked at.
const GRACE_LOOK_MS: u64 = 1000;
/// The shortest sleep: something that stays due, such as a record that the disk does not take, must not keep a
/// processor busy.
const SLEEP_MIN_MS: u64 = 50;
/// The longest sleep.
const SLEEP_MAX_MS: u64 = 60_000;

#[derive(Default)]
struct Wakeup {
    state: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    look: bool,
    end: bool,
}

impl Wakeup {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Sleeps so long or until it is woken; `false`: it is to end.
    fn sleep(&self, time: Duration) -> bool {
        let awake = |wanted: &mut Wanted| !wanted.look && !wanted.end;
        let slept = self.changed.wait_timeout_while(self.lock(), time, awake);
        let (mut wanted, _) = slept.unwrap_or_else(PoisonError::into_inner);
        wanted.look = false;
        !wanted.end
    }
}

/// The running thread; stopped when dropped.
pub struct LockTimer {
    wakeup: Arc<Wakeup>,
    notifier: Arc<Notifier>,
}

impl LockTimer {
    /// Starts it.
    ///
    /// # Errors
    /// The kernel refuses another thread.
    pub fn start(nlm: Arc<Nlm>, state: Arc<State>, notifier: Arc<Notifier>) -> io::Result<Self> {
        let wakeup = Arc::new(Wakeup::default());
        let by_nlm = Arc::clone(&wakeup);
        nlm.set_waker(Box::new(move || by_nlm.change(|wanted| wanted.look = true)));
        let (theirs, told) = (Arc::clone(&wakeup), Arc::clone(&notifier));
        Builder::new()
            .name("lock-timer".into())
            .spawn(move || run(&theirs, &nlm, &state, &told))?;
        Ok(Self { wakeup, notifier })
    }

    /// Has it look at once: the operator has changed something.
    pub fn wake(&self) {
        self.wakeup.change(|wanted| wanted.look = true);
    }

    /// How many machines have heard of the restart.
    pub fn notified(&self) -> NotifierProgress {
        self.notifier.progress()
    }

    /// The state number that they are told.
    pub fn state_number(&self) -> i32 {
        self.notifier.own_state()
    }

    /// Ends it. Nobody waits for the thread: it may be in a file system that hangs, and what it stores, it stores as if
    /// the server were killed at any time.
    pub fn stop(&self) {
        self.wakeup.change(|wanted| wanted.end = true);
    }
}

impl Drop for LockTimer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(wakeup: &Wakeup, nlm: &Nlm, state: &State, notifier: &Arc<Notifier>) {
    let mut grace = GraceLog::new(state, nlm.now());
    let mut unwatched = false;
    loop {
        let due = nlm.tick();
        log_unwatched(nlm, &mut unwatched);
        let now = nlm.now();
        let told = notifier.tick(now.0);
        let look = grace.is_running(state, now).then_some(now.0.saturating_add(GRACE_LOOK_MS));
        let next = [due, told, look].into_iter().flatten().min();
        let sleep_ms = next.map_or(SLEEP_MAX_MS, |next| next.saturating_sub(now.0));
        let sleep = Duration::from_millis(sleep_ms.clamp(SLEEP_MIN_MS, SLEEP_MAX_MS));
        if !wakeup.sleep(sleep) {
            return;
        }
    }
}

/// Says when rpc.statd cannot be asked to watch clients, and when it can again.
fn log_unwatched(nlm: &Nlm, before: &mut bool) {
    let failure = nlm.machine_monitor.failure();
    match (&failure, *before) {
        (Some(why), false) => {
            let unwatched = nlm.machine_monitor.progress().unwatched;
            tracing::warn!("{}", status_monitor::unwatched(why, unwatched));
        }
        (None, true) => tracing::info!("rpc.statd of this machine can be asked again"),
        (Some(_), true) | (None, false) => {}
    }
    *before = failure.is_some();
}

/// What is logged of the grace period: its beginning and its end.
struct GraceLog {
    phase: Phase,
}

impl GraceLog {
    fn new(state: &State, now: state::Now) -> Self {
        let (phase, ends_ms, hosts) = state.grace_period(now);
        if phase != Phase::Over {
            tracing::info!(
                "grace period: {} clients held locks or open files before the restart and may reclaim them for {} s; \
                 nobody gets new locks or, over version 4, opens meanwhile (`bowline grace`)",
                hosts.len() + state.grace_clients().len(),
                ends_ms.saturating_sub(now.0).div_ceil(1000)
            );
        }
        Self { phase }
    }

    /// Whether the grace period still runs; its end is logged.
    fn is_running(&mut self, state: &State, now: state::Now) -> bool {
        if self.phase == Phase::Over {
            return false;
        }
        self.phase = state.grace_phase(now);
        if self.phase != Phase::Over {
            return true;
        }
        let GraceOutcome { clients, reclaimed, silent } = state.grace_outcome();
        tracing::info!(
            "grace period: over after {:.1} s; of {clients} clients {reclaimed} were seen to reclaim something, and {silent} \
             did not answer or finish",
            now.0 as f64 / 1000.0,
        );
        false
    }
}

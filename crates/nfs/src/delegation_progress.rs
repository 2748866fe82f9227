//! Recalls in progress: calls that wait for a DELEGRETURN, files that local programs have opened or changed, and counters
//! of delegations.
//!
//! A call waits [`WAIT`] for the next return, of whatever delegation, as long as not more than [`WAITING_MAX`] calls do.
//! Each mutex is held for an operation on what it guards; the lock timer is woken, and calls are, without one.

use rpc::Blocking;
use state::{FileKey, Now};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use vfs::LeaseBreakCallback;

/// How long a call waits for a client each time.
const WAIT: Duration = Duration::from_millis(50);
/// How long a call waits for what the holder of a write delegation knows of its file.
const ANSWER_WAIT: Duration = Duration::from_millis(100);
/// Calls that wait for clients, in all.
const WAITING_MAX: usize = 8;
/// Minimum time between two requests to clients to return some.
const ASK_EVERY_MS: u64 = 5_000;
/// Bounds of the histogram of times between recall and return, in milliseconds.
pub const RETURN_BOUNDS_MS: [u64; 4] = [10, 100, 1000, 10_000];

/// Wakes the lock timer. Must not block.
type Waker = Box<dyn Fn() + Send + Sync>;

/// Files that somebody has disturbed, on their way to the lock timer: at most as many as have a lease.
#[derive(Default)]
struct DisturbedFiles {
    files: Mutex<BTreeSet<FileKey>>,
    waker: OnceLock<Waker>,
}

impl DisturbedFiles {
    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many delegations there were, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DelegationCounts {
    /// Now.
    pub held: u64,
    /// Those of them that are for writing.
    pub writing: u64,
    /// Those of them that are of directories.
    pub directories: u64,
    /// Now recalled.
    pub recalled: u64,
    /// Granted.
    pub granted: u64,
    /// Recalls sent, with those that were sent again.
    pub recalls: u64,
    /// Holders of write delegations asked for attributes.
    pub asked: u64,
    /// Those of them that answered in time.
    pub answered: u64,
    /// Returned.
    pub returned: u64,
    /// Revoked, because they were not returned in time.
    pub revoked: u64,
    /// Returned after a recall.
    pub recalled_returns: u64,
    /// The time that these took, in all.
    pub return_ms: u64,
    /// How many took less time than each of [`RETURN_BOUNDS_MS`] and not less than the one before.
    pub return_times: [u64; RETURN_BOUNDS_MS.len()],
}

#[derive(Default)]
struct Counters {
    granted: AtomicU64,
    recalls: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    returned: AtomicU64,
    recalled_returns: AtomicU64,
    return_ms: AtomicU64,
    return_times: [AtomicU64; RETURN_BOUNDS_MS.len()],
}

/// One of the calls that wait for clients, until it is dropped.
struct WaitingCall<'a>(&'a AtomicUsize);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// An answer that a call waits for.
struct Answer<T> {
    /// Set once; `Some(None)` if there will be none.
    value: Mutex<Option<Option<T>>>,
    came: Condvar,
}

/// Takes the answer, or that there will be none.
pub(crate) type Answered<T> = Box<dyn FnOnce(Option<T>) + Send>;

/// What is kept about delegations besides the state itself.
#[derive(Default)]
pub struct Delegations {
    disturbed: Arc<DisturbedFiles>,
    /// How many were returned; guarded for those who wait.
    returns: Mutex<u64>,
    returned: Condvar,
    waiting: AtomicUsize,
    /// There is no room for another.
    scarce: AtomicBool,
    /// When clients were last asked to return some; changed by the lock timer.
    asked_ms: AtomicU64,
    counters: Counters,
}

impl Delegations {
    /// There is little room for others, or none: the lock timer asks clients to return some.
    pub(crate) fn note_scarce(&self) {
        if !self.scarce.swap(true, Relaxed) {
            self.wake();
        }
    }

    /// Whether clients are to be asked now to return some: not more often than each [`ASK_EVERY_MS`].
    pub(crate) fn asks_now(&self, now: Now) -> bool {
        if !self.scarce.swap(false, Relaxed) {
            return false;
        }
        let asked = self.asked_ms.load(Relaxed);
        if asked != 0 && now.0.saturating_sub(asked) < ASK_EVERY_MS {
            return false;
        }
        self.asked_ms.store(now.0.max(1), Relaxed);
        true
    }

    /// Has `waker` called when the lock timer has something to do; the first one stays.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _first = self.disturbed.waker.set(waker);
    }

    /// What a lease of a file is to call; `also` is called first.
    pub(crate) fn disturbed(
        &self,
        file: FileKey,
        also: impl Fn() + Send + Sync + 'static,
    ) -> LeaseBreakCallback {
        let disturbed = Arc::clone(&self.disturbed);
        Box::new(move || {
            also();
            lock(&disturbed.files).insert(file);
            disturbed.wake();
        })
    }

    /// One was granted.
    pub(crate) fn note_granted(&self) {
        self.counters.granted.fetch_add(1, Relaxed);
    }

    /// One was returned, so long after it was recalled.
    pub(crate) fn note_returned(&self, recalled_ms: Option<u64>) {
        self.counters.returned.fetch_add(1, Relaxed);
        if let Some(ms) = recalled_ms {
            self.counters.recalled_returns.fetch_add(1, Relaxed);
            self.counters.return_ms.fetch_add(ms, Relaxed);
            let mut bounds = RETURN_BOUNDS_MS.iter().zip(&self.counters.return_times);
            if let Some((_, count)) = bounds.find(|(bound, _)| ms < **bound) {
                count.fetch_add(1, Relaxed);
            }
        }
        let mut returns = lock(&self.returns);
        *returns = returns.wrapping_add(1);
        drop(returns);
        self.returned.notify_all();
    }

    pub(crate) fn returns(&self) -> u64 {
        *lock(&self.returns)
    }

    /// Waits for a return after the first `seen`; false if there is none in time, or too many calls wait.
    pub(crate) fn wait(&self, blocking: &dyn Blocking, seen: u64) -> bool {
        let Some(_place) = self.take_place() else { return false };
        blocking.will_block();
        let returns = lock(&self.returns);
        let waited = self.returned.wait_timeout_while(returns, WAIT, |returns| *returns == seen);
        let (returns, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *returns != seen
    }

    fn take_place(&self) -> Option<WaitingCall<'_>> {
        let more = |waiting| (waiting < WAITING_MAX).then_some(waiting + 1);
        self.waiting.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(WaitingCall(&self.waiting))
    }

    /// Has `ask` ask a client, and waits for the answer; `None` if there is none in time, or too many calls wait.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        blocking: &dyn Blocking,
        ask: impl FnOnce(Answered<T>),
    ) -> Option<T> {
        let _place = self.take_place()?;
        let answer = Arc::new(Answer { value: Mutex::new(None), came: Condvar::new() });
        let told = Arc::clone(&answer);
        self.counters.asked.fetch_add(1, Relaxed);
        ask(Box::new(move |value| {
            *lock(&told.value) = Some(value);
            told.came.notify_all();
        }));
        blocking.will_block();
        let value = lock(&answer.value);
        let waited = answer.came.wait_timeout_while(value, ANSWER_WAIT, |value| value.is_none());
        let (mut value, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let value = value.take().flatten();
        if value.is_some() {
            self.counters.answered.fetch_add(1, Relaxed);
        }
        value
    }

    /// A recall is sent.
    pub(crate) fn note_recall(&self) {
        self.counters.recalls.fetch_add(1, Relaxed);
    }

    /// Wakes the lock timer.
    pub(crate) fn wake(&self) {
        self.disturbed.wake();
    }

    /// Wakes the lock timer from wherever it is called.
    pub(crate) fn waker(&self) -> impl FnOnce() + Send + 'static {
        let disturbed = Arc::clone(&self.disturbed);
        move || disturbed.wake()
    }

    /// The files that were disturbed since the last call.
    pub(crate) fn take_disturbed(&self) -> BTreeSet<FileKey> {
        std::mem::take(&mut *lock(&self.disturbed.files))
    }

    /// The counters; what the state counts is 0.
    pub(crate) fn counts(&self) -> DelegationCounts {
        let counters = &self.counters;
        DelegationCounts {
            granted: counters.granted.load(Relaxed),
            recalls: counters.recalls.load(Relaxed),
            asked: counters.asked.load(Relaxed),
            answered: counters.answered.load(Relaxed),
            returned: counters.returned.load(Relaxed),
            recalled_returns: counters.recalled_returns.load(Relaxed),
            return_ms: counters.return_ms.load(Relaxed),
            return_times: std::array::from_fn(|at| {
                counters.return_times.get(at).map_or(0, |count| count.load(Relaxed))
            }),
            ..DelegationCounts::default()
        }
    }
}

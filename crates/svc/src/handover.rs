//! How a pool's work and its core go from thread to thread: the one place where a thread is
//! woken, started, parked or let go.
//!
//! Two things are handed over. The **core** (`C`): whoever has it leads, alone. And **work**
//! (`W`): transports that are ready, in a queue, which worker threads take one at a time. Under
//! `adaptive` the leader runs calls itself and the queue is nearly always empty; under the other
//! policies the leader only fills the queue and the workers empty it, as in the kernel.
//!
//! # The core
//!
//! It is *taken* (the leader holds it itself), *lent* (the leader runs calls and has left it here
//! under a lease, a number of that one turn, to come back for), *free* (the first thread that
//! looks takes it) or *retired* (the pool has stopped). A lease fits one turn and only once: the
//! watchdog makes a lent core free when its leader is stuck, and the leader finds its lease void.
//!
//! # The queue and the policies
//!
//! A thread that has nothing to do is *parked*, on a stack: last in, first out. A thread is
//! *waking* from when it was called until it has come to [`Handover::next`]. For one more piece
//! of work
//! - `unlimited` calls a parked thread, always (the kernel of 2004);
//! - `cap:N` calls one only while fewer than N are waking (that of 2009); the work waits in the
//!   queue, and whoever runs takes it before it parks;
//! - `chain` calls one only if none is waking, and each one that comes calls the next if there is
//!   more (that of today).
//!
//! The kernel of 2009 lost time where this does not: there, work could lie in the queue while the
//! threads that were to come for it had all fallen asleep over what they took first. Here a
//! thread that is about to sleep ([`Handover::blocks`]) or begins to lead calls another in its
//! place. One that sleeps without saying so is found by the watchdog ([`Handover::stalled`]).
//!
//! A thread is started only where one is needed, none is parked and all the others are blocked.
//!
//! **Urgent** work (MOUNT, portmap) has a queue of its own that is emptied first. If every thread
//! is blocked and no more may be started, a **reserve** thread is called: it does nothing but
//! urgent work, and lead in the manner of the queue (it runs no other call) until a thread that
//! comes back relieves it. So a server whose disks all hang still answers those who ask where it
//! is.
//!
//! # Invariants, which `tests/models.rs` checks with loom
//!
//! - The core is here or with exactly one thread; each piece of work is taken exactly once.
//! - When the core is free or work is queued, then a thread is waking, or a thread runs that will
//!   come to `next` without sleeping first, or none is parked and no more may be started; under
//!   `adaptive` no work is queued while a worker that leads waits for events.
//! - A seat is on the stack if and only if its thread is parked or about to park, and was not
//!   called; so a thread leaves or is called, never both.
//!
//! One lock guards all of it; under it are a few instructions. Threads are unparked and started
//! by the caller after it ([`Call`]).

use crate::config::WakePolicy;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Thread, current,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use telemetry::{BUCKETS, bucket_of, upper_ns};

/// Reserve threads of a pool: as many MOUNT calls may hang on dead disks before others wait.
pub(crate) const RESERVES_MAX: usize = 4;
/// Age of the oldest work at which the watchdog starts a thread that no other rule would start.
/// Long enough that a busy machine alone does not do it.
const START_AGE_NS: u64 = 10_000_000;

/// Which of a pool's threads a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes any work, and leads.
    Worker,
    /// Takes urgent work only, and leads only until a worker comes.
    Reserve,
}

/// Where one thread parks.
#[derive(Debug)]
pub(crate) struct Seat {
    role: Role,
    thread: Thread,
    /// Written under the lock.
    called: AtomicBool,
    called_ns: AtomicU64,
}

impl Seat {
    /// The seat of the calling thread, which was started by a [`Call`] and is on its way.
    pub fn started(role: Role, now_ns: u64) -> Arc<Self> {
        let (called, called_ns) = (AtomicBool::new(true), AtomicU64::new(now_ns));
        Arc::new(Self { role, thread: current(), called, called_ns })
    }

    /// Whether the thread has been called and is to come to [`Handover::next`].
    pub fn is_called(&self) -> bool {
        self.called.load(Acquire)
    }

    /// Which role its thread has.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Wakes the thread.
    pub fn unpark(&self) {
        self.thread.unpark();
    }
}

/// What the caller has to do after the lock was given up.
#[must_use]
#[derive(Debug)]
pub(crate) enum Call {
    /// Nothing.
    Nobody,
    /// Nothing: every thread is blocked, those in reserve too. The first that resumes will see.
    Exhausted,
    /// Let the leader know, who runs calls itself and may be waiting for events.
    Tell,
    /// Unpark this thread.
    Wake(Arc<Seat>),
    /// Start a thread; it is counted already.
    Start(Role),
}

/// What a thread finds to do.
#[derive(Debug)]
pub(crate) enum Next<C, W> {
    /// Work, and who else is to be called.
    Work(W, Call),
    /// The core: lead. And who else is to be called.
    Lead(C, Call),
    /// Nothing: park until called. If so told, let the reserve know that it is relieved.
    Park {
        /// The core is with a reserve thread.
        relieve: bool,
    },
    /// There are too many threads: end. It is off the books.
    Leave,
    /// The pool has stopped: end.
    Retired,
}

/// What becomes of a thread that nobody called for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// It is off the books and must end.
    Leave,
    /// It is one of the fewest and stays parked.
    Stay,
    /// It has just been called.
    Called,
}

/// What the core is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// With its leader.
    Taken,
    /// Its leader runs calls.
    Lent,
    /// Nobody leads.
    Free,
    /// The pool has stopped.
    Retired,
}

#[derive(Debug)]
enum Slot<C> {
    Taken,
    Lent(C),
    Free(C),
    Retired,
}

/// A distribution of delays.
#[derive(Debug, Clone)]
pub(crate) struct Delays {
    pub count: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    /// [`BUCKETS`] of them.
    buckets: Vec<u64>,
}

impl Default for Delays {
    fn default() -> Self {
        Self { count: 0, total_ns: 0, max_ns: 0, buckets: vec![0; BUCKETS] }
    }
}

impl Delays {
    fn count(&mut self, ns: u64) {
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

/// What is counted, as the kernel's `pool_stats` counts it, and more. Under the lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Pieces of work put into the queue.
    pub enqueued: u64,
    /// Of them, those for which nobody was called at once.
    pub waited: u64,
    /// Of these, those for which a parked thread was left alone because enough were waking.
    pub overloads_avoided: u64,
    /// Threads called.
    pub woken: u64,
    /// Threads that left after nobody had called them for a while.
    pub timed_out: u64,
    /// Times that every thread was blocked and no more could be started.
    pub exhausted: u64,
    /// Times that the watchdog called a thread for work that nobody came for.
    pub unstuck: u64,
    /// From the queue to a thread.
    pub queue_delay: Delays,
    /// From being called to running.
    pub wake_delay: Delays,
}

/// How many threads there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    /// Those that answer calls: without a leader that only queues.
    pub threads: usize,
    pub parked: usize,
    pub blocked: usize,
    pub reserves: usize,
    pub queued: usize,
    pub min: usize,
    pub max: usize,
}

/// A pool's core, its queue and its threads.
#[derive(Debug)]
pub(crate) struct Handover<C, W> {
    state: Mutex<State<C, W>>,
    gone: Condvar,
    /// How much is queued, for a look without the lock. Written under it.
    queued: AtomicUsize,
}

#[derive(Debug)]
struct Item<W> {
    work: W,
    since_ns: u64,
}

#[derive(Debug)]
struct State<C, W> {
    core: Slot<C>,
    /// The last lease given out.
    lease: u64,
    /// The leader is a reserve thread.
    reserve_leads: bool,
    policy: WakePolicy,
    urgent: VecDeque<Item<W>>,
    queue: VecDeque<Item<W>>,
    parked: Vec<Arc<Seat>>,
    reserves_parked: Vec<Arc<Seat>>,
    /// Workers that exist or are being started.
    threads: usize,
    reserves: usize,
    /// Workers that said that they sleep.
    blocked: usize,
    /// Workers that were called and have not come.
    waking: usize,
    min: usize,
    max: usize,
    /// Work taken from the queue so far.
    taken: u64,
    tally: Tally,
}

impl<C, W> State<C, W> {
    /// Threads that may exist: under a queue, the leader is one more.
    fn bound(&self, threads: usize) -> usize {
        threads.saturating_add(usize::from(self.policy != WakePolicy::Adaptive))
    }

    /// Whether every worker but the leader sleeps, as far as they say.
    fn all_blocked(&self) -> bool {
        let leads = !self.reserve_leads && matches!(self.core, Slot::Taken | Slot::Lent(_));
        self.blocked.saturating_add(usize::from(leads)) >= self.threads
    }

    fn wake(&mut self, seat: Arc<Seat>, now_ns: u64) -> Call {
        if seat.role == Role::Worker {
            self.waking = self.waking.saturating_add(1);
        }
        self.tally.woken = self.tally.woken.saturating_add(1);
        seat.called_ns.store(now_ns, Relaxed);
        seat.called.store(true, Release);
        Call::Wake(seat)
    }

    /// Starts a worker if there may be one more.
    fn start(&mut self) -> Option<Call> {
        if self.threads >= self.bound(self.max) {
            return None;
        }
        self.threads = self.threads.saturating_add(1);
        self.waking = self.waking.saturating_add(1);
        Some(Call::Start(Role::Worker))
    }

    fn call_reserve(&mut self, now_ns: u64) -> Call {
        if let Some(seat) = self.reserves_parked.pop() {
            return self.wake(seat, now_ns);
        }
        if self.reserves >= RESERVES_MAX {
            return Call::Exhausted;
        }
        self.reserves = self.reserves.saturating_add(1);
        Call::Start(Role::Reserve)
    }

    /// Calls a thread for what is queued, as the policy says.
    fn cover_queue(&mut self, now_ns: u64) -> Call {
        if !self.urgent.is_empty() {
            return self.cover_urgent(now_ns);
        }
        if self.queue.is_empty() {
            return Call::Nobody;
        }
        let enough = match self.policy {
            WakePolicy::Unlimited => usize::MAX,
            WakePolicy::Cap(most) => usize::try_from(most).unwrap_or(usize::MAX),
            WakePolicy::Chain | WakePolicy::Adaptive => 1,
        };
        if self.waking < enough {
            if let Some(seat) = self.parked.pop() {
                return self.wake(seat, now_ns);
            }
            if self.all_blocked()
                && let Some(start) = self.start()
            {
                return start;
            }
        } else if !self.parked.is_empty() {
            self.tally.overloads_avoided = self.tally.overloads_avoided.saturating_add(1);
        }
        Call::Nobody
    }

    /// Urgent work waits for nobody's policy.
    fn cover_urgent(&mut self, now_ns: u64) -> Call {
        if let Some(seat) = self.parked.pop() {
            return self.wake(seat, now_ns);
        }
        if !self.all_blocked() {
            return Call::Nobody;
        }
        match self.start() {
            Some(start) => start,
            None => self.call_reserve(now_ns),
        }
    }

    /// Calls a thread for the core, unless one is on its way: who comes looks for the core first.
    fn cover_core(&mut self, now_ns: u64) -> Call {
        if self.waking > 0 {
            return Call::Nobody;
        }
        if let Some(seat) = self.parked.pop() {
            return self.wake(seat, now_ns);
        }
        if let Some(start) = self.start() {
            return start;
        }
        self.tally.exhausted = self.tally.exhausted.saturating_add(1);
        self.call_reserve(now_ns)
    }

    fn queued(&self) -> usize {
        self.queue.len().saturating_add(self.urgent.len())
    }

    fn pop(&mut self, role: Role) -> Option<Item<W>> {
        let item = self.urgent.pop_front().or_else(|| match role {
            Role::Worker => self.queue.pop_front(),
            Role::Reserve => None,
        });
        if item.is_some() {
            self.taken = self.taken.wrapping_add(1);
        }
        item
    }

    /// Puts a thread on its stack.
    fn sit(&mut self, seat: &Arc<Seat>) {
        match seat.role {
            Role::Worker => self.parked.push(Arc::clone(seat)),
            Role::Reserve => self.reserves_parked.push(Arc::clone(seat)),
        }
    }

    fn strike_off(&mut self, role: Role) {
        match role {
            Role::Worker => self.threads = self.threads.saturating_sub(1),
            Role::Reserve => self.reserves = self.reserves.saturating_sub(1),
        }
    }
}

impl<C, W> Handover<C, W> {
    /// A free core, no threads.
    pub fn new(core: C, (min, max): (usize, usize), policy: WakePolicy) -> Self {
        let state = State {
            core: Slot::Free(core),
            lease: 0,
            reserve_leads: false,
            policy,
            urgent: VecDeque::new(),
            queue: VecDeque::new(),
            parked: Vec::new(),
            reserves_parked: Vec::new(),
            threads: 0,
            reserves: 0,
            blocked: 0,
            waking: 0,
            min,
            max,
            taken: 0,
            tally: Tally::default(),
        };
        Self { state: Mutex::new(state), gone: Condvar::new(), queued: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State<C, W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the core under a lease for a turn.
    pub fn lend(&self, core: C) -> u64 {
        let mut state = self.lock();
        state.lease = state.lease.wrapping_add(1);
        state.core = Slot::Lent(core);
        state.lease
    }

    /// Takes the core back at the end of a turn; `None` if the lease is void.
    pub fn reclaim(&self, lease: u64) -> Option<C> {
        let mut state = self.lock();
        if state.lease != lease {
            return None;
        }
        match std::mem::replace(&mut state.core, Slot::Taken) {
            Slot::Lent(core) => Some(core),
            other @ (Slot::Taken | Slot::Free(_) | Slot::Retired) => {
                state.core = other;
                None
            }
        }
    }

    /// Whether a turn's lease still holds.
    pub fn holds(&self, lease: u64) -> bool {
        let state = self.lock();
        state.lease == lease && matches!(state.core, Slot::Lent(_))
    }

    /// Leaves the core to whoever comes first, as the calling worker is about to sleep; it says
    /// when it has slept enough ([`Handover::resumes`]).
    pub fn promote(&self, core: C, now_ns: u64) -> Call {
        let mut state = self.lock();
        state.core = Slot::Free(core);
        state.reserve_leads = false;
        state.blocked = state.blocked.saturating_add(1);
        state.cover_core(now_ns)
    }

    /// Leaves the core to whoever comes first.
    pub fn leave(&self, core: C, now_ns: u64) -> Call {
        let mut state = self.lock();
        state.core = Slot::Free(core);
        state.reserve_leads = false;
        state.cover_core(now_ns)
    }

    /// Frees a lent core if `is_stuck`, which is asked under the lock; `None` if it was not. The
    /// worker that had lent it finds its lease void, and says when its call is over
    /// ([`Handover::resumes`]).
    pub fn rescue(&self, now_ns: u64, is_stuck: impl FnOnce() -> bool) -> Option<Call> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.core, Slot::Taken) {
            Slot::Lent(core) if is_stuck() => {
                state.core = Slot::Free(core);
                state.reserve_leads = false;
                state.blocked = state.blocked.saturating_add(1);
                Some(state.cover_core(now_ns))
            }
            other => {
                state.core = other;
                None
            }
        }
    }

    /// Puts work into the queue. Under `adaptive` it is what an earlier policy or a reserve has left; if
    /// no thread is called, the leader takes it ([`Handover::left`]), and is told where it may be past
    /// its last look before it waits.
    pub fn enqueue(&self, work: W, urgent: bool, now_ns: u64) -> Call {
        let mut state = self.lock();
        state.tally.enqueued = state.tally.enqueued.saturating_add(1);
        let item = Item { work, since_ns: now_ns };
        if urgent {
            state.urgent.push_back(item);
        } else {
            state.queue.push_back(item);
        }
        self.queued.store(state.queued(), Relaxed);
        let call = state.cover_queue(now_ns);
        if matches!(call, Call::Nobody | Call::Exhausted) {
            state.tally.waited = state.tally.waited.saturating_add(1);
            if state.policy == WakePolicy::Adaptive
                && matches!(state.core, Slot::Taken)
                && !state.reserve_leads
            {
                return Call::Tell;
            }
        }
        call
    }

    /// What the calling thread is to do next. It does not sleep between this and what it gets.
    pub fn next(&self, seat: &Arc<Seat>, now_ns: u64) -> Next<C, W> {
        let mut state = self.lock();
        let came = seat.called.swap(false, Acquire);
        if came {
            if seat.role == Role::Worker {
                state.waking = state.waking.saturating_sub(1);
            }
            let called_ns = seat.called_ns.load(Relaxed);
            state.tally.wake_delay.count(now_ns.saturating_sub(called_ns));
        }
        match std::mem::replace(&mut state.core, Slot::Taken) {
            // A reserve does not take what a worker is coming for.
            Slot::Free(core) if seat.role == Role::Worker || state.waking == 0 => {
                state.reserve_leads = seat.role == Role::Reserve;
                let also = state.cover_queue(now_ns);
                return Next::Lead(core, also);
            }
            other => state.core = other,
        }
        if let Some(item) = state.pop(seat.role) {
            self.queued.store(state.queued(), Relaxed);
            state.tally.queue_delay.count(now_ns.saturating_sub(item.since_ns));
            let chained = came && matches!(state.policy, WakePolicy::Chain | WakePolicy::Adaptive);
            let also = if chained || !state.urgent.is_empty() {
                state.cover_queue(now_ns)
            } else {
                Call::Nobody
            };
            return Next::Work(item.work, also);
        }
        if matches!(state.core, Slot::Retired) {
            return Next::Retired;
        }
        if seat.role == Role::Worker && state.threads > state.bound(state.max) {
            state.strike_off(seat.role);
            self.gone.notify_all();
            return Next::Leave;
        }
        state.sit(seat);
        let relieve = state.reserve_leads && seat.role == Role::Worker;
        Next::Park { relieve }
    }

    /// What is left in the queue for a leader that runs calls itself, and who may be the only
    /// thread. What others put there at the same time they see to themselves: they come to `next`.
    pub fn left(&self, now_ns: impl FnOnce() -> u64) -> Option<W> {
        if self.queued.load(Relaxed) == 0 {
            return None;
        }
        let mut state = self.lock();
        let item = state.pop(Role::Worker)?;
        self.queued.store(state.queued(), Relaxed);
        state.tally.queue_delay.count(now_ns().saturating_sub(item.since_ns));
        Some(item.work)
    }

    /// The calling worker is about to sleep over a piece of work.
    pub fn blocks(&self, now_ns: u64) -> Call {
        let mut state = self.lock();
        state.blocked = state.blocked.saturating_add(1);
        state.cover_queue(now_ns)
    }

    /// The calling worker has slept enough.
    pub fn resumes(&self) {
        let mut state = self.lock();
        state.blocked = state.blocked.saturating_sub(1);
    }

    /// The watchdog's look at the queue: calls a thread if nothing was taken from it since `seen`
    /// and nobody is on the way.
    pub fn stalled(&self, seen: &mut u64, now_ns: u64) -> Call {
        let mut state = self.lock();
        let moved = std::mem::replace(seen, state.taken) != state.taken;
        let oldest = match (state.urgent.front(), state.queue.front()) {
            (Some(item), _) | (None, Some(item)) => item.since_ns,
            (None, None) => return Call::Nobody,
        };
        if moved {
            return Call::Nobody;
        }
        let old = now_ns.saturating_sub(oldest) >= START_AGE_NS;
        let call = match state.parked.pop() {
            Some(seat) if state.waking == 0 || old => state.wake(seat, now_ns),
            Some(seat) => {
                state.parked.push(seat);
                Call::Nobody
            }
            None if !old => Call::Nobody,
            None => match state.start() {
                Some(start) => start,
                None if state.urgent.is_empty() => Call::Nobody,
                None => state.call_reserve(now_ns),
            },
        };
        if matches!(call, Call::Wake(_) | Call::Start(_)) {
            state.tally.unstuck = state.tally.unstuck.saturating_add(1);
        }
        call
    }

    /// Changes who is called for work. The leader sees to the rest.
    pub fn set_policy(&self, policy: WakePolicy, now_ns: u64) -> Call {
        let mut state = self.lock();
        state.policy = policy;
        state.cover_queue(now_ns)
    }

    /// Lets a parked thread leave if there are more than the fewest.
    pub fn spare(&self, seat: &Arc<Seat>) -> Spare {
        let mut state = self.lock();
        let enough = state.threads <= state.bound(state.min);
        let stack = match seat.role {
            Role::Worker => &mut state.parked,
            Role::Reserve => &mut state.reserves_parked,
        };
        let Some(place) = stack.iter().position(|other| Arc::ptr_eq(other, seat)) else {
            return Spare::Called;
        };
        if seat.role == Role::Worker && enough {
            return Spare::Stay;
        }
        stack.remove(place);
        state.tally.timed_out = state.tally.timed_out.saturating_add(1);
        state.strike_off(seat.role);
        drop(state);
        self.gone.notify_all();
        Spare::Leave
    }

    /// Counts one more worker, to be started by the caller, if there are fewer than the fewest.
    pub fn below_min(&self) -> bool {
        let mut state = self.lock();
        state.threads < state.bound(state.min) && state.start().is_some()
    }

    /// A thread has ended.
    pub fn ended(&self, role: Role) {
        self.lock().strike_off(role);
        self.gone.notify_all();
    }

    /// A thread could not be started; one that parked meanwhile is called in its place.
    pub fn not_started(&self, role: Role, now_ns: u64) -> Call {
        let mut state = self.lock();
        state.strike_off(role);
        if role == Role::Worker {
            state.waking = state.waking.saturating_sub(1);
        }
        let due = matches!(state.core, Slot::Free(_))
            || !(state.queue.is_empty() && state.urgent.is_empty());
        let seat =
            if due { state.parked.pop().or_else(|| state.reserves_parked.pop()) } else { None };
        let call = seat.map_or(Call::Nobody, |seat| state.wake(seat, now_ns));
        drop(state);
        self.gone.notify_all();
        call
    }

    /// Changes the fewest and the most threads; those to be called look whether they are too many.
    #[must_use]
    pub fn resize(&self, (min, max): (usize, usize), now_ns: u64) -> Vec<Arc<Seat>> {
        let mut state = self.lock();
        (state.min, state.max) = (min, max);
        call_all(&mut state, now_ns)
    }

    /// The pool is done: all threads that are called, and all that come, are to end.
    #[must_use]
    pub fn retire(&self, now_ns: u64) -> Vec<Arc<Seat>> {
        let mut state = self.lock();
        state.core = Slot::Retired;
        call_all(&mut state, now_ns)
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.lock().queued() == 0
    }

    /// What the core is.
    pub fn standing(&self) -> Standing {
        match self.lock().core {
            Slot::Taken => Standing::Taken,
            Slot::Lent(_) => Standing::Lent,
            Slot::Free(_) => Standing::Free,
            Slot::Retired => Standing::Retired,
        }
    }

    /// How many threads there are.
    pub fn count(&self) -> Count {
        let state = self.lock();
        let queues = state.policy != WakePolicy::Adaptive && !state.reserve_leads;
        let leader = queues && matches!(state.core, Slot::Taken);
        Count {
            threads: state.threads.saturating_sub(usize::from(leader)),
            parked: state.parked.len(),
            blocked: state.blocked,
            reserves: state.reserves,
            queued: state.queued(),
            min: state.min,
            max: state.max,
        }
    }

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        self.lock().tally.clone()
    }

    /// Waits until no thread is left, at most until `deadline`; tells whether none is.
    pub fn wait_until_gone(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while state.threads > 0 || state.reserves > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.gone.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Calls everybody that is parked.
fn call_all<C, W>(state: &mut State<C, W>, now_ns: u64) -> Vec<Arc<Seat>> {
    let mut seats = std::mem::take(&mut state.parked);
    seats.append(&mut state.reserves_parked);
    for seat in &seats {
        let _counted = state.wake(Arc::clone(seat), now_ns);
    }
    seats
}

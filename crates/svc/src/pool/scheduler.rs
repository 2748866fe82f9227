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
//! *waking* from when it was called until it has come to [`Scheduler::next_task`]. For one more piece
//! of work
//! - `unlimited` calls a parked thread, always (the kernel of 2004);
//! - `cap:N` calls one only while fewer than N are waking (that of 2009); the work waits in the
//!   queue, and whoever runs takes it before it parks;
//! - `chain` calls one only if none is waking, and each one that comes calls the next if there is
//!   more (that of today).
//!
//! The kernel of 2009 lost time where this does not: there, work could lie in the queue while the
//! threads that were to come for it had all fallen asleep over what they took first. Here a
//! thread that is about to sleep ([`Scheduler::blocks`]) or begins to lead calls another in its
//! place. One that sleeps without saying so is found by the watchdog ([`Scheduler::wake_if_stalled`]).
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
//!   come to `next_task` without sleeping first, or none is parked and no more may be started; under
//!   `adaptive` no work is queued while a worker that leads waits for events.
//! - A seat is on the stack if and only if its thread is parked or about to park, and was not
//!   called; so a thread leaves or is called, never both.
//!
//! One lock guards all of it; under it are a few instructions. Threads are unparked and started
//! by the caller after it ([`Wakeup`]).

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
pub(crate) struct Parker {
    role: Role,
    thread: Thread,
    /// Written under the lock.
    woken: AtomicBool,
    woken_ns: AtomicU64,
}

impl Parker {
    /// The seat of the calling thread, which was started by a [`Wakeup`] and is on its way.
    pub fn started(role: Role, now_ns: u64) -> Arc<Self> {
        let (woken, woken_ns) = (AtomicBool::new(true), AtomicU64::new(now_ns));
        Arc::new(Self { role, thread: current(), woken, woken_ns })
    }

    /// Whether the thread has been called and is to come to [`Scheduler::next_task`].
    pub fn is_woken(&self) -> bool {
        self.woken.load(Acquire)
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
pub(crate) enum Wakeup {
    /// Nothing.
    Nobody,
    /// Nothing: every thread is blocked, those in reserve too. The first that resumes will see.
    Exhausted,
    /// Let the leader know, who runs calls itself and may be waiting for events.
    NotifyLeader,
    /// Unpark this thread.
    Unpark(Arc<Parker>),
    /// Start a thread; it is counted already.
    Start(Role),
}

/// What a thread finds to do.
#[derive(Debug)]
pub(crate) enum Next<C, W> {
    /// Work, and who else is to be called.
    Work(W, Wakeup),
    /// The core: lead. And who else is to be called.
    Lead(C, Wakeup),
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
pub(crate) enum IdleTimeout {
    /// It is off the books and must end.
    Leave,
    /// It is one of the fewest and stays parked.
    Stay,
    /// It has just been called.
    Called,
}

/// What the core is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopState {
    /// With its leader.
    WithLeader,
    /// Its leader runs calls.
    Serving,
    /// Nobody leads.
    Vacant,
    /// The pool has stopped.
    Retired,
}

#[derive(Debug)]
enum LoopSlot<C> {
    WithLeader,
    Serving(C),
    Vacant(C),
    Retired,
}

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
pub(crate) struct SchedulerCounters {
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
    pub queue_delay: DelayHistogram,
    /// From being called to running.
    pub wake_delay: DelayHistogram,
}

/// How many threads there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadCounts {
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
pub(crate) struct Scheduler<C, W> {
    state: Mutex<State<C, W>>,
    all_exited: Condvar,
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
    event_loop: LoopSlot<C>,
    /// The last lease given out.
    round: u64,
    /// The leader is a reserve thread.
    reserve_leads: bool,
    policy: WakePolicy,
    urgent: VecDeque<Item<W>>,
    queue: VecDeque<Item<W>>,
    parked: Vec<Arc<Parker>>,
    reserves_parked: Vec<Arc<Parker>>,
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
    counters: SchedulerCounters,
}

impl<C, W> State<C, W> {
    /// Threads that may exist: under a queue, the leader is one more.
    fn thread_limit(&self, threads: usize) -> usize {
        threads.saturating_add(usize::from(self.policy != WakePolicy::Adaptive))
    }

    /// Whether every worker but the leader sleeps, as far as they say.
    fn all_blocked(&self) -> bool {
        let leads = !self.reserve_leads
            && matches!(self.event_loop, LoopSlot::WithLeader | LoopSlot::Serving(_));
        self.blocked.saturating_add(usize::from(leads)) >= self.threads
    }

    fn mark_woken(&mut self, parker: Arc<Parker>, now_ns: u64) -> Wakeup {
        if parker.role == Role::Worker {
            self.waking = self.waking.saturating_add(1);
        }
        self.counters.woken = self.counters.woken.saturating_add(1);
        parker.woken_ns.store(now_ns, Relaxed);
        parker.woken.store(true, Release);
        Wakeup::Unpark(parker)
    }

    /// Starts a worker if there may be one more.
    fn start(&mut self) -> Option<Wakeup> {
        if self.threads >= self.thread_limit(self.max) {
            return None;
        }
        self.threads = self.threads.saturating_add(1);
        self.waking = self.waking.saturating_add(1);
        Some(Wakeup::Start(Role::Worker))
    }

    fn wake_reserve(&mut self, now_ns: u64) -> Wakeup {
        if let Some(parker) = self.reserves_parked.pop() {
            return self.mark_woken(parker, now_ns);
        }
        if self.reserves >= RESERVES_MAX {
            return Wakeup::Exhausted;
        }
        self.reserves = self.reserves.saturating_add(1);
        Wakeup::Start(Role::Reserve)
    }

    /// Calls a thread for what is queued, as the policy says.
    fn wake_for_queue(&mut self, now_ns: u64) -> Wakeup {
        if !self.urgent.is_empty() {
            return self.wake_for_urgent(now_ns);
        }
        if self.queue.is_empty() {
            return Wakeup::Nobody;
        }
        let enough = match self.policy {
            WakePolicy::Unlimited => usize::MAX,
            WakePolicy::Cap(most) => usize::try_from(most).unwrap_or(usize::MAX),
            WakePolicy::Chain | WakePolicy::Adaptive => 1,
        };
        if self.waking < enough {
            if let Some(parker) = self.parked.pop() {
                return self.mark_woken(parker, now_ns);
            }
            if self.all_blocked()
                && let Some(start) = self.start()
            {
                return start;
            }
        } else if !self.parked.is_empty() {
            self.counters.overloads_avoided = self.counters.overloads_avoided.saturating_add(1);
        }
        Wakeup::Nobody
    }

    /// Urgent work waits for nobody's policy.
    fn wake_for_urgent(&mut self, now_ns: u64) -> Wakeup {
        if let Some(parker) = self.parked.pop() {
            return self.mark_woken(parker, now_ns);
        }
        if !self.all_blocked() {
            return Wakeup::Nobody;
        }
        match self.start() {
            Some(start) => start,
            None => self.wake_reserve(now_ns),
        }
    }

    /// Calls a thread for the core, unless one is on its way: who comes looks for the core first.
    fn wake_for_loop(&mut self, now_ns: u64) -> Wakeup {
        if self.waking > 0 {
            return Wakeup::Nobody;
        }
        if let Some(parker) = self.parked.pop() {
            return self.mark_woken(parker, now_ns);
        }
        if let Some(start) = self.start() {
            return start;
        }
        self.counters.exhausted = self.counters.exhausted.saturating_add(1);
        self.wake_reserve(now_ns)
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
    fn push_parked(&mut self, parker: &Arc<Parker>) {
        match parker.role {
            Role::Worker => self.parked.push(Arc::clone(parker)),
            Role::Reserve => self.reserves_parked.push(Arc::clone(parker)),
        }
    }

    fn remove_thread(&mut self, role: Role) {
        match role {
            Role::Worker => self.threads = self.threads.saturating_sub(1),
            Role::Reserve => self.reserves = self.reserves.saturating_sub(1),
        }
    }
}

impl<C, W> Scheduler<C, W> {
    /// A free core, no threads.
    pub fn new(event_loop: C, (min, max): (usize, usize), policy: WakePolicy) -> Self {
        let state = State {
            event_loop: LoopSlot::Vacant(event_loop),
            round: 0,
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
            counters: SchedulerCounters::default(),
        };
        Self { state: Mutex::new(state), all_exited: Condvar::new(), queued: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State<C, W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the core under a lease for a turn.
    pub fn begin_round(&self, event_loop: C) -> u64 {
        let mut state = self.lock();
        state.round = state.round.wrapping_add(1);
        state.event_loop = LoopSlot::Serving(event_loop);
        state.round
    }

    /// Takes the core back at the end of a turn; `None` if the lease is void.
    pub fn end_round(&self, round: u64) -> Option<C> {
        let mut state = self.lock();
        if state.round != round {
            return None;
        }
        match std::mem::replace(&mut state.event_loop, LoopSlot::WithLeader) {
            LoopSlot::Serving(event_loop) => Some(event_loop),
            other @ (LoopSlot::WithLeader | LoopSlot::Vacant(_) | LoopSlot::Retired) => {
                state.event_loop = other;
                None
            }
        }
    }

    /// Whether a turn's lease still holds.
    pub fn is_current_round(&self, round: u64) -> bool {
        let state = self.lock();
        state.round == round && matches!(state.event_loop, LoopSlot::Serving(_))
    }

    /// Leaves the core to whoever comes first, as the calling worker is about to sleep; it says
    /// when it has slept enough ([`Scheduler::resumes`]).
    pub fn promote_follower(&self, event_loop: C, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.event_loop = LoopSlot::Vacant(event_loop);
        state.reserve_leads = false;
        state.blocked = state.blocked.saturating_add(1);
        state.wake_for_loop(now_ns)
    }

    /// Leaves the core to whoever comes first.
    pub fn resign(&self, event_loop: C, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.event_loop = LoopSlot::Vacant(event_loop);
        state.reserve_leads = false;
        state.wake_for_loop(now_ns)
    }

    /// Frees a lent core if `is_stuck`, which is asked under the lock; `None` if it was not. The
    /// worker that had lent it finds its lease void, and says when its call is over
    /// ([`Scheduler::resumes`]).
    pub fn rescue(&self, now_ns: u64, is_stuck: impl FnOnce() -> bool) -> Option<Wakeup> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.event_loop, LoopSlot::WithLeader) {
            LoopSlot::Serving(event_loop) if is_stuck() => {
                state.event_loop = LoopSlot::Vacant(event_loop);
                state.reserve_leads = false;
                state.blocked = state.blocked.saturating_add(1);
                Some(state.wake_for_loop(now_ns))
            }
            other => {
                state.event_loop = other;
                None
            }
        }
    }

    /// Puts work into the queue. Under `adaptive` it is what an earlier policy or a reserve has left; if
    /// no thread is called, the leader takes it ([`Scheduler::pop_for_leader`]), and is told where it may be past
    /// its last look before it waits.
    pub fn enqueue(&self, work: W, urgent: bool, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.counters.enqueued = state.counters.enqueued.saturating_add(1);
        let item = Item { work, since_ns: now_ns };
        if urgent {
            state.urgent.push_back(item);
        } else {
            state.queue.push_back(item);
        }
        self.queued.store(state.queued(), Relaxed);
        let call = state.wake_for_queue(now_ns);
        if matches!(call, Wakeup::Nobody | Wakeup::Exhausted) {
            state.counters.waited = state.counters.waited.saturating_add(1);
            if state.policy == WakePolicy::Adaptive
                && matches!(state.event_loop, LoopSlot::WithLeader)
                && !state.reserve_leads
            {
                return Wakeup::NotifyLeader;
            }
        }
        call
    }

    /// What the calling thread is to do next. It does not sleep between this and what it gets.
    pub fn next_task(&self, parker: &Arc<Parker>, now_ns: u64) -> Next<C, W> {
        let mut state = self.lock();
        let came = parker.woken.swap(false, Acquire);
        if came {
            if parker.role == Role::Worker {
                state.waking = state.waking.saturating_sub(1);
            }
            let woken_ns = parker.woken_ns.load(Relaxed);
            state.counters.wake_delay.count(now_ns.saturating_sub(woken_ns));
        }
        match std::mem::replace(&mut state.event_loop, LoopSlot::WithLeader) {
            // A reserve does not take what a worker is coming for.
            LoopSlot::Vacant(event_loop) if parker.role == Role::Worker || state.waking == 0 => {
                state.reserve_leads = parker.role == Role::Reserve;
                let also = state.wake_for_queue(now_ns);
                return Next::Lead(event_loop, also);
            }
            other => state.event_loop = other,
        }
        if let Some(item) = state.pop(parker.role) {
            self.queued.store(state.queued(), Relaxed);
            state.counters.queue_delay.count(now_ns.saturating_sub(item.since_ns));
            let chained = came && matches!(state.policy, WakePolicy::Chain | WakePolicy::Adaptive);
            let also = if chained || !state.urgent.is_empty() {
                state.wake_for_queue(now_ns)
            } else {
                Wakeup::Nobody
            };
            return Next::Work(item.work, also);
        }
        if matches!(state.event_loop, LoopSlot::Retired) {
            return Next::Retired;
        }
        if parker.role == Role::Worker && state.threads > state.thread_limit(state.max) {
            state.remove_thread(parker.role);
            self.all_exited.notify_all();
            return Next::Leave;
        }
        state.push_parked(parker);
        let relieve = state.reserve_leads && parker.role == Role::Worker;
        Next::Park { relieve }
    }

    /// What is left in the queue for a leader that runs calls itself, and who may be the only
    /// thread. What others put there at the same time they see to themselves: they come to `next_task`.
    pub fn pop_for_leader(&self, now_ns: impl FnOnce() -> u64) -> Option<W> {
        if self.queued.load(Relaxed) == 0 {
            return None;
        }
        let mut state = self.lock();
        let item = state.pop(Role::Worker)?;
        self.queued.store(state.queued(), Relaxed);
        state.counters.queue_delay.count(now_ns().saturating_sub(item.since_ns));
        Some(item.work)
    }

    /// The calling worker is about to sleep over a piece of work.
    pub fn worker_blocks(&self, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.blocked = state.blocked.saturating_add(1);
        state.wake_for_queue(now_ns)
    }

    /// The calling worker has slept enough.
    pub fn worker_resumes(&self) {
        let mut state = self.lock();
        state.blocked = state.blocked.saturating_sub(1);
    }

    /// The watchdog's look at the queue: calls a thread if nothing was taken from it since `seen`
    /// and nobody is on the way.
    pub fn wake_if_stalled(&self, seen: &mut u64, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        let moved = std::mem::replace(seen, state.taken) != state.taken;
        let oldest = match (state.urgent.front(), state.queue.front()) {
            (Some(item), _) | (None, Some(item)) => item.since_ns,
            (None, None) => return Wakeup::Nobody,
        };
        if moved {
            return Wakeup::Nobody;
        }
        let old = now_ns.saturating_sub(oldest) >= START_AGE_NS;
        let call = match state.parked.pop() {
            Some(parker) if state.waking == 0 || old => state.mark_woken(parker, now_ns),
            Some(parker) => {
                state.parked.push(parker);
                Wakeup::Nobody
            }
            None if !old => Wakeup::Nobody,
            None => match state.start() {
                Some(start) => start,
                None if state.urgent.is_empty() => Wakeup::Nobody,
                None => state.wake_reserve(now_ns),
            },
        };
        if matches!(call, Wakeup::Unpark(_) | Wakeup::Start(_)) {
            state.counters.unstuck = state.counters.unstuck.saturating_add(1);
        }
        call
    }

    /// Changes who is called for work. The leader sees to the rest.
    pub fn set_policy(&self, policy: WakePolicy, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.policy = policy;
        state.wake_for_queue(now_ns)
    }

    /// Lets a parked thread leave if there are more than the fewest.
    pub fn spare(&self, parker: &Arc<Parker>) -> IdleTimeout {
        let mut state = self.lock();
        let enough = state.threads <= state.thread_limit(state.min);
        let stack = match parker.role {
            Role::Worker => &mut state.parked,
            Role::Reserve => &mut state.reserves_parked,
        };
        let Some(place) = stack.iter().position(|other| Arc::ptr_eq(other, parker)) else {
            return IdleTimeout::Called;
        };
        if parker.role == Role::Worker && enough {
            return IdleTimeout::Stay;
        }
        stack.remove(place);
        state.counters.timed_out = state.counters.timed_out.saturating_add(1);
        state.remove_thread(parker.role);
        drop(state);
        self.all_exited.notify_all();
        IdleTimeout::Leave
    }

    /// Counts one more worker, to be started by the caller, if there are fewer than the fewest.
    pub fn add_below_min(&self) -> bool {
        let mut state = self.lock();
        state.threads < state.thread_limit(state.min) && state.start().is_some()
    }

    /// A thread has ended.
    pub fn ended(&self, role: Role) {
        self.lock().remove_thread(role);
        self.all_exited.notify_all();
    }

    /// A thread could not be started; one that parked meanwhile is called in its place.
    pub fn thread_not_started(&self, role: Role, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.remove_thread(role);
        if role == Role::Worker {
            state.waking = state.waking.saturating_sub(1);
        }
        let ready_queue = matches!(state.event_loop, LoopSlot::Vacant(_))
            || !(state.queue.is_empty() && state.urgent.is_empty());
        let parker = if ready_queue {
            state.parked.pop().or_else(|| state.reserves_parked.pop())
        } else {
            None
        };
        let call = parker.map_or(Wakeup::Nobody, |parker| state.mark_woken(parker, now_ns));
        drop(state);
        self.all_exited.notify_all();
        call
    }

    /// Changes the fewest and the most threads; those to be called look whether they are too many.
    #[must_use]
    pub fn resize(&self, (min, max): (usize, usize), now_ns: u64) -> Vec<Arc<Parker>> {
        let mut state = self.lock();
        (state.min, state.max) = (min, max);
        wake_all_parked(&mut state, now_ns)
    }

    /// The pool is done: all threads that are called, and all that come, are to end.
    #[must_use]
    pub fn retire(&self, now_ns: u64) -> Vec<Arc<Parker>> {
        let mut state = self.lock();
        state.event_loop = LoopSlot::Retired;
        wake_all_parked(&mut state, now_ns)
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.lock().queued() == 0
    }

    /// What the core is.
    pub fn loop_state(&self) -> LoopState {
        match self.lock().event_loop {
            LoopSlot::WithLeader => LoopState::WithLeader,
            LoopSlot::Serving(_) => LoopState::Serving,
            LoopSlot::Vacant(_) => LoopState::Vacant,
            LoopSlot::Retired => LoopState::Retired,
        }
    }

    /// How many threads there are.
    pub fn count(&self) -> ThreadCounts {
        let state = self.lock();
        let queues = state.policy != WakePolicy::Adaptive && !state.reserve_leads;
        let leader = queues && matches!(state.event_loop, LoopSlot::WithLeader);
        ThreadCounts {
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
    pub fn counters(&self) -> SchedulerCounters {
        self.lock().counters.clone()
    }

    /// Waits until no thread is left, at most until `deadline`; tells whether none is.
    pub fn wait_until_exited(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while state.threads > 0 || state.reserves > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.all_exited.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Calls everybody that is parked.
fn wake_all_parked<C, W>(state: &mut State<C, W>, now_ns: u64) -> Vec<Arc<Parker>> {
    let mut seats = std::mem::take(&mut state.parked);
    seats.append(&mut state.reserves_parked);
    for parker in &seats {
        let _counted = state.mark_woken(Arc::clone(parker), now_ns);
    }
    seats
}

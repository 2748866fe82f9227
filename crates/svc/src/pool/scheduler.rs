//! Which of a pool's threads does what: the one place where a thread is woken, started, parked or ended.
//!
//! Two things go from thread to thread. The **event loop** (`C`): the thread that has it is the leader, and
//! there is no other. And **work** (`W`): connections and datagrams that are ready, in a queue, which worker
//! threads take one at a time. Under `adaptive` the leader runs calls itself and the queue is nearly always
//! empty; under the other policies the leader only fills the queue and the workers empty it, as in the
//! kernel's server.
//!
//! # The event loop
//!
//! It is with its leader, which waits for events ([`LoopState::WithLeader`]); or here while the leader serves
//! ([`LoopState::Serving`]), which comes back for it with the number of its service round; or here without
//! a leader ([`LoopState::Vacant`]), and the first thread that looks takes it; or the pool has retired. A
//! round's number is good once: when the leader is stuck, the watchdog makes the event loop vacant, and the
//! leader finds that its round is not current any more.
//!
//! # The queue and the policies
//!
//! A thread that has nothing to do is *parked*, on a stack: last in, first out. A thread is *waking* from
//! when it was woken until it has come to [`Scheduler::next_task`]. For one more piece of work
//! - `unlimited` wakes a parked thread, always (the kernel of 2004);
//! - `cap:N` wakes one only while fewer than N are waking (that of 2009); the work waits in the queue, and a
//!   thread that runs takes it before it parks;
//! - `chain` wakes one only if none is waking, and each one that comes wakes the next if there is more (that
//!   of today).
//!
//! The kernel of 2009 lost time where this does not: there, work could wait in the queue while the threads
//! that were to come for it all blocked in what they took first. Here a thread that will block
//! ([`Scheduler::worker_blocks`]) or begins to lead wakes another in its place. One that blocks without
//! announcing it is found by the watchdog ([`Scheduler::wake_if_stalled`]).
//!
//! A thread is started only where one is needed, none is parked and all the others are blocked.
//!
//! **Urgent** work (MOUNT, portmap) has a queue of its own that is emptied first. If every thread is blocked
//! and no more may be started, a **reserve** thread is woken: it does nothing but urgent work, and leads as
//! under the queue policies (it runs no other call) until a worker that comes back relieves it. So a server
//! whose disks all hang still answers these calls.
//!
//! # Invariants, which `tests/models` checks with loom
//!
//! - The event loop is here or with exactly one thread; each piece of work is taken exactly once.
//! - When the event loop is vacant or work is queued, then a thread is waking, or a thread runs that will
//!   come to `next_task` without blocking first, or none is parked and no more may be started; under
//!   `adaptive` no work is queued while a worker that leads waits for events.
//! - A parker is on the stack if and only if its thread is parked or about to park, and was not woken; so a
//!   thread ends or is woken, never both.
//!
//! One lock guards all of it; under it are a few instructions. Threads are unparked and started by the
//! caller after it ([`Wakeup`]).

use super::scheduler_counters::SchedulerCounters;
use crate::settings::WakePolicy;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Thread, current,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Reserve threads of a pool: as many urgent calls may hang on a dead disk before others wait.
pub(crate) const RESERVES_MAX: usize = 4;
/// Age of the oldest work at which the watchdog starts a thread that no other rule would start. Work gets
/// this old on a machine that is merely busy only rarely.
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
    /// The parker of the calling thread, which was started by a [`Wakeup`] and counts as waking.
    pub fn started(role: Role, now_ns: u64) -> Arc<Self> {
        let (woken, woken_ns) = (AtomicBool::new(true), AtomicU64::new(now_ns));
        Arc::new(Self { role, thread: current(), woken, woken_ns })
    }

    /// Whether the thread has been woken and is to come to [`Scheduler::next_task`].
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

/// What the caller has to do after the lock was released.
#[must_use]
#[derive(Debug)]
pub(crate) enum Wakeup {
    /// Nothing.
    Nobody,
    /// Nothing: every thread is blocked, those in reserve too. The first that resumes finds the work.
    Exhausted,
    /// Wake the leader, which runs calls itself and may be waiting for events.
    NotifyLeader,
    /// Unpark this thread.
    Unpark(Arc<Parker>),
    /// Start a thread; it is counted already.
    Start(Role),
}

/// What a thread finds to do.
#[derive(Debug)]
pub(crate) enum Next<C, W> {
    /// Work, and who else is to be woken.
    Work(W, Wakeup),
    /// The event loop: lead. And who else is to be woken.
    Lead(C, Wakeup),
    /// Nothing: park until woken.
    Park {
        /// A reserve thread leads, and is to be relieved.
        relieve: bool,
    },
    /// There are too many threads: end. It is not counted any more.
    Exit,
    /// The pool has stopped: end.
    Retired,
}

/// What becomes of a thread that nobody has woken for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleTimeout {
    /// It is not counted any more and must end.
    Exit,
    /// There would be fewer than the minimum: it stays parked.
    Stay,
    /// It has just been woken.
    Woken,
}

/// Where the event loop is.
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

/// A pool's event loop, its queue and its threads.
#[derive(Debug)]
pub(crate) struct Scheduler<C, W> {
    state: Mutex<State<C, W>>,
    all_exited: Condvar,
    /// How much is queued, to be read without the lock. Written under it.
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
    /// The number of the last service round.
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
    /// Workers that have announced that they block.
    blocked: usize,
    /// Workers that were woken and have not come.
    waking: usize,
    min: usize,
    max: usize,
    /// Work taken from the queue so far.
    taken: u64,
    counters: SchedulerCounters,
}

impl<C, W> State<C, W> {
    /// How many threads may exist: under a queue, the leader is one more.
    fn thread_limit(&self, threads: usize) -> usize {
        threads.saturating_add(usize::from(self.policy != WakePolicy::Adaptive))
    }

    /// Whether every worker but the leader has announced that it blocks.
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

    /// Wakes a thread for what is queued, as the policy says.
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

    /// Wakes a thread for urgent work, whatever the policy.
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

    /// Wakes a thread for the event loop, unless one is waking: a thread that comes looks for it first.
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

    /// Puts a parker on its stack.
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
    /// A vacant event loop, no threads.
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

    /// The leader leaves the event loop here for a service round; the number of the round.
    pub fn begin_round(&self, event_loop: C) -> u64 {
        let mut state = self.lock();
        state.round = state.round.wrapping_add(1);
        state.event_loop = LoopSlot::Serving(event_loop);
        state.round
    }

    /// Takes the event loop back at the end of a round; `None` if the round is not current any more.
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

    /// Whether the leader of a round leads still.
    pub fn is_current_round(&self, round: u64) -> bool {
        let state = self.lock();
        state.round == round && matches!(state.event_loop, LoopSlot::Serving(_))
    }

    /// Leaves the event loop to whoever comes first, as the calling worker will block; it says when it
    /// blocks no more ([`Scheduler::worker_resumes`]).
    pub fn promote_follower(&self, event_loop: C, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.event_loop = LoopSlot::Vacant(event_loop);
        state.reserve_leads = false;
        state.blocked = state.blocked.saturating_add(1);
        state.wake_for_loop(now_ns)
    }

    /// Leaves the event loop to whoever comes first.
    pub fn resign(&self, event_loop: C, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.event_loop = LoopSlot::Vacant(event_loop);
        state.reserve_leads = false;
        state.wake_for_loop(now_ns)
    }

    /// Makes the event loop of a leader that serves vacant if `is_stuck`, which is asked under the lock;
    /// `None` if it was not. The worker finds its round not current any more, and says when its call is over
    /// ([`Scheduler::worker_resumes`]).
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

    /// Puts work into the queue. Under `adaptive` it is what an earlier policy or a reserve thread has left;
    /// if no thread is woken, the leader takes it ([`Scheduler::pop_for_leader`]), and is notified where it may
    /// wait for events already.
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
        let wakeup = state.wake_for_queue(now_ns);
        if matches!(wakeup, Wakeup::Nobody | Wakeup::Exhausted) {
            state.counters.waited = state.counters.waited.saturating_add(1);
            if state.policy == WakePolicy::Adaptive
                && matches!(state.event_loop, LoopSlot::WithLeader)
                && !state.reserve_leads
            {
                return Wakeup::NotifyLeader;
            }
        }
        wakeup
    }

    /// What the calling thread is to do next. It does not block between this and what it gets.
    pub fn next_task(&self, parker: &Arc<Parker>, now_ns: u64) -> Next<C, W> {
        let mut state = self.lock();
        let was_woken = parker.woken.swap(false, Acquire);
        if was_woken {
            if parker.role == Role::Worker {
                state.waking = state.waking.saturating_sub(1);
            }
            let woken_ns = parker.woken_ns.load(Relaxed);
            state.counters.wake_delay.count(now_ns.saturating_sub(woken_ns));
        }
        match std::mem::replace(&mut state.event_loop, LoopSlot::WithLeader) {
            // A reserve thread does not take what a worker is coming for.
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
            let chained =
                was_woken && matches!(state.policy, WakePolicy::Chain | WakePolicy::Adaptive);
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
            return Next::Exit;
        }
        state.push_parked(parker);
        let relieve = state.reserve_leads && parker.role == Role::Worker;
        Next::Park { relieve }
    }

    /// Work from the queue for a leader that runs calls itself, and may be the only thread. What other threads
    /// put there at the same time they take themselves: they come to `next_task`.
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

    /// The calling worker will block in a piece of work.
    pub fn worker_blocks(&self, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.blocked = state.blocked.saturating_add(1);
        state.wake_for_queue(now_ns)
    }

    /// The calling worker blocks no more.
    pub fn worker_resumes(&self) {
        let mut state = self.lock();
        state.blocked = state.blocked.saturating_sub(1);
    }

    /// For the watchdog: wakes a thread if nothing was taken from the queue since `seen` and no thread is
    /// waking.
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
        let wakeup = match state.parked.pop() {
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
        if matches!(wakeup, Wakeup::Unpark(_) | Wakeup::Start(_)) {
            state.counters.unstuck = state.counters.unstuck.saturating_add(1);
        }
        wakeup
    }

    /// Changes who is woken for work. The leader takes what the queue holds already.
    pub fn set_policy(&self, policy: WakePolicy, now_ns: u64) -> Wakeup {
        let mut state = self.lock();
        state.policy = policy;
        state.wake_for_queue(now_ns)
    }

    /// Ends a parked thread if there are more than the minimum.
    pub fn idle_timed_out(&self, parker: &Arc<Parker>) -> IdleTimeout {
        let mut state = self.lock();
        let enough = state.threads <= state.thread_limit(state.min);
        let stack = match parker.role {
            Role::Worker => &mut state.parked,
            Role::Reserve => &mut state.reserves_parked,
        };
        let Some(place) = stack.iter().position(|other| Arc::ptr_eq(other, parker)) else {
            return IdleTimeout::Woken;
        };
        if parker.role == Role::Worker && enough {
            return IdleTimeout::Stay;
        }
        stack.remove(place);
        state.counters.timed_out = state.counters.timed_out.saturating_add(1);
        state.remove_thread(parker.role);
        drop(state);
        self.all_exited.notify_all();
        IdleTimeout::Exit
    }

    /// Counts one more worker, to be started by the caller, if there are fewer than the minimum.
    pub fn add_below_min(&self) -> bool {
        let mut state = self.lock();
        state.threads < state.thread_limit(state.min) && state.start().is_some()
    }

    /// A thread has ended.
    pub fn thread_exited(&self, role: Role) {
        self.lock().remove_thread(role);
        self.all_exited.notify_all();
    }

    /// A thread could not be started; one that parked meanwhile is woken in its place.
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
        let wakeup = parker.map_or(Wakeup::Nobody, |parker| state.mark_woken(parker, now_ns));
        drop(state);
        self.all_exited.notify_all();
        wakeup
    }

    /// Changes the minimum and the maximum; those to be unparked look whether they are too many.
    #[must_use]
    pub fn resize(&self, (min, max): (usize, usize), now_ns: u64) -> Vec<Arc<Parker>> {
        let mut state = self.lock();
        (state.min, state.max) = (min, max);
        wake_all_parked(&mut state, now_ns)
    }

    /// Retires the pool: all threads that are woken, and all that come, are to end.
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

    /// Where the event loop is.
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

/// Wakes every thread that is parked.
fn wake_all_parked<C, W>(state: &mut State<C, W>, now_ns: u64) -> Vec<Arc<Parker>> {
    let mut parkers = std::mem::take(&mut state.parked);
    parkers.append(&mut state.reserves_parked);
    for parker in &parkers {
        let _counted = state.mark_woken(Arc::clone(parker), now_ns);
    }
    parkers
}

//! A pool: an epoll instance, the connections that it watches, and the threads that serve them.
//!
//! The [`EventLoop`] is one box. The thread that holds it is the **leader**: it waits in epoll, receives,
//! and either runs calls to completion and sends (`wake-policy=adaptive`), or puts what is ready into the
//! queue. No other thread touches what is in the box. How it and the queue go from thread to thread is in
//! `scheduler.rs`.
//!
//! # Promotion of a follower
//!
//! For the length of a service round the leader leaves the event loop with the scheduler, under the
//! round's number. A call that may block announces it (`rpc::Blocking::will_block`). Its worker then sends
//! the replies collected so far, takes the event loop back by the round's number, returns the connection
//! to it together with the unserved rest of the receive buffer (copied, for the call's arguments lie in
//! the buffer), and leaves the event loop to a follower. From then on the call is **detached**: its worker
//! finishes it, sends the reply under the connection's transmit lock, and looks for more to do. So the
//! calls that one client pipelines on one connection run side by side, each on a thread of its own.
//!
//! A call that blocks without announcing it is found by the watchdog: [`Pool::call_start_ns`] does not
//! change. The watchdog gives the event loop to a follower (a *rescue*). The worker finds at the end of
//! that call, or when it announces at last that it may block, that its round is not current any more; it
//! goes on as after a promotion, and returns the connection through the inbox.
//!
//! # The queue
//!
//! Under the other policies a worker has a connection without having the event loop. What it can decide
//! alone it does (`conn_return.rs`). What needs the event loop, closing above all, goes through the inbox.
//! A call that may block returns the connection first, so that here too the calls of one connection run
//! side by side.
//!
//! Invariants:
//! - What the inbox holds is looked at by the next leader.
//! - The scheduler's lock, a connection's and the inbox's are never held together.

use crate::conn::connection::Rx;
use crate::conn::pool_handles::PoolHandles;
use crate::pool::event_loop::EventLoop;
use crate::pool::inbox::{Inbox, Message};
use crate::pool::info::Leader;
use crate::pool::postponed::PostponedCall;
use crate::pool::scheduler::{LoopState, Parker, Role, Scheduler, Wakeup};
use crate::pool::shared::Shared;
use crate::settings::WakePolicy;
use crate::udp::received::ReceivedDatagram;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use sys::epoll::Epoll;
use sys::thread::ThreadNumber;
use telemetry::{Counter, WorkerStats};

/// Stack of a worker; only what is touched costs memory.
const STACK_BYTES: usize = 1 << 20;

/// What a worker thread runs: the pool, the thread's role, and when it was started.
pub(crate) type WorkerBody = fn(&Arc<Pool>, Role, u64);

/// How a pool is made.
pub(crate) struct PoolPlan {
    pub index: usize,
    /// The CPUs that its threads are bound to; empty: any.
    pub cpus: Vec<usize>,
    /// The fewest and the most threads.
    pub threads: (usize, usize),
    pub wake_policy: WakePolicy,
    pub worker_body: WorkerBody,
}

/// One pool.
pub(crate) struct Pool {
    pub index: usize,
    /// The CPUs that its threads are bound to; empty: any.
    pub cpus: Vec<usize>,
    pub shared: Arc<Shared>,
    pub epoll: Arc<Epoll>,
    pub inbox: Arc<Inbox>,
    /// What its connections use of it.
    pub handles: Arc<PoolHandles>,
    pub scheduler: Scheduler<Box<EventLoop>, Work>,
    /// Connections assigned to it that have not closed.
    pub connections: AtomicUsize,
    pub counters: PoolCounters,
    /// Written by the leader at every call, read by the watchdog; 0 while no call runs.
    call_start_ns: CachePadded<AtomicU64>,
    /// The leader's thread, a [`ThreadNumber`] as a word. Written when the leader changes.
    leader: AtomicU32,
    /// How often the watchdog has replaced a leader; a worker whose round began before asks the
    /// scheduler whether the round is current.
    rescues: AtomicU64,
    /// The policy is one with a queue: the leader runs no calls.
    queueing: AtomicBool,
    /// The leader has seen the order to stop or to drain. Written before it looks at any connection for
    /// that.
    stopping: AtomicBool,
    worker_body: WorkerBody,
    /// What the watchdog saw at its last look; used by the watchdog alone.
    pub watched: Mutex<WatchdogSample>,
}

/// See [`Pool::watched`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WatchdogSample {
    /// Calls that had begun.
    pub calls: u64,
    /// What had been taken from the queue.
    pub taken: u64,
}

/// Counters of a pool. The first two are written by the leader alone while there is no queue.
#[derive(Default)]
pub(crate) struct PoolCounters {
    pub calls: CachePadded<AtomicU64>,
    pub arrived: CachePadded<AtomicU64>,
    pub promotions: AtomicU64,
    pub promotions_failed: AtomicU64,
    pub wakeups: AtomicU64,
}

/// What waits in the queue.
pub(crate) enum Work {
    /// A connection that is ready, or has a tail.
    Conn(Box<Rx>),
    /// A datagram that the leader has received.
    Datagram(ReceivedDatagram),
    /// A call that was postponed and may go on.
    Resumed(Box<PostponedCall>),
}

impl Pool {
    /// A pool without a leader and without threads.
    ///
    /// # Errors
    /// No descriptors or no memory for the epoll and its event.
    pub fn new(plan: PoolPlan, shared: Arc<Shared>) -> io::Result<Self> {
        let epoll = Arc::new(Epoll::new()?);
        let inbox = Arc::new(Inbox::new(&epoll)?);
        shared.datagram_sockets.add_pool(plan.index, &epoll)?;
        let handles = PoolHandles {
            epoll: Arc::clone(&epoll),
            clock: shared.clock,
            queued: Arc::clone(&shared.queued),
            in_flight_max: shared.limits.in_flight_max,
            inbox: Arc::<Inbox>::clone(&inbox),
        };
        let event_loop = Box::new(EventLoop::new());
        Ok(Self {
            index: plan.index,
            cpus: plan.cpus,
            shared,
            epoll,
            inbox,
            handles: Arc::new(handles),
            scheduler: Scheduler::new(event_loop, plan.threads, plan.wake_policy),
            connections: AtomicUsize::new(0),
            counters: PoolCounters::default(),
            call_start_ns: CachePadded::default(),
            leader: AtomicU32::new(0),
            rescues: AtomicU64::new(0),
            queueing: AtomicBool::new(plan.wake_policy != WakePolicy::Adaptive),
            stopping: AtomicBool::new(false),
            worker_body: plan.worker_body,
            watched: Mutex::default(),
        })
    }

    /// Leaves the event loop with the scheduler for a service round; the round's number.
    pub fn begin_round(&self, event_loop: Box<EventLoop>) -> u64 {
        let round = self.scheduler.begin_round(event_loop);
        self.shared.watchdog.wake();
        round
    }

    /// Takes the event loop back at the end of a round; `None` if the worker does not lead any more.
    pub fn end_round(&self, round: u64) -> Option<Box<EventLoop>> {
        let event_loop = self.scheduler.end_round(round);
        if event_loop.is_some() {
            self.call_start_ns.store(0, Relaxed);
        }
        event_loop
    }

    /// Leaves the event loop to a follower, as the calling worker will block.
    pub fn promote_follower(self: &Arc<Self>, event_loop: Box<EventLoop>, stats: &WorkerStats) {
        self.counters.promotions.fetch_add(1, Relaxed);
        stats.add(Counter::Promotions, 1);
        let wakeup = self.scheduler.promote_follower(event_loop, self.shared.clock.now_ns());
        let is_reserve = |parker: &Arc<Parker>| parker.role() == Role::Reserve;
        if matches!(wakeup, Wakeup::Exhausted | Wakeup::Start(Role::Reserve))
            || matches!(&wakeup, Wakeup::Unpark(parker) if is_reserve(parker))
        {
            // Not lost: the event loop waits for the first worker whose call ends.
            self.counters.promotions_failed.fetch_add(1, Relaxed);
            stats.add(Counter::PromotionsFailed, 1);
        }
        self.wake(wakeup, stats);
    }

    /// Replaces a leader whose call began at `call_start_ns` and still runs; whether it did.
    pub fn rescue(self: &Arc<Self>, call_start_ns: u64, stats: &WorkerStats) -> bool {
        let is_stuck = || {
            let stuck = self.call_start_ns.load(Relaxed) == call_start_ns;
            if stuck {
                self.call_start_ns.store(0, Relaxed);
                self.rescues.fetch_add(1, Relaxed);
            }
            stuck
        };
        let Some(wakeup) = self.scheduler.rescue(self.shared.clock.now_ns(), is_stuck) else {
            return false;
        };
        stats.add(Counter::WatchdogRescues, 1);
        self.wake(wakeup, stats);
        true
    }

    /// The calling worker, which does not lead, will block over a piece of work from the queue.
    pub fn worker_blocks(self: &Arc<Self>, stats: &WorkerStats) {
        let wakeup = self.scheduler.worker_blocks(self.shared.clock.now_ns());
        self.wake(wakeup, stats);
    }

    /// Queues work and wakes whom the policy says.
    pub fn enqueue(self: &Arc<Self>, work: Work, urgent: bool, stats: &WorkerStats) {
        let wakeup = self.scheduler.enqueue(work, urgent, self.shared.clock.now_ns());
        self.wake(wakeup, stats);
        self.shared.watchdog.wake();
    }

    /// Retires the pool, if nothing is in its inbox: all threads are to end.
    pub fn retire(&self) -> bool {
        let closed = self.inbox.close();
        if closed {
            unpark(&self.scheduler.retire(self.shared.clock.now_ns()));
        }
        closed
    }

    /// Whether it has retired and its last thread has ended.
    pub fn has_ended(&self) -> bool {
        let count = self.scheduler.count();
        self.scheduler.loop_state() == LoopState::Retired
            && count.threads == 0
            && count.reserves == 0
    }

    /// Changes the fewest and the most threads.
    pub fn resize(&self, threads: (usize, usize)) {
        // Those that are parked look again whether there are too many of them.
        unpark(&self.scheduler.resize(threads, self.shared.clock.now_ns()));
    }

    /// Changes who is woken for a call.
    ///
    /// # Errors
    /// As [`Pool::start_min_threads`]: under a queue there is one thread more, which fills it.
    pub fn set_policy(self: &Arc<Self>, policy: WakePolicy, stats: &WorkerStats) -> io::Result<()> {
        let wakeup = self.scheduler.set_policy(policy, self.shared.clock.now_ns());
        self.queueing.store(policy != WakePolicy::Adaptive, Relaxed);
        self.wake(wakeup, stats);
        self.post(Message::PolicyChanged);
        self.start_min_threads()
    }

    /// Whether the leader is to put what is ready into the queue.
    pub fn is_queueing(&self) -> bool {
        self.queueing.load(Relaxed)
    }

    /// The leader has seen the order to stop or to drain.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Whether [`Pool::set_stopping`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// What the leader does.
    pub fn leader(&self) -> Leader {
        match self.scheduler.loop_state() {
            LoopState::WithLeader if self.is_queueing() => Leader::Queueing,
            LoopState::WithLeader => Leader::Waiting,
            LoopState::Serving => Leader::Serving,
            LoopState::Vacant => Leader::Vacant,
            LoopState::Retired => Leader::Retired,
        }
    }

    /// Tells the watchdog that the leader begins a call.
    pub fn mark_call_start(&self, now_ns: u64) {
        self.call_start_ns.store(now_ns, Relaxed);
    }

    /// When the leader's call began; 0 if none runs.
    pub fn call_start_ns(&self) -> u64 {
        self.call_start_ns.load(Relaxed)
    }

    /// The calling thread leads from now on.
    pub fn set_leader_thread(&self, thread: ThreadNumber) {
        self.leader.store(thread.word(), Relaxed);
    }

    /// Whether the leader sleeps; where that cannot be told, it is taken for asleep.
    pub fn leader_is_asleep(&self) -> bool {
        let leader = ThreadNumber::of_word(self.leader.load(Relaxed));
        leader.and_then(ThreadNumber::sleeps).unwrap_or(true)
    }

    /// Whether a call is running or waits, as seen after everything that the scheduler's lock has
    /// ordered.
    pub fn is_serving(&self) -> bool {
        self.scheduler.loop_state() == LoopState::Serving || !self.scheduler.is_empty()
    }

    /// How often the watchdog has replaced a leader.
    pub fn rescues(&self) -> u64 {
        self.rescues.load(Relaxed)
    }

    /// Leaves something for the leader and wakes it. Datagrams for a pool that has retired go to
    /// another; other messages have no meaning any more.
    pub fn post(&self, message: Message) {
        if let Err(Message::Datagrams(datagrams)) = self.inbox.post(message) {
            self.shared.other_pools.answer(datagrams);
        }
    }

    /// Wakes or starts whom the scheduler says.
    pub fn wake(self: &Arc<Self>, wakeup: Wakeup, stats: &WorkerStats) {
        match wakeup {
            Wakeup::Nobody | Wakeup::Exhausted => {}
            Wakeup::NotifyLeader => self.inbox.wake_leader(),
            Wakeup::Unpark(parker) => {
                self.counters.wakeups.fetch_add(1, Relaxed);
                stats.add(Counter::Wakeups, 1);
                parker.unpark();
            }
            // If it cannot be started, the first worker whose call ends does what is to be done.
            Wakeup::Start(role) => self.start_thread_unless_short(role, stats),
        }
    }

    fn start_thread_unless_short(self: &Arc<Self>, role: Role, stats: &WorkerStats) {
        let (clock, shortage) = (&self.shared.clock, &self.shared.thread_shortage);
        if shortage.is_recent(clock.now_ms()) {
            stats.add(Counter::ThreadsNotStarted, 1);
            return self.thread_not_started(role);
        }
        if let Err(error) = self.start_thread(role) {
            stats.add(Counter::ThreadsNotStarted, 1);
            if shortage.record(clock.now_ms()) {
                tracing::warn!(
                    pool = self.index, %error,
                    "cannot start a thread: calls wait for those that there are; check the limits on processes"
                );
            }
        }
    }

    /// Starts a thread that the scheduler has counted.
    fn start_thread(self: &Arc<Self>, role: Role) -> io::Result<()> {
        let name = match role {
            Role::Worker => format!("svc-{}", self.index),
            Role::Reserve => format!("reserve-{}", self.index),
        };
        let now_ns = self.shared.clock.now_ns();
        let (pool, body) = (Arc::clone(self), self.worker_body);
        let builder = Builder::new().name(name).stack_size(STACK_BYTES);
        let started = builder.spawn(move || body(&pool, role, now_ns)).map(drop);
        started.inspect_err(|_| self.thread_not_started(role))
    }

    fn thread_not_started(&self, role: Role) {
        let now_ns = self.shared.clock.now_ns();
        if let Wakeup::Unpark(parker) = self.scheduler.thread_not_started(role, now_ns) {
            parker.unpark();
        }
    }

    /// Starts threads up to the fewest.
    ///
    /// # Errors
    /// As std::thread::Builder::spawn: too many threads, or no memory.
    pub fn start_min_threads(self: &Arc<Self>) -> io::Result<()> {
        while self.scheduler.add_below_min() {
            self.start_thread(Role::Worker)?;
        }
        Ok(())
    }
}

fn unpark(parkers: &[Arc<Parker>]) {
    for parker in parkers {
        parker.unpark();
    }
}

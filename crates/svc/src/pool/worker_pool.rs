//! A pool, and how its core goes from thread to thread.
//!
//! The [`EventLoop`] is one box. Whoever holds it leads: waits in epoll, receives, and either runs
//! calls to completion and sends (`wake-policy=adaptive`), or puts what is ready into the queue.
//! Nobody else touches what is in it. `handover.rs` tells how it and the queue go from thread to
//! thread.
//!
//! # Promotion
//!
//! While it runs calls, the leader has left the core under a lease. A call that may sleep says so
//! (`Blocking::will_block`). Its worker then sends the replies of the batch so far, takes the
//! core back with its lease, gives the connection back to it together with the unread rest of the
//! receive buffer (copied, for the call's arguments lie in the buffer), leaves the core free and
//! calls a follower. From then on it is **detached**: it finishes its own call, sends that reply
//! under the connection's transmit lock, and looks for more to do: it leads if the core is free
//! still, else it parks. So the calls that one client pipelines on one connection run side by
//! side, each on a thread of its own.
//!
//! A call that sleeps without having said so is found by the watchdog: the pool's beat stands
//! still. It makes the core free and calls a follower. The worker finds at the end of that call,
//! or when it says at last that it may sleep, that its lease is void; it goes on as detached, and
//! gives the connection and the rest back through the inbox.
//!
//! # The queue
//!
//! Under the other policies a worker has a connection without having the core. What it can decide
//! alone it does ([`Pool::give_back`]): that the connection is home again, or queued again. What
//! needs the table, closing above all, goes through the inbox. A call that may sleep gives the
//! connection back first, so that here too the calls of one connection run side by side.
//!
//! Invariants:
//! - What the inbox holds is looked at by the next leader.
//! - The hand-over's lock, a connection's and the inbox's are never held together.

use crate::config::WakePolicy;
use crate::conn::connection::{Conn, Rx};
use crate::conn::exclusive_slot::Put;
use crate::conn::transmit::ConnAction;
use crate::pool::event_loop::{EventLoop, TOKEN_INBOX};
use crate::pool::scheduler::{LoopState, Parker, Role, Scheduler, Wakeup};
use crate::server::lifecycle::Shared;
use crate::service::datagrams::ReceivedDatagram;
use crate::stats::Leader;
use crate::sync::lock;
use crate::worker::thread;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use sys::epoll::{Epoll, Interest};
use sys::event::Event;
use sys::thread::ThreadNumber;
use telemetry::{Counter, WorkerStats};

/// One pool.
pub(crate) struct Pool {
    pub index: usize,
    /// The CPUs that its threads are bound to; empty: any.
    pub cpus: Vec<usize>,
    pub shared: Arc<Shared>,
    pub epoll: Arc<Epoll>,
    pub scheduler: Scheduler<Box<EventLoop>, Work>,
    /// Connections handed to it that have not closed.
    pub connections: AtomicUsize,
    pub seen: PoolCounters,
    /// Written by the leader at every call, read by the watchdog; 0 while no call runs.
    call_start_ns: CachePadded<AtomicU64>,
    /// The leader's thread, a [`ThreadNumber`] as a word. Written when the core changes hands.
    leader: AtomicU32,
    /// How often the watchdog has stepped in; a worker whose turn began before looks closer.
    rescues: AtomicU64,
    /// The policy is one with a queue: the leader runs no calls.
    queueing: AtomicBool,
    /// The leader has seen the order to stop, or to leave. Written before it looks at any
    /// connection for that.
    stopping: AtomicBool,
    inbox: Mutex<Inbox>,
    event: Event,
    /// What the watchdog saw at its last look; its own.
    pub watched: Mutex<WatchdogSample>,
}

/// What others leave for the leader.
#[derive(Default)]
struct Inbox {
    mail: Vec<Message>,
    /// The pool has retired, and nobody looks any more.
    closed: bool,
}

/// See [`Pool::watched`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WatchdogSample {
    /// Calls that had begun.
    pub calls: u64,
    /// What had been taken from the queue.
    pub taken: u64,
}

/// What the statistics know of a pool. The first is written by the leader alone while there is
/// no queue.
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
}

/// What others leave for the leader.
pub(crate) enum Message {
    /// A new connection.
    Open(Arc<Conn>),
    /// A connection from a pool that is being left.
    Moved(Box<Rx>),
    /// Leave the pool: its connections go to others.
    Leave,
    /// A connection comes back from a worker whose lease was void.
    Back(Box<Rx>),
    /// A detached call of this connection has ended.
    Ended(u64),
    /// The worker that served this connection panicked.
    Panicked(u64),
    /// A worker is back; the reserve thread need not lead any longer.
    Relieve,
    /// The policy has changed.
    Policy,
    /// Datagrams come back from a worker whose lease was void.
    Datagrams(Vec<ReceivedDatagram>),
    /// Read what has arrived, answer it, close.
    Stop,
    /// Close at once.
    Abort,
}

impl Pool {
    /// A pool whose core is free.
    ///
    /// # Errors
    /// No descriptors or no memory for the epoll and its event.
    pub fn new(
        index: usize,
        cpus: Vec<usize>,
        threads: (usize, usize),
        policy: WakePolicy,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let (epoll, event) = (Arc::new(Epoll::new()?), Event::new()?);
        epoll.add(&event, TOKEN_INBOX, Interest::READABLE)?;
        shared.ports.add_pool(index, &epoll)?;
        Ok(Self {
            index,
            cpus,
            shared,
            epoll,
            scheduler: Scheduler::new(Box::new(EventLoop::new()), threads, policy),
            connections: AtomicUsize::new(0),
            seen: PoolCounters::default(),
            call_start_ns: CachePadded::default(),
            leader: AtomicU32::new(0),
            rescues: AtomicU64::new(0),
            queueing: AtomicBool::new(policy != WakePolicy::Adaptive),
            stopping: AtomicBool::new(false),
            inbox: Mutex::default(),
            event,
            watched: Mutex::default(),
        })
    }

    /// Leaves the core under a lease for a turn; the lease to come back with.
    pub fn begin_round(&self, event_loop: Box<EventLoop>) -> u64 {
        let round = self.scheduler.begin_round(event_loop);
        self.shared.watchdog_waker.wake();
        round
    }

    /// Takes the core back at the end of a turn; `None` if the lease is void.
    pub fn end_round(&self, round: u64) -> Option<Box<EventLoop>> {
        let event_loop = self.scheduler.end_round(round);
        if event_loop.is_some() {
            self.call_start_ns.store(0, Relaxed);
        }
        event_loop
    }

    /// Leaves the core to whoever comes first, and calls a follower.
    pub fn promote_follower(self: &Arc<Self>, event_loop: Box<EventLoop>, stats: &WorkerStats) {
        self.seen.promotions.fetch_add(1, Relaxed);
        stats.add(Counter::Promotions, 1);
        let call = self.scheduler.promote_follower(event_loop, self.shared.clock.now_ns());
        let is_reserve = |parker: &Arc<Parker>| parker.role() == Role::Reserve;
        if matches!(call, Wakeup::Exhausted | Wakeup::Start(Role::Reserve))
            || matches!(&call, Wakeup::Unpark(parker) if is_reserve(parker))
        {
            // Not lost: the core waits for the first worker whose call ends.
            self.seen.promotions_failed.fetch_add(1, Relaxed);
            stats.add(Counter::PromotionsFailed, 1);
        }
        self.wake(call, stats);
    }

    /// Frees the core of a leader whose beat has stood still at `beat`; whether it does still.
    pub fn rescue(self: &Arc<Self>, call_start_ns: u64, stats: &WorkerStats) -> bool {
        let is_stuck = || {
            let stuck = self.call_start_ns.load(Relaxed) == call_start_ns;
            if stuck {
                self.call_start_ns.store(0, Relaxed);
                self.rescues.fetch_add(1, Relaxed);
            }
            stuck
        };
        let Some(call) = self.scheduler.rescue(self.shared.clock.now_ns(), is_stuck) else {
            return false;
        };
        stats.add(Counter::WatchdogRescues, 1);
        self.wake(call, stats);
        true
    }

    /// Queues work and calls whom the policy says.
    pub fn enqueue(self: &Arc<Self>, work: Work, urgent: bool, stats: &WorkerStats) {
        let call = self.scheduler.enqueue(work, urgent, self.shared.clock.now_ns());
        self.wake(call, stats);
        self.shared.watchdog_waker.wake();
    }

    /// A worker without the core gives a connection back: home, to the queue, or to the leader.
    pub fn give_back(self: &Arc<Self>, mut rx: Box<Rx>, stats: &WorkerStats) {
        if !rx.charge(&self.shared.partial) {
            stats.add(Counter::BudgetClosed, 1);
            rx.broken = true;
        }
        if rx.is_charged() {
            self.shared.watchdog_waker.wake_for_memory();
        }
        loop {
            if rx.broken || self.stopping.load(Relaxed) {
                return self.post(Message::Back(rx));
            }
            // while replies wait it is not read, whatever there is to be read
            let replies_wait = rx.conn.seen.queued.load(Relaxed) > 0;
            rx.needs_rearm |= (rx.more || rx.read_until_empty) && replies_wait;
            if rx.needs_rearm {
                match rx.rearm(self) {
                    ConnAction::Close => return self.post(Message::Back(rx)),
                    ConnAction::Serve => return self.enqueue(Work::Conn(rx), false, stats),
                    ConnAction::Read => rx.needs_rearm = false,
                    ConnAction::Wait => {}
                }
            } else if rx.more || rx.read_until_empty {
                return self.enqueue(Work::Conn(rx), false, stats);
            }
            let conn = Arc::clone(&rx.conn);
            match conn.home.put(rx) {
                Put::Done => return,
                Put::Closed(mut rx) => return rx.discharge(&self.shared.partial),
                Put::Recheck(back) => rx = back,
            }
            // What it was wanted for may be room to send as well as something to read.
            rx.read_until_empty = true;
            if rx.needs_rearm || conn.has_queued_replies() {
                rx.broken |= conn.flush_waiting(self, stats) == crate::conn::transmit::Sent::Broken;
            }
            rx.needs_rearm |= conn.is_read_paused();
        }
    }

    /// The pool is done, if nothing is in its inbox: all threads are to end.
    pub fn retire(&self) -> bool {
        let mut inbox = lock(&self.inbox);
        inbox.closed = inbox.mail.is_empty();
        let closed = inbox.closed;
        drop(inbox);
        if closed {
            unpark(&self.scheduler.retire(self.shared.clock.now_ns()));
        }
        closed
    }

    /// Whether it has retired and its last thread has ended.
    pub fn is_gone(&self) -> bool {
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
    /// As [`Pool::fill`]: under a queue there is one thread more, which fills it.
    pub fn set_policy(self: &Arc<Self>, policy: WakePolicy, stats: &WorkerStats) -> io::Result<()> {
        let call = self.scheduler.set_policy(policy, self.shared.clock.now_ns());
        self.queueing.store(policy != WakePolicy::Adaptive, Relaxed);
        self.wake(call, stats);
        self.post(Message::Policy);
        self.fill()
    }

    /// Whether the leader is to put what is ready into the queue.
    pub fn is_queueing(&self) -> bool {
        self.queueing.load(Relaxed)
    }

    /// The leader has seen the order to stop.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Relaxed);
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

    /// Tells the watchdog that a call begins.
    pub fn mark_call_start(&self, call_start_ns: u64) {
        self.call_start_ns.store(call_start_ns, Relaxed);
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

    /// What the watchdog sees; 0 if no call runs.
    pub fn call_start_ns(&self) -> u64 {
        self.call_start_ns.load(Relaxed)
    }

    /// Whether a call is running or waits, as seen after everything that the hand-over's lock has
    /// ordered.
    pub fn is_serving(&self) -> bool {
        self.scheduler.loop_state() == LoopState::Serving || !self.scheduler.is_empty()
    }

    /// How often the watchdog has stepped in.
    pub fn rescues(&self) -> u64 {
        self.rescues.load(Relaxed)
    }

    /// Leaves something for the leader and wakes it. Datagrams for a pool that has retired go to
    /// another; what else is for it has lost its meaning.
    pub fn post(&self, mail: Message) {
        if let Err(Message::Datagrams(received)) = self.try_post(mail) {
            self.shared.pools.post(Message::Datagrams(received));
        }
    }

    /// Leaves something for the leader and wakes it.
    ///
    /// # Errors
    /// The pool has retired: the mail comes back.
    pub fn try_post(&self, mail: Message) -> Result<(), Message> {
        let mut inbox = lock(&self.inbox);
        if inbox.closed {
            return Err(mail);
        }
        inbox.mail.push(mail);
        drop(inbox);
        self.event.raise();
        Ok(())
    }

    /// Takes what was left, in the order in which it came.
    pub fn mail(&self) -> Vec<Message> {
        self.event.lower();
        std::mem::take(&mut lock(&self.inbox).mail)
    }

    /// Wakes or starts whom the hand-over says.
    pub fn wake(self: &Arc<Self>, wakeup: Wakeup, stats: &WorkerStats) {
        match wakeup {
            Wakeup::Nobody | Wakeup::Exhausted => {}
            Wakeup::NotifyLeader => self.event.raise(),
            Wakeup::Unpark(parker) => {
                self.seen.wakeups.fetch_add(1, Relaxed);
                stats.add(Counter::Wakeups, 1);
                parker.unpark();
            }
            // If it cannot be started, the first worker whose call ends does what is to be done.
            Wakeup::Start(role) => self.start(role, stats),
        }
    }

    /// Starts a thread, unless none is to be had.
    fn start(self: &Arc<Self>, role: Role, stats: &WorkerStats) {
        let (clock, shortage) = (&self.shared.clock, &self.shared.shortage);
        if shortage.lasts(clock.now_ms()) {
            stats.add(Counter::ThreadsNotStarted, 1);
            if let Wakeup::Unpark(parker) = self.scheduler.thread_not_started(role, clock.now_ns())
            {
                parker.unpark();
            }
            return;
        }
        if let Err(error) = thread::start(self, role) {
            stats.add(Counter::ThreadsNotStarted, 1);
            if shortage.is_seen(clock.now_ms()) {
                tracing::warn!(
                    pool = self.index, %error,
                    "cannot start a thread: calls wait for those that there are; check the limits on processes"
                );
            }
        }
    }

    /// Starts threads up to the fewest.
    ///
    /// # Errors
    /// As std::thread::Builder::spawn: too many threads, or no memory.
    pub fn fill(self: &Arc<Self>) -> io::Result<()> {
        while self.scheduler.add_below_min() {
            thread::start(self, Role::Worker)?;
        }
        Ok(())
    }
}

fn unpark(seats: &[Arc<Parker>]) {
    for parker in seats {
        parker.unpark();
    }
}

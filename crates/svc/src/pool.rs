//! A pool, and how its core goes from thread to thread.
//!
//! # The promotion protocol
//!
//! The [`Core`] is one box. Whoever holds it leads: waits in epoll, receives, runs calls to
//! completion, sends. Nobody else touches what is in it. The pool has a **slot** for it, and the
//! core is in one of these states:
//!
//! - *taken*: the leader holds it itself, while it waits, receives and tidies up;
//! - *lent*: the leader runs calls, and has left the core in the slot under a lease, a number of
//!   that one turn. It comes back for the core with the lease when the turn ends;
//! - *free*: nobody leads. The first worker that looks takes it;
//! - *retired*: the pool has stopped.
//!
//! A call that may sleep says so (`MaySleep::about_to_sleep`). Its worker then sends the replies
//! of the batch so far, takes the core back with its lease, gives the connection back to it
//! together with the unread rest of the receive buffer (copied, for the call's arguments lie in
//! the buffer), leaves the core free and calls a follower. From then on it is **detached**: it
//! finishes its own call, sends that reply under the connection's transmit lock, and looks at the
//! slot: it leads if the core is free still, else it parks. So the calls that one client
//! pipelines on one connection run side by side, each on a thread of its own.
//!
//! A call that sleeps without having said so is found by the watchdog: the pool's beat stands
//! still. It turns *lent* into *free* and calls a follower. The worker finds at the end of that
//! call, or when it says at last that it may sleep, that its lease is void; it goes on as
//! detached, and gives the connection and the rest back through the inbox.
//!
//! Invariants:
//! - The core is in the slot, or with exactly one worker. A lease fits one turn, and only once.
//! - When the core is free, a follower is on its way to it, or every thread there may be is busy
//!   with a call and looks at the slot before it parks. (A worker sits down *first* and looks
//!   again *then*; the core is left *first* and a follower called *then*.)
//! - The slot's lock, the crew's and the inbox's are never held together.

use crate::conn::{Conn, Rx};
use crate::core::{Core, TOKEN_INBOX};
use crate::idle::{Called, Crew};
use crate::lock;
use crate::server::Shared;
use crate::stats::Leader;
use crate::udp::Held;
use crate::worker;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use sys::epoll::{Epoll, Interest};
use sys::event::Event;
use telemetry::{Counter, WorkerStats};

/// One pool.
pub(crate) struct Pool {
    pub index: usize,
    /// The CPUs that its threads are bound to; empty: any.
    pub cpus: Vec<usize>,
    pub shared: Arc<Shared>,
    pub epoll: Arc<Epoll>,
    pub crew: Crew,
    /// Connections handed to it that have not closed.
    pub connections: AtomicUsize,
    pub seen: Seen,
    /// Written by the leader at every call, read by the watchdog; 0 while no call runs.
    beat: CachePadded<AtomicU64>,
    /// How often the watchdog has stepped in; a worker whose turn began before looks closer.
    rescues: AtomicU64,
    slot: Mutex<Slot>,
    inbox: Mutex<Vec<Mail>>,
    event: Event,
}

/// What the statistics know of a pool. The first is written by the leader alone.
#[derive(Default)]
pub(crate) struct Seen {
    pub calls: CachePadded<AtomicU64>,
    pub promotions: AtomicU64,
    pub promotions_failed: AtomicU64,
    pub wakeups: AtomicU64,
}

struct Slot {
    core: State,
    /// The last lease given out.
    lease: u64,
}

enum State {
    Taken,
    Lent(Box<Core>),
    Free(Box<Core>),
    Retired,
}

/// What others leave for the leader.
pub(crate) enum Mail {
    /// A new connection.
    Open(Arc<Conn>),
    /// A connection comes back from a worker whose lease was void.
    Back(Box<Rx>),
    /// A detached call of this connection has ended.
    Ended(u64),
    /// Datagrams come back from a worker whose lease was void.
    Datagrams(Vec<Held>),
    /// Read what has arrived, answer it, close.
    Stop,
    /// Close at once.
    Abort,
}

/// What a worker finds in the slot.
pub(crate) enum Look {
    /// The core: lead.
    Lead(Box<Core>),
    /// Somebody else leads.
    Nothing,
    /// The pool has stopped.
    Retired,
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
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let (epoll, event) = (Arc::new(Epoll::new()?), Event::new()?);
        epoll.add(&event, TOKEN_INBOX, Interest::READABLE)?;
        shared.ports.enter(index, &epoll)?;
        Ok(Self {
            index,
            cpus,
            shared,
            epoll,
            crew: Crew::new(threads),
            connections: AtomicUsize::new(0),
            seen: Seen::default(),
            beat: CachePadded::default(),
            rescues: AtomicU64::new(0),
            slot: Mutex::new(Slot { core: State::Free(Box::new(Core::new())), lease: 0 }),
            inbox: Mutex::new(Vec::new()),
            event,
        })
    }

    /// Leaves the core in the slot for a turn; the lease to come back with.
    pub fn lend(&self, core: Box<Core>) -> u64 {
        let lease = {
            let mut slot = lock(&self.slot);
            slot.lease = slot.lease.wrapping_add(1);
            slot.core = State::Lent(core);
            slot.lease
        };
        self.shared.alarm.wake();
        lease
    }

    /// Takes the core back at the end of a turn; `None` if the lease is void.
    pub fn reclaim(&self, lease: u64) -> Option<Box<Core>> {
        let mut slot = lock(&self.slot);
        if slot.lease != lease {
            return None;
        }
        match std::mem::replace(&mut slot.core, State::Taken) {
            State::Lent(core) => {
                self.beat.store(0, Relaxed);
                Some(core)
            }
            other @ (State::Taken | State::Free(_) | State::Retired) => {
                slot.core = other;
                None
            }
        }
    }

    /// Whether a turn's lease still holds.
    pub fn holds(&self, lease: u64) -> bool {
        let slot = lock(&self.slot);
        slot.lease == lease && matches!(slot.core, State::Lent(_))
    }

    /// Takes the core if it is free.
    pub fn look(&self) -> Look {
        let mut slot = lock(&self.slot);
        match std::mem::replace(&mut slot.core, State::Taken) {
            State::Free(core) => Look::Lead(core),
            State::Retired => {
                slot.core = State::Retired;
                Look::Retired
            }
            other @ (State::Taken | State::Lent(_)) => {
                slot.core = other;
                Look::Nothing
            }
        }
    }

    /// Whether a worker that has just sat down should look at the slot again.
    pub fn is_waiting_for_a_leader(&self) -> bool {
        matches!(lock(&self.slot).core, State::Free(_) | State::Retired)
    }

    /// Leaves the core to whoever comes first, and calls a follower.
    pub fn hand_over(self: &Arc<Self>, core: Box<Core>, stats: &WorkerStats) {
        lock(&self.slot).core = State::Free(core);
        self.seen.promotions.fetch_add(1, Relaxed);
        stats.add(Counter::Promotions, 1);
        self.call_follower(stats);
    }

    /// Frees the core of a leader whose beat has stood still at `beat`.
    pub fn rescue(self: &Arc<Self>, beat: u64, stats: &WorkerStats) {
        {
            let mut slot = lock(&self.slot);
            if self.beat.load(Relaxed) != beat {
                return;
            }
            match std::mem::replace(&mut slot.core, State::Taken) {
                State::Lent(core) => slot.core = State::Free(core),
                other @ (State::Taken | State::Free(_) | State::Retired) => {
                    slot.core = other;
                    return;
                }
            }
            self.beat.store(0, Relaxed);
            self.rescues.fetch_add(1, Relaxed);
        }
        stats.add(Counter::WatchdogRescues, 1);
        self.call_follower(stats);
    }

    /// The pool is done: all threads are to end.
    pub fn retire(&self) {
        lock(&self.slot).core = State::Retired;
        self.crew.call_all();
    }

    /// What the slot says about the leader.
    pub fn leader(&self) -> Leader {
        match lock(&self.slot).core {
            State::Taken => Leader::Waiting,
            State::Lent(_) => Leader::Serving,
            State::Free(_) => Leader::Vacant,
            State::Retired => Leader::Retired,
        }
    }

    /// Tells the watchdog that a call begins.
    pub fn beat(&self, beat: u64) {
        self.beat.store(beat, Relaxed);
    }

    /// What the watchdog sees; 0 if no call runs.
    pub fn last_beat(&self) -> u64 {
        self.beat.load(Relaxed)
    }

    /// Whether a call is running, as seen after everything that the slot's lock has ordered.
    pub fn is_serving(&self) -> bool {
        matches!(lock(&self.slot).core, State::Lent(_))
    }

    /// How often the watchdog has stepped in.
    pub fn rescues(&self) -> u64 {
        self.rescues.load(Relaxed)
    }

    /// Leaves something for the leader and wakes it.
    pub fn post(&self, mail: Mail) {
        lock(&self.inbox).push(mail);
        self.event.raise();
    }

    /// Takes what was left, in the order in which it came.
    pub fn mail(&self) -> Vec<Mail> {
        self.event.lower();
        std::mem::take(&mut lock(&self.inbox))
    }

    /// Wakes the follower that parked last, or starts one.
    fn call_follower(self: &Arc<Self>, stats: &WorkerStats) {
        match self.crew.call() {
            Called::Woken => {
                self.seen.wakeups.fetch_add(1, Relaxed);
                stats.add(Counter::Wakeups, 1);
            }
            Called::MayStart if worker::start(self).is_ok() => {}
            Called::MayStart | Called::Nobody => {
                // Not lost: the core waits for the first worker whose call ends.
                self.seen.promotions_failed.fetch_add(1, Relaxed);
                stats.add(Counter::PromotionsFailed, 1);
            }
        }
    }

    /// Starts threads up to the fewest.
    ///
    /// # Errors
    /// As std::thread::Builder::spawn: too many threads, or no memory.
    pub fn fill(self: &Arc<Self>) -> io::Result<()> {
        while self.crew.below_min() {
            worker::start(self)?;
        }
        Ok(())
    }
}

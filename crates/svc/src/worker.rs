//! A worker thread: leads its pool while it holds the core; else it takes work from the queue, and
//! parks when there is none.
//!
//! A worker owns its receive buffer and its reply buffers; connections own none. It keeps them
//! from turn to turn and lets them go when nobody has called it for some seconds.

use crate::conn::Rx;
use crate::core::{Core, TOKEN_INBOX, TOKEN_SOCKET};
use crate::handover::{Call, Next, Role, Seat, Spare};
use crate::home::Put;
use crate::limits::{IDLE_THREAD_AGE, RECEIVE_BYTES};
use crate::pool::{Mail, Pool, Work};
use crate::roster::Parcel;
use crate::stream::PipeState;
use crate::transmit::{Fate, Sent};
use crate::udp::{Held, Outlet, Reply};
use crate::urgent::{goes_first, is_urgent, looks_urgent};
use crate::{stream, udp};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sys::epoll::Ready;
use sys::mmsg::Batch;
use sys::thread::ThreadNumber;
use telemetry::{Counter, WorkerStats};
use xdr::Writer;

/// Stack of a worker; only what is touched costs memory.
const STACK_BYTES: usize = 1 << 20;
/// How long a leader rests after the kernel refused to tell it of events.
const AFTER_FAILED_WAIT: Duration = Duration::from_millis(10);

/// Between two looks at connections that part.
const PARTING_TICK: Duration = Duration::from_millis(2);

/// One worker thread.
pub(crate) struct Worker {
    pub pool: Arc<Pool>,
    pub stats: WorkerStats,
    pub kit: Kit,
    /// The core, while this worker leads.
    pub core: Option<Box<Core>>,
    /// The turn under way.
    pub lent: Option<Lent>,
    /// A worker has come for the core that this reserve thread has.
    relieved: bool,
    seat: Arc<Seat>,
    thread: ThreadNumber,
}

/// What a worker has to remember of a turn in case it panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lent {
    /// The lease of the core; `None` without it.
    pub lease: Option<u64>,
    /// The connection that is out with this worker.
    pub token: Option<u64>,
}

/// A worker's buffers.
#[derive(Default)]
pub(crate) struct Kit {
    /// What was received; empty until first used.
    pub receive: Vec<u8>,
    /// The reply being written.
    pub reply: Writer,
    /// The replies before it.
    pub collected: Writer,
    /// Memory for the next large record.
    pub spare: Writer,
    /// The way of large WRITEs' data to its files.
    pub pipe: PipeState,
    /// Datagrams received together.
    pub batch: Option<Batch>,
    /// Memory for replies to datagrams.
    pub replies: Vec<Writer>,
    /// The list of those that are to be sent; empty between two turns.
    pub pending: Vec<Reply>,
    /// Sockets for replies to datagrams.
    pub outlets: Vec<Outlet>,
}

impl Kit {
    /// Makes the receive buffer.
    pub fn prepare(&mut self) {
        if self.receive.is_empty() {
            self.receive = vec![0; RECEIVE_BYTES];
        }
    }

    /// Gives back what a rare large reply or record has grown beyond `keep_bytes`.
    pub fn trim(&mut self, keep_bytes: usize) {
        for writer in [&mut self.reply, &mut self.collected] {
            writer.clear_to(keep_bytes);
        }
        if self.spare.capacity() > keep_bytes.saturating_mul(2) {
            self.spare = Writer::default();
        }
    }
}

/// Keeps the larger of two pieces of memory; [`Kit::trim`] sees to what is too much.
pub(crate) fn keep(spare: &mut Writer, memory: Writer) {
    if memory.capacity() > spare.capacity() {
        *spare = memory;
    }
}

/// Why a worker ends.
enum Exit {
    /// There is no work for it; the hand-over has struck it off.
    Spare,
    /// The pool has stopped.
    Retired,
}

/// Starts a thread that the hand-over has counted.
///
/// # Errors
/// As std::thread::Builder::spawn; the hand-over is corrected.
pub(crate) fn start(pool: &Arc<Pool>, role: Role) -> io::Result<()> {
    let name = match role {
        Role::Worker => format!("svc-{}", pool.index),
        Role::Reserve => format!("reserve-{}", pool.index),
    };
    let now_ns = pool.shared.clock.now_ns();
    let for_thread = Arc::clone(pool);
    let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
    match builder.spawn(move || work(&for_thread, role, now_ns)) {
        Ok(_detached) => Ok(()),
        Err(error) => {
            if let Call::Wake(seat) = pool.hand.not_started(role, now_ns) {
                seat.unpark();
            }
            Err(error)
        }
    }
}

/// A worker thread from start to end. A panic, which only a bug in this crate can cause, costs
/// the connection that was being served.
fn work(pool: &Arc<Pool>, role: Role, started_ns: u64) {
    if !pool.cpus.is_empty()
        && let Err(error) = sys::thread::run_on(&pool.cpus)
    {
        tracing::warn!(pool = pool.index, %error, "cannot bind a worker to its node's CPUs");
    }
    // whoever saw that a thread is missing may be in the middle of a call of some user's
    sys::identity::begin(&pool.shared.own);
    let mut worker = Worker {
        pool: Arc::clone(pool),
        stats: pool.shared.telemetry.worker(),
        kit: Kit::default(),
        core: None,
        lent: None,
        relieved: false,
        seat: Seat::started(role, started_ns),
        thread: ThreadNumber::own(),
    };
    worker.stats.add(Counter::ThreadsStarted, 1);
    let exit = loop {
        match catch_unwind(AssertUnwindSafe(|| worker.run())) {
            Ok(exit) => break exit,
            Err(_panic) => worker.recover(),
        }
    };
    worker.stats.add(Counter::ThreadsExited, 1);
    drop(worker);
    match exit {
        Exit::Spare => {}
        Exit::Retired => pool.hand.ended(role),
    }
}

impl Worker {
    fn run(&mut self) -> Exit {
        loop {
            while self.core.is_some() {
                self.step();
            }
            match self.pool.hand.next(&self.seat, self.pool.shared.clock.now_ns()) {
                Next::Work(work, also) => {
                    self.pool.call(also, &self.stats);
                    self.work(work);
                }
                Next::Lead(core, also) => {
                    self.pool.led_by(self.thread);
                    self.core = Some(core);
                    self.pool.call(also, &self.stats);
                }
                Next::Park { relieve } => {
                    if relieve {
                        self.pool.post(Mail::Relieve);
                    }
                    if let Some(exit) = self.park() {
                        return exit;
                    }
                }
                Next::Leave => return Exit::Spare,
                Next::Retired => return Exit::Retired,
            }
        }
    }

    /// Parks until called, or for good if nobody needs this worker.
    fn park(&mut self) -> Option<Exit> {
        let end = Instant::now().checked_add(IDLE_THREAD_AGE);
        let mut rest = Some(IDLE_THREAD_AGE);
        while !self.seat.is_called() {
            let Some(left) = rest else {
                std::thread::park();
                continue;
            };
            std::thread::park_timeout(left);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            rest = left.filter(|left| *left > Duration::ZERO);
            if rest.is_none() && !self.seat.is_called() {
                match self.pool.hand.spare(&self.seat) {
                    Spare::Leave => return Some(Exit::Spare),
                    Spare::Stay => self.kit = Kit::default(),
                    Spare::Called => return None,
                }
            }
        }
        None
    }

    /// A piece of work from the queue.
    fn work(&mut self, work: Work) {
        match work {
            Work::Datagram(held) => {
                self.pool.shared.datagrams.give_back(held.cost());
                udp::serve_held(self, &held);
            }
            Work::Conn(rx) if self.is_reserve() && !looks_urgent(&rx) => {
                self.pool.enqueue(Work::Conn(rx), false, &self.stats);
            }
            Work::Conn(mut rx) => {
                let conn = Arc::clone(&rx.conn);
                if rx.unsettled && (rx.tail.is_none() || conn.is_congested()) && !rx.looked {
                    if self.core.is_some() {
                        match rx.conn.flush(&self.pool, &self.stats) {
                            Ok(sent) => rx.broken |= sent == Sent::Broken,
                            Err(_cold) => return self.fetch(rx),
                        }
                    } else {
                        let sent = conn.flush_waiting(&self.pool, &self.stats);
                        rx.broken |= sent == Sent::Broken;
                    }
                    return match self.core.as_mut() {
                        Some(core) => bring_back(&self.pool, &self.stats, core, rx),
                        None => self.pool.give_back(rx, &self.stats),
                    };
                }
                stream::serve(self, rx);
            }
        }
    }

    /// Whether this is a reserve thread.
    pub fn is_reserve(&self) -> bool {
        self.seat.role() == Role::Reserve
    }

    /// Whether this leader puts what is ready into the queue instead of serving it.
    fn is_queueing(&self) -> bool {
        self.pool.is_queueing() || self.is_reserve()
    }

    /// Serves a connection, or queues it.
    fn serve(&mut self, rx: Box<Rx>) {
        if self.is_queueing() {
            let urgent = goes_first(&rx);
            self.pool.enqueue(Work::Conn(rx), urgent, &self.stats);
        } else {
            stream::serve(self, rx);
        }
    }

    /// One piece of the leader's work. Everybody who is ready has a turn before a connection that
    /// sent more than one turn takes has its next; one such turn, and it is looked again who is
    /// ready.
    fn step(&mut self) {
        let queueing = self.is_queueing();
        let Some(core) = self.core.as_mut() else { return };
        if let Some(token) = core.fresh.pop_front() {
            if let Some(rx) = core.take(token) {
                self.serve(rx);
            }
        } else if let Some(ready) = core.next_event() {
            self.ready(ready);
        } else if let Some(held) = core.datagrams.pop_front() {
            self.datagram(held);
        } else if let Some(work) = left(&self.pool, queueing) {
            self.work(work);
        } else if let Some(token) = core.due.pop_front() {
            self.due(token);
            self.peek();
        } else if let Some(number) = core.sockets.pop() {
            self.last_look(number);
        } else if core.is_finished() && self.pool.hand.is_empty() && self.pool.retire() {
            self.core = None;
        } else {
            self.wait();
        }
    }

    /// Looks who is ready, without waiting.
    fn peek(&mut self) {
        if let Some(core) = self.core.as_mut()
            && let Err(error) = self.pool.epoll.wait(core.events(), Some(Duration::ZERO))
        {
            tracing::error!(pool = self.pool.index, %error, "cannot ask for events");
        }
        if let Some(core) = self.core.as_mut() {
            core.waited();
        }
    }

    /// Waits for events; while the server stops, not for longer than connections that part need.
    fn wait(&mut self) {
        let Some(core) = self.core.as_mut() else { return };
        // While it stops, workers may empty the queue without a word.
        let soon = !core.parting.is_empty() || core.is_finished();
        let parting = !core.parting.is_empty();
        if let Err(error) = self.pool.epoll.wait(core.events(), soon.then_some(PARTING_TICK)) {
            tracing::error!(pool = self.pool.index, %error, "cannot wait for events");
            std::thread::sleep(AFTER_FAILED_WAIT);
        }
        core.waited();
        if !parting {
            return;
        }
        self.kit.prepare();
        for token in std::mem::take(&mut core.parting) {
            match core.conn(token) {
                Some(conn) if conn.has_parted(&mut self.kit.receive) => {
                    strike_out(&self.pool, &self.stats, core, token);
                }
                Some(_) => core.parting.push(token),
                None => {}
            }
        }
    }

    /// Something is ready.
    fn ready(&mut self, ready: Ready) {
        if ready.token == TOKEN_INBOX {
            for mail in self.pool.mail() {
                self.open(mail);
            }
            return self.stand_down();
        }
        crate::conn::add(&self.pool.seen.arrived, 1);
        if ready.token & TOKEN_SOCKET != 0 {
            return self.socket(ready.token & !TOKEN_SOCKET);
        }
        let Some(core) = self.core.as_mut() else { return };
        let Some(mut rx) = core.take(ready.token) else { return };
        if ready.writable || rx.unsettled {
            // If it goes on from here, epoll tells again what there is to be read.
            (rx.unsettled, rx.until_empty) = (true, true);
            match rx.conn.flush(&self.pool, &self.stats) {
                Ok(sent) => rx.broken |= sent == Sent::Broken,
                Err(_cold) => return self.fetch(rx),
            }
            return bring_back(&self.pool, &self.stats, core, rx);
        }
        rx.until_empty |= ready.ended || ready.urgent;
        self.serve(rx);
    }

    /// A half-sent reply goes on with pages that have left the memory meanwhile. This worker waits for
    /// the disk, without the core and without any lock; the connection is out with it.
    fn fetch(&mut self, mut rx: Box<Rx>) {
        if let Some(core) = self.core.take() {
            self.pool.hand_over(core, &self.stats);
        } else {
            let call = self.pool.hand.blocks(self.pool.shared.clock.now_ns());
            self.pool.call(call, &self.stats);
        }
        rx.broken |= rx.conn.flush_waiting(&self.pool, &self.stats) == Sent::Broken;
        self.pool.hand.resumes();
        self.pool.post(Mail::Back(rx));
    }

    /// A datagram socket is readable.
    fn socket(&mut self, number: u64) {
        if !self.is_queueing() {
            return udp::serve_socket(self, number);
        }
        for held in udp::receive(self, number) {
            self.datagram(held);
        }
    }

    /// A pool that is being left looks at a datagram socket until it is empty: of the pools that
    /// watch it, an arrival may have woken this one only.
    fn last_look(&mut self, number: u64) {
        let held = udp::receive(self, number);
        let Some(core) = self.core.as_mut() else { return };
        if !held.is_empty() {
            core.sockets.push(number);
        }
        core.datagrams.extend(held);
    }

    /// Answers a datagram that was received, or queues it. Who sends datagrams can be anybody: when
    /// too many wait, one more is dropped. Half of the room is for urgent ones, so that MOUNT is
    /// answered whatever else comes.
    fn datagram(&mut self, held: Held) {
        if !self.is_queueing() {
            return udp::serve_held(self, &held);
        }
        let (urgent, budget) = (is_urgent(held.bytes()), &self.pool.shared.datagrams);
        if (urgent || !budget.is_tight()) && budget.take(held.cost()) {
            self.pool.enqueue(Work::Datagram(held), urgent, &self.stats);
        } else {
            self.stats.add(Counter::DatagramsDropped, 1);
        }
    }

    /// A connection has a tail, or its last look is due.
    fn due(&mut self, token: u64) {
        let Some(core) = self.core.as_mut() else { return };
        let Some(mut rx) = core.take(token) else { return };
        // what it has received already comes first, and is no look at what has arrived since
        let last_look = core.stopping && !rx.looked && rx.tail.is_none();
        rx.looked |= last_look;
        if (rx.tail.is_some() && !rx.conn.is_congested()) || last_look {
            self.serve(rx);
        } else {
            bring_back(&self.pool, &self.stats, core, rx);
        }
    }

    /// Deals with what somebody left in the inbox.
    fn open(&mut self, mail: Mail) {
        let queueing = self.is_queueing();
        let Some(core) = self.core.as_mut() else { return };
        match mail {
            Mail::Open(conn) => {
                let rx = core.insert(&self.pool, conn);
                if core.stopping {
                    core.due.push_back(rx.token);
                } else if !queueing {
                    core.fresh.push_back(rx.token);
                }
                bring_back(&self.pool, &self.stats, core, rx);
            }
            Mail::Moved(mut rx) => {
                core.insert_moved(&self.pool, &mut rx);
                if core.stopping {
                    core.due.push_back(rx.token);
                }
                bring_back(&self.pool, &self.stats, core, rx);
            }
            Mail::Leave => {
                core.leaving = true;
                self.pool.set_stopping();
                core.sockets = self.pool.shared.ports.leave(&self.pool.epoll);
                for token in core.tokens() {
                    if let Some(rx) = core.take(token) {
                        bring_back(&self.pool, &self.stats, core, rx);
                    }
                }
            }
            Mail::Back(rx) => bring_back(&self.pool, &self.stats, core, rx),
            Mail::Ended(token) => {
                if let Some(mut rx) = core.take(token) {
                    rx.unsettled = true;
                    bring_back(&self.pool, &self.stats, core, rx);
                }
            }
            Mail::Datagrams(held) => core.datagrams.extend(held),
            Mail::Panicked(token) => strike_out(&self.pool, &self.stats, core, token),
            Mail::Relieve => self.relieved = true,
            // What the queue holds is looked at before the next wait.
            Mail::Policy => {}
            Mail::Stop => {
                core.stopping = true;
                self.pool.set_stopping();
                core.due.extend(core.tokens());
            }
            Mail::Abort => {
                core.stopping = true;
                self.pool.set_stopping();
                core.datagrams.clear();
                for token in core.tokens() {
                    strike_out(&self.pool, &self.stats, core, token);
                }
            }
        }
    }

    /// A reserve that was relieved leaves the core to the worker that came for it.
    fn stand_down(&mut self) {
        if std::mem::take(&mut self.relieved)
            && self.is_reserve()
            && let Some(core) = self.core.take()
        {
            let call = self.pool.hand.leave(core, self.pool.shared.clock.now_ns());
            self.pool.call(call, &self.stats);
        }
    }

    /// Goes on after a panic: the core is kept, the connection that was out is given up.
    fn recover(&mut self) {
        tracing::error!(pool = self.pool.index, "a worker panicked; this is a bug");
        let Some(Lent { lease, token }) = self.lent.take() else { return };
        let Some(lease) = lease else {
            return token.into_iter().for_each(|token| self.pool.post(Mail::Panicked(token)));
        };
        if let Some(mut core) = self.pool.reclaim(lease) {
            if let Some(token) = token {
                strike_out(&self.pool, &self.stats, &mut core, token);
            }
            self.core = Some(core);
        } else {
            self.pool.hand.resumes();
        }
    }
}

/// Puts a connection back into the table and decides how it goes on.
pub(crate) fn bring_back(pool: &Pool, stats: &WorkerStats, core: &mut Core, mut rx: Box<Rx>) {
    if !rx.charge(&pool.shared.partial) {
        stats.add(Counter::BudgetClosed, 1);
        rx.broken = true;
    }
    if rx.is_charged() {
        pool.shared.alarm.wake_for_memory();
    }
    if core.leaving && !core.stopping && !rx.broken {
        core.forget(rx.token);
        pool.connections.fetch_sub(1, Relaxed);
        rx.conn.depart();
        return pool.shared.roster.hand_out(Parcel::Moved(rx));
    }
    rx.unsettled |= rx.more || rx.until_empty;
    loop {
        let token = rx.token;
        let conn = Arc::clone(&rx.conn);
        let mut fate = Fate::Read;
        if rx.broken || rx.unsettled || core.stopping {
            rx.ending |= core.stopping && rx.looked;
            fate = match rx.broken {
                true => Fate::Close,
                false => rx.settle(pool),
            };
            rx.unsettled = fate != Fate::Read;
        }
        let look = core.stopping && !rx.looked;
        let parts = fate == Fate::Close && core.stopping && !rx.broken && conn.part(pool);
        match conn.home.put(rx) {
            Put::Done => {}
            // Something happened while it was out: decide anew.
            Put::Again(mut back) => {
                (back.unsettled, back.until_empty) = (true, true);
                rx = back;
                continue;
            }
            Put::Closed(mut rx) => return rx.discharge(&pool.shared.partial),
        }
        return match fate {
            Fate::Close if parts => core.parting.push(token),
            Fate::Close => strike_out(pool, stats, core, token),
            Fate::Serve => core.due.push_back(token),
            Fate::Read if look => core.due.push_back(token),
            Fate::Read | Fate::Wait => {}
        };
    }
}

/// What another policy has left in the queue, for a leader that runs calls itself.
fn left(pool: &Pool, queueing: bool) -> Option<Work> {
    if queueing {
        return None;
    }
    pool.hand.left(|| pool.shared.clock.now_ns())
}

/// Closes a connection and forgets it.
fn strike_out(pool: &Pool, stats: &WorkerStats, core: &mut Core, token: u64) {
    let Some((conn, rx)) = core.remove(token) else { return };
    if let Some(mut rx) = rx {
        rx.discharge(&pool.shared.partial);
    }
    conn.close(pool);
    pool.shared.register.remove(&conn);
    pool.connections.fetch_sub(1, Relaxed);
    stats.add(Counter::ConnectionsClosed, 1);
}

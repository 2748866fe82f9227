//! A worker thread: leads its pool while it holds the core; else it takes work from the queue, and
//! parks when there is none.
//!
//! A worker owns its receive buffer and its reply buffers; connections own none. It keeps them
//! from turn to turn and lets them go when nobody has called it for some seconds.

use crate::conn::connection::Rx;
use crate::conn::exclusive_slot::Put;
use crate::conn::transmit::{ConnAction, Sent};
use crate::conn::urgent::{goes_first, looks_urgent};
use crate::limits::{IDLE_THREAD_AGE, RECEIVE_BYTES};
use crate::pool::event_loop::{EventLoop, TOKEN_INBOX, TOKEN_SOCKET};
use crate::pool::scheduler::{IdleTimeout, Next, Parker, Role, Wakeup};
use crate::pool::worker_pool::{Message, Pool, Work};
use crate::server::pools::ConnTransfer;
use crate::service::datagrams::{ReceivedDatagram, Reply};
use crate::service::write_pipe::PipeState;
use crate::service::{datagrams, stream};
use crate::udp::reply_socket::ReplySocket;
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
const LINGER_POLL: Duration = Duration::from_millis(2);

/// One worker thread.
pub(crate) struct Worker {
    pub pool: Arc<Pool>,
    pub stats: WorkerStats,
    pub buffers: WorkerBuffers,
    /// The core, while this worker leads.
    pub event_loop: Option<Box<EventLoop>>,
    /// The turn under way.
    pub active_round: Option<ActiveRound>,
    /// A worker has come for the core that this reserve thread has.
    relieved: bool,
    parker: Arc<Parker>,
    thread: ThreadNumber,
}

/// What a worker has to remember of a turn in case it panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActiveRound {
    /// The lease of the core; `None` without it.
    pub round: Option<u64>,
    /// The connection that is out with this worker.
    pub token: Option<u64>,
}

/// A worker's buffers.
#[derive(Default)]
pub(crate) struct WorkerBuffers {
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
    pub reply_sockets: Vec<ReplySocket>,
}

impl WorkerBuffers {
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

/// Keeps the larger of two pieces of memory; [`WorkerBuffers::trim`] sees to what is too much.
pub(crate) fn keep(spare: &mut Writer, memory: Writer) {
    if memory.capacity() > spare.capacity() {
        *spare = memory;
    }
}

/// Why a worker ends.
enum ThreadExit {
    /// There is no work for it; the hand-over has struck it off.
    IdleTimeout,
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
            if let Wakeup::Unpark(parker) = pool.scheduler.thread_not_started(role, now_ns) {
                parker.unpark();
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
        buffers: WorkerBuffers::default(),
        event_loop: None,
        active_round: None,
        relieved: false,
        parker: Parker::started(role, started_ns),
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
        ThreadExit::IdleTimeout => {}
        ThreadExit::Retired => pool.scheduler.ended(role),
    }
}

impl Worker {
    fn run(&mut self) -> ThreadExit {
        loop {
            while self.event_loop.is_some() {
                self.step();
            }
            match self.pool.scheduler.next_task(&self.parker, self.pool.shared.clock.now_ns()) {
                Next::Work(work, also) => {
                    self.pool.wake(also, &self.stats);
                    self.work(work);
                }
                Next::Lead(event_loop, also) => {
                    self.pool.set_leader_thread(self.thread);
                    self.event_loop = Some(event_loop);
                    self.pool.wake(also, &self.stats);
                }
                Next::Park { relieve } => {
                    if relieve {
                        self.pool.post(Message::Relieve);
                    }
                    if let Some(exit) = self.park() {
                        return exit;
                    }
                }
                Next::Leave => return ThreadExit::IdleTimeout,
                Next::Retired => return ThreadExit::Retired,
            }
        }
    }

    /// Parks until called, or for good if nobody needs this worker.
    fn park(&mut self) -> Option<ThreadExit> {
        let end = Instant::now().checked_add(IDLE_THREAD_AGE);
        let mut rest = Some(IDLE_THREAD_AGE);
        while !self.parker.is_woken() {
            let Some(left) = rest else {
                std::thread::park();
                continue;
            };
            std::thread::park_timeout(left);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            rest = left.filter(|left| *left > Duration::ZERO);
            if rest.is_none() && !self.parker.is_woken() {
                match self.pool.scheduler.spare(&self.parker) {
                    IdleTimeout::Leave => return Some(ThreadExit::IdleTimeout),
                    IdleTimeout::Stay => self.buffers = WorkerBuffers::default(),
                    IdleTimeout::Called => return None,
                }
            }
        }
        None
    }

    /// A piece of work from the queue.
    fn work(&mut self, work: Work) {
        match work {
            Work::Datagram(received) => {
                self.pool.shared.datagrams.give_back(received.cost());
                datagrams::serve_received(self, &received);
            }
            Work::Conn(rx)
                if self.is_reserve() && !looks_urgent(&self.pool.shared.dispatcher, &rx) =>
            {
                self.pool.enqueue(Work::Conn(rx), false, &self.stats);
            }
            Work::Conn(mut rx) => {
                let conn = Arc::clone(&rx.conn);
                if rx.needs_rearm
                    && (rx.tail.is_none() || conn.has_queued_replies())
                    && !rx.final_read_done
                {
                    if self.event_loop.is_some() {
                        match rx.conn.flush(&self.pool, &self.stats) {
                            Ok(sent) => rx.broken |= sent == Sent::Broken,
                            Err(_cold) => return self.flush_cold(rx),
                        }
                    } else {
                        let sent = conn.flush_waiting(&self.pool, &self.stats);
                        rx.broken |= sent == Sent::Broken;
                    }
                    return match self.event_loop.as_mut() {
                        Some(event_loop) => return_conn(&self.pool, &self.stats, event_loop, rx),
                        None => self.pool.give_back(rx, &self.stats),
                    };
                }
                stream::serve(self, rx);
            }
        }
    }

    /// Whether this is a reserve thread.
    pub fn is_reserve(&self) -> bool {
        self.parker.role() == Role::Reserve
    }

    /// Whether this leader puts what is ready into the queue instead of serving it.
    fn is_queueing(&self) -> bool {
        self.pool.is_queueing() || self.is_reserve()
    }

    /// Serves a connection, or queues it.
    fn serve(&mut self, rx: Box<Rx>) {
        if self.is_queueing() {
            let urgent = goes_first(&self.pool.shared.dispatcher, &rx);
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
        let Some(event_loop) = self.event_loop.as_mut() else { return };
        if let Some(token) = event_loop.new_conns.pop_front() {
            if let Some(rx) = event_loop.take(token) {
                self.serve(rx);
            }
        } else if let Some(ready) = event_loop.next_event() {
            self.handle_event(ready);
        } else if let Some(received) = event_loop.datagrams.pop_front() {
            self.datagram(received);
        } else if let Some(work) = pop_for_leader(&self.pool, queueing) {
            self.work(work);
        } else if let Some(token) = event_loop.ready_queue.pop_front() {
            self.serve_queued(token);
            self.poll_events();
        } else if let Some(number) = event_loop.sockets.pop() {
            self.drain_socket(number);
        } else if event_loop.is_finished() && self.pool.scheduler.is_empty() && self.pool.retire() {
            self.event_loop = None;
        } else {
            self.wait();
        }
    }

    /// Looks who is ready, without waiting.
    fn poll_events(&mut self) {
        if let Some(event_loop) = self.event_loop.as_mut()
            && let Err(error) = self.pool.epoll.wait(event_loop.events(), Some(Duration::ZERO))
        {
            tracing::error!(pool = self.pool.index, %error, "cannot ask for events");
        }
        if let Some(event_loop) = self.event_loop.as_mut() {
            event_loop.waited();
        }
    }

    /// Waits for events; while the server stops, not for longer than connections that part need.
    fn wait(&mut self) {
        let Some(event_loop) = self.event_loop.as_mut() else { return };
        // While it stops, workers may empty the queue without a word.
        let soon = !event_loop.lingering.is_empty() || event_loop.is_finished();
        let lingering = !event_loop.lingering.is_empty();
        if let Err(error) = self.pool.epoll.wait(event_loop.events(), soon.then_some(LINGER_POLL)) {
            tracing::error!(pool = self.pool.index, %error, "cannot wait for events");
            std::thread::sleep(AFTER_FAILED_WAIT);
        }
        event_loop.waited();
        if !lingering {
            return;
        }
        self.buffers.prepare();
        for token in std::mem::take(&mut event_loop.lingering) {
            match event_loop.conn(token) {
                Some(conn) if conn.lingering_close_is_done(&mut self.buffers.receive) => {
                    close_conn(&self.pool, &self.stats, event_loop, token);
                }
                Some(_) => event_loop.lingering.push(token),
                None => {}
            }
        }
    }

    /// Something is ready.
    fn handle_event(&mut self, ready: Ready) {
        if ready.token == TOKEN_INBOX {
            for mail in self.pool.mail() {
                self.handle_message(mail);
            }
            return self.resign_if_relieved();
        }
        crate::conn::connection::add(&self.pool.seen.arrived, 1);
        if ready.token & TOKEN_SOCKET != 0 {
            return self.socket(ready.token & !TOKEN_SOCKET);
        }
        let Some(event_loop) = self.event_loop.as_mut() else { return };
        let Some(mut rx) = event_loop.take(ready.token) else { return };
        if ready.writable || rx.needs_rearm {
            // If it goes on from here, epoll tells again what there is to be read.
            (rx.needs_rearm, rx.read_until_empty) = (true, true);
            match rx.conn.flush(&self.pool, &self.stats) {
                Ok(sent) => rx.broken |= sent == Sent::Broken,
                Err(_cold) => return self.flush_cold(rx),
            }
            return return_conn(&self.pool, &self.stats, event_loop, rx);
        }
        rx.read_until_empty |= ready.ended || ready.urgent;
        self.serve(rx);
    }

    /// A half-sent reply goes on with pages that have left the memory meanwhile. This worker waits for
    /// the disk, without the core and without any lock; the connection is out with it.
    fn flush_cold(&mut self, mut rx: Box<Rx>) {
        if let Some(event_loop) = self.event_loop.take() {
            self.pool.promote_follower(event_loop, &self.stats);
        } else {
            let call = self.pool.scheduler.worker_blocks(self.pool.shared.clock.now_ns());
            self.pool.wake(call, &self.stats);
        }
        rx.broken |= rx.conn.flush_waiting(&self.pool, &self.stats) == Sent::Broken;
        self.pool.scheduler.worker_resumes();
        self.pool.post(Message::Back(rx));
    }

    /// A datagram socket is readable.
    fn socket(&mut self, number: u64) {
        if !self.is_queueing() {
            return datagrams::serve_socket(self, number);
        }
        for received in datagrams::receive(self, number) {
            self.datagram(received);
        }
    }

    /// A pool that is being left looks at a datagram socket until it is empty: of the pools that
    /// watch it, an arrival may have woken this one only.
    fn drain_socket(&mut self, number: u64) {
        let received = datagrams::receive(self, number);
        let Some(event_loop) = self.event_loop.as_mut() else { return };
        if !received.is_empty() {
            event_loop.sockets.push(number);
        }
        event_loop.datagrams.extend(received);
    }

    /// Answers a datagram that was received, or queues it. Who sends datagrams can be anybody: when
    /// too many wait, one more is dropped. Half of the room is for urgent ones, so that MOUNT is
    /// answered whatever else comes.
    fn datagram(&mut self, received: ReceivedDatagram) {
        if !self.is_queueing() {
            return datagrams::serve_received(self, &received);
        }
        let shared = &self.pool.shared;
        let urgent = shared.dispatcher.is_urgent(received.bytes());
        let budget = &shared.datagrams;
        if (urgent || !budget.is_tight()) && budget.take(received.cost()) {
            self.pool.enqueue(Work::Datagram(received), urgent, &self.stats);
        } else {
            self.stats.add(Counter::DatagramsDropped, 1);
        }
    }

    /// A connection has a tail, or its last look is due.
    fn serve_queued(&mut self, token: u64) {
        let Some(event_loop) = self.event_loop.as_mut() else { return };
        let Some(mut rx) = event_loop.take(token) else { return };
        // what it has received already comes first, and is no look at what has arrived since
        let drain_socket = event_loop.stopping && !rx.final_read_done && rx.tail.is_none();
        rx.final_read_done |= drain_socket;
        if (rx.tail.is_some() && !rx.conn.has_queued_replies()) || drain_socket {
            self.serve(rx);
        } else {
            return_conn(&self.pool, &self.stats, event_loop, rx);
        }
    }

    /// Deals with what somebody left in the inbox.
    fn handle_message(&mut self, mail: Message) {
        let queueing = self.is_queueing();
        let Some(event_loop) = self.event_loop.as_mut() else { return };
        match mail {
            Message::Open(conn) => {
                let rx = event_loop.insert(&self.pool, conn);
                if event_loop.stopping {
                    event_loop.ready_queue.push_back(rx.token);
                } else if !queueing {
                    event_loop.new_conns.push_back(rx.token);
                }
                return_conn(&self.pool, &self.stats, event_loop, rx);
            }
            Message::Moved(mut rx) => {
                event_loop.insert_moved(&self.pool, &mut rx);
                if event_loop.stopping {
                    event_loop.ready_queue.push_back(rx.token);
                }
                return_conn(&self.pool, &self.stats, event_loop, rx);
            }
            Message::Leave => {
                event_loop.draining = true;
                self.pool.set_stopping();
                event_loop.sockets = self.pool.shared.ports.remove_pool(&self.pool.epoll);
                for token in event_loop.tokens() {
                    if let Some(rx) = event_loop.take(token) {
                        return_conn(&self.pool, &self.stats, event_loop, rx);
                    }
                }
            }
            Message::Back(rx) => return_conn(&self.pool, &self.stats, event_loop, rx),
            Message::Ended(token) => {
                if let Some(mut rx) = event_loop.take(token) {
                    rx.needs_rearm = true;
                    return_conn(&self.pool, &self.stats, event_loop, rx);
                }
            }
            Message::Datagrams(received) => event_loop.datagrams.extend(received),
            Message::Panicked(token) => close_conn(&self.pool, &self.stats, event_loop, token),
            Message::Relieve => self.relieved = true,
            // What the queue holds is looked at before the next wait.
            Message::Policy => {}
            Message::Stop => {
                event_loop.stopping = true;
                self.pool.set_stopping();
                event_loop.ready_queue.extend(event_loop.tokens());
            }
            Message::Abort => {
                event_loop.stopping = true;
                self.pool.set_stopping();
                event_loop.datagrams.clear();
                for token in event_loop.tokens() {
                    close_conn(&self.pool, &self.stats, event_loop, token);
                }
            }
        }
    }

    /// A reserve that was relieved leaves the core to the worker that came for it.
    fn resign_if_relieved(&mut self) {
        if std::mem::take(&mut self.relieved)
            && self.is_reserve()
            && let Some(event_loop) = self.event_loop.take()
        {
            let call = self.pool.scheduler.resign(event_loop, self.pool.shared.clock.now_ns());
            self.pool.wake(call, &self.stats);
        }
    }

    /// Goes on after a panic: the core is kept, the connection that was out is given up.
    fn recover(&mut self) {
        tracing::error!(pool = self.pool.index, "a worker panicked; this is a bug");
        let Some(ActiveRound { round, token }) = self.active_round.take() else { return };
        let Some(round) = round else {
            return token.into_iter().for_each(|token| self.pool.post(Message::Panicked(token)));
        };
        if let Some(mut event_loop) = self.pool.end_round(round) {
            if let Some(token) = token {
                close_conn(&self.pool, &self.stats, &mut event_loop, token);
            }
            self.event_loop = Some(event_loop);
        } else {
            self.pool.scheduler.worker_resumes();
        }
    }
}

/// Puts a connection back into the table and decides how it goes on.
pub(crate) fn return_conn(
    pool: &Pool,
    stats: &WorkerStats,
    event_loop: &mut EventLoop,
    mut rx: Box<Rx>,
) {
    if !rx.charge(&pool.shared.partial) {
        stats.add(Counter::BudgetClosed, 1);
        rx.broken = true;
    }
    if rx.is_charged() {
        pool.shared.watchdog_waker.wake_for_memory();
    }
    if event_loop.draining && !event_loop.stopping && !rx.broken {
        event_loop.forget(rx.token);
        pool.connections.fetch_sub(1, Relaxed);
        rx.conn.leave_pool();
        return pool.shared.pools.hand_out(ConnTransfer::Moved(rx));
    }
    rx.needs_rearm |= rx.more || rx.read_until_empty;
    loop {
        let token = rx.token;
        let conn = Arc::clone(&rx.conn);
        let mut action = ConnAction::Read;
        if rx.broken || rx.needs_rearm || event_loop.stopping {
            rx.ending |= event_loop.stopping && rx.final_read_done;
            action = match rx.broken {
                true => ConnAction::Close,
                false => rx.rearm(pool),
            };
            rx.needs_rearm = action != ConnAction::Read;
        }
        let look = event_loop.stopping && !rx.final_read_done;
        let lingers = action == ConnAction::Close
            && event_loop.stopping
            && !rx.broken
            && conn.begin_lingering_close(pool);
        match conn.home.put(rx) {
            Put::Done => {}
            // Something happened while it was out: decide anew.
            Put::Recheck(mut back) => {
                (back.needs_rearm, back.read_until_empty) = (true, true);
                rx = back;
                continue;
            }
            Put::Closed(mut rx) => return rx.discharge(&pool.shared.partial),
        }
        return match action {
            ConnAction::Close if lingers => event_loop.lingering.push(token),
            ConnAction::Close => close_conn(pool, stats, event_loop, token),
            ConnAction::Serve => event_loop.ready_queue.push_back(token),
            ConnAction::Read if look => event_loop.ready_queue.push_back(token),
            ConnAction::Read | ConnAction::Wait => {}
        };
    }
}

/// What another policy has left in the queue, for a leader that runs calls itself.
fn pop_for_leader(pool: &Pool, queueing: bool) -> Option<Work> {
    if queueing {
        return None;
    }
    pool.scheduler.pop_for_leader(|| pool.shared.clock.now_ns())
}

/// Closes a connection and forgets it.
fn close_conn(pool: &Pool, stats: &WorkerStats, event_loop: &mut EventLoop, token: u64) {
    let Some((conn, rx)) = event_loop.remove(token) else { return };
    if let Some(mut rx) = rx {
        rx.discharge(&pool.shared.partial);
    }
    conn.close(pool);
    pool.shared.connections.remove(&conn);
    pool.connections.fetch_sub(1, Relaxed);
    stats.add(Counter::ConnectionsClosed, 1);
}

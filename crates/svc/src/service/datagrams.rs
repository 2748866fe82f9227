//! Datagrams: one socket per address, or one for each interface, CPU or both (`layout.rs`), each
//! watched by every pool with EPOLLEXCLUSIVE, so that an arrival wakes one leader and busy leaders
//! take what is left when they come by. All workers serve all sockets in turn: a thread for each
//! interface would leave the busiest one behind.
//!
//! A turn is one batch received, every call in it answered, one batch sent. Replies leave from
//! the address and the interface that was asked, by a socket of the worker's own where there is
//! one (`outlet.rs`). A call that may sleep first sends the replies
//! before it and hands copies of the datagrams behind it to the core; its own reply leaves alone.
//! A full socket makes the worker step aside like any other sleep before it waits for room.

use crate::limits::{DATAGRAM_COST, DATAGRAM_PATIENCE};
use crate::pool::event_loop::EventLoop;
use crate::pool::worker_pool::{Message, Pool};
use crate::service::datagram_ranges;
use crate::stats::{self, NS_PER_MS};
use crate::udp::reply_socket::ReplyPath;
use crate::udp::socket::{DatagramSocket, Traffic};
use crate::worker::thread::{ActiveRound, Worker};
use crate::zero_copy::ReplyBatch;
use rpc::{Blocking, CallHost, OpIndex, Peer, Transport, Verdict};
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use sys::mmsg::{self, BATCH, Batch, Datagram, Local, Outgoing};
use telemetry::{Counter, WorkerStats};
use xdr::Writer;

/// A datagram that another worker has received.
pub(crate) struct ReceivedDatagram {
    port: Arc<DatagramSocket>,
    bytes: Vec<u8>,
    from: SocketAddr,
    to: Local,
    truncated: bool,
}

impl ReceivedDatagram {
    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it takes from the budget while it is queued.
    pub const fn cost(&self) -> usize {
        self.bytes.len().saturating_add(DATAGRAM_COST)
    }
}

/// Where a turn's datagrams are.
#[derive(Clone, Copy)]
enum Source<'b> {
    Batch(&'b Batch),
    One(&'b ReceivedDatagram),
}

impl<'b> Source<'b> {
    fn at(self, index: usize) -> Option<Datagram<'b>> {
        match self {
            Self::Batch(batch) => batch.at(index),
            Self::One(received) if index == 0 => Some(Datagram {
                bytes: &received.bytes,
                from: received.from,
                to: received.to,
                truncated: received.truncated,
            }),
            Self::One(_) => None,
        }
    }
}

/// A reply that has not been sent.
pub(crate) struct Reply {
    pub bytes: Writer,
    pub to: SocketAddr,
    pub from: Local,
}

/// A turn under way, as the calls in it see it.
struct DatagramRound<'b> {
    pool: &'b Arc<Pool>,
    stats: &'b WorkerStats,
    port: &'b Arc<DatagramSocket>,
    reply_path: ReplyPath<'b>,
    /// `None` for a worker that took the datagram from the queue.
    round: Option<u64>,
    source: Source<'b>,
    /// The first datagram that nobody has begun to serve.
    next: Cell<usize>,
    attached: Cell<bool>,
    replies: RefCell<Vec<Reply>>,
    /// Memory of replies that were sent.
    free: RefCell<Vec<Writer>>,
}

/// Receives a batch from a readable socket and answers it.
pub(crate) fn serve_socket(worker: &mut Worker, number: u64) {
    let shared = Arc::clone(&worker.pool.shared);
    let table = shared.ports.table();
    // a socket that was struck out may have an event left
    let Some(port) = table.find(number) else { return };
    let mut batch = worker.buffers.batch.take().unwrap_or_default();
    worker.stats.add(Counter::ReceiveCalls, 1);
    // An error is would-block, because another pool was quicker, or what became of an earlier
    // reply (ICMP); the next turn tells.
    if let Ok(count) = batch.receive(&port.socket)
        && count > 0
    {
        let (received, bytes_in) = (count as u64, batch.bytes() as u64);
        worker.stats.add(Counter::Datagrams, received);
        port.count(worker.pool.index, Traffic { received, bytes_in, ..Traffic::default() });
        serve(worker, port, Source::Batch(&batch));
    }
    worker.buffers.batch = Some(batch);
}

/// Receives a batch from a readable socket for others to answer.
pub(crate) fn receive(worker: &mut Worker, number: u64) -> Vec<ReceivedDatagram> {
    let table = worker.pool.shared.ports.table();
    let Some(port) = table.find(number) else { return Vec::new() };
    let batch = worker.buffers.batch.get_or_insert_default();
    worker.stats.add(Counter::ReceiveCalls, 1);
    // As in serve_socket.
    let count = batch.receive(&port.socket).unwrap_or(0);
    let (received, bytes_in) = (count as u64, batch.bytes() as u64);
    worker.stats.add(Counter::Datagrams, received);
    port.count(worker.pool.index, Traffic { received, bytes_in, ..Traffic::default() });
    let received = |datagram: Datagram<'_>| ReceivedDatagram {
        port: Arc::clone(port),
        bytes: datagram.bytes.to_vec(),
        from: datagram.from,
        to: datagram.to,
        truncated: datagram.truncated,
    };
    (0..count).map_while(|index| batch.at(index)).map(received).collect()
}

/// Answers a datagram that another worker has received.
pub(crate) fn serve_received(worker: &mut Worker, received: &ReceivedDatagram) {
    serve(worker, &received.port, Source::One(received));
}

fn serve(worker: &mut Worker, port: &Arc<DatagramSocket>, source: Source<'_>) {
    let Worker { pool, stats, buffers, event_loop: leading, active_round, .. } = worker;
    let now_ns = pool.shared.clock.now_ns();
    let rescues = pool.rescues();
    let round = leading.take().map(|event_loop| {
        pool.mark_call_start(now_ns);
        pool.begin_round(event_loop)
    });
    *active_round = Some(ActiveRound { round, token: None });
    let turn = DatagramRound {
        pool,
        stats,
        port,
        reply_path: pool.shared.ports.reply_sockets.reply_path(&mut buffers.reply_sockets, port),
        round,
        source,
        next: Cell::new(0),
        attached: Cell::new(true),
        replies: RefCell::new(mem::take(&mut buffers.pending)),
        free: RefCell::new(mem::take(&mut buffers.replies)),
    };
    turn.run(&mut buffers.reply, rescues, now_ns);
    *leading = turn.finish(&mut buffers.replies, &mut buffers.pending);
    *active_round = None;
}

impl DatagramRound<'_> {
    /// Answers datagram after datagram.
    fn run(&self, reply: &mut Writer, rescues: u64, mut now_ns: u64) {
        let shared = &self.pool.shared;
        while let Some(datagram) = self.source.at(self.next.get()) {
            self.next.set(self.next.get().saturating_add(1));
            if datagram.truncated || datagram.from.port() == 0 {
                self.stats.add(Counter::DatagramsDropped, 1);
                continue;
            }
            match self.round {
                Some(_) => crate::conn::connection::add(&self.pool.seen.calls, 1),
                None => _ = self.pool.seen.calls.fetch_add(1, Relaxed),
            }
            reply.clear();
            let batch = match self.source.at(1) {
                None => ReplyBatch::One,
                Some(_) => ReplyBatch::Many,
            };
            reply.take_ranges(shared.zero_copy.now().range_min(Transport::Udp, batch));
            let now_ms = now_ns / NS_PER_MS;
            let peer = self.peer(&datagram);
            let done = shared.dispatcher.dispatch(datagram.bytes.into(), peer, now_ms, self, reply);
            let after_ns = shared.clock.now_ns();
            let latency_ns = after_ns.saturating_sub(now_ns);
            stats::count(self.stats, &done, latency_ns, datagram.bytes.len(), reply.total_len());
            now_ns = after_ns;
            if done.verdict == Verdict::Reply {
                self.collect(reply, &datagram);
            }
            let is_void = |round| {
                self.pool.rescues() != rescues && !self.pool.scheduler.is_current_round(round)
            };
            if !self.attached.get() || self.round.is_some_and(is_void) {
                return;
            }
            if self.round.is_some() {
                self.pool.mark_call_start(now_ns);
            }
        }
    }

    /// Both ends of a datagram.
    fn peer(&self, datagram: &Datagram<'_>) -> Peer {
        let local = datagram.to.ip.unwrap_or(self.port.local.ip());
        Peer {
            addr: datagram.from,
            local: SocketAddr::new(local, self.port.local.port()),
            transport: Transport::Udp,
        }
    }

    fn collect(&self, reply: &mut Writer, datagram: &Datagram<'_>) {
        let mut bytes = self.free.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        mem::swap(&mut bytes, reply);
        let reply = Reply { bytes, to: datagram.from, from: datagram.to };
        self.replies.borrow_mut().push(reply);
    }

    /// Sends what fits; `false` if the socket is full.
    fn flush(&self) -> bool {
        let mut replies = self.replies.borrow_mut();
        while !replies.is_empty() {
            let plain = replies.iter().take_while(|reply| !reply.bytes.has_ranges());
            let count = plain.count().min(BATCH);
            let gone = match replies.first() {
                Some(reply) if count == 0 => self.send_ranged(reply),
                Some(_) | None => self.send_plain(replies.get(..count).unwrap_or_default()),
            };
            let gone = match gone {
                Ok(gone) => {
                    self.count_sent(replies.get(..gone).unwrap_or_default());
                    gone
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stats.add(Counter::UdpSendsFull, 1);
                    return false;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                // The first cannot be sent at all: too long, or there is no way to its client.
                Err(_) => {
                    self.stats.add(Counter::DatagramsDropped, 1);
                    1
                }
            };
            let mut free = self.free.borrow_mut();
            let keep_bytes = self.pool.shared.keep_bytes.load(Relaxed);
            for mut reply in replies.drain(..gone.min(count.max(1))) {
                if free.len() < BATCH && reply.bytes.capacity() <= keep_bytes {
                    reply.bytes.clear();
                    free.push(reply.bytes);
                }
            }
        }
        true
    }

    /// Sends replies of bytes only; how many left.
    fn send_plain(&self, replies: &[Reply]) -> std::io::Result<usize> {
        let empty: SocketAddr = ([0, 0, 0, 0], 0).into();
        let mut outgoing = [Outgoing { bytes: &[], to: empty, from: Local::default() }; BATCH];
        for (place, reply) in outgoing.iter_mut().zip(replies) {
            *place = Outgoing { bytes: reply.bytes.bytes(), to: reply.to, from: reply.from };
        }
        self.stats.add(Counter::SendCalls, 1);
        // or what is sent would become a part of another worker's reply
        let _uncorked = self.reply_path.uncorked(self.stats);
        mmsg::send(self.reply_path.socket(), outgoing.get(..replies.len()).unwrap_or_default())
    }

    /// Sends a reply with ranges of files as one datagram; 1.
    fn send_ranged(&self, reply: &Reply) -> std::io::Result<usize> {
        let _alone = self.reply_path.cork(self.stats);
        let socket = self.reply_path.socket();
        sys::datagram::cork(socket, true)?;
        let collected = datagram_ranges::collect(socket, self.stats, reply);
        if collected.is_err() {
            sys::datagram::discard(socket);
        }
        self.stats.add(Counter::SendCalls, 1);
        let sent = sys::datagram::cork(socket, false);
        let moved = collected?;
        sent?;
        moved.count(self.stats);
        Ok(1)
    }

    fn count_sent(&self, replies: &[Reply]) {
        let bytes_out = replies.iter().map(|reply| reply.bytes.total_len() as u64).sum();
        let traffic = Traffic { sent: replies.len() as u64, bytes_out, ..Traffic::default() };
        self.port.count(self.pool.index, traffic);
    }

    /// Sends everything, waiting for room in the socket if need be. Not while leading.
    fn flush_waiting(&self) {
        while !self.flush() {
            if !sys::socket::wait_writable(self.reply_path.socket(), DATAGRAM_PATIENCE) {
                let dropped = self.replies.borrow_mut().drain(..).len();
                self.stats.add(Counter::DatagramsDropped, dropped as u64);
            }
        }
    }

    /// Hands the core on, with all datagrams that nobody has begun to serve.
    fn leave_leadership(&self) {
        if !self.attached.replace(false) {
            return;
        }
        let Some(round) = self.round else {
            let call = self.pool.scheduler.worker_blocks(self.pool.shared.clock.now_ns());
            return self.pool.wake(call, self.stats);
        };
        let received = self.rest();
        match self.pool.end_round(round) {
            Some(mut event_loop) => {
                event_loop.datagrams.extend(received);
                self.pool.promote_follower(event_loop, self.stats);
            }
            // The watchdog was quicker.
            None => self.pool.post(Message::Datagrams(received)),
        }
    }

    fn rest(&self) -> Vec<ReceivedDatagram> {
        let mut received = Vec::new();
        while let Some(datagram) = self.source.at(self.next.get()) {
            self.next.set(self.next.get().saturating_add(1));
            if datagram.truncated {
                self.stats.add(Counter::DatagramsDropped, 1);
                continue;
            }
            received.push(ReceivedDatagram {
                port: Arc::clone(self.port),
                bytes: datagram.bytes.to_vec(),
                from: datagram.from,
                to: datagram.to,
                truncated: false,
            });
        }
        received
    }

    /// Ends the turn; the core, if this worker leads still.
    fn finish(self, free: &mut Vec<Writer>, pending: &mut Vec<Reply>) -> Option<Box<EventLoop>> {
        if !self.flush() {
            self.leave_leadership();
            self.flush_waiting();
        }
        *free = self.free.take();
        *pending = self.replies.take();
        let Some(round) = self.round else {
            if !self.attached.get() {
                self.pool.scheduler.worker_resumes();
            }
            return None;
        };
        let event_loop = if self.attached.get() { self.pool.end_round(round) } else { None };
        if event_loop.is_none() {
            self.pool.scheduler.worker_resumes();
        }
        if event_loop.is_none() && self.attached.get() {
            let received = self.rest();
            if !received.is_empty() {
                self.pool.post(Message::Datagrams(received));
            }
        }
        event_loop
    }
}

impl CallHost for DatagramRound<'_> {
    fn count_operation(&self, op: OpIndex, status: u32) {
        self.stats.operation(op.0, status);
    }
}

impl Blocking for DatagramRound<'_> {
    fn will_block(&self) {
        if self.attached.get() {
            let all_sent = self.flush();
            self.leave_leadership();
            if !all_sent {
                self.flush_waiting();
            }
        }
    }
}

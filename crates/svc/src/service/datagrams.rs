//! One service round of a datagram socket: one batch received, every call in it answered, one batch sent.
//!
//! Each socket is watched by every pool with EPOLLEXCLUSIVE, so that an arrival wakes one leader, and busy
//! leaders take what is left when they come by. All workers serve all sockets in turn: with a thread for
//! each interface, the busiest one would fall behind.
//!
//! Replies leave from the address and by the interface that was asked, by a socket of the worker's own
//! where there is one (`udp/reply_socket.rs`). A call that may block first sends the replies before it and
//! returns copies of the datagrams behind it to the event loop; its own reply leaves alone. A full socket
//! makes the worker step aside like any other wait.

use crate::limits::DATAGRAM_PATIENCE;
use crate::pool::blocked_calls::Caller;
use crate::pool::event_loop::EventLoop;
use crate::pool::inbox::Message;
use crate::service::back_channel::DatagramBackChannel;
use crate::service::datagram_ranges;
use crate::service::datagram_reply::Reply;
use crate::service::deferred::{CallStart, DatagramLine};
use crate::service::round::{Admission, Calls, IncomingCall, Return, Round};
use crate::service::worker_context::{ActiveRound, WorkerContext};
use crate::udp::received::ReceivedDatagram;
use crate::udp::reply_socket::ReplyPath;
use crate::udp::socket::{DatagramSocket, Traffic};
use crate::zero_copy::ReplyBatch;
use rpc::record::Record;
use rpc::{BackChannel, Blocking, CallHost, Done, Line, OpIndex, Peer, Transport, Verdict};
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use sys::mmsg::{self, BATCH, Batch, Datagram, Local, Outgoing};
use telemetry::{Counter, DatagramTotals};
use xdr::Writer;

/// Where a round's datagrams are.
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

/// A round under way, as the calls in it see it.
struct DatagramRound<'b> {
    round: Round<'b>,
    socket: &'b Arc<DatagramSocket>,
    reply_path: ReplyPath<'b>,
    source: Source<'b>,
    /// The first datagram that nobody has begun to serve.
    next: Cell<usize>,
    /// The client of the call under way, and the address that it was sent to.
    from: Cell<Option<(SocketAddr, Local)>>,
    /// The call under way.
    call: Cell<CallStart>,
    /// The worker has stepped aside.
    detached: Cell<bool>,
    replies: RefCell<Vec<Reply>>,
    /// Memory of replies that were sent.
    free: RefCell<Vec<Writer>>,
}

/// How a round ended: there is only one way.
struct AllServed;

/// Receives a batch from a readable socket and answers it.
pub(crate) fn serve_socket(worker: &mut WorkerContext, number: u64) {
    let shared = Arc::clone(&worker.pool.shared);
    let table = shared.datagram_sockets.table();
    // a socket that was removed may have an event left
    let Some(socket) = table.find(number) else { return };
    let mut batch = worker.buffers.batch.take().unwrap_or_default();
    if receive_batch(worker, socket, &mut batch) > 0 {
        serve(worker, socket, Source::Batch(&batch));
    }
    worker.buffers.batch = Some(batch);
}

/// Receives a batch from a readable socket for others to answer.
pub(crate) fn receive(worker: &mut WorkerContext, number: u64) -> Vec<ReceivedDatagram> {
    let shared = Arc::clone(&worker.pool.shared);
    let table = shared.datagram_sockets.table();
    let Some(socket) = table.find(number) else { return Vec::new() };
    let mut batch = worker.buffers.batch.take().unwrap_or_default();
    let count = receive_batch(worker, socket, &mut batch);
    let copy = |datagram| ReceivedDatagram::copy_of(socket, &datagram);
    let received = (0..count).map_while(|index| batch.at(index)).map(copy).collect();
    worker.buffers.batch = Some(batch);
    received
}

/// How many datagrams a receive brought.
fn receive_batch(worker: &WorkerContext, socket: &DatagramSocket, batch: &mut Batch) -> usize {
    worker.stats.add(Counter::ReceiveCalls, 1);
    // An error is would-block, because another pool was quicker, or what became of an earlier reply
    // (ICMP); the next round tells.
    let count = batch.receive(&socket.udp).unwrap_or(0);
    if count > 0 {
        let (received, bytes_in) = (count as u64, batch.bytes() as u64);
        worker.stats.add(Counter::Datagrams, received);
        socket.count(worker.pool.index, Traffic { received, bytes_in, ..Traffic::default() });
    }
    count
}

/// Answers a datagram that another worker has received.
pub(crate) fn serve_received(worker: &mut WorkerContext, received: &ReceivedDatagram) {
    serve(worker, &received.socket, Source::One(received));
}

fn serve(worker: &mut WorkerContext, socket: &Arc<DatagramSocket>, source: Source<'_>) {
    let WorkerContext { pool, stats, buffers, event_loop, active_round, .. } = worker;
    let now_ns = pool.shared.clock.now_ns();
    let round = Round::begin(pool, stats, event_loop.take(), now_ns);
    *active_round = Some(ActiveRound { number: round.number(), token: None });
    let reply_sockets = &pool.shared.datagram_sockets.reply_sockets;
    let datagrams = DatagramRound {
        round,
        socket,
        reply_path: reply_sockets.reply_path(&mut buffers.reply_sockets, socket),
        source,
        next: Cell::new(0),
        from: Cell::default(),
        call: Cell::default(),
        detached: Cell::new(false),
        replies: RefCell::new(mem::take(&mut buffers.pending)),
        free: RefCell::new(mem::take(&mut buffers.replies)),
    };
    let mut calls = DatagramCalls { datagrams: &datagrams };
    let AllServed = datagrams.round.run(&mut calls, &mut buffers.reply, now_ns);
    *event_loop = datagrams.finish(&mut buffers.replies, &mut buffers.pending);
    *active_round = None;
}

/// The calls of a round.
struct DatagramCalls<'r, 'b> {
    datagrams: &'r DatagramRound<'b>,
}

impl<'b> Calls<'b> for DatagramCalls<'_, 'b> {
    type End = AllServed;
    const SUPERSEDED: AllServed = AllServed;

    fn next(&mut self, now_ns: u64) -> Result<IncomingCall<'b>, AllServed> {
        loop {
            let datagram = self.datagrams.next_datagram().ok_or(AllServed)?;
            if datagram.truncated || datagram.from.port() == 0 {
                self.datagrams.round.stats.add(Counter::DatagramsDropped, 1);
                continue;
            }
            self.datagrams.from.set(Some((datagram.from, datagram.to)));
            let bytes_in = datagram.bytes.len();
            self.datagrams.call.set(CallStart { began_ns: now_ns, bytes_in });
            let batch = match self.datagrams.source.at(1) {
                None => ReplyBatch::One,
                Some(_) => ReplyBatch::Many,
            };
            let peer = self.datagrams.peer(datagram.from, datagram.to);
            let record = Record::InPlace(datagram.bytes);
            return Ok(IncomingCall { record, argument: None, peer, batch, range_min: 0 });
        }
    }

    fn host(&self) -> &dyn CallHost {
        self.datagrams
    }

    fn take_reply(
        &mut self,
        _call: IncomingCall<'b>,
        done: &Done,
        reply: &mut Writer,
    ) -> Option<AllServed> {
        if self.datagrams.dropped_if_postponed() {
            return Some(AllServed);
        }
        self.datagrams.count_call();
        if done.verdict == Verdict::Reply
            && let Some((to, from)) = self.datagrams.from.get()
        {
            self.datagrams.collect(reply, to, from);
        }
        self.datagrams.detached.get().then_some(AllServed)
    }
}

impl<'b> DatagramRound<'b> {
    /// The next datagram that nobody has begun to serve.
    fn next_datagram(&self) -> Option<Datagram<'b>> {
        let datagram = self.source.at(self.next.get())?;
        self.next.set(self.next.get().saturating_add(1));
        Some(datagram)
    }

    /// Drops the call under way if it is to be postponed: its client sends it again by itself.
    fn dropped_if_postponed(&self) -> bool {
        let postponed = self.round.is_postponed();
        if postponed {
            self.round.stats.add(Counter::DatagramsDropped, 1);
        }
        postponed
    }

    /// Counts the call under way for its client.
    fn count_call(&self) {
        if let Some((from, _)) = self.from.get() {
            let bytes_in = self.call.get().bytes_in as u64;
            let more = DatagramTotals { calls: 1, bytes_in, bytes_out: 0 };
            self.round.stats.datagrams_of(from.ip(), more);
        }
    }

    /// Both ends of a datagram.
    fn peer(&self, from: SocketAddr, to: Local) -> Peer {
        let local = to.ip.unwrap_or(self.socket.local.ip());
        Peer {
            addr: from,
            local: SocketAddr::new(local, self.socket.local.port()),
            transport: Transport::Udp,
            security: rpc::TransportSecurity::PLAIN,
        }
    }

    fn collect(&self, reply: &mut Writer, to: SocketAddr, from: Local) {
        let mut bytes = self.free.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        mem::swap(&mut bytes, reply);
        self.replies.borrow_mut().push(Reply { bytes, to, from });
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
                    self.round.stats.add(Counter::UdpSendsFull, 1);
                    return false;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                // The first cannot be sent at all: too long, or there is no way to its client.
                Err(_) => {
                    self.round.stats.add(Counter::DatagramsDropped, 1);
                    1
                }
            };
            let mut free = self.free.borrow_mut();
            let keep_bytes = self.round.shared().keep_bytes.load(Relaxed);
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
        self.round.stats.add(Counter::SendCalls, 1);
        // or what is sent would become a part of another worker's reply
        let _uncorked = self.reply_path.uncorked(self.round.stats);
        mmsg::send(self.reply_path.socket(), outgoing.get(..replies.len()).unwrap_or_default())
    }

    /// Sends a reply with ranges of files as one datagram; 1.
    fn send_ranged(&self, reply: &Reply) -> std::io::Result<usize> {
        let _alone = self.reply_path.cork(self.round.stats);
        let socket = self.reply_path.socket();
        sys::datagram::cork(socket, true)?;
        let collected = datagram_ranges::collect(socket, self.round.stats, reply);
        if collected.is_err() {
            sys::datagram::discard(socket);
        }
        self.round.stats.add(Counter::SendCalls, 1);
        let sent = sys::datagram::cork(socket, false);
        let moved = collected?;
        sent?;
        moved.count(self.round.stats);
        Ok(1)
    }

    fn count_sent(&self, replies: &[Reply]) {
        let bytes_out = replies.iter().map(|reply| reply.bytes.total_len() as u64).sum();
        let traffic = Traffic { sent: replies.len() as u64, bytes_out, ..Traffic::default() };
        self.socket.count(self.round.pool.index, traffic);
        for reply in replies {
            let bytes_out = reply.bytes.total_len() as u64;
            let more = DatagramTotals { bytes_out, ..DatagramTotals::default() };
            self.round.stats.datagrams_of(reply.to.ip(), more);
        }
    }

    /// Sends everything, waiting for room in the socket if need be. Not while leading.
    fn flush_waiting(&self) {
        while !self.flush() {
            if !sys::socket::wait_writable(self.reply_path.socket(), DATAGRAM_PATIENCE) {
                let dropped = self.replies.borrow_mut().drain(..).len();
                self.round.stats.add(Counter::DatagramsDropped, dropped as u64);
            }
        }
    }

    /// Lets another thread lead, with all datagrams that nobody has begun to serve.
    fn step_aside(&self) {
        if self.detached.replace(true) {
            return;
        }
        self.round.step_aside(|way| self.return_rest(way));
    }

    /// Returns the datagrams that nobody has begun to serve.
    fn return_rest(&self, way: Return<'_>) {
        match way {
            Return::ToLoop(event_loop) => event_loop.datagrams.extend(self.rest()),
            Return::ToInbox => {
                let rest = self.rest();
                if !rest.is_empty() {
                    self.round.pool.post(Message::Datagrams(rest));
                }
            }
            // it has taken a single datagram
            Return::NeverLed => {}
        }
    }

    fn rest(&self) -> Vec<ReceivedDatagram> {
        let mut rest = Vec::new();
        while let Some(datagram) = self.next_datagram() {
            if datagram.truncated {
                self.round.stats.add(Counter::DatagramsDropped, 1);
            } else {
                rest.push(ReceivedDatagram::copy_of(self.socket, &datagram));
            }
        }
        rest
    }

    /// Ends the round; the event loop, if this worker leads still.
    fn finish(self, free: &mut Vec<Writer>, pending: &mut Vec<Reply>) -> Option<Box<EventLoop>> {
        if !self.flush() {
            self.step_aside();
            self.flush_waiting();
        }
        *free = self.free.take();
        *pending = self.replies.take();
        if self.detached.get() {
            self.round.resumed();
            return None;
        }
        self.round.end(|way| self.return_rest(way))
    }
}

impl CallHost for DatagramRound<'_> {
    fn count_operation(&self, op: OpIndex, status: u32) {
        self.round.stats.operation(op.0, status);
    }

    fn is_postponed(&self) -> bool {
        self.round.is_postponed()
    }

    fn line(&self) -> Option<Box<dyn Line>> {
        let Round { pool, .. } = &self.round;
        let (shared, call) = (&pool.shared, self.call.get());
        let line = DatagramLine::begin(self.socket, shared, pool.index, self.from.get()?, call)?;
        Some(Box::new(line))
    }

    fn back_channel(&self) -> Option<Arc<dyn BackChannel>> {
        let (Round { pool, .. }, (to, from)) = (&self.round, self.from.get()?);
        Some(Arc::new(DatagramBackChannel {
            socket: Arc::downgrade(self.socket),
            shared: Arc::downgrade(&pool.shared),
            peer: self.peer(to, from),
            to,
            from,
            pool: pool.index,
        }))
    }
}

impl Blocking for DatagramRound<'_> {
    fn will_block(&self) {
        if self.detached.get() {
            return;
        }
        let all_sent = self.flush();
        self.step_aside();
        if !all_sent {
            self.flush_waiting();
        }
    }

    fn will_block_in(&self, export: u16) -> bool {
        self.will_block();
        let addr = self.from.get().map(|(from, _)| from);
        let caller = Caller { conn: None, addr };
        self.round.enter_export(export, caller, Admission::First)
    }
}

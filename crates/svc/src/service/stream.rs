//! One turn of a connection: one receive, every whole record in it, one send.
//!
//! The bytes lie in the worker's receive buffer, or in a tail that another worker handed on; the
//! connection keeps only what a record's end cuts off. A large record is received straight into
//! its place once its beginning is known; the data of a large WRITE goes to its file as it arrives
//! ([`ahead`]), most of it without passing through here ([`piped`]).
//!
//! Small replies are collected and leave together at the end; they are sent earlier before a call
//! that may sleep, so that nobody waits for another's disk, and when they have become many bytes.
//!
//! A turn ends early, between two records, when it has lasted for [`ROUND_NS_MAX`]: what is left of the
//! receive buffer becomes a tail, and the others that are ready have their turn before it. So a
//! client that floods the server waits for itself.

use crate::conn::connection::{Conn, Rx, Tail};
use crate::conn::transmit::Sent;
use crate::limits::{
    BATCH_BYTES, DIRECT_BYTES_MIN, DIRECT_BYTES_PER_ROUND, RECEIVE_BYTES, REPLY_COPY_MAX,
    ROUND_NS_MAX,
};
use crate::pool::worker_pool::{Message, Pool};
use crate::service::write_ahead;
use crate::service::write_pipe::{self, PipeState};
use crate::stats::{self, NS_PER_MS};
use crate::worker::thread::{ActiveRound, Worker, WorkerBuffers, keep, return_conn};
use crate::zero_copy::ReplyBatch;
use rpc::record::{MARK_LEN, Record, RecordError};
use rpc::{
    Ahead, Arrived, Blocking, CallHost, OpIndex, Peer, SocketBufferSizes, Transport, Verdict,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::io::ErrorKind;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::{Counter, WorkerStats};
use xdr::Writer;

/// What one receive brought.
enum Received {
    /// So many bytes in the worker's buffer, of which the first `front` are a copy of what is kept of
    /// the record under way.
    Bytes { front: usize, len: usize },
    /// Bytes that went straight into the record under way.
    Placed,
    /// Data of the record under way, which is in a pipe.
    Piped(write_pipe::Filled),
    /// Nothing.
    Nothing,
    /// The end of the stream.
    EndOfStream,
    /// The connection is broken.
    Broken,
}

/// What is to be done next.
pub(crate) enum Step<'b> {
    /// A call is to be answered: its record, without what went ahead.
    Answer(Record<'b>, Option<Ahead>),
    /// Some of the record under way is there, and its data may go ahead.
    GoAhead(write_ahead::Source<'b>),
    /// Data of the record under way may go ahead out of a pipe.
    GoPiped(write_pipe::Filled),
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// Every whole record is answered.
    AllAnswered,
    /// The rest has to wait.
    Paused,
    /// The connection has to be closed.
    Broken,
    /// The worker went on alone; the connection is with the core.
    Detached,
}

/// How a turn's worker stands to its pool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RoundRole {
    /// It leads, and has lent the core.
    Leads {
        round: u64,
        /// How often the watchdog had stepped in when the turn began.
        rescues: u64,
    },
    /// It took the connection from the queue. `one`: for one call only.
    Works { one: bool },
}

/// A turn under way, as the calls in it see it.
pub(crate) struct StreamRound<'b> {
    pub pool: &'b Arc<Pool>,
    pub stats: &'b WorkerStats,
    pub peer: Peer,
    pub role: RoundRole,
    /// The connection, until the worker is detached.
    pub rx: RefCell<Option<Box<Rx>>>,
    /// Replies that have not been sent.
    pub collected: RefCell<Writer>,
    /// What follows the record under way.
    pub rest: Cell<&'b [u8]>,
    /// What `rest` is the end of, unless it is the worker's own buffer.
    pub source: Option<&'b Tail>,
    /// The connection, once the worker is detached.
    pub left: OnceCell<Arc<Conn>>,
    /// The worker's pipe, once it is empty again.
    pub pipe: Cell<PipeState>,
}

/// Serves a connection that is readable, has a tail, or gets its last look.
pub(crate) fn serve(worker: &mut Worker, mut rx: Box<Rx>) {
    let source = rx.tail.take();
    worker.buffers.prepare();
    let received = match &source {
        Some(_) => Received::Nothing,
        None => receive(&mut rx, &mut worker.buffers, &worker.pool, &worker.stats),
    };
    let one = worker.is_reserve();
    let Worker { pool, stats, buffers, event_loop: leading, active_round, .. } = worker;
    let now_ns = pool.shared.clock.now_ns();
    // a look that finds nothing is no sign of life
    let brought =
        matches!(received, Received::Bytes { .. } | Received::Placed | Received::Piped(_));
    if source.is_some() || brought {
        rx.conn.seen.last_ms.store(now_ns / NS_PER_MS, Relaxed);
    }
    let (mut front, mut len, mut filled) = (0, 0, None);
    match received {
        Received::Bytes { front: kept, len: all } => (front, len) = (kept, all),
        Received::Piped(data) => filled = Some(data),
        Received::Placed | Received::Nothing => {}
        Received::EndOfStream => (rx.ending, rx.needs_rearm) = (true, true),
        Received::Broken => rx.broken = true,
    }
    let mut input = match &source {
        Some(tail) => tail.bytes(),
        None => buffers.receive.get(..len).unwrap_or_default(),
    };
    let record_max = pool.shared.limits.record_bytes_max;
    let first = match filled {
        Some(filled) => Ok(Some(Step::GoPiped(filled))),
        None => next(&mut rx, front, &mut input, &mut buffers.spare, record_max),
    };
    let first = match first {
        Ok(first) if !rx.broken => first,
        Ok(_) => None,
        Err(error) => {
            refuse(stats, &error);
            rx.broken = true;
            None
        }
    };
    let Some(first) = first else {
        tidy(&mut rx, &mut buffers.spare);
        return match leading.as_mut() {
            Some(event_loop) => return_conn(pool, stats, event_loop, rx),
            None => pool.give_back(rx, stats),
        };
    };
    if let Step::Answer(record, _) = &first {
        rx.conn.begins_with(&pool.shared.dispatcher, record);
    }
    let (role, round) = match leading.take() {
        Some(event_loop) => {
            pool.mark_call_start(now_ns);
            let rescues = pool.rescues();
            let round = pool.begin_round(event_loop);
            (RoundRole::Leads { round, rescues }, Some(round))
        }
        None => (RoundRole::Works { one }, None),
    };
    *active_round = Some(ActiveRound { round, token: Some(rx.token) });
    let turn = StreamRound {
        pool,
        stats,
        peer: rx.conn.peer,
        role,
        rx: RefCell::new(Some(rx)),
        collected: RefCell::new(mem::take(&mut buffers.collected)),
        rest: Cell::new(input),
        source: source.as_ref(),
        left: OnceCell::new(),
        pipe: Cell::new(mem::take(&mut buffers.pipe)),
    };
    let end = turn.run(first, &mut input, &mut buffers.reply, &mut buffers.spare, now_ns);
    buffers.pipe = turn.pipe.take();
    *leading = turn.finish(end, input, &mut buffers.collected, &mut buffers.spare);
    *active_round = None;
    buffers.trim(pool.shared.keep_bytes.load(Relaxed));
}

impl<'b> StreamRound<'b> {
    /// Answers record after record.
    fn run(
        &self,
        first: Step<'b>,
        input: &mut &'b [u8],
        reply: &mut Writer,
        spare: &mut Writer,
        mut now_ns: u64,
    ) -> RoundEnd {
        let shared = &self.pool.shared;
        let end_ns = now_ns.saturating_add(ROUND_NS_MAX);
        let mut step = first;
        loop {
            let (record, ahead) = match step {
                Step::Answer(record, ahead) => (record, ahead),
                Step::GoAhead(source) => return self.go_ahead(source, spare),
                Step::GoPiped(filled) => return self.go_piped(filled, spare),
            };
            match self.role {
                RoundRole::Leads { .. } => crate::conn::connection::add(&self.pool.seen.calls, 1),
                RoundRole::Works { .. } => _ = self.pool.seen.calls.fetch_add(1, Relaxed),
            }
            self.rest.set(input);
            reply.clear();
            let batch = match input.is_empty() && self.collected.borrow().is_empty() {
                true => ReplyBatch::One,
                false => ReplyBatch::Many,
            };
            reply.take_ranges(shared.zero_copy.now().range_min(Transport::Tcp, batch));
            let start = reply.mark();
            reply.u32(0);
            let now_ms = now_ns / NS_PER_MS;
            let arrived = Arrived { record: &record, ahead: ahead.as_ref() };
            let done = shared.dispatcher.dispatch(arrived, self.peer, now_ms, self, reply);
            match rpc::record::mark(reply.total_len().saturating_sub(MARK_LEN)) {
                Some(mark) if done.verdict == Verdict::Reply => reply.patch_u32(start, mark),
                Some(_) | None => reply.clear(),
            }
            let after_ns = shared.clock.now_ns();
            let latency_ns = after_ns.saturating_sub(now_ns);
            let record_len = record.len().saturating_add(ahead.as_ref().map_or(0, Ahead::len));
            stats::count(self.stats, &done, latency_ns, record_len, reply.total_len());
            now_ns = after_ns;
            self.apply_buffer_wishes(done.outcome.buffers);
            if let Record::Joined(memory) = record {
                keep(spare, memory);
            }
            if let Some(conn) = self.left.get() {
                self.pool.scheduler.worker_resumes();
                if let Some((pool, token)) = conn.finish(self.stats, reply) {
                    pool.post(Message::Ended(token));
                }
                return RoundEnd::Detached;
            }
            match done.verdict {
                Verdict::Reply | Verdict::Silence | Verdict::Deferred => {}
                // no flavour here offers TLS: a client that hears nothing must not go on in the clear
                Verdict::Close | Verdict::StartTls => return RoundEnd::Broken,
            }
            match self.collect(reply) {
                Sent::All => {}
                Sent::Queued => return RoundEnd::Paused,
                Sent::Broken => return RoundEnd::Broken,
            }
            if self.has_to_stop() {
                return RoundEnd::Paused;
            }
            if now_ns >= end_ns && !input.is_empty() && !shared.partial.is_tight() {
                self.stats.add(Counter::TurnsCut, 1);
                return RoundEnd::Paused;
            }
            step = match self.next(input, spare) {
                Ok(Some(step)) => step,
                Ok(None) => return RoundEnd::AllAnswered,
                Err(error) => {
                    refuse(self.stats, &error);
                    return RoundEnd::Broken;
                }
            };
            if let RoundRole::Leads { .. } = self.role {
                self.pool.mark_call_start(now_ns);
            }
        }
    }

    /// Whether the connection is to be given back before its next record.
    fn has_to_stop(&self) -> bool {
        match self.role {
            RoundRole::Leads { round, rescues } => {
                self.pool.rescues() != rescues && !self.pool.scheduler.is_current_round(round)
            }
            RoundRole::Works { one } => one,
        }
    }

    /// Gives the connection the buffers that the export of a call wants.
    fn apply_buffer_wishes(&self, wishes: SocketBufferSizes) {
        if wishes != SocketBufferSizes::UNSET
            && let Some(conn) = self.rx.borrow().as_ref().map(|rx| &rx.conn).or(self.left.get())
        {
            conn.apply_wishes(wishes, self.stats);
        }
    }

    /// What is next in what was received.
    fn next(
        &self,
        input: &mut &'b [u8],
        spare: &mut Writer,
    ) -> Result<Option<Step<'b>>, RecordError> {
        match self.rx.borrow_mut().as_mut() {
            Some(rx) => next(rx, 0, input, spare, self.pool.shared.limits.record_bytes_max),
            None => Ok(None),
        }
    }

    /// Puts a reply behind those before it, and sends them if they are many bytes. A range of a file
    /// takes a system call of its own; nothing is gained by keeping it back.
    fn collect(&self, reply: &mut Writer) -> Sent {
        let mut collected = self.collected.borrow_mut();
        if reply.has_ranges() {
            return self.send(&mut collected, reply);
        }
        if collected.is_empty() {
            mem::swap(&mut *collected, reply);
        } else if reply.len() <= REPLY_COPY_MAX {
            reply.append_to(&mut collected);
        } else {
            return self.send(&mut collected, reply);
        }
        if collected.len() < BATCH_BYTES { Sent::All } else { self.send(&mut collected, reply) }
    }

    fn send(&self, collected: &mut Writer, reply: &mut Writer) -> Sent {
        let sent = match self.rx.borrow().as_ref() {
            Some(rx) => rx.conn.send(self.pool, self.stats, &[collected, reply]),
            None => Sent::All,
        };
        collected.clear();
        reply.clear();
        sent
    }

    /// Ends the turn; the core, if this worker leads still.
    fn finish(
        self,
        end: RoundEnd,
        rest: &[u8],
        collected: &mut Writer,
        spare: &mut Writer,
    ) -> Option<Box<crate::pool::event_loop::EventLoop>> {
        *collected = self.collected.into_inner();
        let Some(mut rx) = self.rx.into_inner() else {
            collected.clear();
            return None;
        };
        let sent = rx.conn.send(self.pool, self.stats, &[collected]);
        collected.clear_to(self.pool.shared.keep_bytes.load(Relaxed));
        match end {
            RoundEnd::Broken => rx.broken = true,
            RoundEnd::AllAnswered | RoundEnd::Paused | RoundEnd::Detached => {
                rx.broken |= sent == Sent::Broken;
                rx.tail = Tail::of(rest, self.source);
                rx.needs_rearm |= rx.tail.is_some() || rx.ending;
            }
        }
        tidy(&mut rx, spare);
        let RoundRole::Leads { round, .. } = self.role else {
            self.pool.give_back(rx, self.stats);
            return None;
        };
        match self.pool.end_round(round) {
            Some(mut event_loop) => {
                return_conn(self.pool, self.stats, &mut event_loop, rx);
                Some(event_loop)
            }
            None => {
                self.pool.scheduler.worker_resumes();
                rx.needs_rearm = true;
                self.pool.post(Message::Back(rx));
                None
            }
        }
    }
}

impl CallHost for StreamRound<'_> {
    fn count_operation(&self, op: OpIndex, status: u32) {
        self.stats.operation(op.0, status);
    }
}

impl Blocking for StreamRound<'_> {
    fn will_block(&self) {
        let Some(mut rx) = self.rx.borrow_mut().take() else { return };
        let conn = Arc::clone(&rx.conn);
        let mut collected = self.collected.borrow_mut();
        conn.detach(self.pool, self.stats, &collected);
        collected.clear();
        rx.tail = Tail::of(self.rest.get(), self.source);
        rx.needs_rearm = true;
        // It was empty: the connection is taken out of `rx` only once.
        let _ = self.left.set(conn);
        let RoundRole::Leads { round, .. } = self.role else {
            self.pool.give_back(rx, self.stats);
            let call = self.pool.scheduler.worker_blocks(self.pool.shared.clock.now_ns());
            return self.pool.wake(call, self.stats);
        };
        match self.pool.end_round(round) {
            Some(mut event_loop) => {
                return_conn(self.pool, self.stats, &mut event_loop, rx);
                self.pool.promote_follower(event_loop, self.stats);
            }
            // The watchdog was quicker.
            None => self.pool.post(Message::Back(rx)),
        }
    }
}

/// One receive. A record of which much is missing takes the bytes where they belong.
fn receive(rx: &mut Rx, buffers: &mut WorkerBuffers, pool: &Pool, stats: &WorkerStats) -> Received {
    rx.more = true;
    if let Some(filled) = write_pipe::fill(rx, &mut buffers.pipe, &pool.shared, stats) {
        return Received::Piped(filled);
    }
    let buf = buffers.receive.as_mut_slice();
    let front = write_ahead::front(rx, buf);
    if front.is_some() || rx.partial.missing() < DIRECT_BYTES_MIN {
        let front = front.unwrap_or(0);
        let end = write_pipe::room(rx, front).map_or(buf.len(), |room| room.min(buf.len()));
        let room = buf.get_mut(front..end).unwrap_or_default();
        return match receive_once(rx, room, stats) {
            Ok(0) => drained(rx, Received::EndOfStream),
            Ok(len) => {
                rx.more = len >= room.len();
                Received::Bytes { front, len: front.saturating_add(len) }
            }
            Err(none) => drained(rx, none),
        };
    }
    let conn = Arc::clone(&rx.conn);
    let mut total = 0_usize;
    while total < DIRECT_BYTES_PER_ROUND && !write_ahead::is_enough(rx) {
        let Some(space) = rx.partial.space() else { break };
        let room = space.len();
        stats.add(Counter::ReceiveCalls, 1);
        match sys::socket::receive(&conn.stream, space) {
            Ok(0) => return drained(rx, Received::EndOfStream),
            Ok(len) => {
                rx.partial.received(len);
                crate::conn::connection::add(&conn.seen.bytes_in, len as u64);
                total = total.saturating_add(len);
                if len < room {
                    rx.more = false;
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                (rx.more, rx.read_until_empty) = (false, false);
                break;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return drained(rx, Received::Broken),
        }
    }
    if total == 0 { Received::Nothing } else { Received::Placed }
}

/// A receive found nothing, or nothing more for ever.
const fn drained(rx: &mut Rx, received: Received) -> Received {
    (rx.more, rx.read_until_empty) = (false, false);
    received
}

fn receive_once(rx: &Rx, buf: &mut [u8], stats: &WorkerStats) -> Result<usize, Received> {
    loop {
        stats.add(Counter::ReceiveCalls, 1);
        match sys::socket::receive(&rx.conn.stream, buf) {
            Ok(len) => {
                crate::conn::connection::add(&rx.conn.seen.bytes_in, len as u64);
                return Ok(len);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Received::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Received::Broken),
        }
    }
}

/// What is next: `input` is what was received, behind a copy of the `front` bytes that are kept of the
/// record under way.
fn next<'b>(
    rx: &mut Rx,
    front: usize,
    input: &mut &'b [u8],
    spare: &mut Writer,
    record_max: usize,
) -> Result<Option<Step<'b>>, RecordError> {
    write_ahead::begin(rx, input, record_max)?;
    let step = match write_ahead::in_place(rx, front, input) {
        Some(step) => Some(step),
        None => {
            *input = input.get(front..).unwrap_or_default();
            join(rx, input, spare, record_max)?
        }
    };
    if let Some(Step::Answer(_, ahead)) = &step {
        crate::conn::connection::add(&rx.conn.seen.calls, 1);
        rx.large &= ahead.is_some();
    }
    Ok(step)
}

/// Puts the record under way together; a large one gets memory that was large before.
fn join<'b>(
    rx: &mut Rx,
    input: &mut &'b [u8],
    spare: &mut Writer,
    record_max: usize,
) -> Result<Option<Step<'b>>, RecordError> {
    if rx.partial.missing() > RECEIVE_BYTES {
        rx.partial.reuse(spare);
    }
    Ok(match rx.partial.next(input, record_max)? {
        Some(record) => Some(Step::Answer(record, rx.ahead.take().filter(|a| !a.is_empty()))),
        None => write_ahead::joined(rx),
    })
}

/// Takes the memory of a connection between two records.
fn tidy(rx: &mut Rx, spare: &mut Writer) {
    if rx.partial.capacity() > 0
        && let Some(memory) = rx.partial.release()
    {
        keep(spare, memory);
    }
}

/// Counts what cannot be cut into records.
fn refuse(stats: &WorkerStats, error: &RecordError) {
    stats.add(
        match error {
            RecordError::TooLarge { .. } => Counter::RecordsTooLarge,
            RecordError::TooManyFragments => Counter::RecordsMalformed,
        },
        1,
    );
}

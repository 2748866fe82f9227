//! One service round of a connection: one receive, every whole record in it, one send.
//!
//! The bytes lie in the worker's receive buffer, or in a tail that another worker left; the connection
//! keeps only what a record's end cuts off. A large record is received straight into its place once its
//! beginning is known; the data of a large WRITE goes to its file as it arrives (`write_ahead.rs`), most
//! of it without being copied into this process (`write_pipe.rs`).
//!
//! Small replies are collected and leave together at the end; they are sent earlier before a call that
//! may block, so that nobody waits for another's disk, and when they have become many bytes.
//!
//! A round ends early, between two records, when it has lasted for [`ROUND_NS_MAX`]: what is left of the
//! receive buffer becomes a tail, and the others that are ready are served before it. So a client that
//! floods the server delays only itself.

use crate::clock::NS_PER_MS;
use crate::conn::connection::{Conn, Rx, Sent, Tail};
use crate::limits::{BATCH_BYTES, REPLY_COPY_MAX, ROUND_NS_MAX};
use crate::pool::blocked_calls::Caller;
use crate::pool::conn_return::{return_to_loop, return_without_loop};
use crate::pool::event_loop::EventLoop;
use crate::pool::inbox::Message;
use crate::pool::postponed::PostponedCall;
use crate::pool::unread;
use crate::service::back_channel::ConnBackChannel;
use crate::service::deferred::{CallStart, ConnLine};
use crate::service::receive::{count_refused, next_step, receive, take_memory};
use crate::service::round::{Admission, Calls, IncomingCall, Return, Round};
use crate::service::stream_round::{Received, RoundEnd, Step, StreamRound};
use crate::service::worker_context::{ActiveRound, WorkerContext, keep_larger};
use crate::zero_copy::ReplyBatch;
use rpc::record::{Record, RecordError};
use rpc::{
    BackChannel, Blocking, CallHost, ConnId, Copied, Done, Line, OpIndex, SocketBufferSizes,
    Verdict,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::Counter;
use xdr::Writer;

/// Serves a connection that is readable, has a tail, or is read for the last time.
pub(crate) fn serve(worker: &mut WorkerContext, mut rx: Box<Rx>) {
    let source = rx.tail.take();
    let kept = rx.conn.stream.kept_bytes();
    worker.buffers.prepare();
    let received = match &source {
        Some(_) => Received::Nothing,
        None => receive(&mut rx, &mut worker.buffers, &worker.pool.shared, &worker.stats),
    };
    let WorkerContext { pool, stats, buffers, event_loop, active_round, is_reserve } = worker;
    let now_ns = pool.shared.clock.now_ns();
    // a receive that finds nothing is no sign of life; more of a TLS record is
    let brought =
        matches!(received, Received::Bytes { .. } | Received::Placed | Received::Piped(_))
            || rx.conn.stream.kept_bytes() > kept;
    if source.is_some() || brought {
        rx.conn.counters.last_ms.store(now_ns / NS_PER_MS, Relaxed);
    }
    let (mut front, mut len, mut filled) = (0, 0, None);
    match received {
        Received::Bytes { front: kept, len: all } => (front, len) = (kept, all),
        Received::Piped(data) => filled = Some(data),
        Received::Placed | Received::Nothing => {}
        Received::EndOfStream => (rx.input_ended, rx.needs_rearm) = (true, true),
        Received::Broken => rx.broken = true,
    }
    let mut input = match &source {
        Some(tail) => tail.bytes(),
        None => buffers.receive.get(..len).unwrap_or_default(),
    };
    let record_max = pool.shared.limits.record_bytes_max;
    let first = match filled {
        Some(filled) => Ok(Some(Step::TakePiped(filled))),
        None => next_step(&mut rx, front, &mut input, &mut buffers.spare, record_max),
    };
    let first = match first {
        Ok(first) if !rx.broken => first,
        Ok(_) => None,
        Err(error) => {
            count_refused(stats, &error);
            rx.broken = true;
            None
        }
    };
    let Some(first) = first else {
        take_memory(&mut rx, &mut buffers.spare);
        return match event_loop.as_mut() {
            Some(event_loop) => return_to_loop(pool, stats, event_loop, rx),
            None => return_without_loop(pool, stats, rx),
        };
    };
    if let Step::Answer(record, _) = &first {
        rx.conn.urgent.check(&pool.shared.dispatcher, record);
    }
    let round = Round::begin(pool, stats, event_loop.take(), now_ns);
    *active_round = Some(ActiveRound { number: round.number(), token: Some(rx.token) });
    let stream_round = StreamRound {
        round,
        peer: rx.conn.caller(),
        range_min: rx.conn.stream.range_min(),
        rx: RefCell::new(Some(rx)),
        collected: RefCell::new(mem::take(&mut buffers.collected)),
        rest: Cell::new(input),
        source: source.as_ref(),
        detached: OnceCell::new(),
        call: Cell::default(),
        data_taken: Cell::new(true),
        pipe: Cell::new(mem::take(&mut buffers.pipe)),
    };
    let mut calls = StreamCalls {
        stream: &stream_round,
        first: Some(first),
        input,
        spare: &mut buffers.spare,
        end_ns: now_ns.saturating_add(ROUND_NS_MAX),
        one_call: *is_reserve,
    };
    let end = stream_round.round.run(&mut calls, &mut buffers.reply, now_ns);
    let rest = calls.input;
    buffers.pipe = stream_round.pipe.take();
    *event_loop = stream_round.finish(end, rest, &mut buffers.collected, &mut buffers.spare);
    *active_round = None;
    buffers.trim(pool.shared.keep_bytes.load(Relaxed));
}

/// The calls of a round.
struct StreamCalls<'r, 'b> {
    stream: &'r StreamRound<'b>,
    first: Option<Step<'b>>,
    /// What was received and is not served.
    input: &'b [u8],
    spare: &'r mut Writer,
    /// When others are to be served.
    end_ns: u64,
    /// The round ends after one call.
    one_call: bool,
}

impl<'b> StreamCalls<'_, 'b> {
    fn next_step(&mut self, now_ns: u64) -> Result<Step<'b>, RoundEnd> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        if self.one_call {
            return Err(RoundEnd::Paused);
        }
        let shared = self.stream.round.shared();
        if now_ns >= self.end_ns && !self.input.is_empty() && !shared.partial.is_tight() {
            self.stream.round.stats.add(Counter::TurnsCut, 1);
            return Err(RoundEnd::Paused);
        }
        match self.parse(shared.limits.record_bytes_max) {
            Ok(Some(step)) => Ok(step),
            Ok(None) => Err(RoundEnd::AllAnswered),
            Err(error) => {
                count_refused(self.stream.round.stats, &error);
                Err(RoundEnd::Broken)
            }
        }
    }

    fn parse(&mut self, record_max: usize) -> Result<Option<Step<'b>>, RecordError> {
        match self.stream.rx.borrow_mut().as_mut() {
            Some(rx) => next_step(rx, 0, &mut self.input, self.spare, record_max),
            None => Ok(None),
        }
    }
}

impl<'b> Calls<'b> for StreamCalls<'_, 'b> {
    type End = RoundEnd;
    const SUPERSEDED: RoundEnd = RoundEnd::Paused;

    fn next(&mut self, now_ns: u64) -> Result<IncomingCall<'b>, RoundEnd> {
        self.stream.data_taken.set(true);
        let (record, argument) = match self.next_step(now_ns)? {
            Step::Answer(record, argument) => (record, argument),
            Step::TakeData(source) => return Err(self.stream.take_data(source, self.spare)),
            Step::TakePiped(filled) => return Err(self.stream.take_piped(filled, self.spare)),
        };
        self.stream.data_taken.set(argument.is_some());
        self.stream.rest.set(self.input);
        self.stream.call.set(CallStart { began_ns: now_ns, bytes_in: record.len() });
        let batch = match self.input.is_empty() && self.stream.collected.borrow().is_empty() {
            true => ReplyBatch::One,
            false => ReplyBatch::Many,
        };
        let (peer, range_min) = (self.stream.peer, self.stream.range_min);
        Ok(IncomingCall { record, argument, peer, batch, range_min })
    }

    fn host(&self) -> &dyn CallHost {
        self.stream
    }

    fn take_reply(
        &mut self,
        call: IncomingCall<'b>,
        done: &Done,
        reply: &mut Writer,
    ) -> Option<RoundEnd> {
        if self.stream.postpone(&call.record) {
            return Some(RoundEnd::Detached);
        }
        self.stream.size_buffers(done.outcome.buffers);
        if self.stream.range_min > 0 && done.outcome.copied == Some(Copied::NotTaken) {
            self.stream.round.stats.add(Counter::CopiedSealed, 1);
        }
        if let Record::Joined(memory) = call.record {
            keep_larger(self.spare, memory);
        }
        if let Some(conn) = self.stream.detached.get() {
            let round = &self.stream.round;
            round.resumed();
            let sent = conn.end_detached_call(round.stats, reply);
            unread::account(sent, conn, round.shared(), round.stats);
            if done.verdict == Verdict::Close {
                conn.shut_down();
            }
            return Some(RoundEnd::Detached);
        }
        match done.verdict {
            Verdict::Reply | Verdict::Silence => {}
            Verdict::Deferred if self.stream.is_busy() => return Some(RoundEnd::Paused),
            Verdict::Deferred => {}
            Verdict::StartTls => return Some(self.start_tls(reply)),
            Verdict::Close => return Some(RoundEnd::Broken),
        }
        match self.stream.collect(reply) {
            Sent::All => None,
            Sent::Queued => Some(RoundEnd::Paused),
            Sent::Broken => Some(RoundEnd::Broken),
        }
    }
}

impl StreamCalls<'_, '_> {
    /// The probe for TLS has to be the only call under way on its connection, and nothing may come behind it before it
    /// is answered: else what somebody put there in the clear could be taken for what the client sent inside TLS.
    fn start_tls(&self, reply: &mut Writer) -> RoundEnd {
        let alone = self.input.is_empty() && self.stream.collected.borrow().is_empty();
        let sent = if alone { self.stream.collect(reply) } else { Sent::Broken };
        match sent {
            Sent::All => RoundEnd::StartTls,
            Sent::Queued | Sent::Broken => RoundEnd::Broken,
        }
    }
}

impl StreamRound<'_> {
    /// The connection, wherever it is.
    fn any_conn(&self) -> Option<Arc<Conn>> {
        let rx = self.rx.borrow();
        rx.as_ref().map(|rx| &rx.conn).or(self.detached.get()).cloned()
    }

    /// Queues the call under way if it is to be postponed.
    fn postpone(&self, record: &[u8]) -> bool {
        if !self.round.is_postponed() {
            return false;
        }
        let Some(conn) = self.detached.get().cloned() else { return false };
        let (began_ns, pools) = (self.call.get().began_ns, self.round.shared().resumed_calls());
        let (peer, record) = (self.peer, record.to_vec());
        let call = PostponedCall {
            conn,
            peer,
            record,
            began_ns,
            pools,
            resume_permit: None,
            settled: false,
        };
        let postponed = self.round.postpone(|| call, false);
        if postponed {
            self.round.resumed();
        }
        postponed
    }

    /// Whether the connection has as many calls under way as it may have.
    fn is_busy(&self) -> bool {
        let most = self.round.shared().limits.in_flight_max;
        self.any_conn().is_none_or(|conn| conn.is_busy(most))
    }

    /// Gives the connection the socket buffers that the export of a call wants.
    fn size_buffers(&self, sizes: SocketBufferSizes) {
        if sizes != SocketBufferSizes::UNSET
            && let Some(conn) = self.rx.borrow().as_ref().map(|rx| &rx.conn).or(self.detached.get())
        {
            conn.buffers.want_for_export(&conn.stream, sizes, self.round.stats);
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
            Some(rx) => self.send_on(rx, &[collected, reply]),
            None => Sent::All,
        };
        collected.clear();
        reply.clear();
        sent
    }

    fn send_on(&self, rx: &Rx, replies: &[&Writer]) -> Sent {
        let Round { pool, stats, .. } = &self.round;
        let sent = rx.conn.send(&pool.handles, stats, replies);
        unread::account(sent, &rx.conn, &pool.shared, stats)
    }

    /// Ends the round; the event loop, if this worker leads still.
    fn finish(
        self,
        end: RoundEnd,
        rest: &[u8],
        collected: &mut Writer,
        spare: &mut Writer,
    ) -> Option<Box<EventLoop>> {
        let mut rx = self.rx.borrow_mut().take();
        *collected = self.collected.take();
        let Some(mut rx) = rx.take() else {
            collected.clear();
            return None;
        };
        let sent = self.send_on(&rx, &[collected]);
        collected.clear_to(self.round.shared().keep_bytes.load(Relaxed));
        match end {
            RoundEnd::Broken => rx.broken = true,
            RoundEnd::StartTls => match self.hand_over(rx, sent) {
                Ok(()) => return self.round.end(|_| {}),
                Err(back) => rx = back,
            },
            RoundEnd::AllAnswered | RoundEnd::Paused | RoundEnd::Detached => {
                rx.broken |= sent == Sent::Broken;
                rx.input_ended |=
                    rest.is_empty() && rx.conn.has_reached_record_limit() && rx.partial.is_empty();
                rx.tail = Tail::of(rest, self.source);
                rx.needs_rearm |= rx.tail.is_some() || rx.input_ended;
            }
        }
        take_memory(&mut rx, spare);
        self.round.end(|way| {
            rx.needs_rearm |= matches!(way, Return::ToInbox);
            self.return_conn(way, rx);
        })
    }

    /// Hands a connection over whose client begins a handshake.
    ///
    /// # Errors
    /// It comes back broken: something else is under way on it.
    fn hand_over(&self, mut rx: Box<Rx>, sent: Sent) -> Result<(), Box<Rx>> {
        let Round { pool, .. } = &self.round;
        let quiet = rx.conn.pause() && rx.partial.is_empty() && sent == Sent::All;
        match &pool.shared.handshakes {
            Some(handshakes) if quiet => {
                handshakes.begin(rx, pool);
                Ok(())
            }
            Some(_) | None => {
                rx.broken = true;
                Err(rx)
            }
        }
    }

    fn return_conn(&self, way: Return<'_>, rx: Box<Rx>) {
        let Round { pool, stats, .. } = &self.round;
        match way {
            Return::ToLoop(event_loop) => return_to_loop(pool, stats, event_loop, rx),
            Return::ToInbox => pool.post(Message::ReturnedConn(rx)),
            Return::NeverLed => return_without_loop(pool, stats, rx),
        }
    }
}

impl CallHost for StreamRound<'_> {
    fn count_operation(&self, op: OpIndex, status: u32) {
        self.round.stats.operation(op.0, status);
    }

    fn is_postponed(&self) -> bool {
        self.round.is_postponed()
    }

    fn must_run_once(&self) {
        self.data_taken.set(true);
    }

    fn line(&self) -> Option<Box<dyn Line>> {
        let line = ConnLine::begin(&self.any_conn()?, &self.round.pool.shared, self.call.get())?;
        Some(Box::new(line))
    }

    fn back_channel(&self) -> Option<Arc<dyn BackChannel>> {
        Some(Arc::new(ConnBackChannel::new(&self.any_conn()?, &self.round.pool.shared)))
    }

    fn conn(&self) -> Option<ConnId> {
        let rx = self.rx.borrow();
        rx.as_ref().map(|rx| &rx.conn).or(self.detached.get()).map(|conn| ConnId(conn.id))
    }

    fn lives(&self, conn: ConnId) -> bool {
        let conn = self.round.shared().conns.find(conn.0);
        conn.is_some_and(|conn| conn.waits_for_no_reply())
    }
}

impl Blocking for StreamRound<'_> {
    fn will_block(&self) {
        let Some(mut rx) = self.rx.borrow_mut().take() else { return };
        let conn = Arc::clone(&rx.conn);
        let Round { pool, stats, .. } = &self.round;
        let mut collected = self.collected.borrow_mut();
        let sent = conn.begin_detached_call(&pool.handles, stats, &collected);
        unread::account(sent, &conn, &pool.shared, stats);
        collected.clear();
        rx.tail = Tail::of(self.rest.get(), self.source);
        rx.needs_rearm = true;
        // It was empty: the connection is taken out of `rx` only once.
        let _ = self.detached.set(conn);
        self.round.step_aside(|way| self.return_conn(way, rx));
    }

    fn will_block_in(&self, export: u16) -> bool {
        self.will_block();
        let conn = self.detached.get();
        let (conn, addr) = (conn.map(|conn| conn.id), conn.map(|conn| conn.peer.addr));
        let admission = match self.data_taken.get() {
            true => Admission::DataTaken,
            false => Admission::First,
        };
        self.round.enter_export(export, Caller { conn, addr }, admission)
    }
}

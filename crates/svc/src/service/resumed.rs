//! The service round of a call that was postponed ([`crate::pool::postponed`]): it is run again from its beginning.
//!
//! Nothing is received, and the connection is elsewhere meanwhile; the reply leaves under its transmit lock, as that of
//! a detached call.

use crate::pool::blocked_calls::Caller;
use crate::pool::postponed::PostponedCall;
use crate::pool::unread;
use crate::service::back_channel::ConnBackChannel;
use crate::service::deferred::{CallStart, ConnLine};
use crate::service::round::{Admission, Calls, IncomingCall, Round};
use crate::service::worker_context::{ActiveRound, WorkerContext};
use crate::zero_copy::ReplyBatch;
use rpc::record::Record;
use rpc::{BackChannel, Blocking, CallHost, ConnId, Done, Line, OpIndex, Verdict};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use xdr::Writer;

/// The round of one call.
struct ResumedRound<'b> {
    round: Round<'b>,
    call: RefCell<Box<PostponedCall>>,
    /// The worker has stepped aside.
    detached: Cell<bool>,
}

/// How a round ended: there is only one way.
struct Answered;

/// Runs a postponed call.
pub(crate) fn serve(worker: &mut WorkerContext, mut call: Box<PostponedCall>) {
    let WorkerContext { pool, stats, buffers, event_loop, active_round, .. } = worker;
    let round = Round::begin(pool, stats, event_loop.take(), pool.shared.clock.now_ns());
    *active_round = Some(ActiveRound { number: round.number(), token: None });
    let (record, began_ns) = (std::mem::take(&mut call.record), call.began_ns);
    let resumed = ResumedRound { round, call: RefCell::new(call), detached: Cell::new(false) };
    let mut calls = ResumedCalls { resumed: &resumed, record: Some(&record) };
    // its latency counts from when it came
    let Answered = resumed.round.run(&mut calls, &mut buffers.reply, began_ns);
    if resumed.detached.get() {
        resumed.round.resumed();
    } else {
        *event_loop = resumed.round.end(|_| {});
    }
    *active_round = None;
}

/// The call of a round.
struct ResumedCalls<'r, 'b> {
    resumed: &'r ResumedRound<'b>,
    record: Option<&'r [u8]>,
}

impl<'r> Calls<'r> for ResumedCalls<'r, '_> {
    type End = Answered;
    const SUPERSEDED: Answered = Answered;

    fn next(&mut self, _now_ns: u64) -> Result<IncomingCall<'r>, Answered> {
        let record = Record::InPlace(self.record.take().ok_or(Answered)?);
        let call = self.resumed.call.borrow();
        let (peer, range_min) = (call.peer, call.conn.stream.range_min());
        Ok(IncomingCall { record, argument: None, peer, batch: ReplyBatch::One, range_min })
    }

    fn host(&self) -> &dyn CallHost {
        self.resumed
    }

    fn take_reply(
        &mut self,
        call: IncomingCall<'r>,
        done: &Done,
        reply: &mut Writer,
    ) -> Option<Answered> {
        let round = &self.resumed.round;
        let mut postponed = self.resumed.call.borrow_mut();
        let again = |record: &[u8]| PostponedCall {
            conn: Arc::clone(&postponed.conn),
            peer: postponed.peer,
            record: record.to_vec(),
            began_ns: postponed.began_ns,
            pools: postponed.pools.clone(),
            resume_permit: None,
            settled: false,
        };
        if round.postpone(|| again(&call.record), true) {
            postponed.settled = true;
            return Some(Answered);
        }
        postponed.settled = true;
        let conn = &postponed.conn;
        let sent = conn.end_detached_call(round.stats, reply);
        unread::account(sent, conn, round.shared(), round.stats);
        if matches!(done.verdict, Verdict::Close | Verdict::StartTls) {
            conn.shut_down();
        }
        Some(Answered)
    }
}

impl CallHost for ResumedRound<'_> {
    fn count_operation(&self, op: OpIndex, status: u32) {
        self.round.stats.operation(op.0, status);
    }

    fn line(&self) -> Option<Box<dyn Line>> {
        let call = self.call.borrow();
        // its record was taken, and is not counted twice
        let start = CallStart { began_ns: call.began_ns, bytes_in: 0 };
        Some(Box::new(ConnLine::begin(&call.conn, &self.round.pool.shared, start)?))
    }

    fn back_channel(&self) -> Option<Arc<dyn BackChannel>> {
        Some(Arc::new(ConnBackChannel::new(&self.call.borrow().conn, &self.round.pool.shared)))
    }

    fn conn(&self) -> Option<ConnId> {
        Some(ConnId(self.call.borrow().conn.id))
    }

    fn lives(&self, conn: ConnId) -> bool {
        let conn = self.round.shared().conns.find(conn.0);
        conn.is_some_and(|conn| conn.waits_for_no_reply())
    }

    fn is_postponed(&self) -> bool {
        self.round.is_postponed()
    }
}

impl Blocking for ResumedRound<'_> {
    fn will_block(&self) {
        if !self.detached.replace(true) {
            self.round.step_aside(|_| {});
        }
    }

    fn will_block_in(&self, export: u16) -> bool {
        self.will_block();
        let mut call = self.call.borrow_mut();
        let caller = Caller { conn: Some(call.conn.id), addr: Some(call.conn.peer.addr) };
        self.round.enter_export(export, caller, Admission::Again(call.resume_permit.take()))
    }
}

//! One service round: the calls of one receive, answered one after the other, by one worker.
//!
//! What a round of a connection (`stream.rs`) and one of a datagram socket (`datagrams.rs`) share: the
//! loop over the calls, how each is answered and counted, and how the worker gives the event loop, or its
//! place in the queue, to another thread when a call will block.

use crate::clock::NS_PER_MS;
use crate::pool::blocked_calls::{BlockPermit, Caller, Entry, Procedure, ResumePermit, Waits};
use crate::pool::event_loop::EventLoop;
use crate::pool::postponed::PostponedCall;
use crate::pool::shared::Shared;
use crate::pool::worker_pool::Pool;
use crate::service::call_counters;
use crate::sync::add;
use crate::zero_copy::ReplyBatch;
use rpc::record::{MARK_LEN, Record};
use rpc::{CallHost, Done, LargeArgument, Peer, Transport, Verdict};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::WorkerStats;
use xdr::Writer;

/// A round under way.
pub(crate) struct Round<'w> {
    pub pool: &'w Arc<Pool>,
    pub stats: &'w WorkerStats,
    role: Role,
    /// The procedure of the call under way.
    procedure: Cell<Procedure>,
    /// Held from when a call announces that it blocks in an export until the round ends.
    permit: RefCell<Option<BlockPermit<'w>>>,
    /// The export that the call under way may not block in yet: it is to be postponed.
    full: Cell<Option<u16>>,
}

/// Whether a call that may not block yet can be run again.
pub(crate) enum Admission {
    /// If its plan says so.
    First,
    /// It is run again.
    Again(Option<ResumePermit>),
    /// No: some of its data was taken, or its flavour forbids it.
    DataTaken,
}

/// What its worker is to its pool.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// It leads, and has left the event loop with the scheduler.
    Leader {
        round: u64,
        /// How often the watchdog had replaced a leader when the round began.
        rescues: u64,
    },
    /// It took its work from the queue.
    QueueWorker,
}

/// How a worker returns what it serves when its round ends, or when a call will block.
pub(crate) enum Return<'e> {
    /// To its event loop: it leads still.
    ToLoop(&'e mut EventLoop),
    /// Through the inbox: another thread leads.
    ToInbox,
    /// By itself: it took its work from the queue.
    NeverLed,
}

/// A call that has arrived.
pub(crate) struct IncomingCall<'b> {
    pub record: Record<'b>,
    /// What was taken of its data before the record was whole.
    pub argument: Option<LargeArgument>,
    pub peer: Peer,
    /// Whether other replies leave together with this one.
    pub batch: ReplyBatch,
    /// Bytes of the shortest range of a file that can leave by itself, whatever the setting allows.
    pub range_min: usize,
}

/// Where the calls of a round come from and where their replies go.
pub(crate) trait Calls<'b> {
    /// How a round ends.
    type End;
    /// The end of a round whose worker was replaced as the leader by the watchdog.
    const SUPERSEDED: Self::End;

    /// The next call.
    ///
    /// # Errors
    /// There is none: how the round ends.
    fn next(&mut self, now_ns: u64) -> Result<IncomingCall<'b>, Self::End>;

    /// What a call asks of the round that it is in.
    fn host(&self) -> &dyn CallHost;

    /// Takes the reply of a call; `Some`: the round ends with it.
    fn take_reply(
        &mut self,
        call: IncomingCall<'b>,
        done: &Done,
        reply: &mut Writer,
    ) -> Option<Self::End>;
}

impl<'w> Round<'w> {
    /// Begins a round of a worker; `event_loop` if it leads.
    pub fn begin(
        pool: &'w Arc<Pool>,
        stats: &'w WorkerStats,
        event_loop: Option<Box<EventLoop>>,
        now_ns: u64,
    ) -> Self {
        let role = match event_loop {
            Some(event_loop) => {
                pool.mark_call_start(now_ns);
                let rescues = pool.rescues();
                Role::Leader { round: pool.begin_round(event_loop), rescues }
            }
            None => Role::QueueWorker,
        };
        let (procedure, permit, full) = (Cell::default(), RefCell::default(), Cell::default());
        Self { pool, stats, role, procedure, permit, full }
    }

    /// The number of a leader's round.
    pub const fn number(&self) -> Option<u64> {
        match self.role {
            Role::Leader { round, .. } => Some(round),
            Role::QueueWorker => None,
        }
    }

    pub fn shared(&self) -> &'w Shared {
        &self.pool.shared
    }

    /// Answers call after call.
    pub fn run<'b, C: Calls<'b>>(
        &self,
        calls: &mut C,
        reply: &mut Writer,
        mut now_ns: u64,
    ) -> C::End {
        let mut next = calls.next(now_ns);
        loop {
            let mut call = match next {
                Ok(call) => call,
                Err(end) => return end,
            };
            let done = self.answer(&mut call, calls.host(), reply, &mut now_ns);
            if let Some(end) = calls.take_reply(call, &done, reply) {
                return end;
            }
            if self.is_superseded() {
                return C::SUPERSEDED;
            }
            if let Role::Leader { .. } = self.role {
                self.pool.mark_call_start(now_ns);
            }
            next = calls.next(now_ns);
        }
    }

    /// Answers one call, and counts it. `now_ns` is when it began, and then when it ended.
    fn answer(
        &self,
        call: &mut IncomingCall<'_>,
        host: &dyn CallHost,
        reply: &mut Writer,
        now_ns: &mut u64,
    ) -> Done {
        let shared = self.shared();
        let calls = &self.pool.counters.calls;
        match self.role {
            Role::Leader { .. } => add(calls, 1),
            Role::QueueWorker => _ = calls.fetch_add(1, Relaxed),
        }
        self.set_procedure(&call.record);
        let transport = call.peer.transport;
        reply.clear();
        let range_min = shared.zero_copy.now().range_min(transport, call.batch);
        reply.take_ranges(range_min.map(|bytes| bytes.max(call.range_min)));
        let mark = (transport == Transport::Tcp).then(|| {
            let start = reply.mark();
            reply.u32(0);
            start
        });
        let mut bytes_in = call.record.len();
        let done = match call.argument.take() {
            None => {
                let now_ms = *now_ns / NS_PER_MS;
                shared.dispatcher.dispatch(&call.record, &call.peer, now_ms, host, reply)
            }
            Some(argument) => {
                bytes_in = bytes_in.saturating_add(argument.taken());
                shared.dispatcher.finish(&call.record, argument, &call.peer, host, reply)
            }
        };
        if let Some(start) = mark {
            match rpc::record::mark(reply.total_len().saturating_sub(MARK_LEN)) {
                Some(mark) if matches!(done.verdict, Verdict::Reply | Verdict::StartTls) => {
                    reply.patch_u32(start, mark);
                }
                Some(_) | None => reply.clear(),
            }
        }
        let after_ns = shared.clock.now_ns();
        let latency_ns = after_ns.saturating_sub(*now_ns);
        // a deferred call is counted when it is answered, and so is one that is postponed
        if done.verdict != Verdict::Deferred && !self.is_postponed() {
            call_counters::count(self.stats, &done, latency_ns, bytes_in, reply.total_len());
        }
        *now_ns = after_ns;
        done
    }

    /// Whether the watchdog has given the event loop to another thread since the round began.
    fn is_superseded(&self) -> bool {
        match self.role {
            Role::Leader { round, rescues } => {
                self.pool.rescues() != rescues && !self.pool.scheduler.is_current_round(round)
            }
            Role::QueueWorker => false,
        }
    }

    /// A call will block: lets another thread take over what the worker does for its pool, after
    /// `return_work`. When the call has ended, [`Round::resumed`] has to be called.
    pub fn step_aside(&self, return_work: impl FnOnce(Return<'_>)) {
        let Role::Leader { round, .. } = self.role else {
            return_work(Return::NeverLed);
            return self.pool.worker_blocks(self.stats);
        };
        match self.pool.end_round(round) {
            Some(mut event_loop) => {
                return_work(Return::ToLoop(&mut event_loop));
                self.pool.promote_follower(event_loop, self.stats);
            }
            // The watchdog was quicker.
            None => return_work(Return::ToInbox),
        }
    }

    /// Notes the procedure of the call under way, for those who ask what blocks.
    pub fn set_procedure(&self, record: &[u8]) {
        self.procedure.set(Procedure::of(record));
    }

    /// The call under way will block in an export; the worker has stepped aside. `false`: it has to give up, as
    /// many calls as may block there do; it hangs, or the call is to be postponed.
    pub fn enter_export(&self, export: u16, caller: Caller, admission: Admission) -> bool {
        let mut permit = self.permit.borrow_mut();
        if permit.is_some() || self.is_postponed() {
            return permit.is_some();
        }
        let (procedure, shared) = (self.procedure.get(), self.pool.shared.as_ref());
        let Procedure { program, version, procedure: number } = procedure;
        let (again, resume_permit) = match admission {
            Admission::First => (shared.dispatcher.is_restartable(program, version, number), None),
            Admission::Again(resume_permit) => (true, resume_permit),
            Admission::DataTaken => (false, None),
        };
        let waits = if again { Waits::Postponed } else { Waits::InThread };
        match shared.blocked.enter(export, procedure, caller, (waits, resume_permit)) {
            Entry::Permitted(it) => *permit = Some(it),
            Entry::Full => self.full.set(Some(export)),
            Entry::Refused => {}
        }
        permit.is_some()
    }

    /// Whether the call under way is to be run again later.
    pub fn is_postponed(&self) -> bool {
        self.full.get().is_some()
    }

    /// Queues the call under way if it is to be postponed, before the others if it is not the first time. `false`: its
    /// reply is to be sent.
    pub fn postpone(&self, call: impl FnOnce() -> PostponedCall, again: bool) -> bool {
        let Some(export) = self.full.take() else { return false };
        let shared = self.shared();
        match shared.blocked.postpone(export, Box::new(call()), again) {
            Ok(()) => {
                shared.watchdog.wake_for_memory();
                true
            }
            Err(mut call) => {
                call.settled = true;
                false
            }
        }
    }

    /// The call that blocked has ended.
    pub fn resumed(&self) {
        self.pool.scheduler.worker_resumes();
    }

    /// Whether a call that has blocked without leaving its connection is over for the scheduler when it
    /// ends, and not only at the end of the round.
    pub const fn resumes_at_once(&self) -> bool {
        matches!(self.role, Role::QueueWorker)
    }

    /// Ends a round whose worker has not stepped aside; the event loop, if it leads still.
    pub fn end(&self, return_work: impl FnOnce(Return<'_>)) -> Option<Box<EventLoop>> {
        let Role::Leader { round, .. } = self.role else {
            return_work(Return::NeverLed);
            return None;
        };
        let event_loop = self.pool.end_round(round);
        match event_loop {
            Some(mut event_loop) => {
                return_work(Return::ToLoop(&mut event_loop));
                Some(event_loop)
            }
            None => {
                self.resumed();
                return_work(Return::ToInbox);
                None
            }
        }
    }
}

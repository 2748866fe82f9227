//! One callback, from the request for it until it is answered or cannot be delivered.

use super::client_program;
use super::operation::{self, CallbackAnswer, CallbackFailure, ConnFault, Done, Operation};
use super::table::{Begun, Table};
use super::{Callbacks, Recipient};
use proto::nfs4::Nfsstat4;
use rpc::{CallCredential, CallFailure, CallTarget};
use state::v4::{BackCall, BackStep, SessionId};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long to wait after a client's first NFS4ERR_DELAY; doubles with each.
const DELAY_FIRST: Duration = Duration::from_millis(100);
/// How often a callback is sent again after NFS4ERR_DELAY: for 12.7 s.
const DELAYS_MAX: u32 = 7;

/// A callback without a slot.
pub(super) struct Waiting {
    pub to: Recipient,
    pub operation: Operation,
    pub done: Done,
    /// How often the client has answered NFS4ERR_DELAY.
    pub delays: u32,
}

/// A callback on a slot.
pub(super) struct Pending {
    waiting: Waiting,
    pub session: SessionId,
    pub call: BackCall,
    pub connection: Option<Arc<dyn rpc::BackChannel>>,
    pub program: u32,
    pub minor: u32,
    pub credential: CallCredential,
    pub highest: u32,
}

impl Pending {
    pub fn new(waiting: Waiting, session: SessionId, call: BackCall) -> Self {
        let (program, minor, highest) = (0, 0, 0);
        let credential = CallCredential::None;
        Self { waiting, session, call, connection: None, program, minor, credential, highest }
    }

    pub fn into_waiting(self) -> Waiting {
        self.waiting
    }
}

/// A callback that is sent again later.
pub(super) enum Delayed {
    /// With its slot and sequence ID.
    OnSlot(Box<Pending>),
    /// The operation, on another slot.
    Anew(Waiting),
}

/// What follows from an answer; done without the lock.
enum Next<'a> {
    Finish(Waiting, Result<CallbackAnswer<'a>, CallbackFailure>),
    Send(Box<Pending>),
    Start(Waiting),
    /// It is sent again later.
    Wake,
}

impl Callbacks {
    /// Sends a callback; `done` is called with the answer.
    pub fn call(self: &Arc<Self>, to: Recipient, operation: Operation, done: Done) {
        self.start(Waiting { to, operation, done, delays: 0 });
    }

    pub(super) fn start(self: &Arc<Self>, waiting: Waiting) {
        let begun = self.lock().begin(waiting);
        match begun {
            Begun::Send(pending) => self.send(pending),
            Begun::Waits => {}
            Begun::Refused(waiting, why) => self.finish(waiting, Err(why)),
        }
    }

    pub(super) fn go_on(self: &Arc<Self>, delayed: Delayed) {
        match delayed {
            Delayed::OnSlot(pending) => self.send(pending),
            Delayed::Anew(waiting) => self.start(waiting),
        }
    }

    fn finish(&self, waiting: Waiting, answer: Result<CallbackAnswer<'_>, CallbackFailure>) {
        match answer {
            Ok(_) => self.counters.answered.fetch_add(1, Relaxed),
            Err(_) => self.counters.failed.fetch_add(1, Relaxed),
        };
        (waiting.done)(answer);
    }

    fn send(self: &Arc<Self>, pending: Box<Pending>) {
        let (Some(outbound), Some(connection)) = (self.outbound.get(), pending.connection.clone())
        else {
            return self.finish(pending.into_waiting(), Err(CallbackFailure::Stopped));
        };
        self.counters.sent.fetch_add(1, Relaxed);
        let (program, minor) = (pending.program, pending.minor);
        let (session, highest) = (pending.session, pending.highest);
        let operation = &pending.waiting.operation;
        let args = operation::encode(operation, session, minor, (&pending.call, highest));
        let credential = pending.credential.clone();
        let callbacks = Arc::clone(self);
        let target = CallTarget::Conn(connection);
        let done =
            Box::new(move |result: Result<&[u8], CallFailure>| callbacks.ended(pending, result));
        let _call =
            outbound.call(client_program::compound(target, program, (credential, args), done));
    }

    /// A message was answered, or cannot be answered any more.
    fn ended(self: &Arc<Self>, pending: Box<Pending>, result: Result<&[u8], CallFailure>) {
        let session = pending.session;
        let (next, waiting) = {
            let mut table = self.lock();
            let next = table.take_result(pending, result);
            self.bound.store(table.bound(), Relaxed);
            let frees = matches!(next, Next::Finish(..) | Next::Start(_) | Next::Wake);
            let stopped = matches!(next, Next::Finish(_, Err(CallbackFailure::Stopped)));
            (next, if frees && !stopped { table.next_waiting(&session) } else { None })
        };
        match next {
            Next::Finish(waiting, answer) => self.finish(waiting, answer),
            Next::Send(pending) => self.send(pending),
            Next::Start(waiting) => self.start(waiting),
            Next::Wake => self.wake(),
        }
        if let Some(waiting) = waiting {
            self.start(waiting);
        }
    }

    /// Sends CB_NULL over a connection, to learn whether it is answered.
    pub(super) fn probe(self: &Arc<Self>, connection: Arc<dyn rpc::BackChannel>, program: u32) {
        let (Some(outbound), Some(conn)) = (self.outbound.get(), connection.conn()) else { return };
        let callbacks = Arc::clone(self);
        let done = Box::new(move |result: Result<&[u8], CallFailure>| {
            let mut table = callbacks.lock();
            match result.map_err(operation::fault) {
                Ok(_) => table.heard(conn, true),
                Err(ConnFault::Closed) => table.unbind(conn),
                Err(ConnFault::Silent) => table.heard(conn, false),
                Err(ConnFault::Stopped) => {}
            }
        });
        let target = CallTarget::Conn(connection);
        let _call = outbound.call(client_program::null(target, program, done));
    }
}

impl Table {
    fn take_result<'a>(
        &mut self,
        pending: Box<Pending>,
        result: Result<&'a [u8], CallFailure>,
    ) -> Next<'a> {
        let conn = pending.connection.as_ref().and_then(|connection| connection.conn());
        let result = match result {
            Err(failure) => match operation::fault(failure) {
                ConnFault::Stopped => {
                    return Next::Finish(pending.into_waiting(), Err(CallbackFailure::Stopped));
                }
                fault => return self.try_elsewhere(pending, conn, fault),
            },
            Ok(result) => result,
        };
        let Ok((answer, operation)) = operation::decode(result) else {
            return self.try_elsewhere(pending, conn, ConnFault::Silent);
        };
        if let Some(conn) = conn {
            self.heard(conn, true);
        }
        self.follow(pending, answer, operation)
    }

    /// Sends a callback over the next connection, with the same slot and sequence ID.
    fn try_elsewhere<'a>(
        &mut self,
        pending: Box<Pending>,
        conn: Option<rpc::ConnId>,
        fault: ConnFault,
    ) -> Next<'a> {
        match (conn, fault) {
            (Some(conn), ConnFault::Closed) => self.unbind(conn),
            (Some(conn), _) => self.heard(conn, false),
            (None, _) => {}
        }
        if self.get_mut(&pending.session).is_none() {
            return Next::Start(pending.into_waiting());
        }
        match self.route(pending) {
            Ok(pending) => Next::Send(pending),
            // another session of the client may have a connection
            Err(pending) => match pending.waiting.to {
                Recipient::Client(_) => Next::Start(pending.into_waiting()),
                Recipient::Session(_) => {
                    Next::Finish(pending.into_waiting(), Err(CallbackFailure::Unanswered))
                }
            },
        }
    }

    fn follow<'a>(
        &mut self,
        mut pending: Box<Pending>,
        answer: state::v4::BackAnswer,
        operation: Option<CallbackAnswer<'a>>,
    ) -> Next<'a> {
        let Some(channel) = self.get_mut(&pending.session) else {
            // the session has ended meanwhile, which does not undo what has run
            return match operation {
                Some(answer) => Next::Finish(pending.into_waiting(), Ok(answer)),
                None => Next::Start(pending.into_waiting()),
            };
        };
        match channel.back.answered(&mut pending.call, answer) {
            BackStep::Done => self.done(pending.into_waiting(), operation),
            BackStep::DoneBefore => {
                Next::Finish(pending.into_waiting(), Err(CallbackFailure::AnswerLost))
            }
            BackStep::Again => match self.address(pending) {
                Ok(pending) => Next::Send(pending),
                Err(pending) => Next::Start(pending.into_waiting()),
            },
            BackStep::Later => {
                pending.waiting.delays = pending.waiting.delays.saturating_add(1);
                let delays = pending.waiting.delays;
                if delays > DELAYS_MAX {
                    channel.back.give_up(&pending.call);
                    return Next::Finish(pending.into_waiting(), Err(CallbackFailure::Unanswered));
                }
                self.later(delays, Delayed::OnSlot(pending))
            }
            BackStep::OtherSlot | BackStep::Lost => {
                let client = pending.client(self);
                self.publish(client);
                Next::Start(pending.into_waiting())
            }
        }
    }

    /// CB_SEQUENCE has succeeded.
    fn done<'a>(&mut self, mut waiting: Waiting, answer: Option<CallbackAnswer<'a>>) -> Next<'a> {
        let Some(answer) = answer else {
            return Next::Finish(waiting, Err(CallbackFailure::Unanswered));
        };
        let delay = answer.status == Nfsstat4::Delay.number();
        if !delay || waiting.delays >= DELAYS_MAX {
            return Next::Finish(waiting, Ok(answer));
        }
        waiting.delays = waiting.delays.saturating_add(1);
        self.later(waiting.delays, Delayed::Anew(waiting))
    }

    fn later<'a>(&mut self, delays: u32, delayed: Delayed) -> Next<'a> {
        let after = DELAY_FIRST.saturating_mul(1 << delays.saturating_sub(1).min(16));
        match self.delay(Instant::now() + after, delayed) {
            None => Next::Wake,
            Some(Delayed::Anew(waiting)) => Next::Finish(waiting, Err(CallbackFailure::NoRoom)),
            Some(Delayed::OnSlot(pending)) => {
                if let Some(channel) = self.get_mut(&pending.session) {
                    channel.back.give_up(&pending.call);
                }
                Next::Finish(pending.into_waiting(), Err(CallbackFailure::NoRoom))
            }
        }
    }
}

impl Pending {
    fn client(&self, table: &mut Table) -> u64 {
        table.client_of(&self.session).unwrap_or_default()
    }
}

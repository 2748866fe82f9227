//! From one record to one reply: header, RPC version, credential, program, version, procedure,
//! reply cache, the procedure itself.
//!
//! Rejections come before everything that an accepted call can fail at (RFC 5531 §9): a client
//! without a valid credential does not learn what programs there are.
//!
//! Invariants:
//! - Each call gets one answer or none; what a failed procedure had written is thrown away.
//! - A panic in a procedure ends that call only.
//! - A call whose reply is not kept ([`crate::Plan`]) allocates nothing and takes no lock; one whose
//!   data is taken early ([`Dispatcher::take_data`]) allocates once, for its sink.

mod answer;
mod header;
mod large;
mod programs;

use crate::auth::{Acceptance, AuthTable, CallMessage, Protection};
use crate::reply_cache::{Key, Lookup, Origin, ReplyCache, ReplyCacheUsage};
use crate::{
    Call, CallHost, ConnId, Done, Duplicate, Fault, OpIndex, OpName, Outcome, Peer, Program,
    Reject, Replies, Transport, TransportSecurity, Verdict,
};
use answer::{accept, answer_missing, answer_not_accepted, answer_unreadable};
use header::HeaderError;
use programs::{Found, Programs};
use proto::rpc::{Accepted, CALL, CallHeader};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use xdr::{Reader, Writer};

pub(crate) use answer::{answer_fault, put_accepted};

/// What a dispatcher is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchSettings {
    /// Bytes of memory for replies kept for retransmissions; 0 keeps none.
    pub reply_cache_bytes: usize,
    /// How long a reply is kept after it was sent, in milliseconds.
    pub reply_cache_age_ms: u64,
}

impl Default for DispatchSettings {
    fn default() -> Self {
        Self { reply_cache_bytes: 16 << 20, reply_cache_age_ms: 120_000 }
    }
}

/// Called with the caller's address, the program and the version of each call that is not served.
pub type UnservedObserver = Box<dyn Fn(SocketAddr, u32, u32) + Send + Sync>;

/// Answers calls. One for the whole server, shared by all workers.
pub struct Dispatcher {
    programs: Programs,
    auth: AuthTable,
    replies: Option<Arc<ReplyCache>>,
    /// Receives calls of programs, versions and procedures that are not served.
    unserved: Option<UnservedObserver>,
    /// Receives replies to the server's own calls.
    outbound_replies: OnceLock<Arc<dyn Replies>>,
}

impl Dispatcher {
    /// A dispatcher over these programs. Of two with the same number, the first is served.
    pub fn new(programs: Vec<Box<dyn Program>>, settings: DispatchSettings) -> Self {
        Self {
            programs: Programs::new(programs),
            auth: AuthTable::default(),
            replies: (settings.reply_cache_bytes > 0).then(|| {
                let cpus = sys::thread::allowed_cpus().map_or(1, |cpus| cpus.len());
                let age_ms = settings.reply_cache_age_ms;
                ReplyCache::new(settings.reply_cache_bytes, age_ms, cpus)
            }),
            unserved: None,
            outbound_replies: OnceLock::new(),
        }
    }

    /// The same with an observer of calls of programs, versions or procedures that are not served. The
    /// observer must not block.
    #[must_use]
    pub fn with_unserved_observer(self, observer: UnservedObserver) -> Self {
        Self { unserved: Some(observer), ..self }
    }

    /// All that is counted by itself; the place in the list is the [`OpIndex`].
    pub fn ops(&self) -> &[OpName] {
        self.programs.ops()
    }

    /// The programs that are served, each with every version.
    pub fn served(&self) -> impl Iterator<Item = (u32, u32)> {
        self.programs.served()
    }

    /// Whether a message, of which at least the numbers of its procedure are there, is a call that
    /// goes before others ([`crate::Plan::urgent`]).
    pub fn is_urgent(&self, message: &[u8]) -> bool {
        let Ok([_xid, kind, _rpc_version, program, version, procedure]) =
            Reader::new(message).words()
        else {
            return false;
        };
        let args = header::read(message, Transport::Tcp, TransportSecurity::PLAIN);
        let args = args.as_ref().map_or(&[][..], |message| message.args.rest());
        let plan = || self.programs.plan(program, version, procedure, args, Transport::Tcp);
        kind == CALL && plan().is_ok_and(|found| found.plan.is_urgent())
    }

    /// Whether calls of a procedure may be run again that were refused when they were about to block
    /// ([`crate::Plan::restartable`]).
    pub fn is_restartable(&self, program: u32, version: u32, procedure: u32) -> bool {
        let found = self.programs.plan(program, version, procedure, &[], Transport::Tcp);
        found.is_ok_and(|found| found.plan.is_restartable())
    }

    /// From now on, passes replies that arrive on clients' connections, and the ends of these, to
    /// `replies`; can be set once.
    ///
    /// # Errors
    /// It is set already.
    pub fn set_replies(&self, replies: Arc<dyn Replies>) -> Result<(), Arc<dyn Replies>> {
        self.outbound_replies.set(replies)
    }

    /// Reports the end of a connection to the receiver of replies.
    pub fn conn_closed(&self, conn: ConnId) {
        if let Some(replies) = self.outbound_replies.get() {
            replies.closed(conn);
        }
    }

    /// The authentication flavours in force.
    pub const fn auth(&self) -> &AuthTable {
        &self.auth
    }

    /// What the reply cache holds now.
    pub fn reply_cache(&self) -> ReplyCacheUsage {
        self.replies.as_ref().map(|replies| replies.usage()).unwrap_or_default()
    }

    /// Answers one record (without record mark) that came from `peer`, at `now_ms` of a clock that
    /// never goes back. Appends the whole reply message (without record mark) to `reply`, or
    /// nothing unless the verdict is [`Verdict::Reply`] or [`Verdict::StartTls`].
    pub fn dispatch(
        &self,
        record: &[u8],
        peer: &Peer,
        now_ms: u64,
        host: &dyn CallHost,
        reply: &mut Writer,
    ) -> Done {
        let message = match header::read(record, peer.transport, peer.security) {
            Ok(message) => message,
            Err(error) => return self.take_reply(error, record, peer.transport, host, reply),
        };
        let xid = message.header.xid;
        let credential = match self.auth.accept(&message) {
            Ok(Acceptance::Plain(credential)) => credential,
            Ok(Acceptance::Protected(protection)) => {
                return self.answer_protected(&message, &protection, peer, now_ms, host, reply);
            }
            Err(not) => return answer_not_accepted(reply, xid, peer, host, not),
        };
        let mut call = Call::pending(xid, peer, credential, host, None);
        self.answer(&message.header, message.args, &mut call, now_ms, reply)
    }

    /// Handles a record that is not a readable call: a reply on a connection is passed to its receiver.
    #[cold]
    #[inline(never)]
    fn take_reply(
        &self,
        error: HeaderError,
        record: &[u8],
        transport: Transport,
        host: &dyn CallHost,
        reply: &mut Writer,
    ) -> Done {
        if let HeaderError::Reply { xid } = error
            && let (Some(replies), Some(conn)) = (self.outbound_replies.get(), host.conn())
        {
            replies.arrived(conn, xid, record);
            return Done::new(Verdict::Silence, None, None);
        }
        answer_unreadable(&error, transport, reply)
    }

    /// Answers a call whose arguments and reply pass through its flavour.
    #[cold]
    #[inline(never)]
    fn answer_protected(
        &self,
        message: &CallMessage<'_>,
        protection: &Protection,
        peer: &Peer,
        now_ms: u64,
        host: &dyn CallHost,
        reply: &mut Writer,
    ) -> Done {
        host.must_run_once();
        let (mut buffer, xid) = (Vec::new(), message.header.xid);
        let Ok(args) = protection.unwrap(message.args.rest(), &mut buffer) else {
            let (status, reject) = (Accepted::GarbageArgs, Reject::GarbageArgs);
            return accept(reply, xid, None, Some(protection), status, reject);
        };
        if !protection.allows_ranges() {
            reply.take_ranges(None);
        }
        let credential = protection.credential();
        let mut call = Call::pending(xid, peer, credential, host, Some(protection));
        self.answer(&message.header, Reader::new(args), &mut call, now_ms, reply)
    }

    /// Answers a call that its flavour has accepted, its arguments unwrapped.
    fn answer<'a>(
        &'a self,
        header: &CallHeader<'_>,
        args: Reader<'_>,
        call: &mut Call<'a>,
        now_ms: u64,
        reply: &mut Writer,
    ) -> Done {
        let CallHeader { xid, program, version, procedure, .. } = *header;
        let transport = call.peer.transport;
        let found = match self.programs.plan(program, version, procedure, args.rest(), transport) {
            Ok(found) => found,
            Err(missing) => {
                if let Some(observer) = &self.unserved {
                    observer(call.peer.addr, program, version);
                }
                return answer_missing(reply, xid, call.protection(), missing);
            }
        };
        if let Some(pending) = &mut call.pending {
            pending.ops = found.ops;
        }
        if let Some(replies) = &self.replies
            && found.plan.keeps_reply(transport)
        {
            let key = replies.key(header, call.peer, &call.credential, args.rest());
            if let Some(duplicate) = begin_kept(replies, key, call, now_ms, reply) {
                return duplicate;
            }
        }
        run(&found, call, args, reply)
    }
}

/// Takes a call whose reply is kept into the reply cache; or what became of it, if it is a
/// retransmission.
fn begin_kept<'a>(
    replies: &'a Arc<ReplyCache>,
    key: Key,
    call: &mut Call<'a>,
    now_ms: u64,
    reply: &mut Writer,
) -> Option<Done> {
    let pending = call.pending.as_mut()?;
    let (host, op, protection) = (pending.host, pending.ops.call, pending.protection);
    let duplicate = |verdict, outcome, duplicate| {
        Some(Done { outcome, duplicate: Some(duplicate), ..Done::new(verdict, Some(op), None) })
    };
    let origin = Origin::of(host.conn());
    let mut known = replies.begin(key, origin, now_ms);
    if let Lookup::OtherConnection(_) = known {
        host.will_block();
        match replies.begin_copy(key, origin, |conn| host.lives(conn), now_ms) {
            Some(settled) => known = settled,
            // on an open connection its client would wait for an answer for ever
            None => return duplicate(Verdict::Close, Outcome::default(), Duplicate::Dropped),
        }
    }
    match known {
        Lookup::Running | Lookup::OtherConnection(_) => {
            duplicate(Verdict::Silence, Outcome::default(), Duplicate::Dropped)
        }
        Lookup::Answered(stored) => {
            put_accepted(reply, call.xid, protection, Accepted::Success);
            let results = reply.mark();
            reply.raw(&stored.results);
            if let Some(protection) = protection {
                protection.wrap(results, reply);
            }
            let outcome = Outcome { bytes_read: 0, bytes_written: 0, ..stored.outcome };
            duplicate(Verdict::Reply, outcome, Duplicate::Replayed)
        }
        Lookup::Fresh(ticket) => {
            pending.ticket = Some(ticket);
            None
        }
    }
}

/// Runs a procedure and answers.
fn run(found: &Found<'_>, call: &mut Call<'_>, mut args: Reader<'_>, reply: &mut Writer) -> Done {
    if found.plan.blocks() {
        call.blocking.will_block();
    }
    run_with(call, found.ops.call, reply, |call, reply| {
        found.program.run(found.row, call, &mut args, reply)
    })
}

/// Runs `procedure`, which appends the results of a call, or appends the reply to its fault.
#[inline]
fn run_with<'a>(
    call: &mut Call<'a>,
    op: OpIndex,
    reply: &mut Writer,
    procedure: impl FnOnce(&mut Call<'a>, &mut Writer) -> Result<(), Fault>,
) -> Done {
    let (start, xid) = (reply.mark(), call.xid);
    put_accepted(reply, xid, call.protection(), Accepted::Success);
    let results = reply.mark();
    // What a panic leaves half done behind the references is the reply, which is thrown away,
    // and the call, of which only plain numbers are used again.
    let ran = catch_unwind(AssertUnwindSafe(|| procedure(call, reply)));
    let Some(pending) = &mut call.pending else {
        reply.rewind(start);
        return Done::new(Verdict::Deferred, Some(op), None);
    };
    // Dropping the ticket forgets the call: a retransmission is a call of its own.
    let (protection, ticket) = (pending.protection, pending.ticket.take());
    let done = match ran {
        Ok(Ok(())) => {
            if let Some(ticket) = ticket
                && !reply.has_ranges()
                && !pending.host.is_postponed()
            {
                ticket.finish(reply.since(results), call.outcome);
            }
            if let Some(protection) = protection {
                protection.wrap(results, reply);
            }
            Done::new(Verdict::Reply, Some(op), None)
        }
        Ok(Err(fault)) => {
            let done = answer_fault(reply, start, xid, op, protection, fault);
            match (done.verdict, call.peer.transport) {
                // the client sends again by itself
                (Verdict::Close, Transport::Udp) => Done { verdict: Verdict::Silence, ..done },
                _ => done,
            }
        }
        Err(_panic) => {
            reply.rewind(start);
            let (status, reject) = (Accepted::SystemErr, Reject::Panicked);
            accept(reply, xid, Some(op), protection, status, reject)
        }
    };
    Done { outcome: call.outcome, ..done }
}

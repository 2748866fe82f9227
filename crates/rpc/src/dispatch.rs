//! From one record to one reply: header, RPC version, credential, program, version, procedure,
//! reply cache, the procedure itself.
//!
//! Rejections come before everything that an accepted call can fail at (RFC 5531 §9): a client
//! without a valid credential does not learn what programs there are.
//!
//! Invariants:
//! - Each call gets one answer or none; what a failed procedure had written is thrown away.
//! - A panic in a procedure ends that call only.
//! - A call whose reply is not kept ([`crate::Plan`]) allocates nothing and takes no lock; one of
//!   which data goes ahead ([`Dispatcher::ahead`]) allocates once, for what its procedure remembers.

mod header;
mod programs;

use crate::auth::AuthTable;
use crate::reply_cache::{CacheUse, Lookup, ReplyCache, Ticket};
use crate::{
    Ahead, Arrived, Beginning, Blocking, Call, Credential, Fault, OpIndex, OpName, Outcome, Peer,
    Program, SocketBufferSizes, Taken, Transport,
};
use header::Unreadable;
use programs::{Found, Programs};
use proto::rpc::{Accepted, AuthStat, CALL, CallHeader, Denied, RPC_VERSION, ReplyHeader};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xdr::{Mark, Reader, Writer};

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

/// What to do with a record that was dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send the reply that was appended.
    Reply,
    /// Send nothing: a duplicate of a call that still runs, no call, or a procedure's wish.
    Silence,
    /// Close the connection: what comes over it is not RPC. Never for a datagram.
    Close,
}

/// Why a call got no result of its procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reject {
    /// Not a call, or cut short within its header; nothing is sent.
    Malformed,
    /// RPC_MISMATCH.
    RpcMismatch,
    /// AUTH_ERROR with its reason.
    Auth(AuthStat),
    /// PROG_UNAVAIL.
    ProgUnavail,
    /// PROG_MISMATCH.
    ProgMismatch,
    /// PROC_UNAVAIL.
    ProcUnavail,
    /// GARBAGE_ARGS.
    GarbageArgs,
    /// SYSTEM_ERR, as the procedure asked.
    SystemErr,
    /// SYSTEM_ERR, because the procedure panicked: a bug of ours.
    Panicked,
}

/// What the reply cache did about a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplicate {
    /// The first still runs; this one was dropped: over UDP, or because others wait already.
    Dropped,
    /// The reply to the first was sent again.
    Replayed,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// What to do now.
    pub verdict: Verdict,
    /// The procedure, if there is one of that number.
    pub op: Option<OpIndex>,
    /// What the procedure told the statistics; a replayed reply counts no payload bytes.
    pub outcome: Outcome,
    /// Why there is no result.
    pub rejected: Option<Reject>,
    /// Whether the call was a retransmission that the reply cache knew.
    pub duplicate: Option<Duplicate>,
}

impl Done {
    const fn new(verdict: Verdict, op: Option<OpIndex>, rejected: Option<Reject>) -> Self {
        let outcome = Outcome {
            export: None,
            status: 0,
            bytes_read: 0,
            bytes_written: 0,
            bytes_piped: 0,
            buffers: SocketBufferSizes::UNSET,
            copied: None,
        };
        Self { verdict, op, outcome, rejected, duplicate: None }
    }
}

/// Answers calls. One for the whole server, shared by all workers.
pub struct Dispatcher {
    programs: Programs,
    auth: AuthTable,
    replies: Option<ReplyCache>,
}

/// Everything about a call that its answer needs.
struct Request<'a> {
    header: CallHeader<'a>,
    args: Reader<'a>,
    call: Call<'a>,
}

impl Dispatcher {
    /// A dispatcher over these programs. Of two with the same number, the first is served.
    pub fn new(programs: Vec<Box<dyn Program>>, settings: DispatchSettings) -> Self {
        Self {
            programs: Programs::new(programs),
            auth: AuthTable::default(),
            replies: (settings.reply_cache_bytes > 0).then(|| {
                let cpus = sys::thread::allowed_cpus().map_or(1, |cpus| cpus.len());
                ReplyCache::new(settings.reply_cache_bytes, settings.reply_cache_age_ms, cpus)
            }),
        }
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
        let args = header::read(message).map_or(&[][..], |(_, args)| args.rest());
        let plan = || self.programs.plan(program, version, procedure, args, Transport::Tcp);
        kind == CALL && plan().is_ok_and(|found| found.plan.is_urgent())
    }

    /// The authentication flavours in force.
    pub const fn auth(&self) -> &AuthTable {
        &self.auth
    }

    /// What the reply cache holds now.
    pub fn reply_cache(&self) -> CacheUse {
        self.replies.as_ref().map(ReplyCache::usage).unwrap_or_default()
    }

    /// Answers one record (without record mark) that came from `peer`, at `now_ms` of a clock that
    /// never goes back. Appends the whole reply message (without record mark) to `reply`, or
    /// nothing unless the verdict is [`Verdict::Reply`].
    pub fn dispatch(
        &self,
        arrived: Arrived<'_>,
        peer: Peer,
        now_ms: u64,
        blocking: &dyn Blocking,
        reply: &mut Writer,
    ) -> Done {
        let (header, args) = match header::read(arrived.record) {
            Ok(read) => read,
            Err(unreadable) => return refuse_unreadable(&unreadable, peer.transport, reply),
        };
        let xid = header.xid;
        let credential = match self.auth.authenticate(&header.credential, &header.verifier) {
            Ok(credential) => credential,
            Err(stat) => return deny(reply, xid, None, stat),
        };
        let CallHeader { program, version, procedure, .. } = header;
        let planned = self.programs.plan(program, version, procedure, args.rest(), peer.transport);
        let found = match planned {
            Ok(found) => found,
            Err(missing) => return answer_missing(reply, xid, missing),
        };
        let piped = arrived.ahead.map_or(0, Ahead::piped);
        let bytes_piped = u32::try_from(piped).unwrap_or(u32::MAX);
        let outcome = Outcome { bytes_piped, ..Outcome::default() };
        let call =
            Call { xid, peer, credential, blocking, ahead: arrived.ahead, piped: None, outcome };
        let request = Request { header, args, call };
        match &self.replies {
            Some(replies) if found.plan.keeps_reply(peer.transport) => {
                cached(replies, &found, request, now_ms, reply)
            }
            Some(_) | None => run(&found, request, reply),
        }
    }

    /// Lets data of a call go where it belongs whose record has only begun. The range of `so_far` that has
    /// gone; of data in a pipe, which would be behind it, only its length counts. It is empty if more
    /// of the record has to be there first, and if nothing more of it ever will go: then `ahead` is over
    /// ([`Ahead::is_over`]).
    pub fn ahead(
        &self,
        beginning: Beginning<'_>,
        peer: Peer,
        blocking: &dyn Blocking,
        ahead: &mut Ahead,
    ) -> Range<usize> {
        let Beginning { so_far, piped, missing } = beginning;
        let may_go = if ahead.is_over() { None } else { self.may_go_ahead(so_far) };
        let Some((header, credential, found, mut args)) = may_go else {
            ahead.end();
            return 0..0;
        };
        let outcome = Outcome::default();
        let xid = header.xid;
        let mut call = Call { xid, peer, credential, blocking, ahead: None, piped, outcome };
        // After a panic the call is dispatched whole, with what had gone before, and panics again.
        let took = catch_unwind(AssertUnwindSafe(|| {
            found.program.ahead(found.row, &mut call, &mut args, missing, ahead)
        }));
        let at = so_far.len().saturating_sub(args.remaining());
        let there = args.remaining().saturating_add(piped.map_or(0, |piped| piped.len));
        let bytes = match took.unwrap_or(Taken::Never) {
            Taken::Bytes(bytes) => bytes.min(there),
            Taken::NotYet => 0,
            Taken::Never => {
                ahead.end();
                0
            }
        };
        if bytes > 0 {
            ahead.went(at, bytes, piped.is_some());
        }
        at..at.saturating_add(bytes)
    }

    /// The call that a record begins with, if data of such a one may go ahead.
    fn may_go_ahead<'r>(
        &self,
        so_far: &'r [u8],
    ) -> Option<(CallHeader<'r>, Credential<'r>, Found<'_>, Reader<'r>)> {
        let (header, args) = header::read(so_far).ok()?;
        let credential = self.auth.authenticate(&header.credential, &header.verifier).ok()?;
        let CallHeader { program, version, procedure, .. } = header;
        let tcp = Transport::Tcp;
        let found = self.programs.plan(program, version, procedure, args.rest(), tcp).ok()?;
        (!found.plan.keeps_reply(tcp)).then_some((header, credential, found, args))
    }
}

/// Answers a call that must not run twice.
fn cached(
    replies: &ReplyCache,
    found: &Found<'_>,
    request: Request<'_>,
    now_ms: u64,
    reply: &mut Writer,
) -> Done {
    let key = replies.key(&request.header, &request.call, request.args.rest());
    let duplicate = |verdict, outcome, duplicate| Done {
        outcome,
        duplicate: Some(duplicate),
        ..Done::new(verdict, Some(found.op), None)
    };
    let mut known = replies.begin(key, now_ms);
    // the first answers over its own connection, which may be no more
    let over_tcp = request.call.peer.transport == Transport::Tcp;
    if over_tcp
        && matches!(known, Lookup::Running)
        && let Some(claim) = replies.claim(key)
    {
        request.call.blocking.will_block();
        claim.wait();
        known = replies.begin(key, now_ms);
    }
    match known {
        Lookup::Running => duplicate(Verdict::Silence, Outcome::default(), Duplicate::Dropped),
        Lookup::Answered(stored) => {
            reply.raw(&stored.reply);
            let outcome = Outcome { bytes_read: 0, bytes_written: 0, ..stored.outcome };
            duplicate(Verdict::Reply, outcome, Duplicate::Replayed)
        }
        Lookup::Fresh(ticket) => run_and_keep(ticket, found, request, reply),
    }
}

/// Runs a procedure and keeps its reply. Dropping the ticket, as a fault or a silence does,
/// forgets the call, so that a retransmission is a call of its own.
fn run_and_keep(
    ticket: Ticket<'_>,
    found: &Found<'_>,
    request: Request<'_>,
    reply: &mut Writer,
) -> Done {
    let start = reply.mark();
    let done = run(found, request, reply);
    if done.verdict == Verdict::Reply && done.rejected.is_none() && !reply.has_ranges() {
        ticket.finish(reply.since(start), done.outcome);
    }
    done
}

/// Runs a procedure and answers.
fn run(found: &Found<'_>, mut request: Request<'_>, reply: &mut Writer) -> Done {
    if found.plan.blocks() {
        request.call.blocking.will_block();
    }
    let start = reply.mark();
    let xid = request.header.xid;
    reply.put(&ReplyHeader::accepted(xid, Accepted::Success));
    // What a panic leaves half done behind the references is the reply, which is thrown away,
    // and the call, of which only plain numbers are used again.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        found.program.run(found.row, &mut request.call, &mut request.args, reply)
    }));
    let done = match ran {
        Ok(Ok(())) => Done::new(Verdict::Reply, Some(found.op), None),
        Ok(Err(fault)) => answer_fault(reply, start, xid, found.op, fault),
        Err(_panic) => {
            reply.rewind(start);
            accept(reply, xid, Some(found.op), Accepted::SystemErr, Reject::Panicked)
        }
    };
    Done { outcome: request.call.outcome, ..done }
}

/// Replaces what a procedure wrote by the answer to its fault.
fn answer_fault(reply: &mut Writer, start: Mark, xid: u32, op: OpIndex, fault: Fault) -> Done {
    reply.rewind(start);
    let op = Some(op);
    match fault {
        Fault::GarbageArgs(_) => accept(reply, xid, op, Accepted::GarbageArgs, Reject::GarbageArgs),
        Fault::SystemErr => accept(reply, xid, op, Accepted::SystemErr, Reject::SystemErr),
        Fault::ProcUnavail => accept(reply, xid, op, Accepted::ProcUnavail, Reject::ProcUnavail),
        Fault::TooWeak => deny(reply, xid, op, AuthStat::TooWeak),
        Fault::Silence => Done::new(Verdict::Silence, op, None),
    }
}

/// Answers a call of something that is not served.
fn answer_missing(reply: &mut Writer, xid: u32, missing: programs::Missing) -> Done {
    match missing {
        programs::Missing::Program => {
            accept(reply, xid, None, Accepted::ProgUnavail, Reject::ProgUnavail)
        }
        programs::Missing::Version { low, high } => {
            accept(reply, xid, None, Accepted::ProgMismatch { low, high }, Reject::ProgMismatch)
        }
        programs::Missing::Procedure => {
            accept(reply, xid, None, Accepted::ProcUnavail, Reject::ProcUnavail)
        }
    }
}

/// Deals with a record that is not a readable call.
fn refuse_unreadable(unreadable: &Unreadable, transport: Transport, reply: &mut Writer) -> Done {
    match *unreadable {
        Unreadable::Short | Unreadable::Reply => {
            Done::new(Verdict::Silence, None, Some(Reject::Malformed))
        }
        Unreadable::NotRpc => {
            let verdict = match transport {
                Transport::Tcp => Verdict::Close,
                Transport::Udp => Verdict::Silence,
            };
            Done::new(verdict, None, Some(Reject::Malformed))
        }
        Unreadable::OtherRpc { xid } => {
            let mismatch = Denied::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION };
            reply.put(&ReplyHeader::denied(xid, mismatch));
            Done::new(Verdict::Reply, None, Some(Reject::RpcMismatch))
        }
        Unreadable::Auth { xid, stat } => deny(reply, xid, None, stat),
    }
}

/// Appends a reply of MSG_DENIED / AUTH_ERROR.
fn deny(reply: &mut Writer, xid: u32, op: Option<OpIndex>, stat: AuthStat) -> Done {
    reply.put(&ReplyHeader::denied(xid, Denied::AuthError(stat)));
    Done::new(Verdict::Reply, op, Some(Reject::Auth(stat)))
}

/// Appends a reply of MSG_ACCEPTED without results.
fn accept(
    reply: &mut Writer,
    xid: u32,
    op: Option<OpIndex>,
    status: Accepted,
    reject: Reject,
) -> Done {
    reply.put(&ReplyHeader::accepted(xid, status));
    Done::new(Verdict::Reply, op, Some(reject))
}

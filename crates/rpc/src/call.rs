//! A call as its procedure sees it, and what the procedure reports about it.

use crate::auth::Protection;
use crate::back_channel::{BackChannel, ConnId};
use crate::line::Line;
use crate::plan::CallOps;
use crate::reply_cache::Ticket;
use crate::{Credential, OpIndex, Outcome, Peer};
use std::sync::Arc;

/// Announces to the worker thread that a call is about to block, so that other calls go on meanwhile.
pub trait Blocking {
    /// To be called before a system call or a lock that may wait; cheap to call twice.
    fn will_block(&self);

    /// The same for a call that works in an export, given by its index in the export table. `false`: the
    /// limit of blocked calls in this export is reached; the call has to give up. Once `true` was returned
    /// for a call, it is returned again.
    fn will_block_in(&self, export: u16) -> bool {
        let _ = export;
        self.will_block();
        true
    }
}

/// For work outside of a call: its thread serves no calls that blocking would delay.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreBlocking;

impl Blocking for IgnoreBlocking {
    fn will_block(&self) {}
}

/// What the transport does for a call while it runs.
pub trait CallHost: Blocking {
    /// Counts an operation inside the call ([`Call::count_operation`]). Without statistics there is
    /// nothing to do.
    fn count_operation(&self, op: OpIndex, status: u32) {
        let _ = (op, status);
    }

    /// Whether the call was refused when it was about to block ([`Blocking::will_block_in`]) and will be run
    /// again: what it answers is neither sent nor kept.
    fn is_postponed(&self) -> bool {
        false
    }

    /// The call in progress must not be run again: its flavour would treat it as a replay (RFC 2203 §5.3.3.1).
    fn must_run_once(&self) {}

    /// The way to send a reply after the call has returned ([`Call::defer`]); `None` if there is none, or the
    /// limit of pending replies is reached.
    fn line(&self) -> Option<Box<dyn Line>> {
        None
    }

    /// The way for messages to whom the call came from that are not replies ([`Call::back_channel`]).
    fn back_channel(&self) -> Option<Arc<dyn BackChannel>> {
        None
    }

    /// The connection that the call came by; `None` for a datagram.
    fn conn(&self) -> Option<ConnId> {
        None
    }

    /// Whether another connection is open at both ends and its client has received its replies. May block for a few
    /// seconds, which the caller has announced; `false` if that cannot be determined.
    fn lives(&self, conn: ConnId) -> bool {
        let _ = conn;
        false
    }
}

/// One call, as its procedure sees it.
pub struct Call<'a> {
    /// Transaction id.
    pub xid: u32,
    /// Who is at the other end.
    pub peer: &'a Peer,
    /// Who is asking.
    pub credential: Credential<'a>,
    /// Called before anything that may block.
    pub blocking: &'a dyn Blocking,
    /// For the statistics.
    pub outcome: Outcome,
    pub(crate) pending: Option<Pending<'a>>,
}

/// The dispatcher's state of a running call: everything that its reply needs.
pub(crate) struct Pending<'a> {
    pub host: &'a dyn CallHost,
    /// What the call is counted as.
    pub ops: CallOps,
    /// What the reply passes through.
    pub protection: Option<&'a Protection>,
    /// The reply cache's entry of the running call, if its reply is kept.
    pub ticket: Option<Ticket<'a>>,
}

impl<'a> Call<'a> {
    /// A call without a dispatcher: it can not be deferred, and nothing is counted.
    pub fn new(
        xid: u32,
        peer: &'a Peer,
        credential: Credential<'a>,
        blocking: &'a dyn Blocking,
    ) -> Self {
        let outcome = Outcome::default();
        Self { xid, peer, credential, blocking, outcome, pending: None }
    }

    /// A call that a dispatcher has to answer; what it is counted as is not known yet.
    #[inline]
    pub(crate) fn pending(
        xid: u32,
        peer: &'a Peer,
        credential: Credential<'a>,
        host: &'a dyn CallHost,
        protection: Option<&'a Protection>,
    ) -> Self {
        let pending = Pending { host, ops: CallOps::default(), protection, ticket: None };
        let (outcome, pending) = (Outcome::default(), Some(pending));
        Self { xid, peer, credential, blocking: host, outcome, pending }
    }

    /// What the reply passes through.
    #[inline]
    pub(crate) fn protection(&self) -> Option<&'a Protection> {
        self.pending.as_ref().and_then(|pending| pending.protection)
    }

    /// Counts an operation that ran inside this call, by its place in
    /// [`crate::Version::operations`], and its status; the one that the call itself is counted as
    /// ([`crate::Plan::counted_as`]) is not to be counted here.
    pub fn count_operation(&self, operation: u16, status: u32) {
        self.operation_counter().count(operation, status);
    }

    /// The same for a procedure that borrows the call while it runs operations.
    pub fn operation_counter(&self) -> OperationCounter<'a> {
        OperationCounter(self.pending.as_ref().map(|pending| (pending.host, pending.ops)))
    }

    /// The way for messages to whom the call came from that are not replies: over its connection, or to
    /// its address and port from the socket that it came to. It works before and after the call has
    /// returned. `None` without a transport.
    pub fn back_channel(&self) -> Option<Arc<dyn BackChannel>> {
        self.pending.as_ref()?.host.back_channel()
    }

    /// The connection that the call came by, or the socket of a datagram, for as long as the call runs.
    pub fn connection(&self) -> CallConnection<'a> {
        CallConnection(self.pending.as_ref().map(|pending| pending.host))
    }

    /// The connection that the call came by; `None` for a datagram.
    pub fn conn(&self) -> Option<ConnId> {
        self.pending.as_ref()?.host.conn()
    }
}

/// The connection or socket that a call came by, which can be kept while the call is borrowed: see [`Call::connection`].
#[derive(Clone, Copy)]
pub struct CallConnection<'a>(Option<&'a dyn CallHost>);

impl CallConnection<'_> {
    /// As [`Call::back_channel`].
    pub fn channel(&self) -> Option<Arc<dyn BackChannel>> {
        self.0?.back_channel()
    }

    /// As [`Call::conn`].
    pub fn conn(&self) -> Option<ConnId> {
        self.0?.conn()
    }
}

/// Counts the operations inside a call: see [`Call::count_operation`].
#[derive(Clone, Copy)]
pub struct OperationCounter<'a>(Option<(&'a dyn CallHost, CallOps)>);

impl OperationCounter<'_> {
    /// Whether the call itself is counted as this operation ([`crate::Plan::counted_as`]).
    pub fn is_the_call(&self, operation: u16) -> bool {
        self.0.as_ref().is_some_and(|(_, ops)| ops.call == ops.inside(operation))
    }

    /// Counts an operation that ran.
    pub fn count(&self, operation: u16, status: u32) {
        if let Some((host, ops)) = &self.0 {
            host.count_operation(ops.inside(operation), status);
        }
    }
}

/// Why a procedure has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The arguments do not decode: the reply is GARBAGE_ARGS.
    #[error("arguments do not decode: {0}")]
    GarbageArgs(#[from] xdr::Error),
    /// The server cannot answer: the reply is SYSTEM_ERR.
    #[error("the server cannot answer")]
    SystemErr,
    /// There is no procedure of this number in this version: the reply is PROC_UNAVAIL.
    #[error("no such procedure")]
    ProcUnavail,
    /// The credential is not good enough for this: the reply is AUTH_ERROR / AUTH_TOOWEAK.
    #[error("the credential is too weak")]
    TooWeak,
    /// No reply at all is right (a client that tries again will be answered).
    #[error("no reply")]
    Silence,
    /// The call cannot be answered now, and its program has no status that says so. The client has to
    /// send it again: over UDP it does that by itself, over TCP only when its connection ends, which is
    /// therefore closed.
    #[error("not now")]
    NotNow,
}

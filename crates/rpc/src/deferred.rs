//! Replies that are sent after their call has returned.
//!
//! A procedure that has to wait for something that may take long (a lock, another server) takes a
//! [`Deferred`] ([`crate::Call::defer`]) and returns. Whoever has the result completes it, on any
//! thread. A `Deferred` owns everything that the reply needs: the xid, what the flavour does to the
//! reply, the reply cache's note that the call runs, and the way to its client.
//!
//! Invariants:
//! - A call gets one reply or none, whoever sends it.
//! - One that is dropped is never answered, and the reply cache forgets the call: a retransmission
//!   runs it again.
//! - To a retransmission the call is running until then, whatever becomes of its connection.

use crate::auth::Protection;
use crate::dispatch::{answer_fault, put_accepted};
use crate::reply_cache::OwnedTicket;
use crate::{Done, Fault, OpIndex, Outcome, Verdict};
use proto::rpc::Accepted;
use xdr::Writer;

/// The way to the client of one call whose reply is pending. Dropping it gives its place among the
/// pending replies of the connection back.
pub trait Line: Send {
    /// Sends a reply (without record mark) or queues it, and counts the call by `done`. Never
    /// waits.
    fn post(self: Box<Self>, reply: Writer, done: &Done) -> Posted;
}

/// What became of a message that was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It was sent, or waits for the connection to take it.
    Sent,
    /// The connection is gone, or the message could not be sent.
    Gone,
    /// The client has left so much unread that nothing is added to it; only for what is no reply.
    Full,
}

/// The duty to answer a call.
#[must_use = "a call whose `Deferred` is dropped is never answered"]
pub struct Deferred {
    pub(crate) xid: u32,
    pub(crate) op: OpIndex,
    pub(crate) outcome: Outcome,
    pub(crate) line: Box<dyn Line>,
    pub(crate) protection: Option<Protection>,
    pub(crate) ticket: Option<OwnedTicket>,
}

impl Deferred {
    /// Answers the call: `encode` appends the result (from the first byte after `accept_stat`) and
    /// completes what the statistics are told, of which the procedure's part is there.
    ///
    /// After a fault there is the answer to the fault, or none ([`Fault::Silence`]), as if the
    /// procedure had returned it.
    pub fn complete(
        self,
        encode: impl FnOnce(&mut Writer, &mut Outcome) -> Result<(), Fault>,
    ) -> Option<Posted> {
        let Self { xid, op, mut outcome, line, protection, ticket } = self;
        let protection = protection.as_ref();
        let mut reply = Writer::new();
        let start = reply.mark();
        put_accepted(&mut reply, xid, protection, Accepted::Success);
        let results = reply.mark();
        let done = match encode(&mut reply, &mut outcome) {
            Ok(()) => {
                if let Some(ticket) = ticket {
                    ticket.finish(reply.since(results), outcome);
                }
                if let Some(protection) = protection {
                    protection.wrap(results, &mut reply);
                }
                Done::new(Verdict::Reply, Some(op), None)
            }
            Err(fault) => answer_fault(&mut reply, start, xid, op, protection, fault),
        };
        match done.verdict {
            Verdict::Reply => Some(line.post(reply, &Done { outcome, ..done })),
            Verdict::Silence | Verdict::Deferred | Verdict::StartTls | Verdict::Close => None,
        }
    }
}

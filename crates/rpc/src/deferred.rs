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
use crate::call::Pending;
use crate::dispatch::{answer_fault, put_accepted};
use crate::reply_cache::{OwnedTicket, Ticket};
use crate::{Call, Done, Fault, Line, OpIndex, Outcome, Posted, Verdict};
use proto::rpc::Accepted;
use xdr::Writer;

/// The duty to answer a call.
#[must_use = "a call whose `Deferred` is dropped is never answered"]
pub struct Deferred {
    xid: u32,
    op: OpIndex,
    outcome: Outcome,
    line: Box<dyn Line>,
    protection: Option<Protection>,
    ticket: Option<OwnedTicket>,
}

impl Call<'_> {
    /// Takes over the duty to answer this call: the reply is sent when [`Deferred::complete`] is
    /// called, by any thread, and no thread waits meanwhile. What the procedure returns and has
    /// written is then ignored. To the reply cache the call is running until it is completed.
    ///
    /// `None`, and the procedure has to answer by itself, if as many replies are pending on the
    /// connection as may be, if there is no way to send one later, and after the first time.
    pub fn defer(&mut self) -> Option<Deferred> {
        let line = self.pending.as_ref()?.host.line()?;
        let Pending { ops, protection, ticket, .. } = self.pending.take()?;
        Some(Deferred {
            xid: self.xid,
            op: ops.call,
            outcome: self.outcome,
            line,
            protection: protection.cloned(),
            ticket: ticket.map(Ticket::into_owned),
        })
    }
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
            Verdict::Close => {
                line.close();
                None
            }
            Verdict::Silence | Verdict::Deferred | Verdict::StartTls => None,
        }
    }
}

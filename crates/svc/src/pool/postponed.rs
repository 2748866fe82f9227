//! A call of a connection that waits in the queue of its export ([`crate::pool::blocked_calls`]), and then for a worker.
//!
//! It counts as one of its connection's calls under way all the time, so that there are never more of them than
//! [`crate::limits::Limits::in_flight_max`] for each connection, and a server that stops waits for it. It holds a copy
//! of its record.
//!
//! Invariant: it is answered, or its connection is shut down, so that no client waits for ever.

use crate::conn::connection::Conn;
use crate::limits::POSTPONED_COST;
use crate::pool::blocked_calls::{Postponed, ResumePermit};
use rpc::Peer;
use std::sync::{Arc, Weak};

/// The pools that run such calls again. Pools come and go while a call is queued.
pub(crate) trait ResumedCalls: Send + Sync {
    /// Gives the call to the pool that has its connection, else to another one.
    fn resume(&self, call: Box<PostponedCall>);
}

/// A call that is postponed or resumed.
pub(crate) struct PostponedCall {
    pub conn: Arc<Conn>,
    /// Both ends, and what protected the call when it came: TLS may have begun since.
    pub peer: Peer,
    pub record: Vec<u8>,
    /// When it began, on the server's clock.
    pub began_ns: u64,
    /// Who run it again; not held alive by it, since they hold the queues.
    pub pools: Weak<dyn ResumedCalls>,
    /// While it is resumed and does not block yet.
    pub resume_permit: Option<ResumePermit>,
    /// Its answer is on its way, or it is queued again.
    pub settled: bool,
}

impl Postponed for PostponedCall {
    fn bytes(&self) -> usize {
        self.record.len().saturating_add(POSTPONED_COST)
    }

    fn resume(mut self: Box<Self>, resume_permit: ResumePermit) {
        self.resume_permit = Some(resume_permit);
        if let Some(pools) = self.pools.upgrade() {
            pools.resume(self);
        }
    }
}

impl Drop for PostponedCall {
    fn drop(&mut self) {
        if !self.settled {
            self.conn.shut_down();
            self.conn.end_deferred_call();
        }
    }
}

//! Who is told of what arrives on clients' connections besides calls, and of their ends.

use nfs::v4::callback::Callbacks;
use rpc::{ConnId, Replies};
use std::sync::Arc;
use svc::OutboundCalls;

/// Gives answers to whoever made the calls. The end of a connection unbinds it first, so that a call which ends by it is
/// not made over it again.
pub struct ClientReplies {
    pub callbacks: Arc<Callbacks>,
    pub calls: Arc<OutboundCalls>,
}

impl Replies for ClientReplies {
    fn arrived(&self, conn: ConnId, xid: u32, record: &[u8]) {
        self.calls.arrived(conn, xid, record);
    }

    fn closed(&self, conn: ConnId) {
        self.callbacks.closed(conn);
        self.calls.closed(conn);
    }
}

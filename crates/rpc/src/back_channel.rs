//! Messages to a client other than replies to its calls, sent the way a call came: over the same connection, or to the
//! address and port of a datagram from the socket that received it.
//!
//! NLM's results of the `_MSG` procedures are such calls, and so is everything on the backchannel of NFSv4.1 (RFC 8881
//! §2.10.3.1). A reply that arrives on a connection is passed to [`Replies`] if one is set.

use crate::{Peer, Posted};
use std::fmt;
use xdr::Writer;

/// A connection; no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The way back to the sender of a call. Does not keep the connection open.
pub trait BackChannel: Send + Sync {
    /// The connection; `None` for datagrams, whose replies are dropped.
    fn conn(&self) -> Option<ConnId>;

    /// Both ends.
    fn peer(&self) -> Peer;

    /// Sends a message (without record mark) or queues it behind data that is being sent. Never blocks; any thread may
    /// call it.
    fn post(&self, message: Writer) -> Posted;
}

/// Receives replies that arrive on clients' connections. Called by workers: it must not block.
pub trait Replies: Send + Sync {
    /// A record of type REPLY has arrived; what follows its two first words is not checked.
    fn arrived(&self, conn: ConnId, xid: u32, record: &[u8]);

    /// A connection is closed: nothing arrives on it any more, and nothing can be posted.
    fn closed(&self, conn: ConnId);
}

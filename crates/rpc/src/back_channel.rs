//! Messages to a client that are no replies to its calls, by the way that a call came: over the same connection, or to
//! the address and port of a datagram from the socket that it came to.
//!
//! NLM's answers to the `_MSG` procedures are such calls, and so is everything on a backchannel of NFSv4.1 (RFC 8881
//! §2.10.3.1). A reply that arrives on a connection is given to [`Replies`], if there is somebody who waits for some.

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

/// The way back to whom a call came from. Does not keep the connection open.
pub trait BackChannel: Send + Sync {
    /// The connection; `None` for datagrams, whose replies are given to nobody.
    fn conn(&self) -> Option<ConnId>;

    /// Both ends.
    fn peer(&self) -> Peer;

    /// Sends a message (without record mark) or queues it, behind whatever is sent already. Never waits; any thread
    /// may call it.
    fn post(&self, message: Writer) -> Posted;
}

/// Who takes replies that arrive on connections that clients have opened. Called by workers: it must not block.
pub trait Replies: Send + Sync {
    /// A record of type REPLY has arrived; what follows its two first words is not checked.
    fn arrived(&self, conn: ConnId, xid: u32, record: &[u8]);

    /// A connection is closed: nothing arrives on it any more, and nothing can be posted.
    fn closed(&self, conn: ConnId);
}

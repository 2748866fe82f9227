//! How a reply that is sent after its call has returned gets to the client.

use crate::Done;
use xdr::Writer;

/// The way to the client of one call whose reply is pending. Dropping it gives its place among the
/// pending replies of the connection back.
pub trait Line: Send {
    /// Sends a reply (without record mark) or queues it, and counts the call by `done`. Never
    /// waits.
    fn post(self: Box<Self>, reply: Writer, done: &Done) -> Posted;

    /// Closes the connection instead of an answer ([`crate::Fault::NotNow`]); nothing for a datagram.
    fn close(self: Box<Self>) {}
}

/// What became of a message that was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It was sent, or waits for the connection to take it.
    Sent,
    /// The connection is gone, or the message could not be sent.
    Gone,
    /// The client has left so much unread that nothing is added to it; only for what is not a reply.
    Full,
}

//! What a connection uses of the pool that serves it.

use crate::budget::Budget;
use crate::clock::Clock;
use std::sync::Arc;
use sys::epoll::Epoll;

/// Told when a call ends that ran detached from its connection's service round.
pub(crate) trait CallEnded: Send + Sync {
    /// A detached call of the connection with this token has ended, and its pool waits for that.
    fn call_ended(&self, token: u64);
}

/// What a connection uses of its pool.
pub(crate) struct PoolHandles {
    /// Watches the connection's socket.
    pub epoll: Arc<Epoll>,
    pub clock: Clock,
    /// Memory for replies that clients have not taken; shared by all connections.
    pub queued: Arc<Budget>,
    /// See [`crate::limits::Limits::in_flight_max`].
    pub in_flight_max: u32,
    pub inbox: Arc<dyn CallEnded>,
}

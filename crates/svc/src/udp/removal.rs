//! How a datagram socket is closed while workers use it, as a state machine without I/O.
//!
//! A socket that is no longer wanted goes through these steps, and is open in all of them:
//!
//! 1. *hidden*: the kernel gives it nothing new; what it has received stays in it, and workers serve it
//!    like any other;
//! 2. *settled*: every processor that chose this socket before it was hidden has delivered. From here on
//!    its queue only shrinks, so that finding it empty once is enough;
//! 3. *unregistered*: empty, and no epoll and no table leads to it any more. Workers in the middle of a
//!    service round still read the table that had it; when the last of them is done it is closed.
//!
//! Nobody waits for anybody under a lock: the maintenance thread checks again later if the queue is not
//! empty, and no worker ever waits for that thread. `tests/models/socket_removal.rs` runs this file against
//! everything that workers and arrivals may do meanwhile.

/// What is done to a socket that is removed.
pub(crate) trait RemovableSocket {
    /// From here on the kernel chooses other sockets.
    fn hide(&self);
    /// Whether a datagram waits in it.
    fn has_arrivals(&self) -> bool;
    /// Removes it from the epolls and the table that workers use.
    fn unregister(&self);
}

/// A socket that is being removed.
pub(crate) struct SocketRemoval<E> {
    exit: E,
    settled: bool,
}

impl<E: RemovableSocket> SocketRemoval<E> {
    /// Hides the socket.
    pub fn begin(exit: E) -> Self {
        exit.hide();
        Self { exit, settled: false }
    }

    /// Whether deliveries that began before it hid may be under way.
    pub const fn is_unsettled(&self) -> bool {
        !self.settled
    }

    /// Deliveries that began before this was called, and after it hid, are over.
    pub const fn settle(&mut self) {
        self.settled = true;
    }

    /// Goes on as far as it can without waiting; `true` when it is unregistered.
    pub fn advance(&mut self) -> bool {
        if !self.settled || self.exit.has_arrivals() {
            return false;
        }
        self.exit.unregister();
        true
    }
}

//! How a socket is closed while workers use it, as a machine without I/O.
//!
//! A socket that is no longer wanted goes through these steps, and is open in all of them:
//!
//! 1. *hidden*: the kernel gives it nothing new; what it has received stays in it, and workers
//!    serve it like any other;
//! 2. *settled*: every processor that chose this socket before it hid has delivered. From here on
//!    its queue only shrinks, so that one look that finds it empty is enough;
//! 3. *struck out*: empty, and no epoll and no table leads to it any more. Workers that are in the
//!    middle of a turn still read the table that had it; when the last of them has gone it is
//!    closed.
//!
//! Nobody waits for anybody under a lock: the keeper looks again later if the queue is not empty,
//! and no worker ever waits for the keeper. `tests/socket_removal.rs` runs this file against all
//! that workers and arrivals may do meanwhile.

/// What the machine does to a socket.
pub(crate) trait RemovableSocket {
    /// From here on the kernel chooses other sockets.
    fn hide(&self);
    /// Whether a datagram waits in it.
    fn has_arrivals(&self) -> bool;
    /// Takes it out of the workers' sight.
    fn unregister(&self);
}

/// A socket on its way out.
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

    /// Goes on as far as it can without waiting; `true` when it is out.
    pub fn advance(&mut self) -> bool {
        if !self.settled || self.exit.has_arrivals() {
            return false;
        }
        self.exit.unregister();
        true
    }
}

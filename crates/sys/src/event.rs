//! eventfd(2): wakes a thread that waits in epoll.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A flag that epoll can wait for; any thread raises it, as often as it likes.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// A flag that is down.
    ///
    /// # Errors
    /// As eventfd(2): no descriptors or no memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises it. The only way to fail is that it has been raised 2^64 - 2 times already.
    pub fn raise(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Lowers it; tells whether it was up.
    pub fn lower(&self) -> bool {
        rustix::io::read(&self.0, &mut [0_u8; 8]).is_ok()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn an_event_raised_twice_is_cleared_once() {
        let event = Event::new().unwrap();
        assert!(!event.lower());
        event.raise();
        event.raise();
        assert!(event.lower());
        assert!(!event.lower());
    }
}

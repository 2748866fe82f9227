//! epoll(7): which of many descriptors can be read or written now, or have become so since it was last told.
//!
//! Owns: the epoll descriptor and the buffer of ready events. Registering, changing and removing
//! is safe from any thread while another waits.

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What to be told about a descriptor. Errors and hang-ups are always told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// When it can be read.
    pub readable: bool,
    /// When it can be written.
    pub writable: bool,
    /// Tell once when it becomes so (edge-triggered), not as long as it is so.
    pub edge: bool,
}

impl Interest {
    /// Reading only.
    pub const READABLE: Self = Self { readable: true, writable: false, edge: false };
    /// Nothing.
    pub const NONE: Self = Self { readable: false, writable: false, edge: false };

    /// Whether there is nothing to be told.
    pub const fn is_none(self) -> bool {
        !self.readable && !self.writable
    }

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN | epoll::EventFlags::RDHUP, self.readable);
        flags.set(epoll::EventFlags::PRI, self.readable && self.edge);
        flags.set(epoll::EventFlags::OUT, self.writable);
        flags.set(epoll::EventFlags::ET, self.edge);
        flags
    }
}

/// One descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// What it was registered with.
    pub token: u64,
    /// Whether reading will tell something: data, the end, or an error.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether the other side has ended it, or an error has.
    pub ended: bool,
    /// Whether there is a byte of urgent data in it, before which a receive stops though more is there. Told of what is
    /// watched for edges.
    pub urgent: bool,
}

/// The ready events of one wait.
pub struct Events(Vec<epoll::Event>);

// SAFETY: what keeps an event from being sent is that its data could be a pointer; in this module
// it is always a number.
unsafe impl Send for Events {}

impl Events {
    /// Room for this many.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity.max(1)))
    }

    /// The event at `index` of the last wait.
    pub fn at(&self, index: usize) -> Option<Ready> {
        use epoll::EventFlags as F;
        let event = self.0.get(index)?;
        let flags = event.flags;
        Some(Ready {
            token: event.data.u64(),
            readable: flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR),
            writable: flags.contains(F::OUT),
            ended: flags.intersects(F::RDHUP | F::HUP | F::ERR),
            urgent: flags.contains(F::PRI),
        })
    }

    /// Puts what was registered with `token`, if it is among them, before the others.
    pub fn move_to_front(&mut self, token: u64) {
        let found = self.0.iter().position(|event| event.data.u64() == token);
        if let Some(found) = found {
            self.0.swap(0, found);
        }
    }

    /// How many the last wait found.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the last wait found none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A new one, closed on exec.
    ///
    /// # Errors
    /// As epoll_create1(2): no descriptors or no memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Begins to watch `fd`.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Begins to watch `fd` for reading; of several instances that watch it so, not all are woken
    /// by one arrival.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add_exclusive(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Changes what is watched for.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Ends watching `fd`.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }

    /// Waits until something is ready, or `timeout` is over (`None`: for ever), or a signal came.
    ///
    /// # Errors
    /// As epoll_wait(2); an interruption is not an error.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.0.clear();
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        match epoll::wait(&self.0, spare_capacity(&mut events.0), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoll, Events, Interest};
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn readable_descriptors_are_reported_until_removed() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::with_capacity(4);
        epoll.add(&near, 7, Interest::READABLE).unwrap();
        epoll.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
        far.write_all(b"x").unwrap();
        epoll.wait(&mut events, None).unwrap();
        let ready = events.at(0).unwrap();
        assert_eq!(
            (events.len(), ready.token, ready.readable, ready.writable),
            (1, 7, true, false)
        );
        epoll.modify(&near, 8, Interest { readable: false, writable: true, edge: false }).unwrap();
        epoll.wait(&mut events, None).unwrap();
        let ready = events.at(0).unwrap();
        assert_eq!((ready.token, ready.readable, ready.writable), (8, false, true));
        let (other, _far) = UnixStream::pair().unwrap();
        epoll.add(&other, 9, Interest { readable: false, writable: true, edge: false }).unwrap();
        epoll.wait(&mut events, None).unwrap();
        for token in [9, 8] {
            events.move_to_front(token);
            assert_eq!((events.len(), events.at(0).unwrap().token), (2, token));
        }
        epoll.delete(&other).unwrap();
        epoll.delete(&near).unwrap();
        epoll.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
    }
}

//! What other threads leave for a pool's leader.
//!
//! The lock guards a list, for a list operation. The leader takes all of it when its epoll tells of the
//! event, in the order in which it came. A pool closes its inbox when it retires; what comes later goes
//! back to its sender.

use crate::conn::connection::{Conn, Rx};
use crate::conn::pool_handles::CallEnded;
use crate::epoll_tokens::TOKEN_INBOX;
use crate::pool::postponed::PostponedCall;
use crate::sync::lock;
use crate::udp::received::ReceivedDatagram;
use std::io;
use std::sync::{Arc, Mutex};
use sys::epoll::{Epoll, Interest};
use sys::event::Event;

/// What is left for a leader.
pub(crate) enum Message {
    /// A new connection.
    NewConn(Arc<Conn>),
    /// A connection from a pool that is drained.
    MovedConn(Box<Rx>),
    /// Send all connections to other pools, and retire.
    Drain,
    /// A connection comes back from a worker that does not lead.
    ReturnedConn(Box<Rx>),
    /// A call that was postponed may go on.
    Resumed(Box<PostponedCall>),
    /// A detached call of this connection has ended.
    CallEnded(u64),
    /// The worker that served this connection panicked.
    Panicked(u64),
    /// A worker is back; the reserve thread need not lead any longer.
    RelieveReserve,
    /// The wake policy has changed.
    PolicyChanged,
    /// Datagrams come back from a worker that does not lead any longer.
    Datagrams(Vec<ReceivedDatagram>),
    /// Read what has arrived, answer it, close.
    Stop,
    /// Close at once.
    Abort,
}

/// A pool's inbox.
pub(crate) struct Inbox {
    state: Mutex<State>,
    event: Event,
}

#[derive(Default)]
struct State {
    messages: Vec<Message>,
    closed: bool,
}

impl Inbox {
    /// An empty one, whose event `epoll` watches.
    ///
    /// # Errors
    /// No descriptors or no memory.
    pub fn new(epoll: &Epoll) -> io::Result<Self> {
        let event = Event::new()?;
        epoll.add(&event, TOKEN_INBOX, Interest::READABLE)?;
        Ok(Self { state: Mutex::default(), event })
    }

    /// Leaves something and wakes the leader.
    ///
    /// # Errors
    /// The pool has retired: the message comes back.
    pub fn post(&self, message: Message) -> Result<(), Message> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(message);
        }
        state.messages.push(message);
        drop(state);
        self.event.raise();
        Ok(())
    }

    /// Takes what was left, in the order in which it came.
    pub fn take(&self) -> Vec<Message> {
        self.event.lower();
        std::mem::take(&mut lock(&self.state).messages)
    }

    /// Wakes the leader, who looks at everything before it waits again.
    pub fn wake_leader(&self) {
        self.event.raise();
    }

    /// Closes it if it is empty; whether it is closed now.
    pub fn close(&self) -> bool {
        let mut state = lock(&self.state);
        state.closed = state.messages.is_empty();
        state.closed
    }
}

impl CallEnded for Inbox {
    fn call_ended(&self, token: u64) {
        // a pool that has retired has no connections
        let _ = self.post(Message::CallEnded(token));
    }
}

//! One connection, in two halves: what every thread may use ([`Conn`]), and what only the worker
//! that reads it holds ([`Rx`]).
//!
//! An idle connection is one `Conn`, one empty `Rx` and a place in a table: a few hundred bytes.

use crate::conn::clients::ClientTotals;
use crate::conn::exclusive_slot::ExclusiveSlot;
use crate::conn::tcp_buffers::ConnBuffers;
use crate::conn::transmit::{ConnAction, Tx};
use crate::conn::urgent::UrgentMark;
use crate::limits::Budget;
use crate::pool::worker_pool::Pool;
use rpc::record::Partial;
use rpc::{Ahead, Peer};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The half that sends, shared by the pool and by the workers whose calls came from here.
pub(crate) struct Conn {
    /// Its number; never used twice.
    pub id: u64,
    /// Both ends.
    pub peer: Peer,
    /// Its pool's index, for people.
    pub pool: AtomicUsize,
    /// When it was accepted, on the server's clock.
    pub since_ms: u64,
    pub(crate) stream: TcpStream,
    /// Guards all that is on its way out, and what epoll is told about the socket.
    pub(crate) tx: Mutex<Tx>,
    pub(crate) buffers: ConnBuffers,
    /// Where the other half is.
    pub home: ExclusiveSlot<Box<Rx>>,
    /// Whether it is used for calls that go first.
    pub mark: UrgentMark,
    pub seen: ConnCounters,
}

/// What the statistics know of a connection. Written by whoever holds its [`Rx`], from `bytes_out` on
/// under its transmit lock, the last two by the watchdog; read by anybody.
#[derive(Default)]
pub(crate) struct ConnCounters {
    pub calls: AtomicU64,
    pub bytes_in: AtomicU64,
    /// When it last sent something.
    pub last_ms: AtomicU64,
    /// Memory for what arrived and was not answered.
    pub partial: AtomicUsize,
    pub bytes_out: AtomicU64,
    /// Bytes that the socket has not taken.
    pub queued: AtomicUsize,
    /// What they take from the budget.
    pub queued_cost: AtomicUsize,
    /// When they began to wait, or the socket last took some.
    pub taken_ms: AtomicU64,
    pub in_flight: AtomicU64,
    /// Since when the watchdog has seen that only its client can go on.
    pub waiting_since_ms: AtomicU64,
    /// How much its client had acknowledged when the watchdog last looked.
    pub acknowledged: AtomicU64,
}

impl ConnCounters {
    /// What is counted for the client.
    pub fn totals(&self) -> ClientTotals {
        ClientTotals {
            calls: self.calls.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
        }
    }
}

/// Adds, as the only writer.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Conn {
    /// A connection that no pool watches yet.
    pub fn new(id: u64, stream: TcpStream, peer: Peer, now_ms: u64, buffers: ConnBuffers) -> Self {
        let seen = ConnCounters { last_ms: AtomicU64::new(now_ms), ..ConnCounters::default() };
        let (tx, home) = (Mutex::new(Tx::default()), ExclusiveSlot::new_taken());
        Self {
            id,
            peer,
            pool: AtomicUsize::new(0),
            since_ms: now_ms,
            stream,
            tx,
            home,
            mark: UrgentMark::default(),
            buffers,
            seen,
        }
    }

    /// Ends it from outside; the pool finds it closed and clears up.
    pub fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The half that receives. At [`Conn::home`], or with the one worker that serves it.
pub(crate) struct Rx {
    pub conn: Arc<Conn>,
    /// Its place in the pool's table.
    pub token: u64,
    /// The record under way.
    pub partial: Partial,
    /// What went ahead of the record under way; `None`: it has to be whole first.
    pub ahead: Option<Ahead>,
    /// Whether its last call was a large one, of which most went through a pipe.
    pub large: bool,
    /// Whole records, and perhaps the start of one, that were received and wait for a worker.
    pub tail: Option<Tail>,
    /// No more is to be read: the client has closed its side, or the server stops.
    pub ending: bool,
    /// The server stops, and has looked for the last time at what has arrived.
    pub final_read_done: bool,
    /// The stream has lost its place or the connection is broken: nothing more is to be done.
    pub broken: bool,
    /// Whether something but reading goes on, so that the table has to be told after each turn.
    pub needs_rearm: bool,
    /// The last receive left something, or may have, of which epoll has told and will not tell
    /// again by itself: it is edge-triggered. Of room to send it may have told as well.
    pub more: bool,
    /// As `more`, until a receive finds nothing: the end of the stream may have come with data, or a byte of urgent data,
    /// which ends a receive before it.
    pub read_until_empty: bool,
    /// Bytes taken from the budget for `partial` and `tail`.
    charged: usize,
}

impl Rx {
    pub fn new(conn: Arc<Conn>, token: u64) -> Self {
        Self {
            conn,
            token,
            partial: Partial::new(),
            ahead: None,
            large: false,
            tail: None,
            ending: false,
            final_read_done: false,
            broken: false,
            needs_rearm: true,
            more: false,
            read_until_empty: false,
            charged: 0,
        }
    }

    /// Decides how the connection goes on, and tells epoll; see [`Conn::settle`].
    pub fn rearm(&mut self, pool: &Pool) -> ConnAction {
        let anew = self.more || self.read_until_empty;
        let fate = self.conn.rearm(pool, self.tail.is_some(), self.ending, anew);
        if fate == ConnAction::Read {
            (self.more, self.read_until_empty) = (false, false);
        }
        fate
    }

    /// Squares the memory held with the budget; `false` if the budget does not allow it.
    #[must_use]
    pub fn charge(&mut self, budget: &Budget) -> bool {
        let held = self.partial.capacity().saturating_add(self.tail.as_ref().map_or(0, Tail::len));
        if held == self.charged {
            return true;
        }
        let fits = match held.checked_sub(self.charged) {
            Some(more) => budget.take(more),
            None => {
                budget.give_back(self.charged.saturating_sub(held));
                true
            }
        };
        if fits {
            self.charged = held;
            self.conn.seen.partial.store(held, Relaxed);
        }
        fits
    }

    /// Whether it holds memory for what has not been answered.
    pub const fn is_charged(&self) -> bool {
        self.charged > 0
    }

    /// Gives back all that was charged; for a connection that closes.
    pub fn discharge(&mut self, budget: &Budget) {
        budget.give_back(std::mem::take(&mut self.charged));
        self.conn.seen.partial.store(0, Relaxed);
    }
}

/// The rest of a receive buffer, handed on. Handing it on again copies nothing.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    bytes: Arc<[u8]>,
    at: usize,
}

impl Tail {
    /// What is left.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    /// `rest`, which is the end of `source` or, without one, of the worker's own buffer.
    pub fn of(rest: &[u8], source: Option<&Self>) -> Option<Self> {
        match source {
            _ if rest.is_empty() => None,
            None => Some(Self { bytes: Arc::from(rest), at: 0 }),
            Some(source) => Some(Self {
                bytes: Arc::clone(&source.bytes),
                at: source.bytes.len().saturating_sub(rest.len()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;
    use std::sync::Arc;

    #[test]
    fn a_tail_of_a_tail_shares_its_bytes() {
        let first = Tail::of(b"abcdef", None).unwrap();
        let second = Tail::of(&first.bytes()[2..], Some(&first)).unwrap();
        assert_eq!(second.bytes(), b"cdef");
        let third = Tail::of(&second.bytes()[3..], Some(&second)).unwrap();
        assert_eq!(third.bytes(), b"f");
        assert!(Arc::ptr_eq(&first.bytes, &third.bytes));
        assert!(Tail::of(b"", Some(&third)).is_none());
    }
}

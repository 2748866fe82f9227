//! One connection, in two halves: what every thread may use ([`Conn`]), and what only the worker
//! that reads it holds ([`Rx`]).
//!
//! An idle connection is one `Conn`, one empty `Rx` and a slot in its pool's event loop: a few hundred
//! bytes. How the sending half works is in `transmit.rs`.
//!
//! Locks: [`Conn::rx_slot`] guards where the receiving half is; [`Conn::tx`] all that is on its way out,
//! the number of calls that run detached, and what epoll is told about the socket.

use crate::budget::Budget;
use crate::conn::byte_stream::ByteStream;
use crate::conn::clients::ClientTotals;
use crate::conn::exclusive_slot::ExclusiveSlot;
use crate::conn::pool_handles::PoolHandles;
use crate::conn::seal::Seal;
use crate::conn::send_queue::SendQueue;
use crate::conn::tcp_buffers::ConnBuffers;
use crate::conn::urgent::UrgentMark;
use rpc::record::Partial;
use rpc::{LargeArgument, Peer};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use sys::epoll::Interest;

/// The half that sends, shared by the pool and by the workers whose calls came from here.
pub(crate) struct Conn {
    /// Its number; never used twice.
    pub id: u64,
    /// Both ends. What protects it may have changed since ([`Conn::caller`]).
    pub peer: Peer,
    /// The index of its pool, for statistics.
    pub pool: AtomicUsize,
    /// When it was accepted, on the server's clock.
    pub since_ms: u64,
    pub stream: ByteStream,
    pub tx: Mutex<Tx>,
    pub buffers: ConnBuffers,
    /// Where the other half is.
    pub rx_slot: ExclusiveSlot<Box<Rx>>,
    /// Whether it is used for urgent calls.
    pub urgent: UrgentMark,
    pub counters: ConnCounters,
}

/// The state of a connection's sending side. Guarded by [`Conn::tx`].
#[derive(Default)]
pub(crate) struct Tx {
    pub token: u64,
    /// The pool that has it; `None` before it is in any, and after it was closed.
    pub pool: Option<Arc<PoolHandles>>,
    /// On its way from one pool to another: no epoll watches it.
    pub moving: bool,
    /// What the socket has not taken.
    pub queue: SendQueue,
    /// Bytes in the kernel's send buffer that are taken from the budget: of a client that takes nothing.
    pub kernel_bytes: usize,
    /// Calls that run detached.
    pub in_flight: u32,
    /// Whether the pool wants to read.
    pub reading: bool,
    /// Whether the pool is to be told of the end of a detached call.
    pub waiting: bool,
    /// Broken or given up: nothing is sent any more.
    pub dead: bool,
    /// What epoll watches for; `None` if it does not watch the socket.
    pub watched: Option<Interest>,
}

/// What became of bytes to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The socket took them all.
    All,
    /// Some wait for the socket to take them.
    Queued,
    /// The connection is broken.
    Broken,
}

/// What the pool has to do with a connection next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnAction {
    /// Close it.
    Close,
    /// Wait for it to be readable.
    Read,
    /// Wait for room to send, or for the end of a detached call.
    Wait,
    /// Serve its tail.
    Serve,
}

/// Counters of a connection. Written by whoever holds its [`Rx`], from `bytes_out` on under its transmit
/// lock, the last two by the watchdog; read by anybody.
#[derive(Default)]
pub(crate) struct ConnCounters {
    pub calls: AtomicU64,
    pub bytes_in: AtomicU64,
    /// When the client last sent something.
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
    /// Calls that run detached.
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
            displaced: 0,
        }
    }
}

impl Conn {
    /// A connection that no pool watches yet.
    pub fn new(id: u64, stream: ByteStream, peer: Peer, now_ms: u64, buffers: ConnBuffers) -> Self {
        let counters = ConnCounters { last_ms: AtomicU64::new(now_ms), ..ConnCounters::default() };
        Self {
            id,
            peer,
            pool: AtomicUsize::new(0),
            since_ms: now_ms,
            stream,
            tx: Mutex::new(Tx::default()),
            rx_slot: ExclusiveSlot::new_taken(),
            urgent: UrgentMark::default(),
            buffers,
            counters,
        }
    }

    /// Both ends, and what protects what comes from there now.
    pub fn caller(&self) -> Peer {
        Peer { security: self.stream.security(), ..self.peer }
    }

    /// Whether so much went through its TLS session that its client should begin another.
    pub fn has_reached_record_limit(&self) -> bool {
        self.stream.seal().is_some_and(Seal::has_reached_record_limit)
    }

    /// Ends it from outside; its pool finds it closed and forgets it.
    pub fn shut_down(&self) {
        self.stream.shut_down();
    }
}

/// The half that receives. In [`Conn::rx_slot`], or with the one worker that serves it.
pub(crate) struct Rx {
    pub conn: Arc<Conn>,
    /// Its slot in the pool's event loop.
    pub token: u64,
    /// The record under way.
    pub partial: Partial,
    /// What was taken of the data of the record under way; `None`: it has to be whole first.
    pub argument: Option<LargeArgument>,
    /// Whether its last call was a large one, of which most went through a pipe.
    pub large: bool,
    /// Whole records, and perhaps the start of one, that were received and wait for a worker.
    pub tail: Option<Tail>,
    /// No more is to be read: the client has closed its side, or the server stops.
    pub input_ended: bool,
    /// The server stops, and what had arrived by then was received.
    pub final_read_done: bool,
    /// The record boundaries are lost or the connection is broken: nothing more is to be done.
    pub broken: bool,
    /// Whether something but reading goes on, so that [`Rx::rearm`] has to be called after each round.
    pub needs_rearm: bool,
    /// The last receive left something, or may have. Epoll is edge-triggered and will not tell again of
    /// it, nor of room to send that there was at the time.
    pub more: bool,
    /// As `more`, until a receive finds nothing: the end of the stream may have come with data, or a
    /// byte of urgent data, which ends a receive before it.
    pub read_until_empty: bool,
    /// Bytes taken from the budget for `partial`, `tail` and a TLS record that is not whole.
    charged: usize,
}

impl Rx {
    pub fn new(conn: Arc<Conn>, token: u64) -> Self {
        Self {
            conn,
            token,
            partial: Partial::new(),
            argument: None,
            large: false,
            tail: None,
            input_ended: false,
            final_read_done: false,
            broken: false,
            needs_rearm: true,
            more: false,
            read_until_empty: false,
            charged: 0,
        }
    }

    /// Adjusts what is taken from the budget to the memory held; `false` if the budget does not allow it.
    #[must_use]
    pub fn charge(&mut self, budget: &Budget) -> bool {
        let tail = self.tail.as_ref().map_or(0, Tail::len);
        let held = self.partial.capacity().saturating_add(tail);
        let held = held.saturating_add(self.conn.stream.kept_bytes());
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
            self.conn.counters.partial.store(held, Relaxed);
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
        self.conn.counters.partial.store(0, Relaxed);
    }
}

/// The unserved rest of a receive buffer, for another worker. A tail of a tail shares its bytes.
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

//! What a leader works with: the slots of a pool's connections, the events that are left of the last wait, and
//! what other workers returned. The thread that holds the [`EventLoop`] is the leader.
//!
//! Invariants:
//! - A slot is free, or has a connection whose `Rx` is in its `rx_slot` or with exactly one worker.
//! - A token is never used for two connections, so that an event that is left over from a connection that has
//!   closed finds nothing.

use crate::conn::connection::{Conn, Rx};
use crate::conn::exclusive_slot::Take;
use crate::conn::pool_handles::PoolHandles;
use crate::epoll_tokens::TOKEN_INBOX;
use crate::limits::EVENTS_PER_WAIT;
use crate::pool::postponed::PostponedCall;
use crate::udp::received::ReceivedDatagram;
use std::collections::VecDeque;
use std::sync::Arc;
use sys::epoll::{Events, Ready};

/// Bits of a token that are the slot's number; above them is the count of its uses.
const SLOT_BITS: u32 = 32;
/// Uses of a slot after which the count starts again.
const USES_MAX: u64 = (1 << 30) - 1;

/// A pool's connections and events.
pub(crate) struct EventLoop {
    events: Events,
    next: usize,
    slots: Vec<ConnSlot>,
    free: Vec<usize>,
    open: usize,
    /// New connections; their first calls have mostly arrived with them.
    pub new_conns: VecDeque<u64>,
    /// Connections that have a tail, or are to be read for the last time.
    pub ready_queue: VecDeque<u64>,
    /// Datagrams that were received and not answered.
    pub datagrams: VecDeque<ReceivedDatagram>,
    /// Calls that were postponed and may go on.
    pub resumed: VecDeque<Box<PostponedCall>>,
    /// Connections that the end of the stream was sent on, and whose clients have not taken everything yet.
    pub lingering: Vec<u64>,
    /// The server stops: nothing new is read.
    pub stopping: bool,
    /// The pool is drained: its connections go to others.
    pub draining: bool,
    /// Datagram sockets that are received from until they are empty.
    pub sockets_to_drain: Vec<u64>,
}

#[derive(Default)]
struct ConnSlot {
    uses: u64,
    conn: Option<Arc<Conn>>,
}

impl EventLoop {
    pub fn new() -> Self {
        Self {
            events: Events::with_capacity(EVENTS_PER_WAIT),
            next: 0,
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            new_conns: VecDeque::new(),
            ready_queue: VecDeque::new(),
            datagrams: VecDeque::new(),
            resumed: VecDeque::new(),
            lingering: Vec::new(),
            stopping: false,
            draining: false,
            sockets_to_drain: Vec::new(),
        }
    }

    /// The next event of the last wait.
    pub fn next_event(&mut self) -> Option<Ready> {
        let ready = self.events.at(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(ready)
    }

    /// The wait is over: the inbox comes first, for the new connections in it.
    pub fn after_wait(&mut self) {
        self.events.move_to_front(TOKEN_INBOX);
    }

    /// The buffer for the next wait.
    pub fn events(&mut self) -> &mut Events {
        self.next = 0;
        &mut self.events
    }

    /// Gives a new connection a slot; its receiving half, which knows its token.
    pub fn insert(&mut self, pool: &Arc<PoolHandles>, conn: Arc<Conn>) -> Box<Rx> {
        let token = self.add(pool, &conn);
        Box::new(Rx::new(conn, token))
    }

    /// Gives a connection that has left another pool a slot.
    pub fn insert_moved(&mut self, pool: &Arc<PoolHandles>, rx: &mut Rx) {
        rx.token = self.add(pool, &rx.conn);
        rx.needs_rearm = true;
    }

    fn add(&mut self, pool: &Arc<PoolHandles>, conn: &Arc<Conn>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(ConnSlot::default());
            self.slots.len().saturating_sub(1)
        });
        let mut token = TOKEN_INBOX;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.uses = if slot.uses >= USES_MAX { 1 } else { slot.uses.saturating_add(1) };
            token = (slot.uses << SLOT_BITS) | index as u64;
            conn.join_pool(pool, token);
            slot.conn = Some(Arc::clone(conn));
            self.open = self.open.saturating_add(1);
        }
        token
    }

    /// Takes a connection to be served. `None`: it has closed, or another worker serves it, which checks it
    /// again when it returns it.
    pub fn take(&mut self, token: u64) -> Option<Box<Rx>> {
        match self.slot(token)?.conn.as_ref()?.rx_slot.take() {
            Take::Value(rx) => Some(rx),
            Take::Busy | Take::Closed => None,
        }
    }

    /// A connection, wherever its `Rx` is.
    pub fn conn(&mut self, token: u64) -> Option<Arc<Conn>> {
        self.slot(token)?.conn.clone()
    }

    /// Removes a connection; its `Rx`, if no worker has it.
    pub fn remove(&mut self, token: u64) -> Option<(Arc<Conn>, Option<Box<Rx>>)> {
        let slot = self.slot(token)?;
        let conn = slot.conn.take()?;
        let rx = conn.rx_slot.close();
        self.free.push(index(token));
        self.open = self.open.saturating_sub(1);
        Some((conn, rx))
    }

    /// Removes a connection that goes to another pool; the caller has its `Rx`.
    pub fn forget(&mut self, token: u64) {
        if let Some(slot) = self.slot(token) {
            slot.conn = None;
            self.free.push(index(token));
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Tokens of all connections.
    pub fn tokens(&self) -> Vec<u64> {
        let places = self.slots.iter().enumerate();
        let open = places.filter(|(_, slot)| slot.conn.is_some());
        open.map(|(index, slot)| (slot.uses << SLOT_BITS) | index as u64).collect()
    }

    /// Whether everything is done after a stop, or after all connections have gone elsewhere.
    pub fn is_finished(&self) -> bool {
        let ends = self.stopping || self.draining;
        let waiting = self.datagrams.len().saturating_add(self.resumed.len());
        ends && self.open == 0 && waiting == 0 && self.sockets_to_drain.is_empty()
    }

    fn slot(&mut self, token: u64) -> Option<&mut ConnSlot> {
        let slot = self.slots.get_mut(index(token))?;
        (slot.uses == token >> SLOT_BITS && slot.conn.is_some()).then_some(slot)
    }
}

/// The slot that a token names.
const fn index(token: u64) -> usize {
    (token & ((1 << SLOT_BITS) - 1)) as usize
}

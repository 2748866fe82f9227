//! What a leader leads: the table of a pool's connections, the events that are left of the last
//! wait, and the work that other workers handed back. Whoever holds the [`Core`] is the leader.
//!
//! Invariants:
//! - A place in the table is free, or holds a connection whose `Rx` is at its home or out with
//!   exactly one worker.
//! - A token is never used for two connections, so that an event that is left over from a
//!   connection that has closed meets nothing.

use crate::conn::{Conn, Rx};
use crate::home::Took;
use crate::limits::EVENTS_PER_WAIT;
use crate::pool::Pool;
use crate::udp::Held;
use std::collections::VecDeque;
use std::sync::Arc;
use sys::epoll::{Events, Ready};

/// The token of the pool's own event.
pub(crate) const TOKEN_INBOX: u64 = u64::MAX;
/// Tokens of datagram sockets have this bit and the socket's number.
pub(crate) const TOKEN_SOCKET: u64 = 1 << 63;
/// Bits of a token that are the place in the table; above it is the count of its uses.
const PLACE_BITS: u32 = 32;
/// Uses of a place after which the count starts again.
const USES_MAX: u64 = (1 << 30) - 1;

/// A pool's work and whose it is.
pub(crate) struct Core {
    events: Events,
    next: usize,
    table: Vec<Place>,
    free: Vec<usize>,
    open: usize,
    /// Connections that have just come; what their clients have to say has mostly come with them.
    pub fresh: VecDeque<u64>,
    /// Connections whose tail, or last look, is due.
    pub due: VecDeque<u64>,
    /// Datagrams that were received and not answered.
    pub datagrams: VecDeque<Held>,
    /// Connections that were told the end and whose clients have not taken everything yet.
    pub parting: Vec<u64>,
    /// The server stops: nothing new is read.
    pub stopping: bool,
    /// The pool is being left: connections go to others.
    pub leaving: bool,
    /// Datagram sockets that are looked at for the last time, until they are empty.
    pub sockets: Vec<u64>,
}

#[derive(Default)]
struct Place {
    uses: u64,
    conn: Option<Arc<Conn>>,
}

impl Core {
    pub fn new() -> Self {
        Self {
            events: Events::with_capacity(EVENTS_PER_WAIT),
            next: 0,
            table: Vec::new(),
            free: Vec::new(),
            open: 0,
            fresh: VecDeque::new(),
            due: VecDeque::new(),
            datagrams: VecDeque::new(),
            parting: Vec::new(),
            stopping: false,
            leaving: false,
            sockets: Vec::new(),
        }
    }

    /// The next event of the last wait.
    pub fn next_event(&mut self) -> Option<Ready> {
        let ready = self.events.at(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(ready)
    }

    /// The wait is over: what others have left comes first, new connections above all.
    pub fn waited(&mut self) {
        self.events.hoist(TOKEN_INBOX);
    }

    /// The buffer for the next wait.
    pub fn events(&mut self) -> &mut Events {
        self.next = 0;
        &mut self.events
    }

    /// Gives a connection a place; its receiving half, which knows its token.
    pub fn insert(&mut self, pool: &Arc<Pool>, conn: Arc<Conn>) -> Box<Rx> {
        let token = self.enter(pool, &conn);
        Box::new(Rx::new(conn, token))
    }

    /// Gives a connection that has left another pool a place.
    pub fn insert_moved(&mut self, pool: &Arc<Pool>, rx: &mut Rx) {
        rx.token = self.enter(pool, &rx.conn);
        rx.unsettled = true;
    }

    fn enter(&mut self, pool: &Arc<Pool>, conn: &Arc<Conn>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.table.push(Place::default());
            self.table.len().saturating_sub(1)
        });
        let mut token = TOKEN_INBOX;
        if let Some(place) = self.table.get_mut(index) {
            place.uses = if place.uses >= USES_MAX { 1 } else { place.uses.saturating_add(1) };
            token = (place.uses << PLACE_BITS) | index as u64;
            conn.enter(pool, token);
            place.conn = Some(Arc::clone(conn));
            self.open = self.open.saturating_add(1);
        }
        token
    }

    /// Takes a connection out to be served; it goes back to its home. `None`: it has gone, or another
    /// worker serves it, who is told on the way back that it is wanted.
    pub fn take(&mut self, token: u64) -> Option<Box<Rx>> {
        match self.place(token)?.conn.as_ref()?.home.take() {
            Took::It(rx) => Some(rx),
            Took::Out | Took::Closed => None,
        }
    }

    /// A connection, wherever its `Rx` is.
    pub fn conn(&mut self, token: u64) -> Option<Arc<Conn>> {
        self.place(token)?.conn.clone()
    }

    /// Strikes a connection out; its last `Rx`, if it is here.
    pub fn remove(&mut self, token: u64) -> Option<(Arc<Conn>, Option<Box<Rx>>)> {
        let place = self.place(token)?;
        let conn = place.conn.take()?;
        let rx = conn.home.close();
        self.free.push(index(token));
        self.open = self.open.saturating_sub(1);
        Some((conn, rx))
    }

    /// Strikes a connection out that goes to another pool; its `Rx` is with the caller.
    pub fn forget(&mut self, token: u64) {
        if let Some(place) = self.place(token) {
            place.conn = None;
            self.free.push(index(token));
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Tokens of all connections.
    pub fn tokens(&self) -> Vec<u64> {
        let places = self.table.iter().enumerate();
        let open = places.filter(|(_, place)| place.conn.is_some());
        open.map(|(index, place)| (place.uses << PLACE_BITS) | index as u64).collect()
    }

    /// Whether everything is done after a stop, or after all connections have gone elsewhere.
    pub fn is_finished(&self) -> bool {
        let ends = self.stopping || self.leaving;
        ends && self.open == 0 && self.datagrams.is_empty() && self.sockets.is_empty()
    }

    fn place(&mut self, token: u64) -> Option<&mut Place> {
        let place = self.table.get_mut(index(token))?;
        (place.uses == token >> PLACE_BITS && place.conn.is_some()).then_some(place)
    }
}

/// The place in the table that a token names.
const fn index(token: u64) -> usize {
    (token & ((1 << PLACE_BITS) - 1)) as usize
}

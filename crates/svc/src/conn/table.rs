//! All open connections of the server, how many each client has, and what it did on those that closed.
//!
//! The lock is taken when a connection opens or closes, by the sweep and when somebody asks; by a call only
//! where one that seems to be the same came by another connection.

use crate::conn::clients::{ClientTotals, Clients};
use crate::conn::connection::Conn;
use crate::conn::places::{ClientNetwork, Places};
use crate::limits::CLIENTS_REMEMBERED;
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use sys::descriptors::DescriptorBudget;

/// The most connections that have lost their place and are not closed yet: this many more than the most there
/// may be for a moment.
const CLOSING_MAX: usize = 32;

/// Why a connection is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFull {
    /// The server has as many as it may.
    Server,
    /// Those that made room are not closed yet.
    Closing,
    /// Its client has.
    Client,
}

/// The open connections.
pub(crate) struct ConnTable {
    state: Mutex<State>,
    /// Told how many there are. Written under the lock.
    descriptors: Arc<DescriptorBudget>,
}

struct State {
    /// Those with a place, and those that have lost it and are about to close.
    conns: HashMap<u64, Arc<Conn>>,
    clients: Clients,
    places: Places,
    /// The last connection that lost its place because others need it; the next search begins behind it.
    displaced_last: u64,
    /// When that was, on the server's clock.
    displaced_ms: Option<u64>,
}

/// How the places for connections are shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacesInfo {
    /// How many are taken.
    pub taken: usize,
    /// How many there are.
    pub max: usize,
    /// Who has most, and how many: an address, or a network of IPv6.
    pub most: Option<(String, usize)>,
    /// How long ago a connection was last closed to make room, in milliseconds.
    pub displaced_ago_ms: Option<u64>,
}

/// Connections of one client, of which one may have to make room.
pub(crate) struct Candidates {
    pub client: ClientNetwork,
    /// How many it has.
    pub has: usize,
    pub conns: Vec<Arc<Conn>>,
}

impl ConnTable {
    /// An empty one, which takes its descriptors from this budget.
    pub fn new(descriptors: Arc<DescriptorBudget>) -> Self {
        let state = State {
            conns: HashMap::new(),
            clients: Clients::new(CLIENTS_REMEMBERED),
            places: Places::default(),
            displaced_last: 0,
            displaced_ms: None,
        };
        Self { state: Mutex::new(state), descriptors }
    }

    /// Adds a connection, unless there are `max` already or `max_per_client` from its client.
    ///
    /// # Errors
    /// [`TableFull`]: which of the two it was.
    pub fn add(
        &self,
        conn: &Arc<Conn>,
        max: usize,
        max_per_client: usize,
    ) -> Result<(), TableFull> {
        let mut state = lock(&self.state);
        let address = conn.peer.addr.ip();
        let client = ClientNetwork::of(address);
        if state.places.of(client) >= max_per_client {
            return Err(TableFull::Client);
        }
        if state.places.taken() >= max {
            return Err(TableFull::Server);
        }
        if state.conns.len() >= max.saturating_add(CLOSING_MAX) {
            return Err(TableFull::Closing);
        }
        state.places.take(client, conn.id);
        state.clients.opened(address);
        state.conns.insert(conn.id, Arc::clone(conn));
        self.descriptors.set_connections(state.conns.len());
        Ok(())
    }

    /// Removes a connection. Its totals are added to its client's.
    pub fn remove(&self, conn: &Conn) {
        let mut state = lock(&self.state);
        if state.conns.remove(&conn.id).is_some() {
            let address = conn.peer.addr.ip();
            self.descriptors.set_connections(state.conns.len());
            state.places.give_back(ClientNetwork::of(address), conn.id);
            state.clients.closed(address, conn.counters.totals());
        }
    }

    /// How the `max` places are shared.
    pub fn places(&self, max: usize, now_ms: u64) -> PlacesInfo {
        let state = lock(&self.state);
        let most = state.places.with_more_than(0).next();
        PlacesInfo {
            taken: state.places.taken(),
            max,
            most: most.map(|(client, has)| (client.to_string(), has)),
            displaced_ago_ms: state.displaced_ms.map(|then| now_ms.saturating_sub(then)),
        }
    }

    /// How many places a client has.
    pub fn places_of(&self, client: ClientNetwork) -> usize {
        lock(&self.state).places.of(client)
    }

    /// Connections of those who have more than `count`, at most `clients_max` of them, whoever has most first; at
    /// most `conns_max` connections of each, others than the last time.
    pub fn of_largest(
        &self,
        count: usize,
        clients_max: usize,
        conns_max: usize,
    ) -> Vec<Candidates> {
        let state = lock(&self.state);
        let largest = state.places.with_more_than(count).take(clients_max);
        largest.map(|(client, has)| state.candidates(client, has, conns_max)).collect()
    }

    /// Connections of one client.
    pub fn of_client(&self, client: ClientNetwork, conns_max: usize) -> Candidates {
        let state = lock(&self.state);
        state.candidates(client, state.places.of(client), conns_max)
    }

    /// Takes the place of a connection, which is then to be closed; `false` if it has none any more.
    pub fn displace(&self, conn: &Conn, now_ms: u64) -> bool {
        let mut state = lock(&self.state);
        let address = conn.peer.addr.ip();
        let had = state.places.give_back(ClientNetwork::of(address), conn.id);
        if had {
            state.clients.displaced(address);
            state.displaced_last = conn.id;
            state.displaced_ms = Some(now_ms);
        }
        had
    }

    /// The one with this number, if it is open.
    pub fn find(&self, id: u64) -> Option<Arc<Conn>> {
        lock(&self.state).conns.get(&id).map(Arc::clone)
    }

    /// All of them, and the totals of closed connections for each client that is remembered.
    pub fn all_and_closed(&self) -> (Vec<Arc<Conn>>, Vec<(IpAddr, ClientTotals)>) {
        let state = lock(&self.state);
        (state.conns.values().map(Arc::clone).collect(), state.clients.closed_of_all())
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Conn>> {
        lock(&self.state).conns.values().map(Arc::clone).collect()
    }

    /// Those of these numbers that are open.
    pub fn chosen(&self, ids: &HashSet<u64>) -> Vec<Arc<Conn>> {
        let state = lock(&self.state);
        ids.iter().filter_map(|id| state.conns.get(id).map(Arc::clone)).collect()
    }

    /// Those for which `wanted` is true; it runs under the lock and must only look at the connection.
    pub fn matching(&self, wanted: impl Fn(&Conn) -> bool) -> Vec<Arc<Conn>> {
        let state = lock(&self.state);
        state.conns.values().filter(|conn| wanted(conn)).map(Arc::clone).collect()
    }

    /// Something of each of them. `read` runs under the lock and must only read counters.
    pub fn read_all<T>(&self, read: impl Fn(&Conn) -> T) -> Vec<T> {
        lock(&self.state).conns.values().map(|conn| read(conn)).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.state).conns.len()
    }
}

impl State {
    fn candidates(&self, client: ClientNetwork, has: usize, conns_max: usize) -> Candidates {
        let ids = self.places.ids(client, self.displaced_last).take(conns_max);
        let conns = ids.filter_map(|id| self.conns.get(&id).map(Arc::clone)).collect();
        Candidates { client, has, conns }
    }
}

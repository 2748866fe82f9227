//! All open connections of the server, how many each client has, and what it did on those that closed.
//!
//! The lock is taken when a connection opens or closes, by the sweep and when somebody asks; by a call only
//! where one that seems to be the same came by another connection.

use crate::conn::client_network::{ClientNetwork, IdsByClient};
use crate::conn::clients::{ClientTotals, Clients};
use crate::conn::connection::Conn;
use crate::limits::CLIENTS_REMEMBERED;
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use sys::descriptors::DescriptorBudget;

/// The most connections that count no longer and are not closed yet: this many more than the most there
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
    /// Those that count, and those that do not any more and are about to close.
    conns: HashMap<u64, Arc<Conn>>,
    clients: Clients,
    by_client: IdsByClient,
    /// The last connection that was closed to make room for others; the next search begins behind it.
    displaced_last: u64,
    /// When that was, on the server's clock.
    displaced_ms: Option<u64>,
}

/// How the connections are shared between clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnUsage {
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
            by_client: IdsByClient::default(),
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
        if state.by_client.count_of(client) >= max_per_client {
            return Err(TableFull::Client);
        }
        if state.by_client.len() >= max {
            return Err(TableFull::Server);
        }
        if state.conns.len() >= max.saturating_add(CLOSING_MAX) {
            return Err(TableFull::Closing);
        }
        state.by_client.insert(client, conn.id);
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
            state.by_client.remove(ClientNetwork::of(address), conn.id);
            state.clients.closed(address, conn.counters.totals());
        }
    }

    /// How the `max` connections are shared between clients.
    pub fn usage(&self, max: usize, now_ms: u64) -> ConnUsage {
        let state = lock(&self.state);
        let most = state.by_client.with_more_than(0).next();
        ConnUsage {
            taken: state.by_client.len(),
            max,
            most: most.map(|(client, has)| (client.to_string(), has)),
            displaced_ago_ms: state.displaced_ms.map(|then| now_ms.saturating_sub(then)),
        }
    }

    /// How many connections a client has.
    pub fn count_of(&self, client: ClientNetwork) -> usize {
        lock(&self.state).by_client.count_of(client)
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
        let largest = state.by_client.with_more_than(count).take(clients_max);
        largest.map(|(client, has)| state.candidates(client, has, conns_max)).collect()
    }

    /// Connections of one client.
    pub fn of_client(&self, client: ClientNetwork, conns_max: usize) -> Candidates {
        let state = lock(&self.state);
        state.candidates(client, state.by_client.count_of(client), conns_max)
    }

    /// Counts a connection no longer, which is then to be closed; `false` if it did not count any more.
    pub fn displace(&self, conn: &Conn, now_ms: u64) -> bool {
        let mut state = lock(&self.state);
        let address = conn.peer.addr.ip();
        let had = state.by_client.remove(ClientNetwork::of(address), conn.id);
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
        let ids = self.by_client.ids(client, self.displaced_last).take(conns_max);
        let conns = ids.filter_map(|id| self.conns.get(&id).map(Arc::clone)).collect();
        Candidates { client, has, conns }
    }
}

//! All open connections of the server, how many each client has, and what it did on those that closed.
//!
//! The lock is taken when a connection opens or closes, by the sweep and when somebody asks; by a call only
//! where one that seems to be the same came by another connection.

use crate::conn::clients::{ClientTotals, Clients};
use crate::conn::connection::Conn;
use crate::limits::CLIENTS_REMEMBERED;
use crate::sync::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use sys::descriptors::DescriptorBudget;

/// Why a connection is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFull {
    /// The server has as many as it may.
    Server,
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
    conns: HashMap<u64, Arc<Conn>>,
    clients: Clients,
}

impl ConnTable {
    /// An empty one, which takes its descriptors from this budget.
    pub fn new(descriptors: Arc<DescriptorBudget>) -> Self {
        let state = State { conns: HashMap::new(), clients: Clients::new(CLIENTS_REMEMBERED) };
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
        if state.conns.len() >= max {
            return Err(TableFull::Server);
        }
        let client = conn.peer.addr.ip();
        if state.clients.open(client) >= max_per_client {
            return Err(TableFull::Client);
        }
        state.clients.opened(client);
        state.conns.insert(conn.id, Arc::clone(conn));
        self.descriptors.set_connections(state.conns.len());
        Ok(())
    }

    /// Removes a connection. Its totals are added to its client's.
    pub fn remove(&self, conn: &Conn) {
        let mut state = lock(&self.state);
        if state.conns.remove(&conn.id).is_some() {
            self.descriptors.set_connections(state.conns.len());
            state.clients.closed(conn.peer.addr.ip(), conn.counters.totals());
        }
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

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.state).conns.len()
    }
}

//! All open connections of the server, and how many each client has.
//!
//! The lock is taken when a connection opens or closes, by the sweep and when somebody asks;
//! never by a call.

use crate::conn::Conn;
use crate::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Why a connection is not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The server has as many as it may.
    Server,
    /// Its client has.
    Client,
}

/// The open connections.
#[derive(Default)]
pub(crate) struct Register(Mutex<State>);

#[derive(Default)]
struct State {
    conns: HashMap<u64, Arc<Conn>>,
    clients: HashMap<IpAddr, usize>,
}

impl Register {
    /// Takes a connection in, unless there are `max` already or `max_per_client` from its client.
    ///
    /// # Errors
    /// [`Full`]: which of the two it was.
    pub fn add(&self, conn: &Arc<Conn>, max: usize, max_per_client: usize) -> Result<(), Full> {
        let mut state = lock(&self.0);
        if state.conns.len() >= max {
            return Err(Full::Server);
        }
        let count = state.clients.entry(conn.peer.addr.ip()).or_insert(0);
        if *count >= max_per_client {
            return Err(Full::Client);
        }
        *count = count.saturating_add(1);
        state.conns.insert(conn.id, Arc::clone(conn));
        Ok(())
    }

    /// Strikes a connection out.
    pub fn remove(&self, conn: &Conn) {
        let mut state = lock(&self.0);
        let ip = conn.peer.addr.ip();
        if state.conns.remove(&conn.id).is_some()
            && let Some(count) = state.clients.get_mut(&ip)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.clients.remove(&ip);
            }
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Conn>> {
        lock(&self.0).conns.values().map(Arc::clone).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.0).conns.len()
    }
}

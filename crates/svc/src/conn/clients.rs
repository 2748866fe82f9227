//! The clients that are connected or were: the totals of connections are added up when they close, so that no
//! call pays for it.
//!
//! Invariant: `gone` has exactly the clients without an open connection, the one that disconnected first in
//! front.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// What a client did on its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClientTotals {
    /// Calls that came.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections that were closed to make room for other clients.
    pub displaced: u64,
}

impl ClientTotals {
    /// Adds the totals of another connection.
    pub const fn add(&mut self, more: Self) {
        self.calls = self.calls.wrapping_add(more.calls);
        self.bytes_in = self.bytes_in.wrapping_add(more.bytes_in);
        self.bytes_out = self.bytes_out.wrapping_add(more.bytes_out);
        self.displaced = self.displaced.wrapping_add(more.displaced);
    }
}

/// One address.
#[derive(Default)]
struct Client {
    /// Its open connections.
    open: usize,
    /// The totals of those that have closed.
    closed: ClientTotals,
    /// Its key in `gone`, if none is open.
    left: u64,
}

/// All clients that are remembered.
pub(crate) struct Clients {
    known: HashMap<IpAddr, Client>,
    gone: BTreeMap<u64, IpAddr>,
    departures: u64,
    remembered_max: usize,
}

impl Clients {
    /// Remembers so many that have no open connection.
    pub fn new(remembered_max: usize) -> Self {
        Self { known: HashMap::new(), gone: BTreeMap::new(), departures: 0, remembered_max }
    }

    /// A connection has opened.
    pub fn opened(&mut self, address: IpAddr) {
        let client = self.known.entry(address).or_default();
        if client.open == 0 {
            self.gone.remove(&client.left);
        }
        client.open = client.open.saturating_add(1);
    }

    /// An open connection is about to be closed to make room for another client's.
    pub fn displaced(&mut self, address: IpAddr) {
        if let Some(client) = self.known.get_mut(&address) {
            client.closed.displaced = client.closed.displaced.wrapping_add(1);
        }
    }

    /// A connection has closed. Of clients without one, the one that disconnected first is forgotten if
    /// there are too many.
    pub fn closed(&mut self, address: IpAddr, totals: ClientTotals) {
        let Some(client) = self.known.get_mut(&address) else { return };
        client.closed.add(totals);
        client.open = client.open.saturating_sub(1);
        if client.open > 0 {
            return;
        }
        self.departures = self.departures.wrapping_add(1);
        client.left = self.departures;
        self.gone.insert(client.left, address);
        if self.gone.len() > self.remembered_max
            && let Some((_, forgotten)) = self.gone.pop_first()
        {
            self.known.remove(&forgotten);
        }
    }

    /// The totals of the closed connections of each client.
    pub fn closed_of_all(&self) -> Vec<(IpAddr, ClientTotals)> {
        self.known.iter().map(|(address, client)| (*address, client.closed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientTotals, Clients};
    use std::net::{IpAddr, Ipv4Addr};

    const ONE: ClientTotals = ClientTotals { calls: 1, bytes_in: 2, bytes_out: 3, displaced: 0 };

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn known(clients: &Clients) -> Vec<(IpAddr, u64)> {
        let mut all: Vec<_> =
            clients.closed_of_all().iter().map(|(address, sum)| (*address, sum.calls)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn totals_of_closed_connections_are_summed_per_client() {
        let mut clients = Clients::new(2);
        clients.opened(address(1));
        clients.opened(address(1));
        clients.displaced(address(1));
        clients.closed(address(1), ONE);
        clients.closed(address(1), ONE);
        clients.opened(address(1));
        clients.closed(address(1), ONE);
        let sum = ClientTotals { calls: 3, bytes_in: 6, bytes_out: 9, displaced: 1 };
        assert_eq!(clients.closed_of_all(), [(address(1), sum)]);
    }

    #[test]
    fn the_first_closed_client_is_evicted_and_open_ones_never() {
        let mut clients = Clients::new(2);
        clients.opened(address(9));
        clients.opened(address(9));
        clients.closed(address(9), ONE);
        for last in [1, 2, 1, 3] {
            clients.opened(address(last));
            clients.closed(address(last), ONE);
        }
        // 2 left before 1 came again
        assert_eq!(known(&clients), [(address(1), 2), (address(3), 1), (address(9), 1)]);
        clients.closed(address(9), ONE);
        assert_eq!(known(&clients), [(address(3), 1), (address(9), 2)]);
        assert_eq!(clients.gone.len(), 2);
    }
}

//! How many of the server's connections each client has, so that a client with very many makes room for the others.
//!
//! A client is what [`rpc::client_network`] says.
//!
//! Invariants: `clients` has exactly the clients with a connection, and `by_count` one row for each of them. So
//! neither is longer than the table of connections. Guarded by the lock of that table, and used only when a
//! connection opens or closes.

use rpc::client_network;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;

/// The addresses that count as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(client_network(address))
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(six) if !six.is_unicast_link_local() && !six.is_loopback() => {
                write!(f, "{six}/64")
            }
            whole => whole.fmt(f),
        }
    }
}

/// The numbers of connections, or of handshakes, by client.
#[derive(Default)]
pub(crate) struct IdsByClient {
    /// The numbers of each client's connections.
    clients: HashMap<ClientNetwork, BTreeSet<u64>>,
    by_count: BTreeSet<(usize, ClientNetwork)>,
    len: usize,
}

impl IdsByClient {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// How many a client has.
    pub fn count_of(&self, client: ClientNetwork) -> usize {
        self.clients.get(&client).map_or(0, BTreeSet::len)
    }

    /// Adds the connection with this number to a client's.
    pub fn insert(&mut self, client: ClientNetwork, id: u64) {
        let ids = self.clients.entry(client).or_default();
        let before = ids.len();
        if ids.insert(id) {
            self.by_count.remove(&(before, client));
            self.by_count.insert((ids.len(), client));
            self.len = self.len.saturating_add(1);
        }
    }

    /// Removes one of a client's; `false` if it is not there.
    pub fn remove(&mut self, client: ClientNetwork, id: u64) -> bool {
        let Some(ids) = self.clients.get_mut(&client) else { return false };
        let before = ids.len();
        if !ids.remove(&id) {
            return false;
        }
        self.len = self.len.saturating_sub(1);
        self.by_count.remove(&(before, client));
        if ids.is_empty() {
            self.clients.remove(&client);
        } else {
            self.by_count.insert((ids.len(), client));
        }
        true
    }

    /// The clients with more than `count`, whoever has most first.
    pub fn with_more_than(&self, count: usize) -> impl Iterator<Item = (ClientNetwork, usize)> {
        let more = self.by_count.iter().rev().take_while(move |(has, _)| *has > count);
        more.map(|(has, client)| (*client, *has))
    }

    /// The numbers of a client's connections, beginning behind `after` and ending with it.
    pub fn ids(&self, client: ClientNetwork, after: u64) -> impl Iterator<Item = u64> {
        let ids = self.clients.get(&client);
        let behind = ids.into_iter().flat_map(move |ids| ids.range(after.saturating_add(1)..));
        let before = ids.into_iter().flat_map(move |ids| ids.range(..=after));
        behind.chain(before).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientNetwork, IdsByClient};

    fn client(text: &str) -> ClientNetwork {
        ClientNetwork::of(text.parse().unwrap())
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1:2:3"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("2001:db8::1").to_string(), "2001:db8::/64");
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("192.0.2.1").to_string(), "192.0.2.1");
        // every machine of the link has that network
        assert_ne!(client("fe80::1"), client("fe80::2"));
        assert_eq!(client("fe80::1").to_string(), "fe80::1");
        assert_eq!(client("::1").to_string(), "::1");
    }

    #[test]
    fn clients_are_ordered_by_connections_and_removed_at_zero() {
        let (a, b, c) = (client("10.0.0.1"), client("10.0.0.2"), client("10.0.0.3"));
        let mut by_client = IdsByClient::default();
        for (client, id) in [(a, 1), (b, 2), (b, 3), (b, 4), (c, 5), (c, 6), (c, 6)] {
            by_client.insert(client, id);
        }
        assert_eq!((by_client.len(), by_client.count_of(c)), (6, 2));
        assert_eq!(by_client.with_more_than(1).collect::<Vec<_>>(), [(b, 3), (c, 2)]);
        assert_eq!(by_client.ids(b, 0).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(by_client.ids(b, 3).collect::<Vec<_>>(), [4, 2, 3]);
        assert_eq!(by_client.ids(b, u64::MAX).collect::<Vec<_>>(), [2, 3, 4]);
        for id in [2, 3, 3, 9] {
            by_client.remove(b, id);
        }
        assert_eq!((by_client.len(), by_client.count_of(b)), (4, 1));
        assert_eq!(by_client.with_more_than(0).map(|(who, _)| who).collect::<Vec<_>>(), [c, b, a]);
        for (client, id) in [(a, 1), (b, 4), (c, 5), (c, 6)] {
            by_client.remove(client, id);
        }
        assert!(
            by_client.clients.is_empty() && by_client.by_count.is_empty() && by_client.len() == 0
        );
    }
}

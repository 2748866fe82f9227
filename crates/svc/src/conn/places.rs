//! Who has how many of the server's places for connections, so that a client that takes very many makes room for
//! the others.
//!
//! A client is an address here; of IPv6 the first 64 bits, because a host may have any address of its network.
//! Link-local addresses share these bits and are counted whole.
//!
//! Invariants: `clients` has exactly the clients with a connection, and `by_count` one row for each of them. So
//! neither is longer than the table of connections. Guarded by the lock of that table, and used only when a
//! connection opens or closes.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The addresses that count as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// That of an address, which is not an IPv4 address in IPv6 form.
    pub fn of(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V6(six) if !six.is_unicast_link_local() && !six.is_loopback() => {
                Ipv6Addr::from_bits(six.to_bits() >> 64 << 64).into()
            }
            whole => whole,
        })
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

/// The places that are taken.
#[derive(Default)]
pub(crate) struct Places {
    /// The numbers of each client's connections.
    clients: HashMap<ClientNetwork, BTreeSet<u64>>,
    by_count: BTreeSet<(usize, ClientNetwork)>,
    taken: usize,
}

impl Places {
    /// How many are taken.
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// How many a client has.
    pub fn of(&self, client: ClientNetwork) -> usize {
        self.clients.get(&client).map_or(0, BTreeSet::len)
    }

    /// A client takes one more, for the connection with this number.
    pub fn take(&mut self, client: ClientNetwork, id: u64) {
        let ids = self.clients.entry(client).or_default();
        let before = ids.len();
        if ids.insert(id) {
            self.by_count.remove(&(before, client));
            self.by_count.insert((ids.len(), client));
            self.taken = self.taken.saturating_add(1);
        }
    }

    /// A client gives one back; `false` if it has already.
    pub fn give_back(&mut self, client: ClientNetwork, id: u64) -> bool {
        let Some(ids) = self.clients.get_mut(&client) else { return false };
        let before = ids.len();
        if !ids.remove(&id) {
            return false;
        }
        self.taken = self.taken.saturating_sub(1);
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
    use super::{ClientNetwork, Places};

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
        let mut places = Places::default();
        for (client, id) in [(a, 1), (b, 2), (b, 3), (b, 4), (c, 5), (c, 6), (c, 6)] {
            places.take(client, id);
        }
        assert_eq!((places.taken(), places.of(c)), (6, 2));
        assert_eq!(places.with_more_than(1).collect::<Vec<_>>(), [(b, 3), (c, 2)]);
        assert_eq!(places.ids(b, 0).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(places.ids(b, 3).collect::<Vec<_>>(), [4, 2, 3]);
        assert_eq!(places.ids(b, u64::MAX).collect::<Vec<_>>(), [2, 3, 4]);
        for id in [2, 3, 3, 9] {
            places.give_back(b, id);
        }
        assert_eq!((places.taken(), places.of(b)), (4, 1));
        assert_eq!(places.with_more_than(0).map(|(who, _)| who).collect::<Vec<_>>(), [c, b, a]);
        for (client, id) in [(a, 1), (b, 4), (c, 5), (c, 6)] {
            places.give_back(client, id);
        }
        assert!(places.clients.is_empty() && places.by_count.is_empty() && places.taken() == 0);
    }
}

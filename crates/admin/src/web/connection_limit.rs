//! How many connections the page has at once: in all, and of one client, so that one machine of the network does not keep
//! the others out. This machine may have all of them.
//!
//! The lock guards the numbers; it is held for one look.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections at once; the next are closed.
pub const CONNECTIONS_MAX: usize = 64;
/// Of these, those of one client.
const OF_CLIENT_MAX: usize = CONNECTIONS_MAX / 2;

/// Connections by client: an IPv4 address, or 64 bits of IPv6.
#[derive(Debug, Default)]
pub struct ConnectionLimit {
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// Permits one connection; dropping it makes room for another.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    client: IpAddr,
}

impl ConnectionLimit {
    /// Permits a connection from this address, if there is room.
    pub fn acquire(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionPermit> {
        let client = client_of(from);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&client).copied().unwrap_or(0);
        let own_max = if client.is_loopback() { CONNECTIONS_MAX } else { OF_CLIENT_MAX };
        if own >= own_max || taken.values().sum::<usize>() >= CONNECTIONS_MAX {
            return None;
        }
        taken.insert(client, own.saturating_add(1));
        Some(ConnectionPermit { limit: Arc::clone(self), client })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&self.client).copied().unwrap_or(0).saturating_sub(1);
        if own == 0 {
            taken.remove(&self.client);
        } else {
            taken.insert(self.client, own);
        }
    }
}

fn client_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(six) if !six.is_loopback() => {
            Ipv6Addr::from_bits(six.to_bits() >> 64 << 64).into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{CONNECTIONS_MAX, ConnectionLimit, OF_CLIENT_MAX};
    use std::net::IpAddr;
    use std::sync::Arc;

    #[test]
    fn one_client_leaves_connections_for_others() {
        let limit = Arc::new(ConnectionLimit::default());
        let take = |from: &str| limit.acquire(from.parse::<IpAddr>().unwrap());
        let of_a_client: Vec<_> =
            (0..OF_CLIENT_MAX).map(|n| take(&format!("2001:db8::{n:x}")).unwrap()).collect();
        assert!(take("2001:db8::7:1").is_none());
        let other = take("192.0.2.7").unwrap();
        assert!(take("::ffff:192.0.2.7").is_some());
        drop(of_a_client);
        let local: Vec<_> =
            (1..CONNECTIONS_MAX).map(|n| take(&format!("127.0.0.{}", n % 2)).unwrap()).collect();
        assert!(take("127.0.0.1").is_none() && take("::1").is_none());
        drop(other);
        assert!(take("::1").is_some());
        drop(local);
        assert!(limit.taken.lock().unwrap().is_empty());
    }
}

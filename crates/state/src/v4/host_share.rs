//! What all clients of one host have together, so that a host that calls itself by many names leaves room for the others.
//!
//! A host is an address here; of IPv6 the first 64 bits, because a host may have any address of its network. Many machines
//! may stand behind one address (NAT), so it gets most of what there is, and never the last part of it.
//!
//! Locks: none. Sessions are counted with the lock of the table of clients held or when their client has left that
//! table, opens with the lock of their client's opens. The counts of different clients change at the same time.

use crate::sync::AtomicUsize;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;

/// What the clients of a host have.
#[derive(Default)]
pub(super) struct HostShare {
    sessions: AtomicUsize,
    opens: AtomicUsize,
}

impl HostShare {
    pub fn add_session(&self) {
        self.sessions.fetch_add(1, Relaxed);
    }

    pub fn forget_sessions(&self, count: usize) {
        self.sessions.fetch_sub(count, Relaxed);
    }

    pub fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    pub fn add_open(&self) {
        self.opens.fetch_add(1, Relaxed);
    }

    pub fn forget_opens(&self, count: usize) {
        self.opens.fetch_sub(count, Relaxed);
    }

    pub fn opens(&self) -> usize {
        self.opens.load(Relaxed)
    }
}

/// The address by which a host is counted.
pub(super) fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) if !six.is_unicast_link_local() && !six.is_loopback() => {
            Ipv6Addr::from_bits(six.to_bits() >> 64 << 64).into()
        }
        whole => whole,
    }
}

/// How many of so many records of clients, or sessions, one host may have.
pub(super) const fn most_of_one_host(all: usize) -> usize {
    all - all / 4
}

/// The same of opens: of these there are many, and a sixteenth of them is enough for the other hosts.
pub(super) const fn most_opens_of_one_host(all: usize) -> usize {
    all - all / 16
}

#[cfg(test)]
mod tests {
    use super::{host_of, most_of_one_host, most_opens_of_one_host};
    use std::net::IpAddr;

    #[test]
    fn a_network_of_ipv6_is_one_host() {
        let host = |text: &str| host_of(text.parse::<IpAddr>().unwrap()).to_string();
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(host("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(host("192.0.2.1"), "192.0.2.1");
        assert_eq!(host("fe80::1:2"), "fe80::1:2", "link-local addresses share these bits");
        assert_eq!(host("::1"), "::1");
    }

    #[test]
    fn a_host_never_gets_everything() {
        assert_eq!([1, 4, 292].map(most_of_one_host), [1, 3, 219]);
        assert_eq!(most_opens_of_one_host(1_000_000), 937_500);
    }
}

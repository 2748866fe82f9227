//! Which addresses count as one client where each client gets a part of something.

use std::net::{IpAddr, Ipv6Addr};

/// The client of an address: of IPv6 the first 64 bits, because a host may have any address of its network. Link-local
/// addresses share these bits and are counted whole.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) if !six.is_unicast_link_local() && !six.is_loopback() => {
            Ipv6Addr::from_bits(six.to_bits() >> 64 << 64).into()
        }
        whole => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::client_network;

    #[test]
    fn a_network_of_ipv6_is_one_client_but_not_a_link() {
        let client = |text: &str| client_network(text.parse().unwrap()).to_string();
        assert_eq!(client("2001:db8::1"), "2001:db8::");
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("fe80::1"), client("fe80::2"));
        assert_eq!(client("::1"), "::1");
        assert_eq!(client("::ffff:192.0.2.1"), "192.0.2.1");
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }
}

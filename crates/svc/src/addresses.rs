//! Addresses as they are shown and compared.

use std::net::{IpAddr, SocketAddr};

/// An IPv4 address that is written as IPv6, as IPv4.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => (ip, addr.port()).into(),
        IpAddr::V6(_) => addr,
    }
}

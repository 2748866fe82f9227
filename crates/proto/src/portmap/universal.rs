//! Addresses of rpcbind: network identifiers, universal addresses (RFC 5665 §5.2) and transport
//! addresses (the machine's own `struct sockaddr`).

use super::{PROTOCOL_TCP, PROTOCOL_UDP};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The network identifiers of the Internet's transports (RFC 5665 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Netid {
    /// TCP over IPv4.
    Tcp,
    /// UDP over IPv4.
    Udp,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
}

impl Netid {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Tcp6, Self::Udp6];

    /// The identifier of a transport over the family of `ip`.
    pub const fn new(tcp: bool, ip: IpAddr) -> Self {
        match (tcp, ip) {
            (true, IpAddr::V4(_)) => Self::Tcp,
            (false, IpAddr::V4(_)) => Self::Udp,
            (true, IpAddr::V6(_)) => Self::Tcp6,
            (false, IpAddr::V6(_)) => Self::Udp6,
        }
    }

    /// The identifier as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Tcp6 => "tcp6",
            Self::Udp6 => "udp6",
        }
    }

    /// The identifier of this text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|netid| netid.text().as_bytes() == text)
    }

    /// Whether it is TCP; UDP otherwise.
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Tcp6)
    }

    /// Whether it is over IPv6.
    pub const fn is_v6(self) -> bool {
        matches!(self, Self::Tcp6 | Self::Udp6)
    }

    /// The protocol's number, as version 2 carries it.
    pub const fn protocol(self) -> u32 {
        if self.is_tcp() { PROTOCOL_TCP } else { PROTOCOL_UDP }
    }
}

/// One version of a program on one transport, and its address: the unit of registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Transport; follows the family of `addr`.
    pub netid: Netid,
    /// Its address; the unspecified address means all of the machine's.
    pub addr: SocketAddr,
}

impl Registration {
    /// A version of a program on a socket.
    pub const fn new(program: u32, version: u32, tcp: bool, addr: SocketAddr) -> Self {
        Self { program, version, netid: Netid::new(tcp, addr.ip()), addr }
    }
}

/// The universal address: the IP address as text, then the port's two bytes, all with dots.
pub fn to_universal(addr: SocketAddr) -> String {
    let [high, low] = addr.port().to_be_bytes();
    format!("{}.{high}.{low}", addr.ip())
}

/// The address of a universal address; `None` if it is invalid.
pub fn from_universal(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (rest, low) = text.rsplit_once('.')?;
    let (ip, high) = rest.rsplit_once('.')?;
    let port = u16::from_be_bytes([octet(high)?, octet(low)?]);
    Some(SocketAddr::new(ip.parse().ok()?, port))
}

/// Digits only: `parse` alone would accept a sign.
fn octet(text: &str) -> Option<u8> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// `AF_INET` of Linux.
const FAMILY_V4: u16 = 2;
/// `AF_INET6` of Linux.
const FAMILY_V6: u16 = 10;

/// The address as Linux's `struct sockaddr_in` or `sockaddr_in6`, which is what rpcbind sends.
pub fn encode_taddr(addr: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match addr {
        SocketAddr::V4(v4) => {
            bytes.extend_from_slice(&FAMILY_V4.to_ne_bytes());
            bytes.extend_from_slice(&v4.port().to_be_bytes());
            bytes.extend_from_slice(&v4.ip().octets());
            bytes.extend_from_slice(&[0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend_from_slice(&FAMILY_V6.to_ne_bytes());
            bytes.extend_from_slice(&v6.port().to_be_bytes());
            bytes.extend_from_slice(&v6.flowinfo().to_be_bytes());
            bytes.extend_from_slice(&v6.ip().octets());
            bytes.extend_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// The address in a `struct sockaddr_in` or `sockaddr_in6`; `None` for anything else.
pub fn decode_taddr(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let ip = match u16::from_ne_bytes(*family) {
        FAMILY_V4 => IpAddr::V4(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
        FAMILY_V6 => IpAddr::V6(Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

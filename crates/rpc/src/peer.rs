//! The two ends of a call.

use crate::TransportSecurity;
use std::net::SocketAddr;

/// How a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A record on a connection.
    Tcp,
    /// A datagram.
    Udp,
}

/// The two ends of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The client's address and port (an IPv4 client of an IPv6 socket shows as IPv4).
    pub addr: SocketAddr,
    /// The address and port that the call came to.
    pub local: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// What protected it on its way.
    pub security: TransportSecurity,
}

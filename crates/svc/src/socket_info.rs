//! What the server tells about its listening and datagram sockets.

use serde::Serialize;
use std::net::SocketAddr;

/// The kind of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketKind {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// One listening or datagram socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketInfo {
    /// Its kind.
    pub transport: SocketKind,
    /// Where it is bound.
    pub local: SocketAddr,
    /// Whether somebody else has bound it.
    pub inherited: bool,
    /// The interface whose datagrams it takes; `None`: all, or all that have no socket.
    pub interface: Option<String>,
    /// Which of the sockets it is that datagrams are shared out to by CPU.
    pub cpu: Option<u32>,
    /// Connections accepted or datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes of the datagrams received.
    pub bytes_in: u64,
    /// Bytes of the datagrams sent.
    pub bytes_out: u64,
    /// Datagrams that found no room in the kernel's buffer.
    pub drops: u64,
    /// Bytes of the kernel's buffer for what arrives, by its own count; 0: it sizes it itself.
    pub buffer_in: usize,
    /// Bytes of the kernel's buffer for what leaves, by its own count; 0: it sizes it itself.
    pub buffer_out: usize,
    /// What the operator should know.
    pub note: String,
}

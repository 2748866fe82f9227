//! A datagram that was received and is not answered.

use crate::limits::DATAGRAM_COST;
use crate::udp::socket::DatagramSocket;
use std::net::SocketAddr;
use std::sync::Arc;
use sys::mmsg::{Datagram, Local};

/// A datagram that another worker has received.
pub(crate) struct ReceivedDatagram {
    pub socket: Arc<DatagramSocket>,
    pub bytes: Vec<u8>,
    pub from: SocketAddr,
    pub to: Local,
    pub truncated: bool,
}

impl ReceivedDatagram {
    /// A copy of what was received by `socket`.
    pub fn copy_of(socket: &Arc<DatagramSocket>, datagram: &Datagram<'_>) -> Self {
        Self {
            socket: Arc::clone(socket),
            bytes: datagram.bytes.to_vec(),
            from: datagram.from,
            to: datagram.to,
            truncated: datagram.truncated,
        }
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it takes from the budget while it is queued.
    pub const fn cost(&self) -> usize {
        self.bytes.len().saturating_add(DATAGRAM_COST)
    }
}

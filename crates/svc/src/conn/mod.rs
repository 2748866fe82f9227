//! TCP connections: the socket, what is received and sent, and the table of all connections.

pub(crate) mod byte_stream;
pub(crate) mod client_network;
pub(crate) mod clients;
pub(crate) mod congestion;
pub(crate) mod connection;
pub(crate) mod exclusive_slot;
pub(crate) mod info;
pub(crate) mod kernel_records;
pub(crate) mod link;
pub(crate) mod liveness;
pub(crate) mod pool_handles;
pub(crate) mod seal;
pub(crate) mod send_queue;
pub(crate) mod table;
pub(crate) mod tcp_buffers;
pub(crate) mod transmit;
pub(crate) mod urgent;

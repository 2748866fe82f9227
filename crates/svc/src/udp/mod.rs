//! Datagram sockets: which there should be, which there are, and how replies leave.

pub(crate) mod layout;
pub(crate) mod maintenance;
pub(crate) mod received;
pub(crate) mod removal;
pub(crate) mod reply_socket;
pub(crate) mod socket;
pub(crate) mod sockets;

//! The tokens by which epoll events tell what is ready. A connection's token is its slot in its pool's
//! event loop (`pool/event_loop.rs`).

/// The token of the pool's own event.
pub(crate) const TOKEN_INBOX: u64 = u64::MAX;
/// Tokens of datagram sockets have this bit and the socket's number.
pub(crate) const TOKEN_SOCKET: u64 = 1 << 63;

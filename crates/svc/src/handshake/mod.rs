//! TLS handshakes (RFC 9289 §5): connections whose clients make one are with threads of their own, and hold no worker.

pub(crate) mod handshake_threads;
mod log;
mod pending_handshake;

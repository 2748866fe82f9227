//! TLS handshakes (RFC 9289 §5), on threads of their own, so that they occupy no worker.

pub(crate) mod handshake_threads;
mod log;
mod pending_handshake;

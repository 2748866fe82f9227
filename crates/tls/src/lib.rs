//! TLS for RPC (RFC 9289) without sockets: configuration out of files, the handshake, records, and who a certificate
//! names. Bytes come in and go out through buffers of the caller.
//!
//! TLS 1.3 only, no tickets, no early data. Of ALPN protocols `sunrpc` alone is accepted; Linux offers none
//! (ktls-utils 1.4), which is accepted too. A client's certificate is always asked for and may
//! be missing; one that is shown must be good, else the handshake fails.

mod authority;
mod certificate;
mod client;
mod client_stream;
mod files;
mod handshake;
mod machine;
mod server;
mod session;
mod verify;
mod words;

pub use authority::{Authority, AuthorityError, Issued, Purpose, Request};
pub use certificate::{NotCertificate, read_certificate};
pub use client::{ClientFiles, ClientTls, Seen};
pub use client_stream::{ClientStream, ConnectError};
pub use files::{FileError, ServerFiles};
pub use handshake::{Handshake, HandshakeError, Progress};
pub use server::{Loaded, ServerTls};
pub use session::{Opened, SealError, Session};
pub use words::{client_words, server_words};

/// The protocol of ALPN (RFC 9289 §7.2).
pub const ALPN: &[u8] = b"sunrpc";
/// Bytes of plain text in a record, at the most (RFC 8446 §5.1).
pub const RECORD_PLAIN_MAX: usize = 1 << 14;
/// Bytes that a record is longer than its plain text: header, type and tag.
pub const RECORD_OVERHEAD: usize = 5 + 1 + 16;
/// Bytes of a record as it is sent, at the most (RFC 8446 §5.2).
pub const RECORD_MAX: usize = 5 + RECORD_PLAIN_MAX + 256;

/// The provider of all primitives.
fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

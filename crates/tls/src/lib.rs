//! TLS for RPC (RFC 9289) without sockets: configuration from files, handshakes, record encryption, and client
//! certificates. Bytes come in and go out through buffers of the caller.
//!
//! TLS 1.3 only, without session tickets and early data. The ALPN protocol must be `sunrpc` if the client offers any;
//! Linux offers none (ktls-utils 1.4). A client certificate is always requested and optional; one that is sent must be
//! valid, otherwise the handshake fails.
//!
//! The server's certificate is also that of its web page: [`Loaded::http`] is for whoever serves that.

mod authority;
mod certificate;
mod client;
mod client_stream;
mod error_text;
mod files;
#[cfg(any(test, feature = "testing"))]
mod forged_records;
mod handshake;
mod kernel;
mod machine;
mod record_end;
mod server;
mod session;
mod verify;

pub use authority::{Authority, AuthorityError, Issued, Purpose, Request};
pub use certificate::{InvalidCertificate, read_certificate};
pub use client::{ClientFiles, ClientTls, ShownCertificate};
pub use client_stream::{ClientStream, ConnectError};
pub use error_text::{client_error_text, server_error_text};
pub use files::{FileError, ServerFiles};
#[cfg(any(test, feature = "testing"))]
pub use forged_records::ForgedRecords;
pub use handshake::{Handshake, HandshakeError, Progress};
pub use kernel::{KernelSession, KeyError, TrafficKeys};
pub use server::{Loaded, ServerTls};
pub use session::{Opened, SESSION_RECORDS_MAX, SealError, Session};

/// The ALPN protocol (RFC 9289 §7.2).
pub const ALPN: &[u8] = b"sunrpc";
/// The ALPN protocol of HTTP (RFC 7301 §6), for the server's web page. Neither of the two is accepted where the other is
/// served, so that no client is led from one to the other.
pub const ALPN_HTTP: &[u8] = b"http/1.1";
/// The most bytes of plaintext in a record (RFC 8446 §5.1).
pub const RECORD_PLAIN_MAX: usize = 1 << 14;
/// Bytes of a record's header: type, version, length.
pub const HEADER_LEN: usize = 5;
/// Bytes that a record adds to its plaintext: header, content type and tag.
pub const RECORD_OVERHEAD: usize = HEADER_LEN + 1 + 16;
/// The most bytes of an encrypted record (RFC 8446 §5.2).
pub const RECORD_MAX: usize = HEADER_LEN + RECORD_PLAIN_MAX + 256;

/// The provider of all cryptographic primitives.
fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

//! What a connection speaks: TLS if the server has a certificate and the first byte begins a TLS handshake, otherwise HTTP in the
//! clear. So one address serves browsers over https and scrapers without TLS.
//!
//! A handshake is bounded in its time; what it keeps, by rustls: one message of 64 KiB, and by the number of connections. All of
//! them together begin no more than one each [`HANDSHAKE_PAUSE`], so that a client that begins very many uses a small part of
//! a processor, and delays others by less than a second.

use hyper_util::rt::TokioIo;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The content type of the first record of TLS (RFC 8446 §5.1). No request of HTTP begins with it.
const HANDSHAKE_RECORD: u8 = 22;
/// Longest wait for the first byte, and longest handshake.
const TIME_MAX: Duration = Duration::from_secs(5);
/// From the beginning of a handshake to that of the next.
const HANDSHAKE_PAUSE: Duration = Duration::from_millis(5);

/// Gives the certificate that is in force, and what is negotiated with it.
pub type Certificates = Box<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Connections since the start.
#[derive(Debug, Default)]
pub struct HttpCounts {
    /// Of HTTP in the clear.
    pub plain: AtomicU64,
    /// Of TLS, after the handshake.
    pub encrypted: AtomicU64,
    /// Whose handshake failed or took too long.
    pub failed_handshakes: AtomicU64,
    /// Closed because there were too many.
    pub refused: AtomicU64,
    /// Requests to change a setting that were refused because of their way or their token.
    pub refused_changes: AtomicU64,
}

/// Counts one more.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// A stream of bytes, encrypted below or not.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A connection that can carry HTTP.
pub struct HttpConnection {
    pub stream: TokioIo<Box<dyn ByteStream>>,
    pub is_encrypted: bool,
}

impl HttpConnection {
    fn new(stream: impl ByteStream + 'static, is_encrypted: bool) -> Self {
        Self { stream: TokioIo::new(Box::new(stream)), is_encrypted }
    }
}

/// Opens connections. The lock guards when the next handshake may begin.
pub struct HttpAcceptor {
    certificates: Option<Certificates>,
    next: Mutex<Instant>,
    counts: Arc<HttpCounts>,
}

impl HttpAcceptor {
    pub fn new(certificates: Option<Certificates>, counts: Arc<HttpCounts>) -> Self {
        Self { certificates, next: Mutex::new(Instant::now()), counts }
    }

    /// Finds out what the client speaks, and makes the handshake if that is TLS.
    ///
    /// # Errors
    /// It says nothing, or the handshake fails.
    pub async fn open(&self, stream: TcpStream) -> io::Result<HttpConnection> {
        if let Some(certificates) = &self.certificates {
            let mut first = [0];
            within(stream.peek(&mut first)).await?;
            if first == [HANDSHAKE_RECORD] {
                return self.handshake(stream, certificates).await;
            }
        }
        count(&self.counts.plain);
        Ok(HttpConnection::new(stream, false))
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        certificates: &Certificates,
    ) -> io::Result<HttpConnection> {
        let made = within(async {
            sleep_until(self.turn()).await;
            TlsAcceptor::from(certificates()).accept(stream).await
        });
        match made.await {
            Ok(stream) => {
                count(&self.counts.encrypted);
                Ok(HttpConnection::new(stream, true))
            }
            Err(error) => {
                count(&self.counts.failed_handshakes);
                Err(error)
            }
        }
    }

    /// When one more handshake may begin.
    fn turn(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*next).max(Instant::now());
        *next = turn.checked_add(HANDSHAKE_PAUSE).unwrap_or(turn);
        turn
    }
}

/// What is done in [`TIME_MAX`], or an error.
async fn within<T>(done: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(TIME_MAX, done).await.unwrap_or_else(|late| Err(late.into()))
}

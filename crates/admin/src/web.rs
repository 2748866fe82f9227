//! The HTTP server: `GET /metrics` for Prometheus and other scrapers, and the web page with its figures as JSON; over TLS too,
//! where the server has a certificate ([`transport`]).
//!
//! One thread runs all connections ([`connection_limit::CONNECTIONS_MAX`] at once; each carries one request, and is closed after
//! [`TIMEOUT`] in any case). It never calls the server itself, which may wait: [`answers`] has threads for that, and a
//! queue with a bound, beyond which a request is answered 503. So no request delays an NFS call or another
//! request. Nothing can be changed here without the token, and with it only over TLS or from this machine.

mod answers;
mod connection_limit;
mod live;
mod routes;
mod token;
mod transport;

pub use token::Token;
pub use transport::{Certificates, HttpCounts};

use crate::control::Control;
use answers::Answers;
use connection_limit::ConnectionLimit;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use transport::{HttpAcceptor, count};

/// Longest time that a connection is open: its handshake, its request, and until the client has received the answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most header fields of a request.
const FIELDS_MAX: usize = 64;
/// Pause after an accept that failed, for example because there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The sender of a request, and how it came.
#[derive(Debug, Clone, Copy)]
struct Peer {
    addr: SocketAddr,
    is_encrypted: bool,
}

impl Peer {
    /// Whether nobody between can have read or changed the request: it came over TLS, or from this machine.
    fn is_private(&self) -> bool {
        self.is_encrypted || self.addr.ip().to_canonical().is_loopback()
    }
}

/// How the page is served.
#[derive(Default)]
pub struct HttpConfig {
    /// The token by which settings can be changed; without one they cannot be changed.
    pub token: Option<Arc<Token>>,
    /// For TLS; without them there is only HTTP in the clear.
    pub certificates: Option<Certificates>,
    /// What is counted.
    pub counts: Arc<HttpCounts>,
}

/// What all connections share.
struct Shared {
    acceptor: HttpAcceptor,
    router: axum::Router,
    counts: Arc<HttpCounts>,
}

/// A listening address; dropping it ends its threads.
#[derive(Debug)]
pub struct HttpServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on `addr` and serves `control`.
    ///
    /// # Errors
    /// The address cannot be listened on, or no thread can be started.
    pub fn start(
        addr: SocketAddr,
        control: &Arc<dyn Control>,
        config: HttpConfig,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let HttpConfig { token, certificates, counts } = config;
        let has_tls = certificates.is_some();
        let router = routes::router(Answers::start(control)?, token, has_tls, Arc::clone(&counts));
        let acceptor = HttpAcceptor::new(certificates, Arc::clone(&counts));
        let shared = Arc::new(Shared { acceptor, router, counts });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let run = move || match runtime.block_on(accept_all(listener, shared, stopped)) {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "metrics and web page are not served any more"),
        };
        let thread = std::thread::Builder::new().name("web".into()).spawn(run)?;
        Ok(Self { addr, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, with the port that was chosen for 0.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // also if the thread has ended already
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Accepts until `stopped`.
async fn accept_all(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stopped: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let limit = Arc::new(ConnectionLimit::default());
    loop {
        let accepted = poll_fn(|cx| match Pin::new(&mut stopped).poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => listener.poll_accept(cx).map(Some),
        });
        match accepted.await {
            None => return Ok(()),
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
            Some(Ok((stream, addr))) => {
                // without a permit the connection is closed: scrapers and browsers ask again anyway
                let Some(permit) = limit.acquire(addr.ip()) else {
                    count(&shared.counts.refused);
                    continue;
                };
                let served = serve(stream, addr, Arc::clone(&shared));
                tokio::spawn(async move {
                    match tokio::time::timeout(TIMEOUT, served).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::debug!(%addr, %error, "a connection to the web page failed")
                        }
                        Err(_) => {
                            tracing::debug!(%addr, "a connection to the web page took too long")
                        }
                    }
                    drop(permit);
                });
            }
        }
    }
}

/// Answers the one request of a connection.
async fn serve(stream: TcpStream, addr: SocketAddr, shared: Arc<Shared>) -> std::io::Result<()> {
    let opened = shared.acceptor.open(stream).await?;
    let peer = Peer { addr, is_encrypted: opened.is_encrypted };
    let service = TowerToHyperService::new(shared.router.clone());
    let with_peer = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        service.call(request)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(FIELDS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(opened.stream, with_peer)
        .await;
    served.map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests;

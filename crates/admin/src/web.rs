//! The HTTP end: `GET /metrics` for Prometheus and others who scrape, and the web page with its figures as JSON.
//!
//! One thread runs all connections ([`CONNECTIONS_MAX`] at once; each carries one request, and is closed after
//! [`TIMEOUT`] in any case). It never calls the server itself, which may wait: [`answers`] has threads for that, and a
//! queue with a bound, beyond which a request is answered 503. So whatever comes here delays no call and no other request
//! of this kind. Nothing can be changed here without the token, and with it only from this machine.

mod answers;
mod live;
mod routes;

use crate::control::Control;
use answers::Answers;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Most connections at once; the next are closed.
const CONNECTIONS_MAX: usize = 64;
/// Longest life of a connection: its request, the answer, and the client's taking it.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most header fields of a request.
const FIELDS_MAX: usize = 64;
/// Pause after an accept that failed, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whoever sent a request.
#[derive(Debug, Clone, Copy)]
struct Peer(SocketAddr);

/// A listening address; dropping it ends its threads.
#[derive(Debug)]
pub struct HttpServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on `addr` and serves `control`. Settings are changed by whoever has the token; nobody, without one.
    ///
    /// # Errors
    /// The address cannot be listened on, or no thread can be started.
    pub fn start(
        addr: SocketAddr,
        control: &Arc<dyn Control>,
        token: Option<String>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let router = routes::router(Answers::start(control)?, token);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let run = move || match runtime.block_on(accept_all(listener, router, stopped)) {
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
    router: axum::Router,
    mut stopped: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = poll_fn(|cx| match Pin::new(&mut stopped).poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => listener.poll_accept(cx).map(Some),
        });
        match accepted.await {
            None => return Ok(()),
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
            Some(Ok((stream, peer))) => {
                // without a place the connection is closed: who scrapes or looks asks again anyway
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let served = serve(stream, Peer(peer), router.clone());
                tokio::spawn(async move {
                    match tokio::time::timeout(TIMEOUT, served).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "a connection to the web page failed")
                        }
                        Err(_) => tracing::debug!("a connection to the web page took too long"),
                    }
                    drop(place);
                });
            }
        }
    }
}

/// Answers the one request of a connection.
async fn serve(stream: TcpStream, peer: Peer, router: axum::Router) -> hyper::Result<()> {
    let service = TowerToHyperService::new(router);
    let with_peer = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        service.call(request)
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(FIELDS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), with_peer)
        .await
}

#[cfg(test)]
mod tests;

//! The HTTP end: `GET /metrics`, for Prometheus and others who scrape. Nothing can be changed here.
//!
//! One thread accepts, and each client gets a thread, at most [`CLIENTS_MAX`] at once; one that is slow is
//! disconnected after [`TIMEOUT`]. A connection carries one request: the answer closes it. No lock is held.

use crate::control::Control;
use crate::exposition::Format;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most clients at once; each needs a thread.
const CLIENTS_MAX: usize = 8;
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Most header fields of a request.
const FIELDS_MAX: usize = 64;
/// Longest wait for a whole request, and for a client to take an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after an accept that failed, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening address; dropping it ends its thread.
#[derive(Debug)]
pub struct HttpServer {
    addr: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on `addr` and serves `control`.
    ///
    /// # Errors
    /// The address cannot be listened on, or no thread can be started.
    pub fn start(addr: SocketAddr, control: Arc<dyn Control>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || accept_all(&listener, &control, &flag))?;
        Ok(Self { addr, stopping, thread: Some(thread) })
    }

    /// Where it listens, with the port that was chosen for 0.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let mut own = self.addr;
        if own.ip().is_unspecified() {
            own.set_ip(match own.ip() {
                std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        // a connection wakes the thread; where a filter refuses that, the thread ends with the process
        if TcpStream::connect_timeout(&own, ACCEPT_PAUSE).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &TcpListener, control: &Arc<dyn Control>, stopping: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        if clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::AcqRel);
            // closed: to scrape again later is what the client does anyway
            continue;
        }
        let (control, counted) = (Arc::clone(control), Arc::clone(&clients));
        let started = std::thread::Builder::new().name("metrics-client".into()).spawn(move || {
            if let Err(error) = serve_client(stream, control.as_ref()) {
                tracing::debug!(%error, "the connection of a metrics client failed");
            }
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            clients.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Answers one request.
fn serve_client(mut stream: TcpStream, control: &dyn Control) -> std::io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    let mut head = Vec::new();
    let answer = loop {
        match answer(&head, control) {
            Some(answer) => break answer,
            None if head.len() >= HEAD_BYTES_MAX => {
                break Answer::error("431 Request Header Fields Too Large");
            }
            None => {}
        }
        let mut piece = [0; 1024];
        stream.set_read_timeout(Some(remaining(deadline)?))?;
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Ok(());
        }
        head.extend_from_slice(piece.get(..n).unwrap_or_default());
    };
    let bytes = answer.bytes();
    let mut rest = bytes.as_slice();
    let deadline = Instant::now() + TIMEOUT;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(remaining(deadline)?))?;
        let n = stream.write(rest)?;
        if n == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        rest = rest.get(n..).unwrap_or_default();
    }
    stream.shutdown(std::net::Shutdown::Write)
}

fn remaining(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// To HEAD: the length of the body without it.
    head_only: bool,
}

impl Answer {
    fn text(status: &'static str, body: String) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body, head_only: false }
    }

    fn error(status: &'static str) -> Self {
        Self::text(status, format!("{status}\n"))
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, content_type, body, head_only } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if !head_only {
            text.push_str(body);
        }
        text.into_bytes()
    }
}

/// The answer to what has been received; `None` if the request's head is not whole yet.
fn answer(received: &[u8], control: &dyn Control) -> Option<Answer> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(received) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some(Answer::error("400 Bad Request")),
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Answer::error("405 Method Not Allowed")),
    };
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    let answer = match path {
        "/metrics" => {
            let format = format_for(request.headers);
            let body = control.metrics(format);
            Answer { status: "200 OK", content_type: format.content_type(), body, head_only }
        }
        "/" => Answer {
            head_only,
            ..Answer::text(
                "200 OK",
                "This is a Bowline NFS server: /metrics has its metrics.\n".to_owned(),
            )
        },
        _ => Answer { head_only, ..Answer::error("404 Not Found") },
    };
    Some(answer)
}

/// OpenMetrics for a client that names it among what it accepts.
fn format_for(fields: &[httparse::Header<'_>]) -> Format {
    let accepts = fields.iter().any(|field| {
        let value = std::str::from_utf8(field.value).unwrap_or_default();
        field.name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    });
    if accepts { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::{HttpServer, TIMEOUT, answer};
    use crate::control::tests::EmptyServer;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;

    fn said(request: &str) -> String {
        let answer = answer(request.as_bytes(), &EmptyServer).unwrap();
        String::from_utf8(answer.bytes()).unwrap()
    }

    #[test]
    fn only_get_and_head_of_metrics_are_served() {
        assert!(answer(b"GET /metrics HTTP/1.1\r\nHost: x\r\n", &EmptyServer).is_none());
        let metrics = said("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
        assert!(metrics.ends_with("\r\n\r\nPrometheus"), "{metrics}");
        let accept = "accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let open = said(&format!("GET /metrics HTTP/1.1\r\n{accept}\r\n\r\n"));
        assert!(
            open.contains("Content-Type: application/openmetrics-text;")
                && open.ends_with("\nOpenMetrics")
        );
        assert!(said("HEAD /metrics HTTP/1.1\r\n\r\n").contains("Content-Length: 10\r\n"));
        assert!(said("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(said("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(said("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(said("\0\0\0\0 / x\r\n\r\n").starts_with("HTTP/1.1 400 "));
        let many = (0..100).map(|n| format!("a{n}: b\r\n")).collect::<String>();
        assert!(said(&format!("GET / HTTP/1.1\r\n{many}\r\n")).starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn a_silent_client_delays_neither_others_nor_shutdown() {
        let server = HttpServer::start(([127, 0, 0, 1], 0).into(), Arc::new(EmptyServer)).unwrap();
        let ask = |text: &[u8]| {
            let mut stream = TcpStream::connect(server.addr()).unwrap();
            stream.set_read_timeout(Some(TIMEOUT * 2)).unwrap();
            stream.write_all(text).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        let _silent = TcpStream::connect(server.addr()).unwrap();
        assert!(ask(b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("Prometheus"));
        let long = vec![b'a'; super::HEAD_BYTES_MAX];
        assert!(ask(&long).starts_with("HTTP/1.1 431 "));
        drop(server);
    }
}

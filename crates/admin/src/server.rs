//! The server of the control socket.
//!
//! One thread accepts, and each client gets a thread of its own, at most [`CLIENTS_MAX`] at once. Where the
//! kernel refuses another thread, a spare one, which was started with the server, answers one request of each
//! such client without blocking on any. So a client that is slow or hangs delays no other, and is disconnected
//! after [`TIMEOUT`]. No lock is held.
//!
//! Only the server's own user and root may connect: the socket is made with mode 0600 inside a private
//! directory and then moved to its path, so it never exists with wider permissions.

use crate::api::{Answer, Request};
use crate::control::{Control, Refused};
use crate::exposition::Format;
use crate::rates::Watcher;
use serde::Serialize;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most clients at once; each needs a thread.
const CLIENTS_MAX: usize = 32;
/// Longest request line: a key and a value.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Longest wait for a whole request, and for a client to take an answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest pause between two requests of a client that watches rates: the longest interval of `bowline top`, and a wait.
const WATCH_TIMEOUT: Duration = Duration::from_secs(86_400 + 15);
/// How often the spare thread looks for data of its clients.
const SPARE_PAUSE: Duration = Duration::from_millis(10);
/// Pause after an accept that failed, for example because there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another server has the socket.
    #[error(
        "another server answers on the control socket {0}: stop it, or name another path with \
         --control"
    )]
    Taken(PathBuf),
    /// The path is not a socket.
    #[error("{0} exists and is not a socket: name another path with --control")]
    NotASocket(PathBuf),
    /// The directory or the socket cannot be made.
    #[error("cannot make the control socket {0}: {1}; name another path with --control")]
    Make(PathBuf, std::io::Error),
}

/// A control socket; dropping it ends its threads and removes the socket.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    inode: (u64, u64),
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Makes the socket at `path` and serves `control` on it.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(path: &Path, control: Arc<dyn Control>) -> Result<Self, ServerError> {
        remove_stale_socket(path)?;
        let failed = |e| ServerError::Make(path.to_path_buf(), e);
        let listener = bind(path).map_err(failed)?;
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopping);
        let (spare, waiting) = channel();
        let spare_control = Arc::clone(&control);
        std::thread::Builder::new()
            .name("control-spare".into())
            .spawn(move || serve_waiting(&waiting, spare_control.as_ref()))
            .map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&listener, &control, &spare, &flag))
            .map_err(failed)?;
        let inode = (meta.dev(), meta.ino());
        Ok(Self { path: path.to_path_buf(), inode, stopping, thread: Some(thread) })
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.inode);
        // a connection wakes the thread; if the path is another socket now, it ends with the process
        if ours && UnixStream::connect(&self.path).is_ok() {
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that nobody answers on.
fn remove_stale_socket(path: &Path) -> Result<(), ServerError> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) {
        return Err(ServerError::NotASocket(path.to_path_buf()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServerError::Taken(path.to_path_buf())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(ServerError::Make(path.to_path_buf(), error)),
    }
}

/// Binds in a private directory beside `path`, then moves the socket there in one step.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        // not recursive: a misspelled path must not leave directories behind
        fs::DirBuilder::new().mode(0o755).create(parent)?;
    }
    let private = parent.join(format!(".bowline-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&private)?;
    let inside = private.join("s");
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&inside, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&inside);
    let _ = fs::remove_dir(&private);
    bound
}

fn accept_all(
    listener: &UnixListener,
    control: &Arc<dyn Control>,
    spare: &Sender<Waiting>,
    stopping: &AtomicBool,
) {
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
        if clients.load(Ordering::Acquire) >= CLIENTS_MAX {
            let busy = format!("{CLIENTS_MAX} control clients are connected: try again later");
            let _ = stream.set_nonblocking(true);
            let _ = (&stream).write_all(&line_of(&Answer::<()>::refused(busy)));
            continue;
        }
        let slot = Arc::new(ClientSlot::take(&clients));
        let stream = Arc::new(stream);
        let (client, client_slot) = (Arc::clone(&stream), Arc::clone(&slot));
        let client_control = Arc::clone(control);
        let started = std::thread::Builder::new().name("control-client".into()).spawn(move || {
            let _slot = client_slot;
            log_disconnect(serve_client(&client, client_control.as_ref()));
        });
        if started.is_err() && stream.set_nonblocking(true).is_ok() {
            // fails only if the spare thread has ended, with the server
            let _ = spare.send(Waiting::new(stream, slot));
        }
    }
}

fn log_disconnect(served: std::io::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "the connection of a control client failed");
    }
}

/// One of the [`CLIENTS_MAX`] clients; free again when it is dropped.
struct ClientSlot(Arc<AtomicUsize>);

impl ClientSlot {
    fn take(clients: &Arc<AtomicUsize>) -> Self {
        clients.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(clients))
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A client without a thread. Its socket does not block.
struct Waiting {
    stream: Arc<UnixStream>,
    _slot: Arc<ClientSlot>,
    received: Vec<u8>,
    answer: Vec<u8>,
    deadline: Instant,
}

impl Waiting {
    fn new(stream: Arc<UnixStream>, slot: Arc<ClientSlot>) -> Self {
        let deadline = Instant::now() + TIMEOUT;
        Self { stream, _slot: slot, received: Vec::new(), answer: Vec::new(), deadline }
    }

    /// Receives and sends what is possible now; whether the client is still to be served. It gets one answer.
    fn step(&mut self, control: &dyn Control) -> bool {
        let more = if self.answer.is_empty() { self.receive(control) } else { self.send() };
        more.unwrap_or_else(|error| error.kind() == ErrorKind::WouldBlock)
            && Instant::now() < self.deadline
    }

    fn receive(&mut self, control: &dyn Control) -> std::io::Result<bool> {
        let mut piece = [0; 4096];
        let n = (&*self.stream).read(&mut piece)?;
        self.received.extend_from_slice(piece.get(..n).unwrap_or_default());
        if let Some(end) = self.received.iter().position(|b| *b == b'\n') {
            let line = self.received.get(..end).unwrap_or_default();
            self.answer = answer_line(line, control, &mut None);
            return self.send();
        }
        Ok(n > 0 && self.received.len() <= REQUEST_BYTES_MAX)
    }

    fn send(&mut self) -> std::io::Result<bool> {
        let sent = (&*self.stream).write(&self.answer)?;
        self.answer.drain(..sent);
        Ok(!self.answer.is_empty())
    }
}

/// Serves clients without a thread, all in turn, so that a slow one delays no other.
fn serve_waiting(clients: &Receiver<Waiting>, control: &dyn Control) {
    let mut waiting: Vec<Waiting> = Vec::new();
    loop {
        let next = match waiting.is_empty() {
            true => clients.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => clients.recv_timeout(SPARE_PAUSE),
        };
        match next {
            Ok(client) => waiting.push(client),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.retain_mut(|client| client.step(control));
    }
}

/// Answers one request after the other until the client closes or is too slow.
fn serve_client(stream: &UnixStream, control: &dyn Control) -> std::io::Result<()> {
    let (mut received, mut watcher) = (Vec::new(), None);
    loop {
        let timeout = if watcher.is_some() { WATCH_TIMEOUT } else { TIMEOUT };
        let Some(line) = next_line(stream, &mut received, timeout)? else { return Ok(()) };
        send(stream, &answer_line(&line, control, &mut watcher))?;
    }
}

/// The answer to a line that a client has sent. `watcher` is what its connection has seen of rates.
fn answer_line(line: &[u8], control: &dyn Control, watcher: &mut Option<Watcher>) -> Vec<u8> {
    match serde_json::from_slice::<Request>(line) {
        Ok(request) => answer(&request, control, watcher),
        Err(error) => line_of(&Answer::<()>::refused(format!(
            "not a request of this version ({error}): send {{\"command\":\"status\"}}"
        ))),
    }
}

/// The next line without its end, within `timeout`; `None` at the end of the stream.
fn next_line(
    mut stream: &UnixStream,
    received: &mut Vec<u8>,
    timeout: Duration,
) -> std::io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + timeout;
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = received.iter().position(|b| *b == b'\n') {
            let rest = received.split_off(end + 1);
            let mut line = std::mem::replace(received, rest);
            line.pop();
            return Ok(Some(line));
        }
        if received.len() > REQUEST_BYTES_MAX {
            let error = Answer::<()>::refused(format!("longer than {REQUEST_BYTES_MAX} bytes"));
            send(stream, &line_of(&error))?;
            return Err(ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(remaining(deadline)?))?;
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Ok(None);
        }
        received.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
}

fn send(mut stream: &UnixStream, mut data: &[u8]) -> std::io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !data.is_empty() {
        stream.set_write_timeout(Some(remaining(deadline)?))?;
        let n = stream.write(data)?;
        if n == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        data = data.get(n..).unwrap_or_default();
    }
    Ok(())
}

fn remaining(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn answer(request: &Request, control: &dyn Control, watcher: &mut Option<Watcher>) -> Vec<u8> {
    match request {
        Request::Status => success(control.status()),
        Request::Exports => success(control.exports()),
        Request::Clients => success(control.clients()),
        Request::Conns => success(control.conns()),
        Request::Sockets => success(control.sockets()),
        Request::Pools => success(control.pools()),
        Request::Ops => success(control.ops()),
        Request::Set { key, value } => answer_of(control.set(key, value)),
        Request::Get { key } => answer_of(control.settings(key.as_deref())),
        Request::Grace { end } => answer_of(control.grace(*end)),
        Request::Reload { dry_run } => answer_of(control.reload(*dry_run)),
        Request::Export(change) => answer_of(control.change_exports(change)),
        Request::Locks => success(control.locks()),
        Request::Sessions => success(control.sessions()),
        Request::Opens => success(control.opens()),
        Request::Delegations => success(control.delegations()),
        Request::Release { what } => answer_of(control.release(what)),
        Request::Explain(question) => answer_of(control.explain(question)),
        Request::Why => success(control.refusals()),
        Request::Metrics { openmetrics: false } => success(control.metrics(Format::Prometheus)),
        Request::Metrics { openmetrics: true } => success(control.metrics(Format::OpenMetrics)),
        Request::Token => answer_of(control.token()),
        Request::Sample { conns } => {
            let all = conns.then(|| control.conn_activity().iter().map(|conn| conn.id).collect());
            success(control.sample(all.as_ref()))
        }
        Request::Rates { conns, rows } => {
            let watcher = watcher.get_or_insert_default();
            success(watcher.look(control, *conns, rows.unwrap_or(usize::MAX)))
        }
    }
}

fn success<T: Serialize>(result: T) -> Vec<u8> {
    line_of(&Answer::granted(result))
}

fn answer_of<T: Serialize>(result: Result<T, Refused>) -> Vec<u8> {
    match result {
        Ok(result) => success(result),
        Err(refused) => line_of(&Answer::<T>::refused(refused.0)),
    }
}

fn line_of<T: Serialize>(answer: &Answer<T>) -> Vec<u8> {
    // encoding these types does not fail; if it did, the client would get the error
    let mut line = serde_json::to_vec(answer).unwrap_or_else(|e| {
        format!("{{\"version\":1,\"ok\":false,\"error\":\"cannot encode: {e}\"}}").into()
    });
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::{ClientSlot, Waiting, serve_waiting};
    use crate::control::tests::TestServer;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    fn client(clients: &Arc<AtomicUsize>, to: &mpsc::Sender<Waiting>) -> UnixStream {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let slot = Arc::new(ClientSlot::take(clients));
        to.send(Waiting::new(Arc::new(far), slot)).unwrap();
        near
    }

    #[test]
    fn clients_without_a_thread_do_not_wait_for_each_other() {
        let (sender, receiver) = channel();
        let spare = std::thread::spawn(move || serve_waiting(&receiver, &TestServer::default()));
        let clients = Arc::new(AtomicUsize::new(0));
        let mut silent = client(&clients, &sender);
        silent.write_all(b"{\"comm").unwrap();
        let gone = client(&clients, &sender);
        drop(gone);
        let mut asking = client(&clients, &sender);
        asking.write_all(b"{\"command\":\"status\"}\n").unwrap();
        asking.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut lines = BufReader::new(asking).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("{\"version\":1,\"ok\":true,"));
        assert!(lines.next().is_none(), "one answer, then the end");
        // a client sees the end of its connection before its place is free
        let deadline = Instant::now() + Duration::from_secs(60);
        while clients.load(Ordering::Acquire) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(clients.load(Ordering::Acquire), 1, "only the silent client is left");
        drop((silent, sender));
        spare.join().unwrap();
    }
}

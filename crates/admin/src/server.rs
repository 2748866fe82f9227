//! The server's end of the control socket.
//!
//! One thread accepts; each client has a thread of its own, at most [`CLIENTS_MAX`] at once, so a
//! client that hangs holds up nobody else and is gone after [`TIMEOUT`]. Where no thread is to be had one request
//! is answered without, within [`NO_THREAD_TIMEOUT`]. Only the server's own user (and root) may connect: the
//! socket is made with mode 0600 inside a private directory and then moved to its place, so it never exists with
//! wider rights. No lock is held.

use crate::api::{Answer, Request};
use crate::control::{Control, Refused};
use serde::Serialize;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most clients at once: a handful of commands and a few watchers; each costs a thread.
const CLIENTS_MAX: usize = 32;
/// Longest request line: a key and a value.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Longest wait for a whole request, and for a client to take an answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The same of a client for whom there is no thread: meanwhile others wait.
const NO_THREAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after an accept that failed (descriptors are short), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another server answers there.
    #[error(
        "another server answers on the control socket {0}: stop it, or give this one its own \
         with --control"
    )]
    Taken(PathBuf),
    /// Something that is no socket has the name.
    #[error("{0} exists and is not a socket: name another path with --control")]
    NotASocket(PathBuf),
    /// The directory or the socket cannot be made.
    #[error("cannot make the control socket {0}: {1}; name another path with --control")]
    Make(PathBuf, std::io::Error),
}

/// A control socket in service; dropping it ends its thread and removes the socket.
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
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&listener, &control, &flag))
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
        // a connection of our own wakes the thread; if the name is no longer ours, it ends with
        // the process
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
    fs::DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
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

fn accept_all(listener: &UnixListener, control: &Arc<dyn Control>, stopping: &AtomicBool) {
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
        clients.fetch_add(1, Ordering::AcqRel);
        let slot = ClientSlot(Arc::clone(&clients));
        let stream = Arc::new(stream);
        let (client, client_control) = (Arc::clone(&stream), Arc::clone(control));
        let started = std::thread::Builder::new().name("control-client".into()).spawn(move || {
            let _slot = slot;
            log_disconnect(serve_client(&client, client_control.as_ref()));
        });
        // when no thread is to be had somebody will want to know why
        if started.is_err() {
            let answered =
                answer_one(&stream, control.as_ref(), &mut Vec::new(), NO_THREAD_TIMEOUT);
            log_disconnect(answered.map(|_| ()));
        }
    }
}

fn log_disconnect(served: std::io::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "the connection of a control client failed");
    }
}

/// A client's place among the [`CLIENTS_MAX`]; free again when its thread ends, however it ends.
struct ClientSlot(Arc<AtomicUsize>);

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers one request after the other until the client closes or is too slow.
fn serve_client(stream: &UnixStream, control: &dyn Control) -> std::io::Result<()> {
    let mut received = Vec::new();
    while answer_one(stream, control, &mut received, TIMEOUT)? {}
    Ok(())
}

/// Answers a request; whether there was one.
fn answer_one(
    stream: &UnixStream,
    control: &dyn Control,
    received: &mut Vec<u8>,
    patience: Duration,
) -> std::io::Result<bool> {
    let Some(line) = next_line(stream, received, patience)? else { return Ok(false) };
    let answer = match serde_json::from_slice::<Request>(&line) {
        Ok(request) => answer(&request, control),
        Err(error) => line_of(&Answer::<()>::refused(format!(
            "not a request of this version ({error}): send {{\"command\":\"status\"}}"
        ))),
    };
    send(stream, &answer, patience)?;
    Ok(true)
}

/// The next line without its end, within `patience`; `None` at the end of the stream.
fn next_line(
    mut stream: &UnixStream,
    received: &mut Vec<u8>,
    patience: Duration,
) -> std::io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + patience;
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = received.iter().position(|b| *b == b'\n') {
            let rest = received.split_off(end + 1);
            let mut line = std::mem::replace(received, rest);
            line.pop();
            return Ok(Some(line));
        }
        if received.len() > REQUEST_BYTES_MAX {
            let told = Answer::<()>::refused(format!("longer than {REQUEST_BYTES_MAX} bytes"));
            send(stream, &line_of(&told), patience)?;
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

fn send(mut stream: &UnixStream, mut data: &[u8], patience: Duration) -> std::io::Result<()> {
    let deadline = Instant::now() + patience;
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

fn answer(request: &Request, control: &dyn Control) -> Vec<u8> {
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
        Request::Reload => answer_of(control.reload()),
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
    // our own types have string keys and finite shape; should that ever fail, the client is told
    let mut line = serde_json::to_vec(answer)
        .unwrap_or_else(|e| format!("{{\"ok\":false,\"error\":\"cannot encode: {e}\"}}").into());
    line.push(b'\n');
    line
}

//! Those who lock in the tests: clients by each form of NLM, and programs of this machine by each form of fcntl(2).

use crate::rig::{Server, is_root};
use client::{Client, Identity, NlmLock, NlmMessages};
use proto::nlm::Status;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use testing::{Missing, skip};

const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a lock may take that somebody has just let go.
pub const GRANT_WAIT: Duration = Duration::from_secs(60);
/// Bytes of each lock.
const LEN: u64 = 10;

/// The ways to a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockApi {
    Nlm4Tcp,
    Nlm4Udp,
    Nlm1,
    Nlm3Messages,
    Posix,
    Ofd,
}

pub const LOCK_APIS: [LockApi; 6] = [
    LockApi::Nlm4Tcp,
    LockApi::Nlm4Udp,
    LockApi::Nlm1,
    LockApi::Nlm3Messages,
    LockApi::Posix,
    LockApi::Ofd,
];

impl LockApi {
    pub const fn is_client(self) -> bool {
        !matches!(self, Self::Posix | Self::Ofd)
    }
}

/// Reads commands and locks by fcntl(2): POSIX's locks of a process, or Linux's of an open file description.
const PROGRAM: &str = "
import fcntl, struct, sys
path, ofd = sys.argv[1], sys.argv[2] == 'ofd'
f = open(path, 'r+')
TRY, WAIT, TEST = (37, 38, 36) if ofd else (6, 7, 5)
KINDS = {'write': fcntl.F_WRLCK, 'read': fcntl.F_RDLCK, 'unlock': fcntl.F_UNLCK}
def do(what, kind, start):
    if what == 'close':
        global f
        f.close()
        f = open(path, 'r+')
        return True
    lock = struct.pack('hhqqi4x', KINDS[kind], 0, start, 10, 0)
    done = fcntl.fcntl(f, {'try': TRY, 'wait': WAIT, 'test': TEST}[what], lock)
    return what != 'test' or struct.unpack('hhqqi4x', done)[0] == fcntl.F_UNLCK
for line in sys.stdin:
    what, kind, start = line.split()
    try:
        print('yes' if do(what, kind, int(start)) else 'no', flush=True)
    except BlockingIOError:
        print('no', flush=True)
";

/// A program of this machine.
pub struct Local {
    child: Child,
    answers: Receiver<String>,
}

impl Local {
    fn new(api: LockApi, path: &PathBuf) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).arg(path).arg(if api == LockApi::Ofd {
            "ofd"
        } else {
            "posix"
        });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, answers }
    }

    fn tell(&mut self, what: &str, kind: &str, start: u64) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what} {kind} {start}").unwrap();
    }

    fn ask(&mut self, what: &str, kind: &str, start: u64) -> bool {
        self.tell(what, kind, start);
        self.answers.recv_timeout(TIMEOUT).unwrap() == "yes"
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

enum Means {
    Nlm { client: Box<Client>, version: u32 },
    Messages(NlmMessages),
    Local(Local),
}

/// Somebody who locks ten bytes.
pub struct Locker {
    api: LockApi,
    name: &'static [u8],
    file: Vec<u8>,
    /// The first byte of the lock.
    start: u64,
    addr: SocketAddr,
    path: PathBuf,
    means: Means,
}

const fn kind(exclusive: bool) -> &'static str {
    if exclusive { "write" } else { "read" }
}

impl Locker {
    pub fn new(api: LockApi, name: &'static [u8], shared: &Shared, start: u64) -> Self {
        let addr = ([127, 0, 0, 1], shared.server.port).into();
        let (file, path) = (shared.file.clone(), shared.path());
        let means = Self::means(api, addr, &path);
        Self { api, name, file, start, addr, path, means }
    }

    fn means(api: LockApi, addr: SocketAddr, path: &PathBuf) -> Means {
        let nlm = |client: client::Result<Client>, version| {
            let mut client = Box::new(client.unwrap());
            client.set_identity(Some(Identity::root()));
            Means::Nlm { client, version }
        };
        match api {
            LockApi::Nlm4Tcp => nlm(Client::tcp(addr, TIMEOUT), 4),
            LockApi::Nlm4Udp => nlm(Client::udp(addr, TIMEOUT), 4),
            LockApi::Nlm1 => nlm(Client::udp(addr, TIMEOUT), 1),
            LockApi::Nlm3Messages => Means::Messages(NlmMessages::new(addr, TIMEOUT).unwrap()),
            LockApi::Posix | LockApi::Ofd => Means::Local(Local::new(api, path)),
        }
    }

    /// Ends it without a word, and begins anew: a new connection, or a new process.
    pub fn end_and_begin(&mut self) {
        self.means = Self::means(self.api, self.addr, &self.path);
    }

    pub const fn is_client(&self) -> bool {
        self.api.is_client()
    }

    /// Runs one NLM request of its range.
    fn nlm(
        &mut self,
        by_call: impl FnOnce(&mut Client, u32, NlmLock<'_>) -> client::Result<Status>,
        by_message: impl FnOnce(&mut NlmMessages, NlmLock<'_>) -> client::Result<Status>,
    ) -> Status {
        let (caller_name, oh, handle) = (self.name, self.name, &self.file[..]);
        let lock = NlmLock { caller_name, handle, oh, svid: 7, offset: self.start, len: LEN };
        match &mut self.means {
            Means::Nlm { client, version } => by_call(client, *version, lock).unwrap(),
            Means::Messages(client) => by_message(client, lock).unwrap(),
            Means::Local(_) => panic!("no client"),
        }
    }

    fn local(&mut self) -> Option<(&mut Local, u64)> {
        match &mut self.means {
            Means::Local(local) => Some((local, self.start)),
            Means::Nlm { .. } | Means::Messages(_) => None,
        }
    }

    /// A LOCK of NLM.
    pub fn ask(&mut self, exclusive: bool, block: bool) -> Status {
        self.nlm(
            |client, version, lock| client.nlm_lock(version, lock, exclusive, block),
            |client, lock| client.lock(lock, exclusive, block),
        )
    }

    /// A LOCK of what it held before a restart.
    pub fn reclaim(&mut self, exclusive: bool) -> Status {
        self.nlm(
            |client, version, lock| client.nlm_reclaim(version, lock, exclusive),
            |client, lock| client.reclaim(lock, exclusive),
        )
    }

    /// Tries to lock.
    pub fn lock(&mut self, exclusive: bool) -> bool {
        if let Some((local, start)) = self.local() {
            return local.ask("try", kind(exclusive), start);
        }
        match self.decided(exclusive, false) {
            Status::Granted => true,
            Status::Denied => false,
            other => panic!("{other:?}"),
        }
    }

    /// A LOCK of NLM, again while another request for the same bytes is being decided, as a client asks again.
    fn decided(&mut self, exclusive: bool, block: bool) -> Status {
        let begun = Instant::now();
        loop {
            match self.ask(exclusive, block) {
                Status::DeniedGracePeriod if begun.elapsed() < GRANT_WAIT => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                status => return status,
            }
        }
    }

    /// Tries to lock what nobody has any more. The kernel may hear of the end of a lock a moment after its holder was
    /// answered: from another request, which asks it about the same file just then.
    pub fn gets(&mut self, exclusive: bool) -> bool {
        let begun = Instant::now();
        while !self.lock(exclusive) {
            if begun.elapsed() > GRANT_WAIT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Whether it could lock.
    pub fn test(&mut self, exclusive: bool) -> bool {
        if let Some((local, start)) = self.local() {
            return local.ask("test", kind(exclusive), start);
        }
        let status = self.nlm(
            |client, version, lock| {
                Ok(client.nlm_test(version, lock, exclusive)?.unwrap_or(Status::Denied))
            },
            |client, lock| client.test(lock, exclusive),
        );
        match status {
            Status::Granted => true,
            Status::Denied => false,
            other => panic!("{other:?}"),
        }
    }

    /// Asks for a lock that it has to wait for.
    pub fn begin_waiting(&mut self, exclusive: bool) {
        if let Some((local, start)) = self.local() {
            local.tell("wait", kind(exclusive), start);
            return;
        }
        assert_eq!(self.decided(exclusive, true), Status::Blocked);
    }

    /// Whether it still waits. A client asks again, which is its answer when callbacks do not reach it.
    pub fn still_waits(&mut self, exclusive: bool) -> bool {
        match self.local() {
            Some((local, _)) => local.answers.try_recv().is_err(),
            None => self.decided(exclusive, true) == Status::Blocked,
        }
    }

    /// Waits for the lock that it asked for.
    pub fn await_grant(&mut self, exclusive: bool, what: &str) {
        if let Some((local, _)) = self.local() {
            let granted = local.answers.recv_timeout(GRANT_WAIT);
            assert_eq!(granted.as_deref(), Ok("yes"), "{what}");
            return;
        }
        let begun = Instant::now();
        while self.ask(exclusive, true) != Status::Granted {
            assert!(begun.elapsed() < GRANT_WAIT, "{what}: not granted");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Does not want it any more: CANCEL, or the end of the process.
    pub fn stop_waiting(&mut self, exclusive: bool) {
        if self.local().is_some() {
            return self.end_and_begin();
        }
        let status = self.nlm(
            |client, version, lock| client.nlm_cancel(version, lock, exclusive),
            |client, lock| client.cancel(lock, exclusive),
        );
        assert_eq!(status, Status::Granted);
    }

    pub fn unlock(&mut self) {
        if let Some((local, start)) = self.local() {
            assert!(local.ask("try", "unlock", start));
            return;
        }
        let status =
            self.nlm(|client, version, lock| client.nlm_unlock(version, lock), NlmMessages::unlock);
        assert_eq!(status, Status::Granted);
    }

    /// Closes the file: a client's kernel unlocks all of it.
    pub fn close(&mut self) {
        let (caller_name, oh, handle) = (self.name, self.name, &self.file[..]);
        // length 0: to the end of the file
        let lock = NlmLock { caller_name, handle, oh, svid: 7, offset: 0, len: 0 };
        let status = match &mut self.means {
            Means::Nlm { client, version } => client.nlm_unlock(*version, lock).unwrap(),
            Means::Messages(client) => client.unlock(lock).unwrap(),
            Means::Local(local) => {
                assert!(local.ask("close", "-", 0));
                return;
            }
        };
        assert_eq!(status, Status::Granted);
    }
}

/// A server, the directory that it exports to clients of any port, and a file in it.
pub struct Shared {
    pub server: Server,
    dir: tempfile::TempDir,
    pub file: Vec<u8>,
}

impl Shared {
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("shared/hello.txt")
    }

    /// What `bowline locks` shows.
    pub fn rows(&self) -> serde_json::Value {
        self.server.json("locks")
    }

    /// Exports the directory, or does not; returns what the reload says.
    pub fn export(&self, shared: bool) -> String {
        write_exports(self.dir.path(), shared);
        let done = self.server.ask(&["reload"]);
        assert!(done.status.success(), "{}", crate::rig::text(&done.stderr));
        crate::rig::text(&done.stdout)
    }
}

fn write_exports(dir: &std::path::Path, shared: bool) {
    let options = "127.0.0.1(rw,insecure,no_root_squash)";
    let mut lines = format!("{}/other {options}\n", dir.display());
    if shared {
        lines += &format!("{}/shared {options}\n", dir.display());
    }
    std::fs::write(dir.join("exports"), lines).unwrap();
}

pub fn server() -> Option<Shared> {
    if !is_root() {
        skip(Missing::Root, "a server that finds files by handle");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::create_dir(dir.path().join("other")).unwrap();
    std::fs::write(shared.join("hello.txt"), "hello, world").unwrap();
    write_exports(dir.path(), true);
    let exports = dir.path().join("exports");
    let server = Server::start(&["--exports", exports.to_str().unwrap()]);
    let mut client = Client::tcp(([127, 0, 0, 1], server.port).into(), TIMEOUT).unwrap();
    client.set_identity(Some(Identity::root()));
    let root = client.mount(shared.to_str().unwrap().as_bytes()).unwrap();
    let file = client.lookup(&root, b"hello.txt").unwrap().handle;
    Some(Shared { server, dir, file: file.bytes().to_vec() })
}

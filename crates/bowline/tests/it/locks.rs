//! Locks of a live server: who holds one keeps others from it, whichever way each of them comes, until it is given
//! back or its holder is gone.

use crate::rig::{Server, is_root, text};
use client::{Client, Identity, NlmLock, NlmMessages};
use proto::nlm::Status;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use sys::ofd_lock::{self, LockType, Range};
use testing::{Missing, skip};

const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a lock may take that a local program has just let go.
const LOCAL_WAIT: Duration = Duration::from_secs(5);

/// The ways to a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Nlm4Tcp,
    Nlm4Udp,
    Nlm1,
    Nlm3Messages,
    Posix,
    Ofd,
}

const WAYS: [Way; 6] =
    [Way::Nlm4Tcp, Way::Nlm4Udp, Way::Nlm1, Way::Nlm3Messages, Way::Posix, Way::Ofd];

/// Somebody who locks the bytes 10 to 19.
enum Locker {
    Nlm { client: Box<Client>, version: u32, name: &'static [u8], file: Vec<u8> },
    Messages { client: NlmMessages, name: &'static [u8], file: Vec<u8> },
    Posix { child: Child, answers: BufReader<ChildStdout> },
    Ofd(File),
}

/// Reads commands and locks by fcntl(2), which is POSIX's for a process.
const POSIX: &str = "
import fcntl, sys
f = open(sys.argv[1], 'r+')
kinds = {'write': fcntl.LOCK_EX, 'read': fcntl.LOCK_SH, 'unlock': fcntl.LOCK_UN}
for line in sys.stdin:
    try:
        fcntl.lockf(f, kinds[line.strip()] | (0 if 'un' in line else fcntl.LOCK_NB), 10, 10)
        print('yes', flush=True)
    except OSError:
        print('no', flush=True)
";

fn locked<'a>(name: &'a [u8], file: &'a [u8]) -> NlmLock<'a> {
    NlmLock { caller_name: name, handle: file, oh: name, svid: 7, offset: 10, len: 10 }
}

impl Locker {
    fn new(way: Way, name: &'static [u8], shared: &Shared, file: &[u8]) -> Self {
        let addr: SocketAddr = ([127, 0, 0, 1], shared.server.port).into();
        let path = shared.path();
        let nlm = |client: client::Result<Client>, version| {
            let mut client = Box::new(client.unwrap());
            client.set_identity(Some(Identity::root()));
            Self::Nlm { client, version, name, file: file.to_vec() }
        };
        match way {
            Way::Nlm4Tcp => nlm(Client::tcp(addr, TIMEOUT), 4),
            Way::Nlm4Udp => nlm(Client::udp(addr, TIMEOUT), 4),
            Way::Nlm1 => nlm(Client::udp(addr, TIMEOUT), 1),
            Way::Nlm3Messages => {
                let client = NlmMessages::new(addr, TIMEOUT).unwrap();
                Self::Messages { client, name, file: file.to_vec() }
            }
            Way::Posix => {
                let mut command = Command::new("python3");
                command.args(["-c", POSIX]).arg(path);
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn().unwrap();
                let answers = BufReader::new(child.stdout.take().unwrap());
                Self::Posix { child, answers }
            }
            Way::Ofd => Self::Ofd(File::options().read(true).write(true).open(path).unwrap()),
        }
    }

    /// Tries to lock.
    fn lock(&mut self, exclusive: bool) -> bool {
        match self {
            Self::Nlm { .. } | Self::Messages { .. } => match self.ask(exclusive, false) {
                Status::Granted => true,
                Status::Denied => false,
                other => panic!("{other:?}"),
            },
            Self::Posix { child, answers } => {
                posix(child, answers, if exclusive { "write" } else { "read" })
            }
            Self::Ofd(file) => {
                let kind = if exclusive { LockType::Write } else { LockType::Read };
                ofd_lock::set(file.as_fd(), Range { start: 10, len: 10 }, kind).is_ok()
            }
        }
    }

    /// A LOCK of NLM.
    fn ask(&mut self, exclusive: bool, block: bool) -> Status {
        match self {
            Self::Nlm { client, version, name, file } => {
                client.nlm_lock(*version, locked(name, file), exclusive, block).unwrap()
            }
            Self::Messages { client, name, file } => {
                client.lock(locked(name, file), exclusive, block).unwrap()
            }
            Self::Posix { .. } | Self::Ofd(_) => panic!("no client"),
        }
    }

    fn unlock(&mut self) {
        match self {
            Self::Nlm { client, version, name, file } => {
                let status = client.nlm_unlock(*version, locked(name, file)).unwrap();
                assert_eq!(status, Status::Granted);
            }
            Self::Messages { client, name, file } => {
                assert_eq!(client.unlock(locked(name, file)).unwrap(), Status::Granted);
            }
            Self::Posix { child, answers } => assert!(posix(child, answers, "unlock")),
            Self::Ofd(file) => {
                ofd_lock::set(file.as_fd(), Range { start: 10, len: 10 }, LockType::Unlock)
                    .unwrap();
            }
        }
    }

    const fn is_client(&self) -> bool {
        matches!(self, Self::Nlm { .. } | Self::Messages { .. })
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        if let Self::Posix { child, .. } = self {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

fn posix(child: &mut Child, answers: &mut BufReader<ChildStdout>, command: &str) -> bool {
    writeln!(child.stdin.as_mut().unwrap(), "{command}").unwrap();
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    match line.trim() {
        "yes" => true,
        "no" => false,
        other => panic!("{other:?}"),
    }
}

/// A server, and the directory that it exports to clients of any port.
struct Shared {
    server: Server,
    dir: tempfile::TempDir,
}

impl Shared {
    fn path(&self) -> PathBuf {
        self.dir.path().join("shared/hello.txt")
    }

    /// What `bowline locks` shows.
    fn rows(&self) -> serde_json::Value {
        self.server.json("locks")
    }
}

fn server() -> Option<(Shared, Vec<u8>)> {
    if !is_root() {
        skip(Missing::Root, "a server that finds files by handle");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("hello.txt"), "hello, world").unwrap();
    let exports = dir.path().join("exports");
    let line = format!("{} 127.0.0.1(rw,insecure,no_root_squash)\n", shared.display());
    std::fs::write(&exports, line).unwrap();
    let server = Server::start(&["--exports", exports.to_str().unwrap()]);
    let mut client = Client::tcp(([127, 0, 0, 1], server.port).into(), TIMEOUT).unwrap();
    client.set_identity(Some(Identity::root()));
    let root = client.mount(shared.to_str().unwrap().as_bytes()).unwrap();
    let file = client.lookup(&root, b"hello.txt").unwrap().handle;
    Some((Shared { server, dir }, file.bytes().to_vec()))
}

#[test]
fn whoever_holds_a_lock_keeps_others_from_it_whichever_way_they_come() {
    let Some((server, file)) = server() else { return };
    let mut cells = 0;
    for (holds, asks) in WAYS.iter().flat_map(|a| WAYS.iter().map(move |b| (*a, *b))) {
        for (held, wanted) in [(true, true), (true, false), (false, true), (false, false)] {
            let cell = format!("{holds:?} holds write={held}, {asks:?} wants write={wanted}");
            let mut a = Locker::new(holds, b"holder", &server, &file);
            let mut b = Locker::new(asks, b"asker", &server, &file);
            assert!(a.lock(held), "{cell}");
            let excluded = held || wanted;
            assert_eq!(b.lock(wanted), !excluded, "{cell}");
            a.unlock();
            assert!(b.lock(wanted), "{cell}: after the unlock");
            b.unlock();
            cells += 1;
        }
    }
    assert_eq!(cells, 144);
    assert_eq!(server.rows().as_array().unwrap().len(), 0, "nothing stays behind");
}

#[test]
fn whoever_waits_gets_the_lock_once_its_holder_is_gone() {
    let Some((server, file)) = server() else { return };
    for holds in WAYS {
        for asks in [Way::Nlm4Tcp, Way::Nlm4Udp, Way::Nlm1, Way::Nlm3Messages] {
            let mut a = Locker::new(holds, b"holder", &server, &file);
            let mut b = Locker::new(asks, b"asker", &server, &file);
            assert!(a.lock(true));
            assert_eq!(b.ask(true, true), Status::Blocked, "{holds:?} {asks:?}");
            assert_eq!(server.rows()[usize::from(a.is_client())]["kind"], "waiting");
            if a.is_client() {
                a.unlock()
            } else {
                drop(a)
            }
            let begun = Instant::now();
            while b.ask(true, true) != Status::Granted {
                assert!(begun.elapsed() < LOCAL_WAIT, "{holds:?} {asks:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
            b.unlock();
            assert_eq!(server.rows().as_array().unwrap().len(), 0, "{holds:?} {asks:?}");
        }
    }
}

#[test]
fn the_operator_sees_locks_and_takes_them_away() {
    let Some((server, file)) = server() else { return };
    let mut a = Locker::new(Way::Nlm4Tcp, b"holder", &server, &file);
    let mut b = Locker::new(Way::Nlm4Udp, b"asker", &server, &file);
    assert!(a.lock(true));
    assert_eq!(b.ask(false, true), Status::Blocked);
    let rows = server.rows();
    let path = server.path();
    assert_eq!(rows[0]["client"], "holder");
    assert_eq!(rows[0]["address"], "127.0.0.1");
    assert_eq!(rows[0]["file"], path.to_str().unwrap());
    assert_eq!((&rows[0]["kind"], &rows[0]["mode"]), (&"lock".into(), &"write".into()));
    assert_eq!((&rows[0]["start"], &rows[0]["end"]), (&10.into(), &19.into()));
    assert_eq!((&rows[1]["client"], &rows[1]["kind"]), (&"asker".into(), &"waiting".into()));
    assert!(rows[1]["waiting_ms"].is_number());
    let table = text(&server.server.ask(&["locks"]).stdout);
    assert!(table.contains("hello.txt") && table.contains("10..19"), "{table}");

    let nobody = server.server.ask(&["release", "nobody"]);
    assert!(text(&nobody.stderr).contains("bowline locks"), "{}", text(&nobody.stderr));
    let released = text(&server.server.ask(&["release", "holder"]).stdout);
    assert_eq!(released, "released 1 locks of 1 clients\n");
    assert_eq!(b.ask(false, true), Status::Granted);
    assert!(!a.lock(true), "it can lock again like anybody");
    let released = text(&server.server.ask(&["release", path.to_str().unwrap()]).stdout);
    assert_eq!(released, "released 1 locks of 1 files\n");
    assert!(a.lock(true));
    a.unlock();
}

#[test]
fn locks_survive_a_reload() {
    let Some((server, file)) = server() else { return };
    let mut a = Locker::new(Way::Nlm4Tcp, b"holder", &server, &file);
    let mut b = Locker::new(Way::Ofd, b"asker", &server, &file);
    assert!(a.lock(true));
    assert!(server.server.ask(&["reload"]).status.success());
    assert!(!b.lock(false));
    a.unlock();
    assert!(b.lock(true));
}

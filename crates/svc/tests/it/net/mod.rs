//! Two private network namespaces, the server's and its clients', joined by as many cables as a
//! test likes; and clients that call without rest.

use crate::toy::{ECHO, message, opaque, results};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testing::{Missing, skip};

/// How long a client waits before it calls again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long it goes on calling.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's namespace is that of the thread that has this.
pub struct Net {
    clients: OwnedFd,
}

/// Runs a test on a thread in namespaces of its own; says so and returns if that is not allowed.
pub fn alone(test: impl FnOnce(&Net) + Send + 'static) {
    let run = std::thread::spawn(move || {
        if let Err(error) = sys::netns::enter_new() {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
            skip(Missing::Namespaces, "network namespaces");
            return;
        }
        let clients = std::thread::spawn(|| {
            sys::netns::enter_new().unwrap();
            ip("link set lo up");
            sys::netns::own().unwrap()
        });
        let net = Net { clients: clients.join().unwrap() };
        test(&net);
    });
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` in the namespace of the calling thread.
#[track_caller]
pub fn ip(args: &str) {
    let output = Command::new("ip").args(args.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ip {args}: {error}");
}

/// Adds an IPv6 address, as in `::1/64 dev eth0`, and waits until it is in force: the kernel does
/// that later, and both ends must be up.
#[track_caller]
pub fn address6(args: &str) {
    ip(&format!("address add {args} nodad"));
    let addr = args.split('/').next().unwrap();
    crate::toy::until("the address is in force", || {
        let shown = Command::new("ip").args("-6 route show table local".split(' ')).output();
        let shown = String::from_utf8_lossy(&shown.unwrap().stdout).into_owned();
        shown.lines().any(|line| line.starts_with(&format!("local {addr} ")))
    });
}

impl Net {
    /// Runs something in the clients' namespace.
    pub fn at_clients<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        let clients = self.clients.try_clone().unwrap();
        let thread = std::thread::spawn(move || {
            sys::netns::enter(clients).unwrap();
            run()
        });
        thread.join().unwrap()
    }

    /// A cable whose ends are `s{n}` and `c{n}`, with the addresses 10.0.n.1 and .2, fd00:n::1
    /// and ::2; both ends are up.
    pub fn cable(&self, n: u32) {
        let there = format!("/proc/{}/fd/{}", std::process::id(), self.clients.as_raw_fd());
        ip(&format!("link add s{n} type veth peer name c{n} netns {there}"));
        ip(&format!("address add 10.0.{n}.1/24 dev s{n}"));
        ip(&format!("link set s{n} up"));
        self.at_clients(move || {
            ip(&format!("address add 10.0.{n}.2/24 dev c{n}"));
            ip(&format!("link set c{n} up"));
            address6(&format!("fd00:{n}::2/64 dev c{n}"));
        });
        address6(&format!("fd00:{n}::1/64 dev s{n}"));
    }

    /// A client's socket that hears only what comes from `to`.
    pub fn socket(&self, to: SocketAddr) -> UdpSocket {
        self.at_clients(move || {
            let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            socket.connect(to).unwrap();
            socket
        })
    }

    /// A client that calls `to` without rest until it is stopped. With `again` it repeats a call
    /// that is not answered soon, as NFS clients do.
    pub fn load(&self, to: SocketAddr, again: bool) -> Load {
        let socket = self.socket(to);
        socket.set_read_timeout(Some(if again { AGAIN } else { PATIENCE })).unwrap();
        let shared = Arc::new(Seen::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let done = call_on(&socket, &seen, again);
            *lock(&seen.failed) = done.err();
        });
        Load { seen: shared, thread }
    }
}

/// What a load has seen.
#[derive(Default)]
pub struct Seen {
    stop: AtomicBool,
    pub answered: AtomicU64,
    pub repeated: AtomicU64,
    /// Replies to calls that had been answered.
    pub twice: AtomicU64,
    /// Why the client gave up.
    failed: Mutex<Option<String>>,
}

/// A client that calls without rest.
pub struct Load {
    pub seen: Arc<Seen>,
    thread: JoinHandle<()>,
}

impl Load {
    /// Waits until this many more calls have been answered.
    #[track_caller]
    pub fn answers(&self, more: u64) {
        let before = self.seen.answered.load(Relaxed);
        let start = Instant::now();
        while self.seen.answered.load(Relaxed) < before + more {
            assert!(start.elapsed() < PATIENCE, "no answers any more");
            let failed = lock(&self.seen.failed).clone();
            assert_eq!(failed, None, "the client has given up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it; how many calls were answered.
    #[track_caller]
    pub fn stop(self) -> u64 {
        self.seen.stop.store(true, Relaxed);
        self.thread.join().unwrap();
        assert_eq!(*lock(&self.seen.failed), None);
        self.seen.answered.load(Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn call_on(socket: &UdpSocket, seen: &Seen, again: bool) -> Result<(), String> {
    static XID: AtomicU32 = AtomicU32::new(1);
    let mut buf = [0; 2000];
    while !seen.stop.load(Relaxed) {
        let xid = XID.fetch_add(1, Relaxed);
        let args = opaque(format!("call {xid}").as_bytes());
        let call = message(xid, ECHO, &args);
        let start = Instant::now();
        // an interface that is down refuses; the call is repeated
        let _ = socket.send(&call);
        loop {
            match socket.recv(&mut buf) {
                Ok(len) => {
                    let (got, echo) = results(&buf[..len]);
                    if got == xid {
                        assert_eq!(echo, args);
                        break;
                    }
                    seen.twice.fetch_add(1, Relaxed);
                }
                Err(error) if start.elapsed() > PATIENCE || !again => {
                    return Err(format!("call {xid} was lost: {error}"));
                }
                Err(_) => {
                    seen.repeated.fetch_add(1, Relaxed);
                    let _ = socket.send(&call);
                }
            }
        }
        seen.answered.fetch_add(1, Relaxed);
    }
    Ok(())
}

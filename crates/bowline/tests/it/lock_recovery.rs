//! Locks outlive the server: it is killed and started again under clients that hold locks, which hear of it, reclaim
//! theirs, and find that nobody else got them meanwhile.
//!
//! The clients are hosts of a network namespace of its own, with addresses, port mappers and status monitors of their
//! own; they speak NLM, NSM and MOUNT over UDP.

use crate::rig::{Server, text};
use proto::nlm::{self, Lock, LockArgs, Status, UnlockArgs, Versioned, Width};
use proto::nsm::Notify;
use proto::portmap;
use proto::rpc::{Accepted, CallHeader, ReplyHeader};
use rpc::{AuthSys, Reply, Request};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testing::{Missing, skip};
use xdr::{Encode, Reader, Writer};

const MOUNT: u32 = 100_005;
const NFS: u32 = 100_003;
/// Locks of each client of the long test.
const LOCKS: u64 = 50;

/// Runs a test in a network namespace of its own, whose only interface is `lo`.
pub fn alone(test: impl FnOnce() + Send + 'static) {
    let run = std::thread::spawn(move || {
        if let Err(error) = sys::netns::enter_new() {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
            return skip(Missing::Namespaces, "network namespaces");
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success());
        test();
    });
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A client's machine.
pub struct Host {
    name: &'static str,
    socket: UdpSocket,
    xid: u32,
    file: Vec<u8>,
}

impl Host {
    /// 127.0.0.`number`.
    pub fn new(number: u8, name: &'static str, server: &Server) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, number), 900)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.connect(("127.0.0.1", server.port)).unwrap();
        let mut host = Self { name, socket, xid: u32::from(number) << 16, file: Vec::new() };
        let mut path = Writer::new();
        path.opaque(server.served().as_os_str().as_encoded_bytes());
        let mounted = host.call(MOUNT, 3, 1, path.bytes());
        let mut reader = Reader::new(&mounted);
        assert_eq!(reader.u32(), Ok(0), "MNT");
        let root = reader.opaque(64).unwrap().to_vec();
        let mut args = Writer::new();
        args.opaque(&root);
        args.opaque(b"hello.txt");
        let found = host.call(NFS, 3, 3, args.bytes());
        let mut reader = Reader::new(&found);
        assert_eq!(reader.u32(), Ok(0), "LOOKUP");
        host.file = reader.opaque(64).unwrap().to_vec();
        host
    }

    /// Calls until there is an answer: the server may just be starting.
    fn call(&mut self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        self.xid += 1;
        let credential = AuthSys::new(self.name.as_bytes(), 0, 0, &[]);
        let mut message = Writer::new();
        message.put(&Request { xid: self.xid, program, version, procedure, credential });
        message.raw(args);
        let begun = Instant::now();
        let mut buf = [0; 9000];
        while begun.elapsed() < Duration::from_secs(60) {
            // nobody listens while the server is down
            let _refused = self.socket.send(message.bytes());
            match self.socket.recv(&mut buf) {
                Ok(len) => {
                    let reply = Reply::parse(&buf[..len]).unwrap();
                    if reply.xid == self.xid {
                        return reply.results.unwrap().rest().to_vec();
                    }
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        panic!("no answer to procedure {procedure} of {program}");
    }

    fn range(&self, offset: u64) -> Lock<'_> {
        let (caller_name, oh) = (self.name.as_bytes(), self.name.as_bytes());
        Lock { caller_name, handle: &self.file, oh, svid: 1, offset, len: 1 }
    }

    /// Asks for a write lock of one byte.
    pub fn lock(&mut self, offset: u64, reclaim: bool) -> Status {
        let mut args = Writer::new();
        let lock = self.range(offset);
        LockArgs { cookie: b"c", block: false, exclusive: true, lock, reclaim, state: 1 }
            .encode(&mut args, Width::Bits64);
        self.nlm(nlm::procedure::LOCK, &args)
    }

    fn unlock(&mut self, offset: u64) -> Status {
        let mut args = Writer::new();
        let lock = self.range(offset);
        UnlockArgs { cookie: b"c", lock }.encode(&mut args, Width::Bits64);
        self.nlm(nlm::procedure::UNLOCK, &args)
    }

    fn nlm(&mut self, procedure: u32, args: &Writer) -> Status {
        let result = self.call(nlm::PROGRAM, 4, procedure, args.bytes());
        let mut reader = Reader::new(&result);
        assert_eq!(reader.opaque(1024), Ok(&b"c"[..]), "the cookie");
        Status::decode(&mut reader, Width::Bits64).unwrap()
    }

    /// Tells the server that this machine has rebooted.
    fn notify(&mut self, state: i32) {
        let mut args = Writer::new();
        args.put(&Notify { name: self.name.as_bytes(), state });
        let void = self.call(proto::nsm::PROGRAM, 1, proto::nsm::procedure::NOTIFY, args.bytes());
        assert!(void.is_empty());
    }
}

/// A host's port mapper and status monitor, on port 111; what it was notified of.
struct StatusMonitor {
    heard: Arc<Mutex<Vec<(String, i32)>>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StatusMonitor {
    fn new(number: u8) -> Self {
        let addr = SocketAddr::from(([127, 0, 0, number], portmap::PORT));
        let socket = UdpSocket::bind(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (heard, end) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (noted, ended) = (Arc::clone(&heard), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            let mut buf = [0; 9000];
            while !ended.load(SeqCst) {
                let Ok((len, from)) = socket.recv_from(&mut buf) else { continue };
                let mut reader = Reader::new(&buf[..len]);
                let header: CallHeader<'_> = reader.get().unwrap();
                let mut reply = Writer::new();
                ReplyHeader::accepted(header.xid, Accepted::Success).encode(&mut reply);
                if header.program == portmap::PROGRAM {
                    reply.opaque(portmap::to_universal(addr).as_bytes());
                } else {
                    assert_eq!((header.program, header.procedure), (proto::nsm::PROGRAM, 6));
                    assert!(from.port() < 1024, "from a reserved port");
                    assert_eq!(from.ip().to_string(), "127.0.0.1", "from the address it mounted");
                    let notify: Notify<'_> = reader.get().unwrap();
                    noted.lock().unwrap().push((text(notify.name), notify.state));
                }
                socket.send_to(reply.bytes(), from).unwrap();
            }
        });
        Self { heard, end, thread: Some(thread) }
    }
}

impl Drop for StatusMonitor {
    fn drop(&mut self) {
        self.end.store(true, SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn start() -> Server {
    Server::start(&["--client", "127.0.0.0/8", "--listen", "127.0.0.1"])
}

#[test]
fn locks_survive_sigkill_also_during_the_grace_period() {
    alone(|| {
        let mut server = start();
        let (mut one, mut two) = (Host::new(9, "one", &server), Host::new(10, "two", &server));
        assert_eq!(server.json("grace")["running"], false, "a first start has no grace period");
        assert_eq!(one.lock(0, false), Status::Granted);
        let first = server.json("grace")["state_number"].clone();

        server.kill();
        server.start_again();
        let grace = server.json("grace");
        assert_eq!((&grace["running"], &grace["hosts"][0]["name"]), (&true.into(), &"one".into()));
        assert_eq!(grace["hosts"].as_array().unwrap().len(), 1);
        assert_eq!(two.lock(0, false), Status::DeniedGracePeriod);
        assert_eq!(two.lock(0, true), Status::Denied, "it had nothing to reclaim");

        server.kill();
        let monitor = StatusMonitor::new(9);
        server.start_again();
        assert_eq!(server.json("grace")["hosts"][0]["name"], "one", "the list of before");
        until("it has heard", || server.json("grace")["hosts"][0]["answered"] == true);
        until("by both names", || monitor.heard.lock().unwrap().len() == 2);
        let heard = monitor.heard.lock().unwrap().clone();
        let own_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(heard[0].0, own_name.trim_end());
        assert_eq!(heard[1].0, "127.0.0.1");
        let grace = server.json("grace");
        assert_eq!(grace["state_number"], heard[0].1);
        assert!(heard[0].1 % 2 == 1 && grace["state_number"] != first, "{grace}");
        assert_eq!(one.lock(0, true), Status::Granted);
        assert_eq!(server.json("grace")["hosts"][0]["reclaimed"], true);
        assert_eq!(two.lock(5, false), Status::DeniedGracePeriod);
        // long before the 60 s are over: everybody is back, and ten seconds are quiet
        until("it ends early", || server.json("grace")["running"] == false);
        assert_eq!(two.lock(0, false), Status::Denied, "nobody got it meanwhile");
        assert_eq!(one.lock(7, true), Status::Denied, "there is nothing to reclaim any more");
        assert_eq!(one.unlock(0), Status::Granted);
        assert_eq!(two.lock(0, false), Status::Granted);

        one.notify(99);
        assert_eq!(one.lock(0, false), Status::Denied, "only the locks of who rebooted go");
        two.notify(99);
        assert_eq!(one.lock(0, false), Status::Granted);
        let grace = server.json("grace");
        assert_eq!((&grace["client_reboots"], &grace["locks_dropped"]), (&2.into(), &1.into()));
        let refused = server.ask(&["grace", "end"]);
        assert!(text(&refused.stderr).contains("there is no grace period"));
    });
}

#[test]
fn no_lock_is_lost_or_granted_twice_over_repeated_sigkill() {
    let kills = std::env::var("KILLS").map_or(8, |kills| kills.parse().unwrap());
    alone(move || {
        let mut server = start();
        let mut hosts = [Host::new(9, "one", &server), Host::new(10, "two", &server)];
        for kill in 0..=kills {
            let mut first = 0;
            for host in &mut hosts {
                for offset in first..first + LOCKS {
                    assert_eq!(host.lock(offset, kill > 0), Status::Granted, "{offset} {kill}");
                }
                first += LOCKS;
            }
            if kill > 0 {
                let ended = server.ask(&["grace", "end"]);
                assert!(ended.status.success(), "{}", text(&ended.stderr));
            }
            let [one, two] = &mut hosts;
            for offset in 0..LOCKS {
                assert_eq!(two.lock(offset, false), Status::Denied, "{offset} of the other");
                assert_eq!(one.lock(LOCKS + offset, false), Status::Denied);
            }
            server.kill();
            server.start_again();
        }
    });
}

//! A machine that runs rpc.statd, which has the program number of the status monitor: it watches the clients that hold
//! locks for the server, and what it does not answer is said and costs no lock.

use crate::lock_recovery::{Host, alone, until};
use crate::rig::{Server, is_root, text, wrap};
use proto::nlm::Status;
use proto::nsm::{Mon, Notify, Outcome, Stat, StatResult, procedure};
use proto::portmap;
use proto::rpc::{Accepted, CallHeader, ReplyHeader};
use rpc::Request;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testing::{Missing, skip};
use xdr::{Encode, Reader, Writer};

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// rpcbind in a mount namespace with a /run of its own, which others enter by its process.
struct Machine {
    rpcbind: Process,
    state: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let script = "mount -t tmpfs none /run && mkdir /run/rpcbind && exec rpcbind -f";
        let rpcbind = Command::new("unshare").args(["-m", "sh", "-c", script]).spawn().unwrap();
        let new = Self { rpcbind: Process(rpcbind), state: tempfile::tempdir().unwrap() };
        until("rpcbind answers", || !new.registered().is_empty());
        new
    }

    fn enter(&self) -> [String; 4] {
        ["nsenter", "-t", &self.rpcbind.0.id().to_string(), "-m"].map(str::to_owned)
    }

    fn command(&self, program: &str) -> Command {
        let [enter, rest @ ..] = self.enter();
        let mut command = Command::new(enter);
        command.args(rest).arg(program);
        command
    }

    /// What `rpcinfo -p` says.
    fn registered(&self) -> String {
        text(&self.command("rpcinfo").args(["-p", "127.0.0.1"]).output().unwrap().stdout)
    }

    /// The UDP port of the status monitor.
    fn monitor_port(&self) -> Option<u16> {
        let list = self.registered();
        let mut rows = list.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.first() == Some(&"100024") && row.get(2) == Some(&"udp"))?;
        row.get(3)?.parse().ok()
    }

    fn statd(&self) -> Process {
        for dir in ["sm", "sm.bak"] {
            std::fs::create_dir_all(self.state.path().join(dir)).unwrap();
        }
        let mut statd = self.command("rpc.statd");
        statd.args(["-F", "--no-notify", "-P"]).arg(self.state.path());
        Process(statd.spawn().unwrap())
    }

    /// The addresses that rpc.statd has been asked to watch, as it stores them.
    fn watched(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.state.path().join("sm")).unwrap();
        let mut names: Vec<String> =
            names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn server(&self, nsm: &str) -> Server {
        let enter = self.enter();
        let enter = enter.each_ref().map(String::as_str);
        let nsm = format!("nsm={nsm}");
        let args = ["--client", "127.0.0.0/8", "--listen", "127.0.0.1", "--set", &nsm];
        Server::start_with(&args, |command| {
            wrap(command, &enter);
            // the rig's is `--portmap off`
            let words = command
                .get_args()
                .map(|word| if word == "off" { "register".as_ref() } else { word });
            let mut registering = Command::new(command.get_program());
            registering.args(words);
            *command = registering;
        })
    }
}

fn can_run() -> bool {
    let programs = ["/usr/sbin/rpcbind", "/usr/sbin/rpc.statd"];
    is_root() && programs.iter().all(|program| Path::new(program).exists())
}

/// A client's machine tells the status monitor at this port that it has rebooted.
fn notify(from: u8, name: &str, port: u16) {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, from), 650)).unwrap();
    let mut message = Writer::new();
    let (program, version, procedure) = (proto::nsm::PROGRAM, 1, procedure::NOTIFY);
    message.put(&Request { xid: 77, program, version, procedure, credential: None });
    message.put(&Notify { name: name.as_bytes(), state: 9 });
    socket.send_to(message.bytes(), ("127.0.0.1", port)).unwrap();
}

fn monitor_of(server: &Server) -> Value {
    server.json("grace")["monitor"].clone()
}

#[test]
fn rpc_statd_watches_clients_and_reports_their_reboots() {
    if !can_run() {
        return skip(Missing::Program, "root, rpcbind and rpc.statd");
    }
    alone(|| {
        let machine = Machine::new();
        let mut statd = machine.statd();
        until("it is registered", || machine.monitor_port().is_some());
        let port = machine.monitor_port().unwrap();
        let mut server = machine.server("auto");
        assert_eq!(monitor_of(&server), "statd", "it was there first");
        assert_eq!(machine.monitor_port(), Some(port), "and stays");
        let (mut one, mut two) = (Host::new(9, "one", &server), Host::new(10, "two", &server));
        assert_eq!(one.lock(0, false), Status::Granted);
        assert_eq!(two.lock(5, false), Status::Granted);
        until("both are watched", || machine.watched() == ["127.0.0.10", "127.0.0.9"]);
        until("and that is known", || server.json("grace")["watched_by_statd"] == 2);
        assert!(!server.json("status")["warnings"].to_string().contains("rpc.statd"));

        notify(9, "one", port);
        until("the lock is gone", || server.json("grace")["locks_dropped"] == 1);
        assert_eq!(two.lock(0, false), Status::Granted);
        assert_eq!(one.lock(5, false), Status::Denied, "that of the other stays");
        let told = server.ask(&["release", "two"]);
        assert!(told.status.success(), "{}", text(&told.stderr));
        until("nobody watches it any more", || machine.watched() == ["127.0.0.9"]);

        // a restart of the server alone: it tells its clients itself, by another number than rpc.statd's
        assert_eq!(one.lock(0, false), Status::Granted);
        server.kill();
        server.start_again();
        assert!(server.json("grace")["state_number"].as_i64().unwrap() > 1 << 30);
        assert_eq!(one.lock(0, true), Status::Granted);
        until("it is watched again", || server.json("grace")["watched_by_statd"] == 1);
        assert!(server.ask(&["grace", "end"]).status.success());

        // without it, locks are granted all the same, and the server says what that means
        statd.0.kill().unwrap();
        statd.0.wait().unwrap();
        assert!(server.ask(&["set", "nsm=statd"]).status.success());
        assert_eq!(two.lock(7, false), Status::Granted);
        let warned = |word| server.json("status")["warnings"].to_string().contains(word);
        until("it is said", || warned("rpc.statd of this machine cannot be asked"));
        let _again = machine.statd();
        until("it is asked again", || !warned("rpc.statd of this machine cannot be asked"));
        until("for both", || server.json("grace")["watched_by_statd"] == 2);
        assert!(server.ask(&["set", "nsm=own"]).status.success());
        until("nobody is watched", || machine.watched().is_empty());
        assert_eq!(monitor_of(&server), "own");
    });
}

#[test]
fn auto_follows_rpc_statd_as_it_comes_and_goes() {
    if !can_run() {
        return skip(Missing::Program, "root, rpcbind and rpc.statd");
    }
    alone(|| {
        let machine = Machine::new();
        let server = machine.server("statd");
        assert_eq!(machine.monitor_port(), None, "the number is left to rpc.statd");
        assert!(server.ask(&["set", "nsm=auto"]).status.success());
        assert_eq!(machine.monitor_port(), Some(server.port), "nobody else has it");
        assert_eq!(monitor_of(&server), "own");
        assert!(server.ask(&["set", "nsm=statd"]).status.success());
        let statd = machine.statd();
        until("rpc.statd has it", || {
            machine.monitor_port().is_some_and(|port| port != server.port)
        });
        assert!(server.ask(&["set", "nsm=auto"]).status.success());
        assert_eq!(monitor_of(&server), "statd");
        drop(statd);
        until("the server has it again", || machine.monitor_port() == Some(server.port));
        assert_eq!(monitor_of(&server), "own");
    });
}

/// A port mapper and a status monitor on 127.0.0.1:111 that answers SM_MON so, or not at all.
struct FailingStatusMonitor {
    answer: Arc<Mutex<Option<Outcome>>>,
    asked: Arc<Mutex<Vec<String>>>,
    end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FailingStatusMonitor {
    fn new(answer: Option<Outcome>) -> Self {
        let addr = SocketAddr::from(([127, 0, 0, 1], portmap::PORT));
        let socket = UdpSocket::bind(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let answer = Arc::new(Mutex::new(answer));
        let (asked, end): (Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) = Default::default();
        let new = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            let mut buf = [0; 9000];
            while !end.load(SeqCst) {
                let Ok((len, from)) = socket.recv_from(&mut buf) else { continue };
                let mut reader = Reader::new(&buf[..len]);
                let header: CallHeader<'_> = reader.get().unwrap();
                let mut reply = Writer::new();
                ReplyHeader::accepted(header.xid, Accepted::Success).encode(&mut reply);
                let stat = Stat { state: 1 };
                match (header.program, header.procedure) {
                    (portmap::PROGRAM, _) => reply.opaque(portmap::to_universal(addr).as_bytes()),
                    (proto::nsm::PROGRAM, procedure::MON) => {
                        let mon: Mon<'_> = reader.get().unwrap();
                        asked.lock().unwrap().push(text(mon.mon_id.name.0));
                        let Some(outcome) = *answer.lock().unwrap() else { continue };
                        reply.put(&StatResult { outcome, stat });
                    }
                    (proto::nsm::PROGRAM, procedure::UNMON_ALL) => reply.put(&stat),
                    other => panic!("{other:?}"),
                }
                socket.send_to(reply.bytes(), from).unwrap();
            }
        });
        let (answer, asked, end) = new;
        Self { answer, asked, end, thread: Some(thread) }
    }
}

impl Drop for FailingStatusMonitor {
    fn drop(&mut self) {
        self.end.store(true, SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn a_status_monitor_that_refuses_or_is_silent_costs_no_lock() {
    alone(|| {
        let statd = FailingStatusMonitor::new(Some(Outcome::Fail));
        let args = ["--client", "127.0.0.0/8", "--listen", "127.0.0.1", "--set", "nsm=statd"];
        let server = Server::start(&args);
        let (mut one, mut two) = (Host::new(9, "one", &server), Host::new(10, "two", &server));
        let warned = |word| server.json("status")["warnings"].to_string().contains(word);
        assert_eq!(one.lock(0, false), Status::Granted);
        until("it is said", || warned("it refuses to watch 127.0.0.9"));
        *statd.answer.lock().unwrap() = None;
        until("it is asked again", || statd.asked.lock().unwrap().len() > 1);
        assert_eq!(two.lock(1, false), Status::Granted, "it does not wait for the answer");
        until("it is said", || warned("no reply"));
        *statd.answer.lock().unwrap() = Some(Outcome::Success);
        until("both are watched", || server.json("grace")["watched_by_statd"] == 2);
        assert!(!warned("cannot be asked"));
    });
}

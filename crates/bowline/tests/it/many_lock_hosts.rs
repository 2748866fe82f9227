//! A restart under many hosts at once that hold locks and reclaim them, and a host with many locks: what the server
//! spends on each. `LOCK_HOSTS` and `LOCKS` for more.

use crate::lock_recovery::alone;
use crate::rig::Server;
use client::{Client, Identity};
use proto::nlm::{self, Lock, LockArgs, Status, Versioned, Width};
use rpc::{AuthSys, Reply, Request};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use xdr::{Encode, Reader, Writer};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Calls that are sent before their answers are read.
const AHEAD: u32 = 64;

pub fn count(variable: &str, short: u32) -> u32 {
    std::env::var(variable).map_or(short, |count| count.parse().unwrap())
}

/// Processor time of a process in milliseconds, as the kernel counts it: a hundredth of a second is the smallest step.
pub fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let times = after_name.split_whitespace().skip(11).take(2);
    times.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum()
}

/// Memory of a process in KiB.
pub fn memory_kib(pid: u32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One LOCK of a byte of a host of its own address and name.
fn call(number: u32, host: u32, handle: &[u8], reclaim: bool) -> Vec<u8> {
    let name = format!("host{host}");
    let credential = AuthSys::new(name.as_bytes(), 0, 0, &[]);
    let mut message = Writer::new();
    let (program, procedure) = (nlm::PROGRAM, nlm::procedure::LOCK);
    Request { xid: number, program, version: 4, procedure, credential }.encode(&mut message);
    let (caller_name, oh, offset) = (name.as_bytes(), name.as_bytes(), u64::from(number) * 2);
    let lock = Lock { caller_name, handle, oh, svid: 1, offset, len: 1 };
    LockArgs { cookie: b"c", block: false, exclusive: true, lock, reclaim, state: 1 }
        .encode(&mut message, Width::Bits64);
    message.bytes().to_vec()
}

/// The status in an answer.
fn status(answer: &[u8]) -> Status {
    let results = Reply::parse(answer).unwrap().results.unwrap().rest();
    let mut reader = Reader::new(results);
    assert_eq!(reader.opaque(16), Ok(&b"c"[..]));
    Status::decode(&mut reader, Width::Bits64).unwrap()
}

/// A socket of each host: 127.16.0.1 and following.
fn socket(host: u32, port: u16) -> UdpSocket {
    let addr = Ipv4Addr::from(0x7f10_0001 + host);
    let socket = UdpSocket::bind((addr, 900)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket
}

/// All of these hosts ask, some at a time; each is to get its lock, at the latest when it asks again because the server was
/// busy. How many had to.
fn all_ask(port: u16, handle: &[u8], hosts: u32, reclaim: bool) -> usize {
    let mut later = 0;
    for first in (0..hosts).step_by(AHEAD as usize) {
        let some = first..hosts.min(first + AHEAD);
        let sockets: Vec<UdpSocket> = some.clone().map(|host| socket(host, port)).collect();
        let calls: Vec<Vec<u8>> = some.map(|host| call(host + 1, host, handle, reclaim)).collect();
        for (socket, call) in sockets.iter().zip(&calls) {
            socket.send(call).unwrap();
        }
        for (socket, call) in sockets.iter().zip(&calls) {
            let begun = Instant::now();
            let mut call = call.clone();
            loop {
                let mut answer = [0; 1500];
                match socket.recv(&mut answer).map(|len| status(&answer[..len])) {
                    Ok(Status::Granted) => break,
                    Ok(Status::DeniedGracePeriod) => {
                        later += 1;
                        std::thread::sleep(Duration::from_millis(100));
                        // another xid
                        call[0] = call[0].wrapping_add(1);
                        socket.send(&call).unwrap();
                    }
                    Ok(other) => panic!("{other:?}"),
                    // lost, or the server is slow: again, as a client does
                    Err(_) => drop(socket.send(&call).unwrap()),
                }
                assert!(begun.elapsed() < TIMEOUT, "no answer");
            }
        }
    }
    later
}

fn start() -> (Server, Vec<u8>) {
    let server = Server::start(&["--client", "127.0.0.0/8", "--listen", "127.0.0.1"]);
    let mut client = Client::udp_reserved(([127, 0, 0, 1], server.port).into(), TIMEOUT).unwrap();
    client.set_identity(Some(Identity::root()));
    let root = client.mount(server.served().to_str().unwrap().as_bytes()).unwrap();
    let file = client.lookup(&root, b"hello.txt").unwrap().handle;
    let handle = file.bytes().to_vec();
    (server, handle)
}

#[test]
fn many_hosts_reclaim_at_once_after_a_restart() {
    let hosts = count("LOCK_HOSTS", 500);
    alone(move || {
        let (mut server, handle) = start();
        let before = memory_kib(server.child.id());
        let later = all_ask(server.port, &handle, hosts, false);
        let each = (memory_kib(server.child.id()) - before) * 1024 / i64::from(hosts);
        println!(
            "{hosts} hosts with a lock each: {each} bytes of memory for each; {later} asked again"
        );
        let recorded = std::fs::metadata(server.base.path().join("state/recovery")).unwrap().len();
        server.kill();
        server.start_again();
        let pid = server.child.id();
        let (begun, cpu) = (Instant::now(), cpu_ms(pid));
        assert_eq!(server.json("grace")["hosts"].as_array().unwrap().len(), hosts as usize);
        let later = all_ask(server.port, &handle, hosts, true);
        let (took, cpu) = (begun.elapsed(), cpu_ms(pid) - cpu);
        println!(
            "{hosts} hosts reclaimed in {:.1} s and {cpu} ms of processor time, telling them included; {later} \
             asked again; {recorded} bytes of records",
            took.as_secs_f64()
        );
        let list = server.json("grace");
        let back = |host: &&serde_json::Value| host["reclaimed"] == true;
        assert_eq!(list["hosts"].as_array().unwrap().iter().filter(back).count(), hosts as usize);
        assert!(server.ask(&["grace", "end"]).status.success());
        // nobody has lost anything, and nobody gets what another has
        all_ask(server.port, &handle, hosts, false);
        let mut strange = call(1, hosts + 1, &handle, false);
        let socket = socket(hosts + 1, server.port);
        socket.send(&strange).unwrap();
        strange.resize(1500, 0);
        let len = socket.recv(&mut strange).unwrap();
        assert_eq!(status(&strange[..len]), Status::Denied);
        assert_eq!(server.json("locks").as_array().unwrap().len(), hosts as usize);
    });
}

#[test]
fn a_host_with_many_locks_costs_little_and_gives_them_back() {
    let locks = count("LOCKS", 4000);
    alone(move || {
        let (server, handle) = start();
        // one file and one owner may have fewer than one host: a directory of files
        let files = locks.div_ceil(8000);
        let mut client =
            Client::udp_reserved(([127, 0, 0, 1], server.port).into(), TIMEOUT).unwrap();
        client.set_identity(Some(Identity::root()));
        let root = client.mount(server.served().to_str().unwrap().as_bytes()).unwrap();
        let handles: Vec<Vec<u8>> = (0..files)
            .map(|number| {
                let name = format!("many{number}");
                std::fs::write(server.served().join(&name), "").unwrap();
                client.lookup(&root, name.as_bytes()).unwrap().handle.bytes().to_vec()
            })
            .collect();
        assert!(!handle.is_empty());
        let (pid, socket) = (server.child.id(), socket(0, server.port));
        let (memory, cpu) = (memory_kib(pid), cpu_ms(pid));
        let mut granted = 0;
        for number in 0..locks {
            let file = &handles[(number / 8000) as usize];
            socket.send(&call(number + 1, 0, file, false)).unwrap();
            let mut answer = [0; 1500];
            let len = socket.recv(&mut answer).unwrap();
            granted += u32::from(status(&answer[..len]) == Status::Granted);
        }
        let (memory, cpu) = (memory_kib(pid) - memory, cpu_ms(pid) - cpu);
        println!(
            "{granted} of {locks} locks granted to one host: {} bytes of memory and {} us of processor time for each",
            memory * 1024 / i64::from(locks),
            cpu * 1000 / u64::from(locks)
        );
        // the last two places are for a change that cuts a range
        assert_eq!(granted, locks.min(65_535));
        let released = server.ask(&["release", "host0"]);
        assert!(released.status.success());
        assert_eq!(server.json("locks").as_array().unwrap().len(), 0);
    });
}

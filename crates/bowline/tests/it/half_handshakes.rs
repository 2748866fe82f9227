//! Half handshakes: what very many connections that begin a handshake of TLS and do not end it cost the server, and calls
//! of others meanwhile. `HALF_HANDSHAKES` for another number.

use crate::operator_tables::connect;
use crate::rig::{Server, bowline, text};
use client::Client;
use proto::rpc::{OpaqueAuth, flavor};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use sys::testing::tcp::connect_from;
use testing::{Missing, skip};
use tls::{ClientFiles, ClientTls};
use xdr::Writer;

/// Handshakes of one address: as many as it may have at once, and some.
const OF_ADDRESS: usize = 250;
/// The most at once (`HANDSHAKES_MAX` of svc).
const AT_ONCE: usize = 4096;
/// Memory of one, in KiB, and of the rest of the server.
const EACH_KIB_MAX: u64 = 12;
const REST_KIB_MAX: u64 = 8 << 10;
/// Calls of one measurement.
const CALLS: u32 = 3000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Resident memory in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Processor time of the server for a GETATTR on one connection, the mean of many.
fn cost_of_getattr(server: &Server, client: &mut Client, root: &client::Fh) -> Duration {
    let used = || sys::thread::process_cpu_time(server.child.id()).unwrap();
    let before = used();
    for _ in 0..CALLS {
        client.getattr(root).unwrap();
    }
    used().saturating_sub(before) / CALLS
}

/// The probe for TLS, as a record.
fn probe() -> Vec<u8> {
    let mut w = Writer::new();
    w.words([77, 0, 2, proto::nfs3::PROGRAM, proto::nfs3::VERSION, 0]);
    w.put(&OpaqueAuth { flavor: flavor::AUTH_TLS, body: &[] });
    w.put(&OpaqueAuth::NONE);
    let mark = rpc::record::mark(w.len()).unwrap().to_be_bytes();
    [&mark[..], w.bytes()].concat()
}

/// A connection that has sent a part of its first message, or nothing of it.
fn begin(number: usize, to: SocketAddr, probe: &[u8], hello: &[u8]) -> TcpStream {
    let last = u8::try_from(2 + number / OF_ADDRESS).unwrap();
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 1, last), 0));
    let mut stream = connect_from(from, to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(probe).unwrap();
    let mut answer = [0; 4 + 32];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[24..32], b"STARTTLS");
    stream.write_all(&hello[..hello.len() * (number % 4) / 4]).unwrap();
    stream
}

#[test]
fn half_handshakes_cost_others_nothing() {
    let half = std::env::var("HALF_HANDSHAKES").map_or(1000, |number| number.parse().unwrap());
    let descriptors = sys::limits::raise_open_files();
    if descriptors < half as u64 + 200 {
        let limit = format!("{descriptors} descriptors allowed for {half} connections");
        return skip(Missing::Limit, limit);
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join("tls").join(name).display().to_string();
    let made = bowline(&["tls", "init", "localhost", "--dir", &file("")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let server =
        Server::start(&["--tls-cert", &file("server.pem"), "--tls-key", &file("server.key")]);
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut busy = connect(&server);
    let root = busy.mount(server.served().as_os_str().as_encoded_bytes()).unwrap();
    cost_of_getattr(&server, &mut busy, &root);
    let alone = cost_of_getattr(&server, &mut busy, &root);
    let before = resident_kib(server.child.id());
    let files = ClientFiles { ca: Some(file("ca.pem").into()), identity: None };
    let tls = ClientTls::open(&files, true, tls::ALPN).unwrap();
    let (mut hello, probe) = (Vec::new(), probe());
    let _handshake = tls.begin("localhost", &mut hello).unwrap();
    let crowd: Vec<TcpStream> =
        (0..half).map(|number| begin(number, addr, &probe, &hello)).collect();
    let kib = resident_kib(server.child.id()).saturating_sub(before);
    // those that made room are closed by now
    let begun = Instant::now();
    while server.json("status")["connections"].as_u64().unwrap() > AT_ONCE as u64 + 10 {
        assert!(begun.elapsed() < PATIENCE, "they stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    // not of a time in which the last ones are still being read
    let among = (0..5).map(|_| cost_of_getattr(&server, &mut busy, &root)).min().unwrap();
    // whoever makes a whole one is served
    let nfs3 = (proto::nfs3::PROGRAM, proto::nfs3::VERSION);
    let stream = client::starttls::connect(addr, PATIENCE, nfs3, (&tls, "localhost")).unwrap();
    Client::over_tls(stream, PATIENCE).null().unwrap();
    println!(
        "{half} half handshakes, {AT_ONCE} at the most at once: {kib} KiB; processor time of GETATTR {alone:?} before, \
         {among:?} among them"
    );
    let held = u64::try_from(half.min(AT_ONCE)).unwrap();
    assert!(kib < held * EACH_KIB_MAX + REST_KIB_MAX, "{kib} KiB");
    assert!(among < alone * 2, "{alone:?} before, {among:?} among them");
    drop(crowd);
}

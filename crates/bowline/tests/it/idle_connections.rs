//! Ten thousand idle connections: what they cost, and what calls of a busy client cost among them.

use crate::rig::Server;
use client::Client;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use testing::{Missing, skip};

/// Connections that say nothing.
const IDLE: usize = 10_000;
/// What they may cost in all.
const COST_KIB_MAX: u64 = 100 * 1024;
/// Calls of one measurement.
const CALLS: u32 = 3000;

/// Resident memory in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Processor time of the server for a NULL call on one connection, the mean of many.
fn cost_of_null(server: &Server, client: &mut Client) -> Duration {
    let used = || sys::thread::process_cpu_time(server.child.id()).unwrap();
    let before = used();
    for _ in 0..CALLS {
        client.null().unwrap();
    }
    used().saturating_sub(before) / CALLS
}

#[test]
fn ten_thousand_idle_connections_use_little_memory() {
    let descriptors = sys::limits::raise_open_files();
    if descriptors < IDLE as u64 + 200 {
        let limit = format!("{descriptors} descriptors allowed for {IDLE} connections");
        skip(Missing::Limit, limit);
        return;
    }
    let server = Server::start(&[]);
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut busy = Client::tcp(addr, Duration::from_secs(60)).unwrap();
    let alone = cost_of_null(&server, &mut busy);
    let before = resident_kib(server.child.id());
    let crowd: Vec<TcpStream> = (0..IDLE).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let begun = Instant::now();
    while server.json("status")["connections"].as_u64().unwrap() < IDLE as u64 {
        assert!(begun.elapsed() < Duration::from_secs(120), "not all were accepted");
        std::thread::sleep(Duration::from_millis(50));
    }
    let cost_kib = resident_kib(server.child.id()).saturating_sub(before);
    let among = cost_of_null(&server, &mut busy);
    println!(
        "{IDLE} idle connections: {cost_kib} KiB; processor time of NULL {alone:?} alone, {among:?} among them"
    );
    assert!(cost_kib < COST_KIB_MAX, "{cost_kib} KiB");
    assert!(among < alone * 2, "{alone:?} alone, {among:?} among them");
    drop(crowd);
}

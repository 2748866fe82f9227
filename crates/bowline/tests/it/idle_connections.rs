//! Ten thousand connections that say nothing: what they cost, and what a busy client feels of them.

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
const CALLS: usize = 3000;

/// Resident memory in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The median time of a NULL call on one connection.
fn median_null(client: &mut Client) -> Duration {
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let begun = Instant::now();
            client.null().unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[CALLS / 2]
}

#[test]
fn ten_thousand_idle_connections_are_cheap() {
    let descriptors = sys::limits::raise_open_files();
    if descriptors < IDLE as u64 + 200 {
        let limit = format!("{descriptors} descriptors allowed for {IDLE} connections");
        skip(Missing::Limit, limit);
        return;
    }
    let server = Server::start(&[]);
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut busy = Client::tcp(addr, Duration::from_secs(10)).unwrap();
    let alone = median_null(&mut busy);
    let before = resident_kib(server.child.id());
    let crowd: Vec<TcpStream> = (0..IDLE).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let begun = Instant::now();
    while server.json("status")["connections"].as_u64().unwrap() < IDLE as u64 {
        assert!(begun.elapsed() < Duration::from_secs(30), "not all were accepted");
        std::thread::sleep(Duration::from_millis(50));
    }
    let cost_kib = resident_kib(server.child.id()).saturating_sub(before);
    let bound = alone * 2 + Duration::from_micros(50);
    // a busy machine may spoil a measurement, but not every one of them
    let among = (0..5).map(|_| median_null(&mut busy)).find(|among| *among < bound);
    println!("{IDLE} idle connections: {cost_kib} KiB; NULL {alone:?} alone, {among:?} among them");
    assert!(cost_kib < COST_KIB_MAX, "{cost_kib} KiB");
    assert!(among.is_some(), "{alone:?} alone, never under {bound:?} among them");
    drop(crowd);
}

//! When descriptors run out, those who are connected are served on, those who come wait, the server
//! does not spin meanwhile, and nothing of it remains when there are some again. Each test is a process of its own, with few descriptors.

use crate::toy::{ECHO, TAKE, Toy, config, opaque, until};
use bowline_svc::{Config, PoolMode};
use std::fs::File;
use std::time::Duration;
use telemetry::Counter;
use testing::in_child;

/// Descriptors that the process of a test may have.
const FEW: u64 = 200;
/// For how long the server is watched.
const WATCHED: Duration = Duration::from_millis(600);

fn take_all() -> Vec<File> {
    let hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(hogs.len() > 10, "{}", hogs.len());
    hogs
}

#[test]
fn a_client_is_accepted_once_a_descriptor_is_free() {
    if !in_child("descriptors::a_client_is_accepted_once_a_descriptor_is_free", &[]) {
        return;
    }
    let toy = Toy::start(config());
    sys::limits::set_open_files(FEW).unwrap();
    let mut first = toy.client();
    assert_eq!(first.call(1, ECHO, &opaque(b"before")), opaque(b"before"));
    let mut hogs = take_all();
    // the only one that is left is the client's own end
    hogs.pop();
    let mut second = toy.client();
    second.send(7, ECHO, &opaque(b"late"));
    until("the acceptor is short of descriptors", || toy.counter(Counter::AcceptShortages) > 0);
    let cpu = sys::thread::process_cpu_time(std::process::id()).unwrap();
    std::thread::sleep(WATCHED);
    let used = sys::thread::process_cpu_time(std::process::id()).unwrap().saturating_sub(cpu);
    assert!(used < WATCHED / 4, "it spins: {used:?} of {WATCHED:?}");
    for xid in 2..50 {
        assert_eq!(first.call(xid, ECHO, &opaque(b"meanwhile")), opaque(b"meanwhile"));
    }
    assert_eq!(toy.server.connections(), 1);
    drop(hogs);
    assert_eq!(second.receive(), (7, opaque(b"late")));
    assert_eq!(toy.counter(Counter::ConnectionsRefused), 0, "nobody was turned away");
    toy.stop();
}

#[test]
fn a_worker_without_descriptors_for_a_pipe_retries_later() {
    if !in_child("descriptors::a_worker_without_descriptors_for_a_pipe_retries_later", &[]) {
        return;
    }
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, threads: (1, 1), ..config() });
    sys::limits::set_open_files(FEW).unwrap();
    let mut client = toy.client();
    assert_eq!(client.call(0, ECHO, &opaque(b"accepted")), opaque(b"accepted"));
    let hogs = take_all();
    let large = [&0_u32.to_be_bytes()[..], &opaque(&vec![7; 3 << 20])].concat();
    let taken = client.call(1, TAKE, &large);
    assert_eq!(taken.len(), large.len());
    assert_eq!(toy.counter(Counter::BytesPiped), 0, "there is no descriptor left");
    drop(hogs);
    until("it is found that there are some again", || {
        client.call(2, TAKE, &large);
        toy.counter(Counter::BytesPiped) > 0
    });
    toy.stop();
}

//! When descriptors run out, those who are connected are served on, those who come wait, and the server
//! does not spin meanwhile.

#![allow(clippy::unwrap_used, reason = "test code")]

mod toy;

use std::fs::File;
use std::time::Duration;
use telemetry::Counter;
use toy::{ECHO, Toy, config, opaque, until};

/// Descriptors that the process may have, all tests together.
const FEW: u64 = 200;
/// For how long the server is watched.
const WATCHED: Duration = Duration::from_millis(600);

#[test]
fn a_client_waits_until_there_is_a_descriptor_for_it() {
    let toy = Toy::start(config());
    sys::limits::set_open_files(FEW).unwrap();
    let mut first = toy.client();
    assert_eq!(first.call(1, ECHO, &opaque(b"before")), opaque(b"before"));
    let mut hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(hogs.len() > 10, "{}", hogs.len());
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

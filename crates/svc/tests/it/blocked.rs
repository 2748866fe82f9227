//! Calls that block in an export whose file system hangs: they take their share of the threads and no more.

use crate::toy::{
    ECHO, PROGRAM, Toy, WAIT_IN, config, datagrams, message, opaque, record, results, until,
};
use bowline_svc::{Config, PoolMode, WakePolicy};
use std::io::Write;
use telemetry::Counter;

const POLICIES: [WakePolicy; 2] = [WakePolicy::Adaptive, WakePolicy::Chain];

/// A server of eight threads, half of which may block in one export.
fn half(wake_policy: WakePolicy) -> Toy {
    let (pool_mode, threads) = (PoolMode::Global, (1, 8));
    Toy::start(Config { wake_policy, pool_mode, threads, export_share: 50, ..config() })
}

#[test]
fn a_hung_export_takes_its_share_of_the_threads() {
    for policy in POLICIES {
        let toy = half(policy);
        let mut hung = toy.client();
        let calls = (0..20).map(|xid| record(&message(xid, WAIT_IN, &7_u32.to_be_bytes())));
        hung.0.write_all(&calls.collect::<Vec<_>>().concat()).unwrap();
        toy.until_waiting(4);
        // the others wait for these to end, and are refused when the export counts as hung
        let mut refused: Vec<u32> = (0..16)
            .map(|_| {
                let (xid, let_in) = hung.receive();
                assert_eq!(let_in, 0_u32.to_be_bytes(), "{policy}: {xid}");
                xid
            })
            .collect();
        refused.sort_unstable();
        refused.dedup();
        assert_eq!(refused.len(), 16, "{policy}");
        let info = toy.server.blocked_calls();
        assert_eq!(info.len(), 1);
        assert_eq!((info[0].export, info[0].calls, info[0].refused), (7, 4, 16), "{policy}");
        assert_eq!((info[0].program, info[0].version, info[0].procedure), (PROGRAM, 1, WAIT_IN));
        assert!(info[0].oldest_ms >= 1000);
        // calls of another export have their threads
        let mut other = toy.client();
        other.send(1, WAIT_IN, &8_u32.to_be_bytes());
        toy.until_waiting(5);
        assert_eq!(other.call(2, ECHO, &opaque(b"quick")), opaque(b"quick"));
        toy.go_on();
        assert_eq!(other.receive(), (1, 1_u32.to_be_bytes().to_vec()));
        for _ in 0..4 {
            assert_eq!(hung.receive().1, 1_u32.to_be_bytes());
        }
        until("nothing blocks", || toy.server.blocked_calls().iter().all(|info| info.calls == 0));
        toy.stop();
    }
}

#[test]
fn a_larger_export_share_admits_waiting_calls() {
    let toy = half(WakePolicy::Adaptive);
    let mut client = toy.client();
    for xid in 0..6 {
        client.send(xid, WAIT_IN, &7_u32.to_be_bytes());
    }
    toy.until_waiting(4);
    toy.server.set_export_share(75);
    toy.until_waiting(6);
    assert_eq!(toy.server.blocked_calls()[0].refused, 0);
    toy.go_on();
    for _ in 0..6 {
        assert_eq!(client.receive().1, 1_u32.to_be_bytes());
    }
    toy.stop();
}

#[test]
fn datagrams_of_a_hung_export_are_refused_too() {
    let toy = half(WakePolicy::Adaptive);
    let socket = datagrams(toy.udp);
    for xid in 0..5 {
        socket.send(&message(xid, WAIT_IN, &7_u32.to_be_bytes())).unwrap();
    }
    toy.until_waiting(4);
    let mut reply = [0; 256];
    let len = socket.recv(&mut reply).unwrap();
    assert_eq!(results(&reply[..len]).1, 0_u32.to_be_bytes());
    toy.go_on();
    for _ in 0..4 {
        let len = socket.recv(&mut reply).unwrap();
        assert_eq!(results(&reply[..len]).1, 1_u32.to_be_bytes());
    }
    assert_eq!(toy.counter(Counter::ProcedurePanics), 0);
    toy.stop();
}

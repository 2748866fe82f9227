//! Calls that block in an export whose file system hangs: they take their share of the threads and no more.

use crate::toy::{
    Client, ECHO, PROGRAM, Toy, WAIT_IN, config, datagrams, message, opaque, record, results, until,
};
use bowline_svc::{Config, Leader, PoolMode, WakePolicy};
use std::collections::HashSet;
use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;
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

/// Nothing holds them, and their places are given to them one after the other.
#[test]
fn calls_beyond_the_share_hold_no_thread_and_are_run_as_others_end() {
    for policy in POLICIES {
        let toy = half(policy);
        let mut slow: Vec<Client> = (0..20).map(|_| toy.client()).collect();
        for (client, first) in slow.iter_mut().zip((0..).step_by(100)) {
            for xid in first..first + 10 {
                client.send(xid, WAIT_IN, &7_u32.to_be_bytes());
            }
        }
        toy.until_waiting(4);
        until("all others are queued", || {
            toy.server.blocked_calls().first().is_some_and(|info| info.waiting == 196)
        });
        // the other half of the threads is free at once
        let mut other = toy.client();
        for xid in 9000..9003 {
            other.send(xid, WAIT_IN, &8_u32.to_be_bytes());
        }
        toy.until_waiting(7);
        assert_eq!(toy.server.blocked_calls()[0].refused, 0, "{policy}");
        assert_eq!(other.call(9, ECHO, &opaque(b"quick")), opaque(b"quick"));
        toy.go_on();
        for client in slow.iter_mut().chain([&mut other]) {
            client.0.shutdown(Shutdown::Write).unwrap();
            let mut answered = 0;
            let mut seen = HashSet::new();
            while let Ok(reply) = client.try_receive() {
                let (xid, let_in) = results(&reply);
                assert_eq!(let_in, 1_u32.to_be_bytes(), "{policy}: {xid}");
                assert!(seen.insert(xid), "{policy}: {xid} was answered twice");
                answered += 1;
            }
            assert!(matches!(answered, 10 | 3), "{policy}: {answered}");
        }
        until("nothing blocks", || toy.server.blocked_calls().is_empty());
        toy.stop();
    }
}

#[test]
fn connections_may_end_while_their_calls_are_queued() {
    let toy = half(WakePolicy::Adaptive);
    let mut slow: Vec<Client> = (0..8).map(|_| toy.client()).collect();
    for (client, first) in slow.iter_mut().zip((0..).step_by(100)) {
        for xid in first..first + 25 {
            client.send(xid, WAIT_IN, &7_u32.to_be_bytes());
        }
    }
    toy.until_waiting(4);
    until("all others are queued", || toy.server.blocked_calls()[0].waiting == 196);
    drop(slow);
    toy.go_on();
    until("nothing is queued", || toy.server.blocked_calls().is_empty());
    until("all connections are closed", || toy.server.connections() == 0);
    toy.stop();
}

#[test]
fn queued_calls_are_run_by_the_pools_that_replace_theirs() {
    for hangs in [false, true] {
        let toy = half(WakePolicy::Adaptive);
        // the first has calls that block, and holds the pool; of the others all calls are queued
        let mut slow: Vec<Client> = (0..4).map(|_| toy.client()).collect();
        for xid in 0..4 {
            slow[0].send(xid, WAIT_IN, &7_u32.to_be_bytes());
        }
        toy.until_waiting(4);
        for (client, first) in slow.iter_mut().zip((0..).step_by(100)).skip(1) {
            for xid in first..first + 5 {
                client.send(xid, WAIT_IN, &7_u32.to_be_bytes());
            }
        }
        until("all others are queued", || toy.server.blocked_calls()[0].waiting == 15);
        toy.server.set_pool_mode(PoolMode::PerCpu).unwrap();
        until("the first pool has retired", || {
            toy.server.pools().iter().any(|pool| pool.leader == Leader::Retired)
        });
        if hangs {
            until("they are refused", || toy.server.blocked_calls()[0].refused == 15);
        }
        toy.go_on();
        for client in &mut slow[1..] {
            for _ in 0..5 {
                assert_eq!(client.receive().1, u32::from(!hangs).to_be_bytes(), "{hangs}");
            }
        }
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
    // a fifth was dropped, as are others until the export counts as hung: clients send them again
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut reply = [0; 256];
    let mut later = 100;
    let len = loop {
        later += 1;
        socket.send(&message(later, WAIT_IN, &7_u32.to_be_bytes())).unwrap();
        if let Ok(len) = socket.recv(&mut reply) {
            break len;
        }
    };
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(results(&reply[..len]).1, 0_u32.to_be_bytes());
    toy.go_on();
    let mut waited = 0;
    while waited < 4 {
        let len = socket.recv(&mut reply).unwrap();
        let (xid, let_in) = results(&reply[..len]);
        if xid < 100 {
            assert_eq!(let_in, 1_u32.to_be_bytes());
            waited += 1;
        }
    }
    assert_eq!(toy.counter(Counter::ProcedurePanics), 0);
    toy.stop();
}

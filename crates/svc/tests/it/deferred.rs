//! Calls that are answered after they have returned, by a thread of somebody else.

use crate::toy::{ECHO, LATER, Toy, config, datagrams, message, opaque, record, results, until};
use bowline_svc::{Config, Limits, WakePolicy};
use rpc::{Deferred, Posted};
use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Calls of one test.
const CALLS: u32 = 10_000;

pub fn complete(argument: u32, deferred: Deferred) -> Option<Posted> {
    deferred.complete(|reply, _| {
        reply.u32(argument);
        Ok(())
    })
}

/// Completes what is pending, in no order, until it is told to end; the most that was pending.
fn completer(toy: &Toy, end: &AtomicBool) -> usize {
    let (mut most, mut n) = (0, 1_usize);
    while !end.load(SeqCst) {
        let next = {
            let mut pending = toy.state.deferred.lock().unwrap();
            most = most.max(pending.len());
            n = n.wrapping_mul(0x9e37_79b9).wrapping_add(1);
            (!pending.is_empty()).then(|| n % pending.len()).map(|at| pending.swap_remove(at))
        };
        match next {
            Some((argument, deferred)) => {
                complete(argument, deferred);
            }
            None => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    most
}

/// Ends the completer also when an assertion fails.
struct EndOnDrop<'e>(&'e AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn pending(toy: &Toy) -> usize {
    toy.state.deferred.lock().unwrap().len()
}

#[test]
fn ten_thousand_calls_of_a_connection_are_completed_in_any_order() {
    for wake_policy in [WakePolicy::Adaptive, WakePolicy::Cap(2)] {
        let toy = Toy::start(Config { wake_policy, ..config() });
        let (mut client, end) = (toy.client(), AtomicBool::new(false));
        let mut sender = client.0.try_clone().unwrap();
        std::thread::scope(|scope| {
            let completing = scope.spawn(|| completer(&toy, &end));
            let end = EndOnDrop(&end);
            scope.spawn(move || {
                for xid in 0..CALLS {
                    let call = message(xid, LATER, &(xid ^ 0xffff).to_be_bytes());
                    sender.write_all(&record(&call)).unwrap();
                }
            });
            let mut seen = HashSet::new();
            for _ in 0..CALLS {
                let (xid, results) = client.receive();
                assert_eq!(results, (xid ^ 0xffff).to_be_bytes());
                assert!(seen.insert(xid), "{xid} is answered twice");
            }
            drop(end);
            let most = completing.join().unwrap();
            assert!(most <= Limits::default().in_flight_max as usize, "{most} were pending");
        });
        until("all are counted", || toy.telemetry.snapshot().totals.calls >= u64::from(CALLS));
        assert_eq!(toy.telemetry.snapshot().totals.calls, u64::from(CALLS));
        assert_eq!(toy.server.conns()[0].in_flight, 0);
        toy.stop();
    }
}

#[test]
fn ten_thousand_datagrams_are_completed_in_any_order() {
    let toy = Toy::start(config());
    let (socket, end) = (datagrams(toy.udp), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| completer(&toy, &end));
        let end = EndOnDrop(&end);
        let mut seen = HashSet::new();
        let mut reply = [0; 64];
        for first in (0..CALLS).step_by(50) {
            for xid in first..first + 50 {
                let call = message(xid, LATER, &(xid ^ 0xffff).to_be_bytes());
                socket.send(&call).unwrap();
            }
            for _ in 0..50 {
                let len = socket.recv(&mut reply).unwrap();
                let (xid, results) = results(&reply[..len]);
                assert_eq!(results, (xid ^ 0xffff).to_be_bytes());
                assert!(seen.insert(xid), "{xid} is answered twice");
            }
        }
        drop(end);
    });
    until("all are counted", || toy.telemetry.snapshot().totals.calls == u64::from(CALLS));
    toy.stop();
}

#[test]
fn a_connection_at_its_limit_of_pending_calls_is_not_read() {
    let limits = Limits { in_flight_max: 4, ..Limits::default() };
    let toy = Toy::with_limits(limits);
    let mut client = toy.client();
    let mut wire = Vec::new();
    for xid in 0..6_u32 {
        wire.extend(record(&message(xid, LATER, &xid.to_be_bytes())));
    }
    wire.extend(record(&message(9, ECHO, &opaque(b"behind"))));
    client.0.write_all(&wire).unwrap();
    until("four are pending", || pending(&toy) == 4);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((pending(&toy), toy.server.conns()[0].in_flight), (4, 4));
    for answered in 0..2_u32 {
        let (argument, deferred) = toy.state.deferred.lock().unwrap().remove(0);
        assert_eq!(complete(argument, deferred), Some(Posted::Sent));
        assert_eq!(client.receive(), (answered, answered.to_be_bytes().to_vec()));
        until("the next is pending", || pending(&toy) == 4);
    }
    // One that is dropped makes room as well, and is never answered.
    drop(toy.state.deferred.lock().unwrap().remove(0));
    assert_eq!(client.receive(), (9, opaque(b"behind")));
    toy.state.deferred.lock().unwrap().clear();
    until("nothing is under way", || toy.server.conns()[0].in_flight == 0);
    toy.stop();
}

#[test]
fn a_deferred_reply_to_a_closed_connection_is_dropped() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    for xid in 0..100_u32 {
        client.send(xid, LATER, &xid.to_be_bytes());
    }
    until("all are pending", || pending(&toy) == 100);
    drop(client);
    let mut gone = false;
    for (argument, deferred) in toy.state.deferred.lock().unwrap().drain(..) {
        std::thread::sleep(Duration::from_millis(1));
        gone = complete(argument, deferred) == Some(Posted::Gone);
    }
    assert!(gone, "the last one found its connection closed");
    until("the connection is gone", || toy.server.conns().is_empty());
    assert_eq!(toy.client().call(1, ECHO, &opaque(b"x")), opaque(b"x"));
    toy.stop();
}

#[test]
fn a_server_that_stops_waits_for_pending_replies() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    for xid in 0..50_u32 {
        client.send(xid, LATER, &xid.to_be_bytes());
    }
    until("all are pending", || pending(&toy) == 50);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| toy.server.stop(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!stopping.is_finished());
        for (argument, deferred) in toy.state.deferred.lock().unwrap().drain(..) {
            assert_eq!(complete(argument, deferred), Some(Posted::Sent));
        }
        let xids: HashSet<u32> = (0..50).map(|_| client.receive().0).collect();
        assert_eq!(xids.len(), 50);
        assert!(stopping.join().unwrap(), "it stopped in time");
    });
}

#[test]
fn a_deferred_reply_after_the_stop_is_dropped() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.send(1, LATER, &[0; 4]);
    let socket = datagrams(toy.udp);
    socket.send(&message(2, LATER, &1_u32.to_be_bytes())).unwrap();
    until("both are pending", || pending(&toy) == 2);
    let state = std::sync::Arc::clone(&toy.state);
    assert!(!toy.server.stop(Duration::from_millis(100)), "a call was pending");
    drop(toy);
    let left: Vec<_> = state.deferred.lock().unwrap().drain(..).collect();
    assert_eq!(left.len(), 2);
    for (argument, deferred) in left {
        let posted = complete(argument, deferred);
        // The datagram socket goes when the last thread has left it.
        assert!(posted == Some(Posted::Gone) || argument == 1);
    }
    assert!(client.is_closed());
}

//! Calls that sleep: those that say so, those that do not, and what others see of it.

use crate::toy::{
    COMPUTE, DOZE, ECHO, HANG, LATE, NAP, NULL, ONCE_ONLY, Toy, WAIT, config, datagrams, message,
    opaque, record, results, until,
};
use bowline_svc::{Config, PoolMode};
use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;
use telemetry::Counter;

fn ms(ms: u32) -> [u8; 4] {
    ms.to_be_bytes()
}

#[test]
fn a_blocked_call_does_not_delay_others_on_its_connection() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    let mut wire = record(&message(1, NULL, &[]));
    wire.extend(record(&message(2, WAIT, &[])));
    for xid in 3..20 {
        wire.extend(record(&message(xid, ECHO, &opaque(b"quick"))));
    }
    client.0.write_all(&wire).unwrap();
    assert_eq!(client.receive().0, 1);
    for xid in 3..20 {
        assert_eq!(client.receive(), (xid, opaque(b"quick")));
    }
    toy.until_waiting(1);
    toy.go_on();
    assert_eq!(client.receive().0, 2);
    // On a machine that hardly lets the leader run, the watchdog may be quicker.
    let promotions = toy.counter(Counter::Promotions);
    assert!(promotions <= 1, "{promotions}");
    if toy.is_adaptive() {
        assert!(promotions + toy.counter(Counter::WatchdogRescues) >= 1);
    }
    toy.stop();
}

#[test]
fn a_call_whose_connection_closed_is_answered_over_the_next() {
    let toy = Toy::start(config());
    let (mut lost, mut other) = (toy.client(), toy.client());
    lost.send(7, ONCE_ONLY, &[]);
    until("it runs", || toy.state.waiting.load(SeqCst) == 1);
    drop(lost);
    let mut next = toy.client();
    let wire = [record(&message(7, ONCE_ONLY, &[])), record(&message(8, ECHO, &opaque(b"quick")))];
    next.0.write_all(&wire.concat()).unwrap();
    // neither its own connection nor others wait with it
    assert_eq!(next.receive(), (8, opaque(b"quick")));
    assert_eq!(other.call(1, ECHO, &opaque(b"quick")), opaque(b"quick"));
    toy.state.go_on.store(true, SeqCst);
    assert_eq!(next.receive(), (7, vec![0; 4]), "the first run's reply");
    assert_eq!(toy.counter(Counter::DuplicatesReplayed), 1);
    toy.stop();
}

#[test]
fn blocked_calls_of_one_connection_run_in_parallel() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    let wire: Vec<u8> = (0..20).flat_map(|xid| record(&message(xid, WAIT, &[]))).collect();
    client.0.write_all(&wire).unwrap();
    toy.until_waiting(20);
    toy.go_on();
    let mut seen: Vec<u32> = (0..20).map(|_| client.receive().0).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..20));
    toy.stop();
}

#[test]
fn an_unannounced_blocking_call_is_rescued() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, ..config() });
    let (mut client, mut other) = (toy.client(), toy.client());
    assert!(other.call(1, NULL, &[]).is_empty());
    let mut wire = record(&message(1, HANG, &[]));
    wire.extend(record(&message(2, ECHO, &opaque(b"behind"))));
    client.0.write_all(&wire).unwrap();
    toy.until_waiting(1);
    assert!(other.call(2, NULL, &[]).is_empty());
    toy.until_waiting(1);
    toy.go_on();
    let mut replies = [client.receive(), client.receive()];
    replies.sort_unstable();
    assert_eq!(replies, [(1, Vec::new()), (2, opaque(b"behind"))]);
    if toy.is_adaptive() {
        assert!(toy.counter(Counter::WatchdogRescues) >= 1);
    }
    // The connection is watched again.
    assert_eq!(client.call(3, ECHO, &opaque(b"after")), opaque(b"after"));
    toy.stop();
}

#[test]
fn a_long_computation_does_not_delay_others() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, ..config() });
    let (mut client, mut other) = (toy.client(), toy.client());
    assert!(other.call(1, NULL, &[]).is_empty());
    client.send(1, COMPUTE, &[]);
    toy.until_waiting(1);
    assert!(other.call(2, NULL, &[]).is_empty());
    toy.until_waiting(1);
    toy.go_on();
    assert_eq!(client.receive().0, 1);
    if toy.is_adaptive() {
        assert!(toy.counter(Counter::WatchdogRescues) >= 1);
    }
    toy.stop();
}

#[test]
fn calls_arriving_during_a_rescue_are_answered() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.send(1, HANG, &[]);
    toy.until_waiting(1);
    if toy.is_adaptive() {
        until("it is rescued", || toy.counter(Counter::WatchdogRescues) >= 1);
    }
    client.send(2, NULL, &[]);
    toy.go_on();
    let mut replies = [client.receive().0, client.receive().0];
    replies.sort_unstable();
    assert_eq!(replies, [1, 2]);
    toy.stop();
}

#[test]
fn blocked_datagram_calls_do_not_delay_others() {
    for procedure in [WAIT, HANG] {
        let toy = Toy::start(config());
        let socket = datagrams(toy.udp);
        socket.send(&message(0, procedure, &[])).unwrap();
        for xid in 1..12 {
            socket.send(&message(xid, ECHO, &opaque(&[7; 99]))).unwrap();
        }
        let mut buf = [0; 1000];
        let mut receive = || {
            let len = socket.recv(&mut buf).unwrap();
            results(&buf[..len])
        };
        let mut seen = Vec::new();
        toy.until_waiting(1);
        if procedure == HANG {
            // those that its worker had received wait with it
            toy.go_on();
        }
        for _ in 1..12 {
            seen.push(receive());
        }
        toy.go_on();
        seen.push(receive());
        if procedure == WAIT {
            assert_eq!(seen.last(), Some(&(0, Vec::new())));
        }
        seen.sort_unstable();
        let (waited, others) = seen.split_first().unwrap();
        assert_eq!(*waited, (0, Vec::new()));
        assert!(others.iter().map(|(xid, _)| *xid).eq(1..12));
        assert!(others.iter().all(|(_, got)| *got == opaque(&[7; 99])));
        toy.stop();
    }
}

#[test]
fn one_thread_serves_all_in_turn() {
    let one = Config { pool_mode: PoolMode::Global, threads: (1, 1), ..config() };
    let toy = Toy::start(one);
    let mut client = toy.client();
    for xid in 0..5 {
        client.send(xid, NAP, &ms(20));
    }
    let mut seen: Vec<u32> = (0..5).map(|_| client.receive().0).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..5));
    if toy.is_adaptive() {
        assert!(toy.counter(Counter::PromotionsFailed) >= 1);
    }
    assert_eq!(toy.threads(), 1);
    toy.stop();
}

#[test]
fn threads_grow_with_blocked_calls_and_shrink_again() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, threads: (2, 16), ..config() });
    assert_eq!(toy.threads(), 2);
    let mut client = toy.client();
    for xid in 0..12 {
        client.send(xid, WAIT, &[]);
    }
    toy.until_waiting(12);
    assert!(toy.threads() >= 12, "{}", toy.threads());
    toy.go_on();
    for _ in 0..12 {
        client.receive();
    }
    until("threads leave", || toy.threads() == 2);
    assert!(client.call(99, NULL, &[]).is_empty());
    toy.server.set_threads(5, 8).unwrap();
    until("threads come", || toy.threads() == 5);
    assert!(toy.server.set_threads(5, 4).is_err());
    toy.stop();
}

#[test]
fn a_mixed_load_loses_no_call() {
    let toy = Toy::start(config());
    let clients: Vec<_> = (0..8)
        .map(|seed: u32| {
            let mut client = toy.client();
            std::thread::spawn(move || {
                let mut wire = Vec::new();
                for xid in 0..300 {
                    let kind = (seed + xid * 7) % 23;
                    wire.extend(record(&match kind {
                        0 => message(xid, NAP, &ms(2)),
                        1 if xid % 5 == 0 => message(xid, DOZE, &ms(4)),
                        2 => message(xid, crate::toy::GIVE, &ms(40_000)),
                        _ => message(xid, ECHO, &opaque(&vec![kind as u8; 1 + kind as usize * 40])),
                    }));
                }
                let mut writer = client.0.try_clone().unwrap();
                let sender = std::thread::spawn(move || writer.write_all(&wire).unwrap());
                let mut seen: Vec<u32> = (0..300).map(|_| client.receive().0).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..300));
                sender.join().unwrap();
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    toy.stop();
}

/// The socket has room again while the worker that the watchdog replaced as the leader still has the
/// connection: only the new leader gets the event.
#[test]
fn a_writable_event_is_not_missed_after_a_rescue() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, ..config() });
    let mut client = toy.client();
    let args = [ms(6), 3_000_000_u32.to_be_bytes()].concat();
    for xid in (0..200).step_by(2) {
        let mut wire = record(&message(xid, LATE, &args));
        wire.extend(record(&message(xid + 1, NULL, &[])));
        client.0.write_all(&wire).unwrap();
        let (got, results) = client.receive();
        assert_eq!((got, results.len()), (xid, 3_000_004));
        assert_eq!(client.receive().0, xid + 1);
    }
    if toy.is_adaptive() {
        assert!(toy.counter(Counter::WatchdogRescues) > 0);
    }
    toy.stop();
}

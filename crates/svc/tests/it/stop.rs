//! Stopping: what was received is answered, what is stuck is cut off.

use crate::toy::{ECHO, HANG, NAP, NULL, SPIN, Toy, config, message, opaque, record, until};
use bowline_svc::{Config, PoolMode, WakePolicy};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Calls that a client sends before their replies come: what has arrived at the stop takes about as long on a slow
/// machine as on a fast one, and not as long as the socket buffers are large.
const CALLS_AHEAD_MAX: u64 = 500;

#[test]
fn a_stop_under_load_answers_every_call_that_ran() {
    let toy = Toy::start(config());
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = toy.client();
            std::thread::spawn(move || {
                let mut writer = client.0.try_clone().unwrap();
                let answered = Arc::new(AtomicU64::new(0));
                let closed = Arc::new(AtomicBool::new(false));
                let (seen, over) = (Arc::clone(&answered), Arc::clone(&closed));
                let sender = std::thread::spawn(move || {
                    for xid in 0.. {
                        while u64::from(xid) >= seen.load(Ordering::SeqCst) + CALLS_AHEAD_MAX {
                            if over.load(Ordering::SeqCst) {
                                return;
                            }
                            std::thread::sleep(Duration::from_micros(100));
                        }
                        let call = match xid % 50 {
                            0 => message(xid, NAP, &3_u32.to_be_bytes()),
                            _ => message(xid, ECHO, &opaque(&[9; 100])),
                        };
                        if writer.write_all(&record(&call)).is_err() {
                            return;
                        }
                    }
                });
                while client.try_receive().is_ok() {
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                closed.store(true, Ordering::SeqCst);
                let answered = answered.load(Ordering::SeqCst);
                drop(client);
                sender.join().unwrap();
                answered
            })
        })
        .collect();
    until("calls run", || toy.state.calls.load(Ordering::Relaxed) > 2000);
    let state = Arc::clone(&toy.state);
    toy.stop();
    let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(answered, state.calls.load(Ordering::Relaxed));
}

#[test]
fn a_call_that_has_arrived_is_finished() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.send(1, NAP, &300_u32.to_be_bytes());
    client.send(2, NULL, &[]);
    assert_eq!(client.receive().0, 2);
    let addr = toy.tcp;
    toy.stop();
    assert_eq!(client.receive().0, 1);
    assert!(client.is_closed());
    assert!(std::net::TcpStream::connect(addr).is_err(), "nothing listens any more");
}

#[test]
fn calls_queued_behind_a_long_batch_are_answered_at_stop() {
    for wake_policy in [WakePolicy::Adaptive, WakePolicy::Chain] {
        let (pool_mode, threads) = (PoolMode::Global, (1, 1));
        let toy = Toy::start(Config { wake_policy, pool_mode, threads, ..config() });
        let mut client = toy.client();
        // each is a round of its own, however long
        let batch = (0..60).map(|xid| record(&message(xid, SPIN, &2_000_u32.to_be_bytes())));
        client.0.write_all(&batch.collect::<Vec<_>>().concat()).unwrap();
        until("it has begun", || toy.state.calls.load(Ordering::Relaxed) > 0);
        client.send(60, NULL, &[]);
        toy.stop();
        let seen: Vec<u32> = (0..61).map(|_| client.receive().0).collect();
        assert!(seen.into_iter().eq(0..61), "{wake_policy}");
        assert!(client.is_closed());
    }
}

#[test]
fn a_hung_call_is_abandoned_after_the_grace_period() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.send(1, HANG, &[]);
    toy.until_waiting(1);
    let state = Arc::clone(&toy.state);
    assert!(!toy.server.stop(Duration::from_millis(100)));
    assert!(client.is_closed());
    assert_eq!(state.waiting.load(Ordering::SeqCst), 1, "all that while it was stuck");
    state.go_on.store(true, Ordering::SeqCst);
}

#[test]
fn an_idle_server_does_not_wait_for_its_grace_period() {
    const GRACE: Duration = Duration::from_secs(600);
    let toy = Toy::start(config());
    let mut client = toy.client();
    assert!(client.call(1, NULL, &[]).is_empty());
    let start = Instant::now();
    assert!(toy.server.stop(GRACE));
    assert!(start.elapsed() < GRACE / 10, "{:?}", start.elapsed());
    assert!(client.is_closed());
}

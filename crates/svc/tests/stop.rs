//! Stopping: what was received is answered, what is stuck is cut off.

mod toy;

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use toy::{DOZE, ECHO, NAP, NULL, Toy, config, message, opaque, record, until};

#[test]
fn a_stop_under_load_answers_every_call_that_ran() {
    let toy = Toy::start(config());
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = toy.client();
            std::thread::spawn(move || {
                let mut writer = client.0.try_clone().unwrap();
                let sender = std::thread::spawn(move || {
                    for xid in 0.. {
                        let call = match xid % 50 {
                            0 => message(xid, NAP, &3_u32.to_be_bytes()),
                            _ => message(xid, ECHO, &opaque(&[9; 100])),
                        };
                        if writer.write_all(&record(&call)).is_err() {
                            return;
                        }
                    }
                });
                let mut answered = 0_u64;
                while client.try_receive().is_ok() {
                    answered += 1;
                }
                drop(client);
                sender.join().unwrap();
                answered
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let state = std::sync::Arc::clone(&toy.state);
    toy.stop();
    let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert!(answered > 1000, "{answered}");
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
fn what_is_stuck_is_cut_off() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.send(1, DOZE, &3000_u32.to_be_bytes());
    until("it runs", || toy.state.calls.load(Ordering::Relaxed) == 1);
    let start = Instant::now();
    assert!(!toy.server.stop(Duration::from_millis(100)));
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    assert!(client.is_closed());
}

#[test]
fn an_idle_server_stops_at_once() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    assert!(client.call(1, NULL, &[]).is_empty());
    let start = Instant::now();
    toy.stop();
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    assert!(client.is_closed());
}

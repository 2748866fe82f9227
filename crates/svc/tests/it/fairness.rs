//! A client that floods the server delays only itself: others wait for one of its service rounds, not for all
//! of its calls.

use crate::toy::{self, Client, SPIN, Toy, config, message, record, until};
use bowline_svc::{Config, PoolMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use telemetry::Counter;

/// Calls that the greedy client keeps in flight, as many as the Linux client sends on one mount.
const IN_FLIGHT: u32 = 64;
/// What one of them costs: 64 of them are far more than one round.
const CALL_US: u32 = 40;
/// Calls of one measurement.
const CALLS: u32 = 400;

/// A client that always has [`IN_FLIGHT`] calls under way until told to stop.
fn greedy(toy: &Toy, enough: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let mut client = toy.client();
    let enough = Arc::clone(enough);
    let call = move |xid| record(&message(xid, SPIN, &CALL_US.to_be_bytes()));
    std::thread::spawn(move || {
        use std::io::Write;
        let wire: Vec<u8> = (0..IN_FLIGHT).flat_map(call).collect();
        let mut done = 0;
        while !enough.load(Relaxed) {
            client.0.write_all(&wire).unwrap();
            for _ in 0..IN_FLIGHT {
                client.receive();
                done += 1;
            }
        }
        done
    })
}

/// How many calls of others the server begins from the moment of sending a call until it runs: the
/// median.
fn overtaken_by(toy: &Toy, client: &mut Client) -> u64 {
    let mut counts: Vec<u64> = (0..CALLS)
        .map(|xid| {
            let before = toy.state.calls.load(Relaxed);
            let reply = client.call(xid, toy::CALLS, &[]);
            u64::from_be_bytes(reply.try_into().unwrap()) - before
        })
        .collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn a_client_with_many_calls_in_flight_delays_others_by_one_round() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, ..config() });
    let mut modest = toy.client();
    let enough = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..2).map(|_| greedy(&toy, &enough)).collect();
    until("the greedy are held back", || toy.counter(Counter::TurnsCut) > 100);
    let overtaken = overtaken_by(&toy, &mut modest);
    enough.store(true, Relaxed);
    let done: u64 = others.into_iter().map(|other| other.join().unwrap()).sum();
    assert!(done > 0, "the greedy are served as well");
    // If all that a connection has sent were answered in one round, it would be that of two of them.
    println!("{overtaken} calls of others run first, of batches of {IN_FLIGHT}");
    assert!(overtaken < u64::from(IN_FLIGHT / 4), "{overtaken}");
    toy.stop();
}

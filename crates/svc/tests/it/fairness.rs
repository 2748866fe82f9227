//! What one client asks for is paid by that client: others wait for a turn of it, not for all of it.

use crate::toy::{Client, NULL, SPIN, Toy, config, message, record, until};
use bowline_svc::{Config, PoolMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use telemetry::Counter;

/// Calls that the greedy client keeps in flight, as many as the Linux client sends on one mount.
const IN_FLIGHT: u32 = 64;
/// What one of them costs: 64 of them are far more than one turn.
const CALL_US: u32 = 40;
/// Calls of one measurement.
const CALLS: u32 = 400;
/// Measurements; other work on the machine spoils some.
const ROUNDS: usize = 6;

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

/// The median time of a call that costs nothing.
fn median(client: &mut Client) -> Duration {
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|xid| {
            let begun = Instant::now();
            client.call(xid, NULL, &[]);
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn a_client_with_many_calls_in_flight_costs_others_one_turn() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, ..config() });
    let mut modest = toy.client();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let enough = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..2).map(|_| greedy(&toy, &enough)).collect();
        until("the greedy are held back", || toy.counter(Counter::TurnsCut) > 100);
        let among = median(&mut modest);
        enough.store(true, Relaxed);
        let done: u64 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert!(done > 0, "the greedy are served as well");
        best = best.min(among);
    }
    // One call under way is never interrupted. Were all that a connection has sent answered in
    // one turn, it would be 64 of them and more.
    let all = Duration::from_micros(u64::from(CALL_US * IN_FLIGHT));
    println!("NULL takes {best:?} among clients whose batches take {all:?}");
    assert!(best < all / 4, "{best:?} of {all:?}");
    toy.stop();
}

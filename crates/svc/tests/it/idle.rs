//! What connections that say nothing cost. In a process of its own, whose memory it
//! measures.

use crate::toy::{Client, NULL, Toy, config, until};
use testing::in_child;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn idle_connections_use_little_memory_and_delay_no_others() {
    if !in_child("idle::idle_connections_use_little_memory_and_delay_no_others", &[]) {
        return;
    }
    let toy = Toy::start(config());
    let before = resident();
    let mut idle: Vec<Client> = (0..2000).map(|_| toy.client()).collect();
    until("all are there", || toy.server.connections() == 2000);
    let cost = resident().saturating_sub(before) / 2000;
    assert!(cost < 4096, "{cost} bytes each");
    let pools = toy.server.pools();
    assert!(pools.iter().all(|pool| pool.connections.abs_diff(pools[0].connections) <= 1));
    let mut busy = toy.client();
    for xid in 0..1000 {
        assert!(busy.call(xid, NULL, &[]).is_empty());
    }
    for client in idle.iter_mut().step_by(100) {
        assert!(client.call(1, NULL, &[]).is_empty());
    }
    drop(idle);
    until("all are forgotten", || toy.server.connections() == 1);
    toy.stop();
}

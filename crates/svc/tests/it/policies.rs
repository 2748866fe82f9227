//! The policies with a queue, and changing from one to the other while calls run.

use crate::toy::{
    DOZE, ECHO, GIVE, HANG, NAP, NULL, ONCE_ONLY, Toy, WAIT, config, datagrams, message, opaque,
    record, results, until,
};
use bowline_svc::{Config, PoolInfo, PoolMode, WakePolicy};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const QUEUES: [WakePolicy; 4] =
    [WakePolicy::Unlimited, WakePolicy::Cap(5), WakePolicy::Cap(1), WakePolicy::Chain];

fn ms(ms: u32) -> [u8; 4] {
    ms.to_be_bytes()
}

fn one_pool(wake_policy: WakePolicy, threads: (usize, usize)) -> Toy {
    Toy::start(Config { wake_policy, threads, pool_mode: PoolMode::Global, ..config() })
}

fn pool(toy: &Toy) -> PoolInfo {
    toy.server.pools().swap_remove(0)
}

/// Calls of every kind on some connections and over datagrams, each answered exactly once, while
/// `meanwhile` is called again and again.
fn mix(toy: &Toy, mut meanwhile: impl FnMut(usize)) {
    let (tcp, udp) = (toy.tcp, toy.udp);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = &done;
        let streams: Vec<_> = (0..6)
            .map(|seed| scope.spawn(move || stream_of_calls(crate::toy::Client::new(tcp), seed)))
            .collect();
        let socket = datagrams(udp);
        let packets = scope.spawn(move || {
            let mut buf = [0; 2000];
            for xid in 0..300 {
                socket.send(&message(xid, ECHO, &opaque(&[7; 300]))).unwrap();
                let len = socket.recv(&mut buf).unwrap();
                assert_eq!(results(&buf[..len]), (xid, opaque(&[7; 300])));
            }
        });
        let watch = scope.spawn(move || {
            for stream in streams {
                stream.join().unwrap();
            }
            packets.join().unwrap();
            done.store(true, Ordering::Relaxed);
        });
        let mut round = 0;
        while !done.load(Ordering::Relaxed) && !watch.is_finished() {
            meanwhile(round);
            round += 1;
            std::thread::sleep(Duration::from_millis(3));
        }
        watch.join().unwrap();
    });
}

fn stream_of_calls(mut client: crate::toy::Client, seed: u32) {
    const CALLS: u32 = 400;
    let mut wire = Vec::new();
    for xid in 0..CALLS {
        wire.extend(record(&match (seed + xid * 7) % 23 {
            0 => message(xid, NAP, &ms(2)),
            1 if xid % 5 == 0 => message(xid, DOZE, &ms(4)),
            2 => message(xid, GIVE, &ms(40_000)),
            3 => message(xid, ECHO, &opaque(&[9; 50_000])),
            kind => message(xid, ECHO, &opaque(&vec![kind as u8; 1 + kind as usize * 40])),
        }));
    }
    let mut writer = client.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        // In pieces, so that connections become ready while they are out.
        for piece in wire.chunks(20_011) {
            writer.write_all(piece).unwrap();
            std::thread::yield_now();
        }
    });
    let mut seen: Vec<u32> = (0..CALLS).map(|_| client.receive().0).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..CALLS));
    sender.join().unwrap();
    // And one at a time.
    for xid in 0..100 {
        assert!(client.call(xid, NULL, &[]).is_empty());
    }
}

#[test]
fn every_policy_answers_every_call_once() {
    for policy in QUEUES {
        let toy = one_pool(policy, (2, 32));
        mix(&toy, |_| ());
        // The ends of the connections may be in the queue still.
        until("all is taken", || pool(&toy).queue_delay.count == pool(&toy).enqueued);
        let pool = pool(&toy);
        assert_eq!(pool.wake_policy, policy);
        assert!(pool.enqueued > 300 && pool.arrived > 300, "{pool:?}");
        assert_eq!((pool.queued, pool.promotions), (0, 0), "{pool:?}");
        toy.stop();
    }
}

#[test]
fn policies_change_under_load() {
    let toy = one_pool(WakePolicy::Adaptive, (2, 32));
    let all = [WakePolicy::Adaptive, WakePolicy::Unlimited, WakePolicy::Chain, WakePolicy::Cap(3)];
    mix(&toy, |round| toy.server.set_wake_policy(all[round % all.len()]).unwrap());
    toy.server.set_wake_policy(WakePolicy::Adaptive).unwrap();
    mix(&toy, |_| ());
    until("connections of clients that have gone are gone", || toy.server.connections() == 0);
    toy.stop();
}

#[test]
fn connections_move_between_pools_under_load() {
    let modes = [PoolMode::PerCpu, PoolMode::PerNode, PoolMode::Global, PoolMode::Auto];
    for policy in [WakePolicy::Adaptive, WakePolicy::Unlimited, WakePolicy::Chain] {
        let toy = one_pool(policy, (4, 64));
        mix(&toy, |round| toy.server.set_pool_mode(modes[round % modes.len()]).unwrap());
        toy.server.set_pool_mode(PoolMode::Global).unwrap();
        until("the others are left", || toy.server.pools().len() == 1);
        let mut client = toy.client();
        assert!(client.call(1, NULL, &[]).is_empty());
        until("counts agree", || pool(&toy).connections == toy.server.connections());
        toy.stop();
    }
}

#[test]
fn pool_mode_auto_starts_with_one_pool() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Auto, threads: (1, 8), ..config() });
    assert_eq!(toy.server.pools().len(), 1);
    let mut client = toy.client();
    assert!(client.call(1, NULL, &[]).is_empty());
    toy.server.set_threads(1, 1).unwrap();
    assert!(client.call(2, NULL, &[]).is_empty());
    assert!(toy.server.set_threads(2, 1).is_err());
    assert_eq!(toy.server.pool_mode(), PoolMode::Auto);
    toy.stop();
}

#[test]
fn a_connection_moves_with_its_calls_running_and_its_replies_queued() {
    let toy = one_pool(WakePolicy::Adaptive, (2, 64));
    let (mut busy, mut lazy, mut idle) = (toy.client(), toy.client(), toy.client());
    assert!(idle.call(1, NULL, &[]).is_empty());
    for xid in 0..4 {
        busy.send(xid, NAP, &ms(500));
        busy.send(xid + 10, DOZE, &ms(300));
        lazy.send(xid, GIVE, &3_000_000_u32.to_be_bytes());
    }
    until("replies wait", || toy.server.conns().iter().any(|conn| conn.queued_bytes > 0));
    toy.server.set_pool_mode(PoolMode::PerCpu).unwrap();
    assert!(idle.call(2, NULL, &[]).is_empty());
    let mut seen: Vec<u32> = (0..8).map(|_| busy.receive().0).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 10, 11, 12, 13]);
    for _ in 0..4 {
        assert_eq!(lazy.receive().1.len(), 3_000_004);
    }
    for client in [&mut busy, &mut lazy, &mut idle] {
        assert!(client.call(9, NULL, &[]).is_empty());
    }
    assert_eq!(toy.server.connections(), 3);
    toy.stop();
}

/// All that can be set, set again and again in no order, while calls of every kind are answered.
#[test]
fn settings_change_in_any_order_under_load() {
    let policies =
        [WakePolicy::Cap(2), WakePolicy::Adaptive, WakePolicy::Unlimited, WakePolicy::Chain];
    let modes = [PoolMode::PerCpu, PoolMode::Global, PoolMode::PerNode, PoolMode::Auto];
    let toy = Toy::start(config());
    let mut seed = 0x9e37_79b9_u64;
    for _ in 0..3 {
        mix(&toy, |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = (seed >> 33) as usize;
            match pick % 3 {
                0 => toy.server.set_wake_policy(policies[pick / 3 % 4]).unwrap(),
                1 => toy.server.set_pool_mode(modes[pick / 3 % 4]).unwrap(),
                _ => toy.server.set_threads(2 + pick / 3 % 5, 16 + pick / 15 % 20).unwrap(),
            }
        });
    }
    until("clients have gone", || toy.server.connections() == 0);
    assert_eq!(toy.counter(telemetry::Counter::ProcedurePanics), 0);
    toy.stop();
}

#[test]
fn blocked_calls_of_one_connection_run_in_parallel() {
    for policy in QUEUES {
        let toy = one_pool(policy, (1, 32));
        let mut client = toy.client();
        let wire: Vec<u8> = (0..20).flat_map(|xid| record(&message(xid, WAIT, &[]))).collect();
        client.0.write_all(&wire).unwrap();
        toy.until_waiting(20);
        toy.go_on();
        let mut seen: Vec<u32> = (0..20).map(|_| client.receive().0).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..20), "{policy}");
        toy.stop();
    }
}

#[test]
fn work_behind_unannounced_blocking_calls_is_found() {
    for policy in QUEUES {
        let toy = one_pool(policy, (1, 8));
        let mut sleepers: Vec<_> = (0..4).map(|_| toy.client()).collect();
        for sleeper in &mut sleepers {
            sleeper.send(1, HANG, &[]);
        }
        toy.until_waiting(4);
        assert!(toy.client().call(1, NULL, &[]).is_empty());
        toy.until_waiting(4);
        toy.go_on();
        assert!(pool(&toy).unstuck >= 1, "{policy}: nobody was called for the queue");
        for sleeper in &mut sleepers {
            assert_eq!(sleeper.receive().0, 1);
        }
        toy.stop();
    }
}

#[test]
fn threads_are_started_when_all_are_blocked_and_not_before() {
    for policy in QUEUES {
        let toy = one_pool(policy, (2, 64));
        // Calls that never sleep, more at once than there are threads.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut client = toy.client();
                    for xid in 0..400 {
                        assert!(client.call(xid, NULL, &[]).is_empty());
                    }
                });
            }
        });
        // On a machine that lets no thread run for a while, the watchdog takes them for asleep.
        let busy = pool(&toy);
        assert!(busy.threads as u64 <= 2 + busy.unstuck, "{policy}: {busy:?}");
        let mut clients: Vec<_> = (0..10).map(|_| toy.client()).collect();
        for client in &mut clients {
            client.send(1, NAP, &ms(400));
        }
        until("all sleep", || pool(&toy).blocked == 10);
        let all = pool(&toy);
        assert!((10..=11 + all.unstuck).contains(&(all.threads as u64)), "{policy}: {all:?}");
        for client in &mut clients {
            assert_eq!(client.receive().0, 1);
        }
        toy.stop();
    }
}

#[test]
fn threads_exit_after_five_seconds_without_work() {
    let toys = QUEUES.map(|policy| one_pool(policy, (2, 64)));
    let mut grown = Vec::new();
    for toy in &toys {
        let mut clients: Vec<_> = (0..10).map(|_| toy.client()).collect();
        for client in &mut clients {
            client.send(1, NAP, &ms(200));
        }
        for client in &mut clients {
            client.receive();
        }
        assert!(pool(toy).threads >= 10, "{:?}", pool(toy));
        grown.push(Instant::now());
    }
    for (toy, grown) in toys.into_iter().zip(grown) {
        until("threads leave", || pool(&toy).threads == 2);
        assert!(grown.elapsed() > Duration::from_secs(2), "they stay for a while");
        assert!(pool(&toy).timed_out >= 8, "{:?}", pool(&toy));
        assert!(toy.client().call(9, NULL, &[]).is_empty());
        toy.stop();
    }
}

#[test]
fn policy_cap_wakes_fewer_threads_than_unlimited() {
    let woken = [WakePolicy::Unlimited, WakePolicy::Cap(1)].map(|policy| {
        let toy = one_pool(policy, (32, 32));
        until("all are parked", || pool(&toy).parked == 32);
        let before = pool(&toy);
        let mut clients: Vec<_> = (0..32).map(|_| toy.client()).collect();
        for round in 0..20 {
            for client in &mut clients {
                client.send(round, NULL, &[]);
            }
            for client in &mut clients {
                client.receive();
            }
        }
        let after = pool(&toy);
        assert!(after.wake_delay.max_ns > 0 && after.wake_delay.p99_ns > 0, "{after:?}");
        toy.stop();
        (after.wakeups - before.wakeups, after.overloads_avoided)
    });
    let [(unlimited, none_avoided), (capped, avoided)] = woken;
    assert_eq!(none_avoided, 0);
    assert!(avoided > 0 && capped < unlimited, "{woken:?}");
}

/// What a sleeping call leaves of its connection is for whoever is free, be it the leader alone.
#[test]
fn work_that_is_queued_beside_an_idle_leader_is_done() {
    let toy = one_pool(WakePolicy::Chain, (2, 2));
    let (mut blocker, mut client) = (toy.client(), toy.client());
    blocker.send(1, ONCE_ONLY, &[]);
    until("a worker sleeps", || toy.state.waiting.load(Ordering::SeqCst) == 1);
    let wire = [message(1, DOZE, &ms(500)), message(2, ONCE_ONLY, &[]), message(3, NULL, &[])];
    client.0.write_all(&wire.map(|call| record(&call)).concat()).unwrap();
    until("the other dozes", || toy.state.calls.load(Ordering::SeqCst) == 2);
    toy.server.set_wake_policy(WakePolicy::Adaptive).unwrap();
    // the thread that only filled the queue may stay
    toy.server.set_threads(2, 3).unwrap();
    let mut seen = [client.receive().0, client.receive().0];
    seen.sort_unstable();
    assert_eq!(seen, [1, 3], "while the others sleep");
    until("they do", || toy.state.waiting.load(Ordering::SeqCst) == 2);
    toy.state.go_on.store(true, Ordering::SeqCst);
    assert_eq!((client.receive().0, blocker.receive().0), (2, 1));
    toy.stop();
}

#[test]
fn a_waiting_leader_applies_a_new_policy() {
    let toy = one_pool(WakePolicy::Adaptive, (1, 4));
    let mut client = toy.client();
    assert!(client.call(1, NULL, &[]).is_empty());
    for (xid, policy) in QUEUES.into_iter().chain([WakePolicy::Adaptive]).enumerate() {
        toy.server.set_wake_policy(policy).unwrap();
        assert_eq!(client.call(xid as u32, ECHO, &opaque(b"x")), opaque(b"x"), "{policy}");
        assert_eq!(toy.server.wake_policy(), policy);
    }
    toy.stop();
}

//! Clients that are slow, broken or hostile harm nobody but themselves; over plain TCP, and where that makes a difference over
//! TLS.

use crate::channels::CHANNELS;
use crate::toy::{
    Client, ECHO, GIVE, LATE, NAP, NULL, ONCE_ONLY, TAKE, Toy, config, datagrams, message,
    message_to, opaque, record, results, until,
};
use bowline_svc::{Config, Limits, PoolMode, WakePolicy};
use std::io::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use telemetry::Counter;
use testing::in_child;

fn limited(limits: Limits) -> Config {
    Config { limits, ..config() }
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_client_that_never_reads_delays_only_itself() {
    if !in_child("hostile::a_client_that_never_reads_delays_only_itself", &[]) {
        return;
    }
    for start in CHANNELS {
        let rig = start(Config { pool_mode: PoolMode::Global, ..config() });
        let toy = rig.toy();
        let before = resident();
        let mut lazy = rig.client();
        let mut other = rig.client();
        let wire: Vec<u8> = (0..400)
            .flat_map(|xid| record(&message(xid, GIVE, &1_000_000_u32.to_be_bytes())))
            .collect();
        lazy.0.write_all(&wire).unwrap();
        for xid in 0..200 {
            assert_eq!(other.call(xid, ECHO, &opaque(b"x")), opaque(b"x"));
        }
        until("it is held up", || toy.server.conns()[0].queued_bytes > 0);
        for xid in 0..200 {
            assert_eq!(other.call(xid, ECHO, &opaque(b"x")), opaque(b"x"));
        }
        let conn = &toy.server.conns()[0];
        assert!(conn.queued_bytes < 8 << 20 && conn.calls < 400, "{conn:?}");
        assert!(resident() < before + (64 << 20), "{} more bytes", resident() - before);
        // When it reads at last, it gets everything.
        for xid in 0..400 {
            let (got, results) = lazy.receive();
            assert_eq!((got, results.len()), (xid, 1_000_004));
        }
        rig.stop();
    }
}

#[test]
fn a_connection_with_queued_replies_is_not_read() {
    // each record ends where a receive does, so that nothing of the next is left to be served
    const LEN: usize = 1_000_000;
    const CALLS: usize = 60;
    let policies = [WakePolicy::Adaptive, WakePolicy::Chain, WakePolicy::Unlimited];
    for (wake_policy, start) in
        policies.map(|policy| (policy, CHANNELS[0])).into_iter().chain([(policies[0], CHANNELS[1])])
    {
        let rig = start(Config { wake_policy, pool_mode: PoolMode::Global, ..config() });
        let toy = rig.toy();
        let mut lazy = rig.client();
        assert!(lazy.call(0, NULL, &[]).is_empty());
        let mut writer = lazy.0.tcp().try_clone().unwrap();
        // all at once: what is to be read is there when the server looks
        let wire = record(&message(1, ECHO, &opaque(&[7; LEN]))).repeat(CALLS);
        let wire = lazy.0.seal(wire);
        let sending = std::thread::spawn(move || writer.write_all(&wire).unwrap());
        let conn = || toy.server.conns().swap_remove(0);
        until("it is held up", || conn().queued_bytes > 0);
        let calls = conn().calls;
        std::thread::sleep(Duration::from_millis(300));
        // what the round under way had received
        let conn = conn();
        assert!(conn.calls <= calls + 2 && conn.queued_bytes <= 3 * LEN, "{wake_policy}: {conn:?}");
        for _ in 0..CALLS {
            let (got, results) = lazy.receive();
            assert_eq!((got, results.len()), (1, 4 + LEN));
        }
        sending.join().unwrap();
        rig.stop();
    }
}

#[test]
fn blocked_calls_of_one_connection_are_bounded() {
    for start in CHANNELS {
        let rig = start(limited(Limits { in_flight_max: 4, ..Limits::default() }));
        let toy = rig.toy();
        let mut client = rig.client();
        let wire: Vec<u8> =
            (0..40).flat_map(|xid| record(&message(xid, NAP, &30_u32.to_be_bytes()))).collect();
        client.0.write_all(&wire).unwrap();
        let mut seen = Vec::new();
        for _ in 0..40 {
            let in_flight = toy.server.conns().first().map_or(0, |conn| conn.in_flight);
            assert!(in_flight <= 4, "{in_flight}");
            seen.push(client.receive().0);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..40));
        rig.stop();
    }
}

#[test]
fn unread_replies_have_a_budget() {
    for start in CHANNELS {
        let rig = start(limited(Limits { queued_bytes_max: 1000, ..Limits::default() }));
        let toy = rig.toy();
        let mut lazy = rig.client();
        for xid in 0..40 {
            lazy.send(xid, GIVE, &1_000_000_u32.to_be_bytes());
            lazy.send(xid, GIVE, &3_000_000_u32.to_be_bytes());
        }
        until("the connection is closed", || toy.counter(Counter::BudgetClosed) >= 1);
        until("it is forgotten", || toy.server.connections() == 0);
        assert!(rig.client().call(1, NULL, &[]).is_empty());
        rig.stop();
    }
}

#[test]
fn the_connection_with_the_most_unread_data_is_closed_first() {
    let toy = Toy::start(Config { pool_mode: PoolMode::Global, ..config() });
    let unread = || toy.server.conns().iter().map(|conn| conn.queued_bytes).collect::<Vec<_>>();
    let mut lazy = Vec::new();
    // how much a socket takes of the last reply depends on the machine
    for reply_bytes in (1_000_000_u32..=4_000_000).rev().step_by(300_000).cycle() {
        if unread().iter().any(|queued| *queued >= 1_000_000) {
            break;
        }
        let mut client = toy.client();
        for xid in 0..40 {
            client.send(xid, GIVE, &reply_bytes.to_be_bytes());
        }
        lazy.push(client);
        until("it is held up", || unread().len() == lazy.len() && unread().iter().all(|q| *q > 0));
    }
    std::thread::sleep(Duration::from_millis(400));
    // room for what they have, and for nobody else
    toy.server.set_memory(unread().iter().sum::<usize>() * 2);
    let mut other = toy.client();
    for xid in 0..40 {
        other.send(xid, GIVE, &500_000_u32.to_be_bytes());
    }
    until("there is no room", || toy.counter(Counter::BudgetClosed) == 1);
    until("it is forgotten", || toy.server.connections() == lazy.len());
    for xid in 0..40 {
        let (got, results) = other.receive();
        assert_eq!((got, results.len()), (xid, 500_004));
    }
    assert_eq!(toy.counter(Counter::BudgetClosed), 1);
    toy.server.set_memory(512 << 20);
    drop(lazy);
    toy.stop();
}

#[test]
fn a_client_that_reads_nothing_is_closed_after_a_timeout() {
    for start in CHANNELS {
        let rig =
            start(limited(Limits { reply_age_max: Duration::from_secs(5), ..Limits::default() }));
        let toy = rig.toy();
        let (mut lazy, mut slow) = (rig.client(), rig.client());
        for xid in 0..40 {
            for client in [&mut lazy, &mut slow] {
                client.send(xid, GIVE, &1_000_000_u32.to_be_bytes());
            }
        }
        until("they are held up", || toy.server.conns().iter().all(|conn| conn.queued_bytes > 0));
        // it sends nothing, and half a megabyte at a time is all that it takes
        let mut some = vec![0; 500_000];
        let mut taken = 0;
        while toy.counter(Counter::RepliesTimedOut) == 0 {
            slow.0.read_exact(&mut some).unwrap();
            taken += some.len();
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(toy.counter(Counter::RepliesTimedOut), 1);
        assert_eq!(toy.server.connections(), 1);
        let all = 40 * (4 + 24 + 4 + 1_000_000);
        slow.0.read_exact(&mut vec![0; all - taken]).unwrap();
        assert!(slow.call(99, NULL, &[]).is_empty());
        assert!(lazy.0.read_to_end(&mut Vec::new()).map_or(true, |len| len < all));
        rig.stop();
    }
}

#[test]
fn partial_records_have_a_budget() {
    for start in CHANNELS {
        let rig = start(limited(Limits { partial_bytes_max: 1 << 20, ..Limits::default() }));
        let toy = rig.toy();
        let wire = record(&message(1, ECHO, &opaque(&vec![1; 400_000])));
        let mut half: Vec<_> = (0..8).map(|_| rig.client()).collect();
        for client in &mut half {
            client.0.write_all(&wire[..300_000]).unwrap();
        }
        until("some are closed", || toy.counter(Counter::BudgetClosed) >= 1);
        until("they are forgotten", || toy.server.connections() < 8);
        assert!(toy.server.connections() > 0);
        drop(half);
        until("all are forgotten", || toy.server.connections() == 0);
        assert!(rig.client().call(1, NULL, &[]).is_empty());
        rig.stop();
    }
}

/// Of which nothing of a call has arrived.
#[test]
fn partial_tls_records_have_a_budget() {
    let rig = CHANNELS[1](limited(Limits { partial_bytes_max: 40_000, ..Limits::default() }));
    let toy = rig.toy();
    let half: Vec<_> = (0..6)
        .map(|_| {
            let mut client = rig.client();
            let wire = client.0.seal(record(&message(1, ECHO, &opaque(&[1; 15_000]))));
            client.0.tcp().write_all(&wire[..14_000]).unwrap();
            client
        })
        .collect();
    until("those that do not fit are closed", || toy.counter(Counter::BudgetClosed) == 4);
    until("the others are counted", || {
        toy.server.conns().iter().filter(|conn| conn.partial_bytes == 14_000).count() == 2
    });
    drop(half);
    until("all are forgotten", || toy.server.connections() == 0);
    rig.stop();
}

#[test]
fn queued_datagrams_have_a_budget() {
    const LEN: usize = 1000;
    const MOST: usize = 64 << 10;
    for wake_policy in [WakePolicy::Adaptive, WakePolicy::Chain] {
        let limits = Limits { datagram_bytes_max: MOST, ..Limits::default() };
        let (threads, pool_mode) = ((1, 1), PoolMode::Global);
        let toy = Toy::start(Config { limits, wake_policy, threads, pool_mode, ..config() });
        let mut sleeper = toy.client();
        sleeper.send(1, ONCE_ONLY, &[]);
        until("all sleep", || toy.state.waiting.load(SeqCst) == 1);
        let flood = datagrams(toy.udp);
        for xid in 0..400 {
            flood.send(&message(xid, ECHO, &opaque(&[7; LEN]))).unwrap();
            // the kernel's buffer is to lose none
            std::thread::sleep(Duration::from_micros(100));
        }
        until("some are dropped", || toy.counter(Counter::DatagramsDropped) > 0);
        let queued = toy.server.pools()[0].queued;
        assert!(queued > 0 && queued * LEN <= MOST / 2 + LEN, "{queued} are kept");
        // MOUNT goes first whatever waits
        let client = datagrams(toy.udp);
        client.send(&message_to(proto::mount::PROGRAM, 5, ECHO, &opaque(b"where"))).unwrap();
        let mut buf = [0; 2000];
        let len = client.recv(&mut buf).unwrap();
        assert_eq!(results(&buf[..len]), (5, opaque(b"where")));
        toy.state.go_on.store(true, SeqCst);
        assert_eq!(sleeper.receive().0, 1);
        // those that were kept are answered, and there is room again
        for xid in 0..queued as u32 {
            let len = flood.recv(&mut buf).unwrap();
            assert_eq!(results(&buf[..len]), (xid, opaque(&[7; LEN])));
        }
        until("none waits", || toy.server.pools()[0].queued == 0);
        let dropped = toy.counter(Counter::DatagramsDropped);
        for xid in 0..100 {
            client.send(&message(xid, ECHO, &opaque(&[7; LEN]))).unwrap();
            let len = client.recv(&mut buf).unwrap();
            assert_eq!(results(&buf[..len]).0, xid);
        }
        assert_eq!(toy.counter(Counter::DatagramsDropped), dropped);
        toy.stop();
    }
}

#[test]
fn budgets_follow_the_memory_setting() {
    let toy = Toy::with_limits(Limits::default());
    let wire = record(&message(1, ECHO, &opaque(&vec![1; 60_000])));
    let half = |count: usize| -> Vec<Client> {
        let mut half: Vec<Client> = (0..count).map(|_| toy.client()).collect();
        for client in &mut half {
            // the server may close it in the middle
            let _ = client.0.write_all(&wire[..50_000]);
        }
        half
    };
    let held = || toy.server.conns().iter().filter(|conn| conn.partial_bytes > 0).count();
    let first = half(8);
    until("all are taken in", || held() == 8);
    // a part that is still on its way would ask for more later
    std::thread::sleep(Duration::from_millis(200));
    toy.server.set_memory(256 << 10);
    let second = half(8);
    until("there is no room", || toy.counter(Counter::BudgetClosed) >= 8);
    toy.server.set_memory(512 << 20);
    drop(second);
    until("those before are kept", || toy.server.connections() == first.len());
    let third = half(8);
    until("there is room again", || held() == first.len() + third.len());
    toy.stop();
}

#[test]
fn an_incomplete_record_times_out() {
    for start in CHANNELS {
        let rig = start(limited(Limits {
            partial_age_max: Duration::from_millis(200),
            ..Limits::default()
        }));
        let toy = rig.toy();
        let (mut half, mut cut, mut idle) = (rig.client(), rig.client(), rig.client());
        // Long enough for the watchdog to have gone to sleep without a timer.
        std::thread::sleep(Duration::from_millis(100));
        let wire = record(&message(1, ECHO, &opaque(&[1; 500])));
        half.0.write_all(&wire[..300]).unwrap();
        // of TLS half a record of its own, which brings nothing of a call
        let wire = cut.0.seal(wire);
        cut.0.tcp().write_all(&wire[..300]).unwrap();
        assert!(half.0.is_closed() && cut.0.is_closed());
        // one that is not closed by the next look is counted again
        until("both are counted", || toy.counter(Counter::RecordsTimedOut) >= 2);
        assert!(idle.call(1, NULL, &[]).is_empty(), "an idle connection stays");
        rig.stop();
    }
}

#[test]
fn idle_connections_are_closed_if_configured() {
    let limits = Limits { idle_age_max: Some(Duration::from_secs(2)), ..Limits::default() };
    let toy = Toy::with_limits(limits);
    let mut client = toy.client();
    assert!(client.call(1, NULL, &[]).is_empty());
    assert!(client.is_closed());
    toy.stop();
}

#[test]
fn an_invalid_record_closes_the_connection() {
    for start in CHANNELS {
        let rig = start(config());
        let toy = rig.toy();
        let oversized = (u32::MAX >> 1).to_be_bytes();
        let tiny: Vec<u8> = [0, 0, 0, 0].repeat(5000);
        let garbage = record(&[0xff; 64]);
        let ok = record(&message(1, NULL, &[]));
        for (wire, counter) in [
            (oversized.to_vec(), Counter::RecordsTooLarge),
            (tiny, Counter::RecordsMalformed),
            (garbage, Counter::RecordsMalformed),
        ] {
            let before = toy.counter(counter);
            let mut client = rig.client();
            // The call before it is answered.
            client.0.write_all(&[ok.clone(), wire].concat()).unwrap();
            assert_eq!(client.receive().0, 1);
            assert!(client.0.is_closed());
            until("it is counted", || toy.counter(counter) == before + 1);
        }
        rig.stop();
    }
}

#[test]
fn connections_are_limited_in_all_and_per_client() {
    for limits in [
        Limits { connections_max: 3, ..Limits::default() },
        Limits { connections_per_client_max: 3, ..Limits::default() },
    ] {
        let toy = Toy::with_limits(limits);
        let mut three: Vec<Client> = (0..3).map(|_| toy.client()).collect();
        for client in &mut three {
            assert!(client.call(1, NULL, &[]).is_empty());
        }
        assert!(toy.client().is_closed());
        assert_eq!(toy.counter(Counter::ConnectionsRefused), 1);
        drop(three);
        until("there is room", || toy.server.connections() == 0);
        assert!(toy.client().call(1, NULL, &[]).is_empty());
        toy.stop();
    }
}

#[test]
fn calls_after_urgent_data_are_answered() {
    for wake_policy in [WakePolicy::Adaptive, WakePolicy::Chain] {
        let toy = Toy::start(Config { wake_policy, ..config() });
        for len in [100, 3 << 20] {
            let mut client = toy.client();
            // the urgent byte is there before any of the record is received
            client.send(1, LATE, &[100_u32.to_be_bytes(), [0; 4]].concat());
            let large = [&0_u32.to_be_bytes()[..], &opaque(&vec![7; len])].concat();
            let wire = record(&message(2, TAKE, &large));
            let (begin, end) = wire.split_at(50);
            client.0.write_all(begin).unwrap();
            sys::socket::send_urgent(&client.0, b'!').unwrap();
            client.0.write_all(end).unwrap();
            assert_eq!(client.receive().0, 1);
            let (xid, results) = client.receive();
            assert_eq!((xid, results.len()), (2, large.len()), "it is not of the stream");
        }
        toy.stop();
    }
}

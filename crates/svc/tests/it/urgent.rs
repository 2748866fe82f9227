//! MOUNT is answered while every thread there may be sleeps, under every policy, over both
//! transports; and only MOUNT is.

use crate::toy::{
    ECHO, NAP, NULL, Toy, config, datagrams, message_to, opaque, record, results, until,
};
use bowline_svc::{Config, PoolMode, WakePolicy};
use std::time::{Duration, Instant};

const POLICIES: [WakePolicy; 4] =
    [WakePolicy::Adaptive, WakePolicy::Unlimited, WakePolicy::Cap(2), WakePolicy::Chain];
const MOUNT: u32 = proto::mount::PROGRAM;
/// How long the threads sleep.
const NAP_MS: u32 = 2500;

fn asleep(policy: WakePolicy) -> (Toy, Vec<crate::toy::Client>) {
    let toy = Toy::start(Config {
        wake_policy: policy,
        pool_mode: PoolMode::Global,
        threads: (1, 3),
        ..config()
    });
    let mut clients: Vec<_> = (0..3).map(|_| toy.client()).collect();
    for client in &mut clients {
        client.send(1, NAP, &NAP_MS.to_be_bytes());
        until("it sleeps", || toy.state.calls.load(std::sync::atomic::Ordering::Relaxed) > 0);
    }
    until("all sleep", || toy.server.pools()[0].blocked == 3);
    (toy, clients)
}

fn mount(client: &mut crate::toy::Client, xid: u32) {
    use std::io::Write;
    client.0.write_all(&record(&message_to(MOUNT, xid, ECHO, &opaque(b"where")))).unwrap();
    assert_eq!(client.receive(), (xid, opaque(b"where")));
}

#[test]
fn mount_is_answered_while_all_threads_are_blocked() {
    for policy in POLICIES {
        let (toy, mut sleepers) = asleep(policy);
        let begun = Instant::now();
        let nap = Duration::from_millis(NAP_MS.into());
        // What is not urgent waits.
        let mut plain = toy.client();
        plain.send(7, NULL, &[]);
        let mut first = toy.client();
        for xid in 0..20 {
            mount(&mut first, xid);
            mount(&mut toy.client(), xid);
        }
        let socket = datagrams(toy.udp);
        socket.send(&message_to(MOUNT, 5, ECHO, &opaque(b"udp"))).unwrap();
        let mut buf = [0; 200];
        let len = socket.recv(&mut buf).unwrap();
        assert_eq!(results(&buf[..len]), (5, opaque(b"udp")));
        let pool = toy.server.pools().swap_remove(0);
        // Only if the machine let all this be done before the first has slept enough.
        if begun.elapsed() < nap / 2 {
            assert_eq!((pool.blocked, pool.threads), (3, 3), "{policy}: {pool:?}");
            assert!(pool.reserves >= 1, "{policy}: {pool:?}");
            plain.0.set_nonblocking(true).unwrap();
            assert!(plain.try_receive().is_err(), "{policy}: who answered it?");
            plain.0.set_nonblocking(false).unwrap();
        }
        for sleeper in &mut sleepers {
            assert_eq!(sleeper.receive().0, 1);
        }
        assert_eq!(plain.receive().0, 7, "{policy}");
        // All goes on as before, on the connections that were looked at meanwhile too.
        for client in [&mut plain, &mut first, &mut sleepers[0]] {
            assert!(client.call(9, NULL, &[]).is_empty());
        }
        assert_eq!(toy.server.pools()[0].blocked, 0);
        toy.stop();
    }
}

/// Who pretends to be urgent and then is not, waits like all the others.
#[test]
fn only_urgent_calls_of_a_connection_are_preferred() {
    use std::io::Write;
    let (toy, mut sleepers) = asleep(WakePolicy::Adaptive);
    let mut sly = toy.client();
    let mut wire = record(&message_to(MOUNT, 1, NULL, &[]));
    wire.extend(record(&crate::toy::message(2, NAP, &20_u32.to_be_bytes())));
    sly.0.write_all(&wire).unwrap();
    assert_eq!(sly.receive().0, 1);
    mount(&mut toy.client(), 3);
    for sleeper in &mut sleepers {
        assert_eq!(sleeper.receive().0, 1);
    }
    assert_eq!(sly.receive().0, 2);
    until("the reserve has nothing to do", || toy.server.pools()[0].blocked == 0);
    until("it leaves", || toy.server.pools()[0].reserves == 0);
    toy.stop();
}

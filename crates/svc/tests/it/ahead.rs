//! Data that goes where it belongs before its record is whole: however it arrives, whoever serves
//! it, and whatever happens in the middle.

use crate::toy::{
    Client, ECHO, NULL, ONCE, ONCE_AND_PERHAPS, TAKE, TAKEN_TOGETHER, Toy, UNTIL_TOLD, behind_data,
    config, message, opaque, record, until,
};
use bowline_svc::{Config, Limits, PoolMode, WakePolicy, ZeroCopy};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use telemetry::Counter;

/// The most data that is sent.
const DATA_MAX: u32 = 4_000_000;

/// What `TAKE` is sent: how long each piece naps (or [`ONCE`], [`UNTIL_TOLD`]), and data that is nowhere the same.
fn args(ms: u32, len: usize) -> Vec<u8> {
    [&ms.to_be_bytes()[..], &opaque(data(len)), &behind_data(len)].concat()
}

/// The first bytes of the data, which is made once: it takes longer than the rest of a test.
fn data(len: usize) -> &'static [u8] {
    static DATA: OnceLock<Vec<u8>> = OnceLock::new();
    let byte = |at: u32| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8;
    &DATA.get_or_init(|| (0..DATA_MAX).map(byte).collect())[..len]
}

/// How much went ahead, if all of the data came through.
#[track_caller]
fn came_through(results: &[u8], len: usize) -> usize {
    let (ahead, rest) = results.split_first_chunk::<4>().unwrap();
    let (there, bytes) = rest.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*there) as usize, len);
    assert!(bytes[..len] == *data(len), "the data is not what was sent");
    u32::from_be_bytes(*ahead) as usize
}

/// Sends `wire` in pieces of these lengths, over and over, with a pause after each.
fn dribble(client: &mut Client, mut wire: &[u8], lens: &[usize], pause: Duration) {
    for len in lens.iter().cycle() {
        let (now, rest) = wire.split_at((*len).min(wire.len()));
        client.0.write_all(now).unwrap();
        wire = rest;
        if wire.is_empty() {
            return;
        }
        std::thread::sleep(pause);
    }
}

/// Calls of every size, large ones among small ones, as they arrive in pieces of these lengths.
fn mixture(toy: &Toy, lens: &[usize], pause: Duration) -> u64 {
    let before = toy.counter(Counter::PiecesAhead);
    let sizes = [300_001, 4_000_000, 262_144, 263_000, 100, 1_048_576, 65_536, 700_000];
    let mut wire = Vec::new();
    for (xid, len) in (0..).step_by(2).zip(sizes) {
        wire.extend(record(&message(xid, TAKE, &args(0, len))));
        wire.extend(record(&message(xid + 1, ECHO, &opaque(b"between"))));
    }
    let mut client = toy.client();
    let mut sender = Client(client.0.try_clone().unwrap());
    let pieces = lens.to_vec();
    let sending = std::thread::spawn(move || dribble(&mut sender, &wire, &pieces, pause));
    for (xid, len) in (0..).step_by(2).zip(sizes) {
        let reply = client.try_receive();
        assert!(reply.is_ok(), "xid {xid} of {len} bytes in {lens:?}: {:?}", toy.server.conns());
        let (got, results) = crate::toy::results(&reply.unwrap());
        assert_eq!(got, xid);
        let ahead = came_through(&results, len);
        assert!(
            ahead.is_multiple_of(TAKEN_TOGETHER) && (ahead == 0 || len >= 256 << 10),
            "{ahead}"
        );
        assert_eq!(client.receive(), (xid + 1, opaque(b"between")));
    }
    sending.join().unwrap();
    toy.counter(Counter::PiecesAhead) - before
}

#[test]
fn large_records_arrive_intact_in_any_segmentation() {
    for wake_policy in
        [WakePolicy::Adaptive, WakePolicy::Unlimited, WakePolicy::Cap(2), WakePolicy::Chain]
    {
        let toy = Toy::start(Config { wake_policy, ..config() });
        let pause = Duration::from_micros(200);
        for lens in [
            &[usize::MAX][..],
            &[100_000],
            &[262_143, 5],
            &[20_000, 70_000, 3, 180_000],
            &[64 << 10],
            &[4, 1 << 20],
        ] {
            assert!(mixture(&toy, lens, pause) > 0, "{lens:?}: nothing went ahead");
        }
        toy.stop();
    }
}

#[test]
fn data_that_a_sink_refuses_is_kept_and_answered() {
    for wake_policy in
        [WakePolicy::Adaptive, WakePolicy::Unlimited, WakePolicy::Cap(2), WakePolicy::Chain]
    {
        let toy = Toy::start(Config { wake_policy, ..config() });
        for (how, lens) in [
            (ONCE, &[usize::MAX][..]),
            (ONCE, &[100_000]),
            (ONCE, &[262_143, 5]),
            (ONCE, &[1448]),
            (ONCE_AND_PERHAPS, &[usize::MAX]),
            (ONCE_AND_PERHAPS, &[100_000]),
            (ONCE_AND_PERHAPS, &[1448]),
        ] {
            let (mut client, len) = (toy.client(), 3_000_000);
            let mut wire = record(&message(1, TAKE, &args(how, len)));
            wire.extend(record(&message(2, ECHO, &opaque(b"behind"))));
            let mut sender = Client(client.0.try_clone().unwrap());
            let pieces = lens.to_vec();
            let sending = std::thread::spawn(move || {
                dribble(&mut sender, &wire, &pieces, Duration::from_micros(20));
            });
            let reply = client.try_receive();
            assert!(reply.is_ok(), "{wake_policy:?} {how:x} {lens:?}: {:?}", toy.server.conns());
            let (xid, results) = crate::toy::results(&reply.unwrap());
            let ahead = came_through(&results, len);
            assert!(xid == 1 && ahead > 0 && ahead < len / 2, "{ahead}");
            assert_eq!(client.receive(), (2, opaque(b"behind")));
            sending.join().unwrap();
            let balked = toy.state.balked.swap(0, Relaxed);
            let most = if how == ONCE { 1 } else { 20 };
            assert!(balked <= most, "asked {balked} times in vain");
        }
        toy.stop();
    }
}

#[test]
fn large_records_are_spliced_unless_zero_copy_is_off() {
    for (zero_copy, how) in [
        (ZeroCopy::Auto, 0),
        (ZeroCopy::On, 0),
        (ZeroCopy::Off, 0),
        // refused when it is in the pipe
        (ZeroCopy::Auto, ONCE),
        (ZeroCopy::Auto, ONCE_AND_PERHAPS),
    ] {
        let toy = Toy::start(Config { zero_copy, ..config() });
        let (mut client, len) = (toy.client(), 3_000_003);
        for xid in 0..4 {
            let mut sender = Client(client.0.try_clone().unwrap());
            let wire = record(&message(xid, TAKE, &args(how, len)));
            let sending = std::thread::spawn(move || sender.0.write_all(&wire).unwrap());
            let (got, results) = client.receive();
            sending.join().unwrap();
            assert_eq!(got, xid);
            assert!(came_through(&results, len) > 0);
        }
        let piped = toy.counter(Counter::BytesPiped);
        let some = zero_copy != ZeroCopy::Off && how == 0;
        assert!(if some { piped > 3_000_000 } else { piped == 0 }, "{zero_copy} {how}: {piped}");
        assert_eq!(toy.counter(Counter::BytesCopied) + piped, 4 * len as u64);
        toy.stop();
    }
}

#[test]
fn small_segments_are_collected_into_larger_pieces() {
    let toy = Toy::start(config());
    let len = 600_000;
    let wire = record(&message(1, TAKE, &args(0, len)));
    let mut client = toy.client();
    dribble(&mut client, &wire, &[1448], Duration::from_micros(50));
    let (xid, results) = client.receive();
    assert_eq!(xid, 1);
    assert!(came_through(&results, len) > 0);
    let pieces = toy.counter(Counter::PiecesAhead);
    assert!(pieces <= 10, "{pieces} pieces of {len} bytes");
    toy.stop();
}

#[test]
fn a_piece_that_blocks_does_not_delay_others() {
    for wake_policy in [WakePolicy::Adaptive, WakePolicy::Unlimited] {
        let toy = Toy::start(Config { wake_policy, pool_mode: PoolMode::Global, ..config() });
        let (mut slow, mut quick) = (toy.client(), toy.client());
        let len = 3 << 20;
        let mut wire = record(&message(1, NULL, &[]));
        wire.extend(record(&message(2, TAKE, &args(UNTIL_TOLD, len))));
        wire.extend(record(&message(3, NULL, &[])));
        let mut sender = Client(slow.0.try_clone().unwrap());
        let sending = std::thread::spawn(move || sender.0.write_all(&wire).unwrap());
        let waiting = || toy.state.waiting.load(SeqCst) == 1;
        until("a piece sleeps", waiting);
        // a reply that was collected before the piece has left before it slept
        assert_eq!(slow.receive().0, 1);
        for xid in 0..100 {
            assert_eq!(quick.call(xid, ECHO, &opaque(b"quick")), opaque(b"quick"));
        }
        assert!(waiting(), "others were answered meanwhile");
        toy.state.go_on.store(true, SeqCst);
        let (xid, results) = slow.receive();
        assert_eq!(xid, 2);
        assert!(came_through(&results, len) >= len / 2);
        assert_eq!(slow.receive().0, 3);
        sending.join().unwrap();
        toy.stop();
    }
}

#[test]
fn a_client_does_not_time_out_while_its_piece_blocks() {
    const AGE: Duration = Duration::from_millis(1500);
    for (wake_policy, idle_age_max) in
        [(WakePolicy::Adaptive, None), (WakePolicy::Adaptive, Some(AGE)), (WakePolicy::Chain, None)]
    {
        let limits = Limits { partial_age_max: AGE, idle_age_max, ..Limits::default() };
        let toy = Toy::start(Config { wake_policy, limits, ..config() });
        // each piece sleeps for longer than a client may be silent
        let (mut client, len) = (toy.client(), 600_000);
        let wire = record(&message(1, TAKE, &args(2000, len)));
        client.0.write_all(&wire[..300_000]).unwrap();
        until("a piece has gone", || toy.counter(Counter::PiecesAhead) > 0);
        client.0.write_all(&wire[300_000..]).unwrap();
        let reply = client.try_receive();
        assert!(reply.is_ok(), "{wake_policy:?} {idle_age_max:?}: {reply:?}");
        assert!(came_through(&crate::toy::results(&reply.unwrap()).1, len) > 0);
        assert_eq!(toy.counter(Counter::RecordsTimedOut), 0);
        toy.stop();
    }
}

#[test]
fn an_incomplete_record_uses_little_memory_and_affects_no_others() {
    let toy = Toy::start(config());
    let wire = record(&message(1, TAKE, &args(0, 4_000_000)));
    let mut half: Vec<Client> = (0..20).map(|_| toy.client()).collect();
    for client in &mut half {
        client.0.write_all(&wire[..3_500_000]).unwrap();
    }
    let taken = |bytes: u64| bytes >= 3_500_000;
    until("all has arrived", || toy.server.conns().iter().all(|conn| taken(conn.bytes_in)));
    until("it has gone ahead", || {
        toy.server.conns().iter().all(|conn| conn.partial_bytes <= 512 << 10)
    });
    assert!(toy.server.conns().iter().all(|conn| conn.partial_bytes > 0), "the beginning is kept");
    let mut other = toy.client();
    assert_eq!(other.call(1, ECHO, &opaque(b"other")), opaque(b"other"));
    drop(half);
    until("they are forgotten", || toy.server.connections() == 1);
    assert_eq!(toy.state.calls.load(Relaxed), 1, "none was made");
    toy.stop();
}

#[test]
fn a_server_can_stop_during_a_record() {
    let toy = Toy::start(config());
    let wire = record(&message(1, TAKE, &args(50, 4_000_000)));
    let mut client = toy.client();
    client.0.write_all(&wire[..2_000_000]).unwrap();
    until("some has gone", || toy.counter(Counter::PiecesAhead) > 0);
    toy.stop();
    assert!(client.is_closed());
}

#[test]
fn fragmented_large_records_are_joined() {
    let toy = Toy::start(config());
    let message = message(1, TAKE, &args(0, 1_000_000));
    let mut wire = Vec::new();
    for (at, part) in message.chunks(300_000).enumerate() {
        let last = u32::from((at + 1) * 300_000 >= message.len()) << 31;
        wire.extend((last | u32::try_from(part.len()).unwrap()).to_be_bytes());
        wire.extend(part);
    }
    let mut client = toy.client();
    client.0.write_all(&wire).unwrap();
    assert_eq!(came_through(&client.receive().1, 1_000_000), 0);
    toy.stop();
}

#[test]
fn other_large_records_are_joined() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    for (xid, len) in [(1, 1_000_000), (2, 300_000), (3, 4_000_000)] {
        assert!(client.call(xid, ECHO, &opaque(data(len))) == opaque(data(len)));
    }
    assert_eq!(toy.counter(Counter::PiecesAhead), 0);
    toy.stop();
}

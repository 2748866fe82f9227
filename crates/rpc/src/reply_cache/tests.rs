//! The reply cache against its criteria: no false hit, no second run, bounded memory.

use super::shard::ENTRY_COST;
use super::{CHECKED, Key, Lookup, Origin, RESULTS_MAX, ReplyCache, WAITING_MAX};
use crate::{AuthSys, Credential, Outcome, Peer, Transport};
use proto::rpc::{CallHeader, OpaqueAuth};
use std::net::SocketAddr;
use std::sync::Arc;

/// By which connection calls come.
const HERE: Origin = Origin(1);
/// Shards of the caches here.
const SHARDS: usize = 4;

const HEADER: CallHeader<'_> = CallHeader {
    xid: 1,
    program: 100_003,
    version: 3,
    procedure: 12,
    credential: OpaqueAuth::NONE,
    verifier: OpaqueAuth::NONE,
};

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn peer(from: &str) -> Peer {
    Peer {
        addr: addr(from),
        local: addr("10.0.0.1:2049"),
        transport: Transport::Tcp,
        security: crate::TransportSecurity::PLAIN,
    }
}

fn sys(name: &[u8], uid: u32) -> Credential<'_> {
    Credential::Sys(AuthSys::new(name, uid, 100, &[1, 2]).unwrap())
}

fn plain_key(cache: &Arc<ReplyCache>, xid: u32) -> Key {
    cache.key(&CallHeader { xid, ..HEADER }, &peer("10.0.0.2:700"), &Credential::Anonymous, b"args")
}

/// Runs a call to its end with this reply.
fn answer(cache: &Arc<ReplyCache>, key: Key, now_ms: u64, reply: &[u8]) {
    match cache.begin(key, HERE, now_ms) {
        Lookup::Fresh(ticket) => ticket.finish(reply, Outcome::default()),
        Lookup::Running | Lookup::Answered(_) | Lookup::OtherConnection(_) => {
            panic!("the call is known already")
        }
    }
}

fn is_fresh(cache: &Arc<ReplyCache>, key: Key, now_ms: u64) -> bool {
    matches!(cache.begin(key, HERE, now_ms), Lookup::Fresh(_))
}

fn stored(cache: &Arc<ReplyCache>, key: Key, now_ms: u64) -> Option<Vec<u8>> {
    match cache.begin(key, HERE, now_ms) {
        Lookup::Answered(stored) => Some(stored.results.to_vec()),
        Lookup::Fresh(_) | Lookup::Running | Lookup::OtherConnection(_) => None,
    }
}

fn cache() -> Arc<ReplyCache> {
    ReplyCache::new(1 << 20, 1000, SHARDS / 2)
}

#[test]
fn a_retransmission_from_another_port_is_known() {
    let cache = cache();
    let first = cache.key(&HEADER, &peer("10.0.0.2:700"), &sys(b"box", 5), b"args");
    answer(&cache, first, 0, b"reply");
    let again = cache.key(&HEADER, &peer("10.0.0.2:701"), &sys(b"box", 5), b"args");
    assert_eq!(stored(&cache, again, 1).unwrap(), b"reply");
    let mapped = cache.key(&HEADER, &peer("[::ffff:10.0.0.2]:9"), &sys(b"box", 5), b"args");
    assert_eq!(mapped, first, "an IPv4 client of an IPv6 socket is the same client");
}

#[test]
fn any_difference_makes_another_call() {
    let cache = cache();
    let here = "10.0.0.2:700";
    let base = cache.key(&HEADER, &peer(here), &sys(b"box", 5), b"args");
    let udp = Peer { transport: Transport::Udp, ..peer(here) };
    let others = [
        cache.key(&CallHeader { xid: 2, ..HEADER }, &peer(here), &sys(b"box", 5), b"args"),
        cache.key(&CallHeader { program: 2, ..HEADER }, &peer(here), &sys(b"box", 5), b"args"),
        cache.key(&CallHeader { version: 2, ..HEADER }, &peer(here), &sys(b"box", 5), b"args"),
        cache.key(&CallHeader { procedure: 2, ..HEADER }, &peer(here), &sys(b"box", 5), b"args"),
        cache.key(&HEADER, &peer("10.0.0.3:700"), &sys(b"box", 5), b"args"),
        cache.key(&HEADER, &peer(here), &sys(b"fox", 5), b"args"),
        cache.key(&HEADER, &peer(here), &sys(b"box", 6), b"args"),
        cache.key(&HEADER, &peer(here), &Credential::Anonymous, b"args"),
        cache.key(&HEADER, &peer(here), &sys(b"box", 5), b"arg5"),
        cache.key(&HEADER, &peer(here), &sys(b"box", 5), b"args\0\0\0\0"),
        cache.key(&HEADER, &udp, &sys(b"box", 5), b"args"),
    ];
    for (n, key) in others.into_iter().enumerate() {
        assert_ne!(key, base, "number {n}");
    }
    assert_eq!(base, cache.key(&HEADER, &peer(here), &sys(b"box", 5), b"args"));
    let other_secret = ReplyCache::new(1 << 20, 1000, SHARDS / 2);
    assert_ne!(base, other_secret.key(&HEADER, &peer(here), &sys(b"box", 5), b"args"));
}

#[test]
fn each_byte_and_the_length_of_the_arguments_count() {
    let cache = cache();
    let key = |args: &[u8]| cache.key(&HEADER, &peer("10.0.0.2:700"), &Credential::Anonymous, args);
    for len in [CHECKED - 8, CHECKED, CHECKED + 8, CHECKED + 300, 60_000] {
        let mut args = vec![0; len];
        let base = key(&args);
        assert_eq!(key(&args), base);
        for at in (0..len).step_by(1 + len / 500).chain([len - 1]) {
            args[at] = 1;
            assert_ne!(key(&args), base, "byte {at} of {len}");
            args[at] = 0;
        }
        args.extend([0; 8]);
        assert_ne!(key(&args), base, "more than {len}");
    }
}

#[test]
fn a_running_call_is_not_run_twice() {
    let cache = cache();
    let key = plain_key(&cache, 1);
    let Lookup::Fresh(ticket) = cache.begin(key, HERE, 0) else { panic!("fresh") };
    for now_ms in [0, 999, 1000, 1_000_000] {
        assert!(matches!(cache.begin(key, HERE, now_ms), Lookup::Running));
    }
    // It is kept for as long as any other, from its answer on.
    ticket.finish(b"late", Outcome::default());
    assert_eq!(stored(&cache, key, 1_000_999).unwrap(), b"late");
    assert!(is_fresh(&cache, key, 1_001_000));
}

#[test]
fn a_wait_ends_with_or_without_a_reply() {
    let cache = cache();
    for (xid, answered) in [(1, true), (2, false)] {
        let key = plain_key(&cache, xid);
        let Lookup::Fresh(ticket) = cache.begin(key, HERE, 0) else { panic!("fresh") };
        std::thread::scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| cache.wait_for_end(key, HERE)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
            if answered {
                ticket.finish(b"late", Outcome::default());
            } else {
                drop(ticket);
            }
            waiting.into_iter().for_each(|waiting| waiting.join().unwrap());
        });
        assert_eq!(stored(&cache, key, 0).is_some(), answered);
        cache.wait_for_end(key, HERE);
    }
}

#[test]
fn the_number_of_waiting_threads_is_limited() {
    let cache = cache();
    let mut permits: Vec<_> = (0..=WAITING_MAX).map(|_| cache.wait_permit()).collect();
    assert!(permits.pop().unwrap().is_none());
    assert!(permits.iter().all(Option::is_some));
    drop(permits);
    assert!(cache.wait_permit().is_some());
}

#[test]
fn a_call_without_a_reply_is_removed() {
    let cache = cache();
    let key = plain_key(&cache, 1);
    let Lookup::Fresh(ticket) = cache.begin(key, HERE, 0) else { panic!("fresh") };
    assert_eq!(cache.usage().entries, 1);
    drop(ticket);
    assert_eq!((cache.usage().entries, cache.usage().bytes), (0, 0));
    assert!(is_fresh(&cache, key, 0));
}

#[test]
fn a_long_reply_is_not_kept() {
    let cache = cache();
    answer(&cache, plain_key(&cache, 1), 0, &[0; RESULTS_MAX]);
    answer(&cache, plain_key(&cache, 2), 0, &[0; RESULTS_MAX + 1]);
    assert!(stored(&cache, plain_key(&cache, 1), 0).is_some());
    assert!(is_fresh(&cache, plain_key(&cache, 2), 0));
}

#[test]
fn replies_expire() {
    let cache = cache();
    for xid in 0..1000 {
        answer(&cache, plain_key(&cache, xid), 0, b"reply");
    }
    assert_eq!(cache.usage().entries, 1000);
    assert!(stored(&cache, plain_key(&cache, 7), 999).is_some());
    for xid in 0..1000 {
        assert!(is_fresh(&cache, plain_key(&cache, xid), 1000));
    }
    assert_eq!((cache.usage().entries, cache.usage().bytes), (0, 0));
}

#[test]
fn a_clock_that_goes_back_is_harmless() {
    let cache = cache();
    answer(&cache, plain_key(&cache, 1), 5000, b"reply");
    assert!(stored(&cache, plain_key(&cache, 1), 0).is_some());
    assert!(is_fresh(&cache, plain_key(&cache, 1), 6000));
}

#[test]
fn a_flood_evicts_old_replies_but_never_running_calls() {
    let bytes = 256 * SHARDS * ENTRY_COST;
    let cache = ReplyCache::new(bytes, 1000, SHARDS / 2);
    let running = plain_key(&cache, u32::MAX);
    let Lookup::Fresh(ticket) = cache.begin(running, HERE, 0) else { panic!("fresh") };
    for xid in 0..20_000 {
        answer(&cache, plain_key(&cache, xid), 0, &[7; 200]);
        assert!(cache.usage().bytes <= bytes);
    }
    assert!(cache.usage().entries > 60 * SHARDS, "the memory is made use of");
    assert!(matches!(cache.begin(running, HERE, 0), Lookup::Running));
    assert!(stored(&cache, plain_key(&cache, 19_999), 0).is_some());
    assert!(is_fresh(&cache, plain_key(&cache, 0), 0));
    ticket.finish(b"reply", Outcome::default());
    assert!(stored(&cache, running, 0).is_some());
}

#[test]
fn each_key_finds_its_own_reply_anywhere_in_the_ring() {
    let cache = ReplyCache::new(SHARDS * 32_768, 1_000_000, SHARDS / 2);
    let reply = |xid: u32| vec![xid as u8; (xid * 37 % 1500) as usize];
    for xid in 0..5000_u32 {
        answer(&cache, plain_key(&cache, xid), u64::from(xid), &reply(xid));
        // a shard of 32 KiB keeps four at least, whatever their lengths
        for before in xid.saturating_sub(3)..=xid {
            let kept = stored(&cache, plain_key(&cache, before), u64::from(xid));
            assert_eq!(kept.unwrap(), reply(before), "{before} after {xid}");
        }
    }
    assert!(cache.usage().bytes <= SHARDS * 32_768);
}

#[test]
fn exactly_one_of_many_concurrent_copies_runs() {
    let cache = cache();
    let key = plain_key(&cache, 1);
    let barrier = std::sync::Barrier::new(8);
    let ran: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    match cache.begin(key, HERE, 0) {
                        Lookup::Fresh(ticket) => {
                            std::thread::sleep(std::time::Duration::from_millis(5));
                            ticket.finish(b"reply", Outcome::default());
                            1
                        }
                        Lookup::Running | Lookup::Answered(_) | Lookup::OtherConnection(_) => 0,
                    }
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(ran, 1);
    assert_eq!(stored(&cache, key, 0).unwrap(), b"reply");
}

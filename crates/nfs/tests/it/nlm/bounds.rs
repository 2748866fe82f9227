//! What clients cost that do not answer: one that answers no callback, and one that locks and is powered off.

use super::rig::{A, B, Owner, Rig, file_in_memory, try_args};
use proto::nlm::{LockArgs, Status};
use rpc::CallFailure;

/// Requests of one client that may wait for one file.
const WAITERS: u64 = 768;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

fn rig() -> (Rig, Vec<u8>) {
    let rig = Rig::over(file_in_memory());
    let handle = rig.handle("file");
    (rig, handle)
}

fn byte(who: Owner, file: &[u8], number: u64) -> LockArgs<'_> {
    LockArgs { block: true, ..try_args(who.lock(file, number * 2, 1)) }
}

/// Lets so many milliseconds pass, in which no call is answered; how many were made.
fn silence(rig: &Rig, ms: u64) -> usize {
    let mut calls = 0;
    for _ in 0..ms / 1000 {
        rig.nfs.clock.advance_ms(1000);
        rig.nlm().tick();
        for call in rig.calls.take() {
            calls += 1;
            (call.done)(Err(CallFailure::NoAnswer));
        }
    }
    calls
}

#[test]
fn an_unresponsive_client_is_called_with_backoff_and_delays_no_others() {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 0)), Status::Granted);
    for number in 0..WAITERS {
        assert_eq!(rig.lock_with(B, byte(B, &file, number)), Status::Blocked);
    }
    assert_eq!(rig.lock_with(B, byte(B, &file, WAITERS)), Status::Denied, "no room to wait");
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 0)), Status::Granted);
    let granted = rig.calls.take();
    assert_eq!(granted.len() as u64, WAITERS);
    granted.into_iter().for_each(|call| (call.done)(Err(CallFailure::NoAnswer)));
    let first = silence(&rig, MINUTE_MS) as u64;
    let later = silence(&rig, 10 * MINUTE_MS) as u64;
    println!(
        "{WAITERS} grants without an answer: {first} calls in a minute, {later} in the next ten"
    );
    // after 2, 4, 8 and 16 s, then each 30 s
    assert!(first <= 5 * WAITERS, "{first}");
    assert!((19 * WAITERS..=21 * WAITERS).contains(&later), "{later}");
    // what somebody else wants is his at once: a minute without an answer is long over
    assert_eq!(rig.lock_with(A, byte(A, &file, 7)), Status::Blocked);
    silence(&rig, MINUTE_MS / 2);
    assert_eq!(rig.lock_with(A, byte(A, &file, 7)), Status::Granted);
    assert_eq!(rig.nfs.state.totals().ranges as u64, WAITERS, "and nothing else");
    // it reboots: nothing is left, nobody is called any more
    let rebooted = rig.nlm().client_rebooted("127.0.0.1".parse().unwrap(), B.addr.as_bytes(), 99);
    assert_eq!(rebooted.map(|ranges| ranges as u64), Some(WAITERS - 1));
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.nfs.state.totals().files, 0);
    silence(&rig, 2 * MINUTE_MS);
    assert_eq!(silence(&rig, 10 * MINUTE_MS), 0);
}

#[test]
fn a_client_that_is_powered_off_loses_what_others_want_after_a_day() {
    let (rig, file) = rig();
    for number in 0..1000 {
        assert_eq!(rig.lock(A, true, A.lock(&file, number * 2, 1)), Status::Granted);
    }
    assert_eq!(rig.nfs.state.totals().ranges, 1000);
    let records = rig.store.stored.lock().unwrap().len();
    let calls = silence(&rig, 10 * MINUTE_MS);
    assert_eq!((calls, rig.store.stored.lock().unwrap().len()), (0, records), "it costs nothing");
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 1)), Status::Denied);
    rig.nfs.clock.advance_ms(DAY_MS);
    rig.nlm().tick();
    assert_eq!(rig.nfs.state.totals().ranges, 1000, "nobody wants any of it");
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 1)), Status::Granted);
    assert_eq!(rig.nfs.state.totals().ranges, 1, "all of it goes");
    // it is on again and learns by its next call that it is a new host
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 1)), Status::Denied);
    assert_eq!(rig.lock(A, true, A.lock(&file, 2, 1)), Status::Granted);
}

//! Requests that wait: the calls to their clients, what clients answer, and what happens if they do not.

use super::rig::{A, A2, B, Owner, Rig, file_in_memory, try_args};
use proto::nlm::{Answer, LockArgs, Status, TestArgs, Versioned, Width, procedure as p};
use rpc::{CallFailure, CallTarget, OutboundCall, ProgramPort};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use xdr::{Reader, Writer};

fn rig() -> (Rig, Vec<u8>) {
    let rig = Rig::over(file_in_memory());
    let handle = rig.handle("file");
    (rig, handle)
}

fn waits(who: Owner, file: &[u8]) -> LockArgs<'_> {
    LockArgs { block: true, ..try_args(who.lock(file, 0, 10)) }
}

/// The only call that was made since the last look.
fn only(rig: &Rig) -> OutboundCall {
    let mut calls = rig.calls.take();
    assert_eq!(calls.len(), 1);
    calls.pop().unwrap()
}

/// Completes a GRANTED as a client that says this.
fn answer(rig: &Rig, call: OutboundCall, status: Status) {
    let cookie = TestArgs::decode(&mut Reader::new(&call.args), Width::Bits64).unwrap().cookie;
    let mut w = Writer::new();
    Answer { cookie, status }.encode(&mut w, Width::Bits64);
    (call.done)(Ok(w.bytes()));
    rig.nlm().tick();
}

/// A holds the file, B waits for it.
fn one_waits() -> (Rig, Vec<u8>) {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(rig.lock_with(B, waits(B, &file)), Status::Blocked);
    assert!(rig.calls.take().is_empty());
    (rig, file)
}

#[test]
fn a_waiting_client_gets_a_granted_call() {
    let (rig, file) = one_waits();
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    let call = only(&rig);
    assert_eq!((call.program, call.version, call.procedure), (100_021, 4, p::GRANTED));
    assert!(call.expects_reply);
    let CallTarget::Machine { to, port, transport } = &call.target else { panic!("a connection") };
    assert_eq!(
        (to.addr().to_string(), *port),
        ("127.0.0.1".to_owned(), ProgramPort::AskPortmapper)
    );
    assert_eq!(*transport, rpc::Transport::Tcp);
    let mut r = Reader::new(&call.args);
    let args = TestArgs::decode(&mut r, Width::Bits64).unwrap();
    r.end().unwrap();
    let lock = args.lock;
    assert_eq!(
        (args.exclusive, lock.svid, lock.oh, lock.handle),
        (true, 20, &b"other"[..], &*file)
    );
    assert_eq!((lock.caller_name, lock.offset, lock.len), (&b"server"[..], 0, 10));
    assert_eq!(
        rig.lock(A, true, A.lock(&file, 0, 10)),
        Status::Denied,
        "granted in the table first"
    );
    answer(&rig, call, Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Denied);
    assert!(rig.calls.take().is_empty());
}

#[test]
fn a_grant_refused_by_the_client_goes_to_the_next_waiter() {
    let (rig, file) = one_waits();
    assert_eq!(rig.lock_with(A2, waits(A2, &file)), Status::Blocked);
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    answer(&rig, only(&rig), Status::Denied);
    let next = only(&rig);
    let args = TestArgs::decode(&mut Reader::new(&next.args), Width::Bits64).unwrap();
    assert_eq!(args.lock.svid, 11);
    answer(&rig, next, Status::Granted);
    assert_eq!(rig.unlock(A2, A2.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.nfs.state.totals().files, 0);
}

#[test]
fn async_procedures_are_answered_by_res_calls_of_the_same_client() {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
    assert!(rig.try_call(B, p::LOCK_MSG, &waits(B, &file)).unwrap().is_empty());
    assert_eq!(rig.nfs.state.totals().waiters, 1);
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    let call = only(&rig);
    assert_eq!((call.procedure, call.expects_reply), (p::GRANTED_MSG, false));
    let cookie = TestArgs::decode(&mut Reader::new(&call.args), Width::Bits64).unwrap().cookie;
    (call.done)(Ok(&[]));
    let refuse = |who: Owner, cookie: &[u8]| {
        let args = Answer { cookie, status: Status::Denied };
        assert!(rig.try_call(who, p::GRANTED_RES, &args).unwrap().is_empty());
        rig.nlm().tick();
        rig.lock(A, true, A.lock(&file, 0, 10))
    };
    let stranger = Owner { addr: "127.0.0.2:700", ..B };
    assert_eq!(refuse(stranger, cookie), Status::Denied, "not his");
    let mut guessed = cookie.to_vec();
    *guessed.last_mut().unwrap() ^= 1;
    assert_eq!(refuse(B, &guessed), Status::Denied, "a guess");
    assert_eq!(refuse(B, b""), Status::Denied);
    assert_eq!(refuse(B, cookie), Status::Granted, "given back");
}

#[test]
fn an_unanswered_granted_is_retried_with_granted_msg() {
    let (rig, file) = one_waits();
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    let mut procedures = Vec::new();
    let (mut now_ms, mut last_ms) = (0, 0);
    let mut gaps = Vec::new();
    loop {
        for call in rig.calls.take() {
            procedures.push(call.procedure);
            gaps.push(now_ms - last_ms);
            last_ms = now_ms;
            (call.done)(Err(CallFailure::NoAnswer));
        }
        if procedures.len() == 6 {
            break;
        }
        now_ms += 1000;
        rig.nfs.clock.advance_ms(1000);
        rig.nlm().tick();
    }
    let (sync, msg) = (p::GRANTED, p::GRANTED_MSG);
    assert_eq!(procedures, [sync, sync, msg, msg, sync, sync]);
    assert!(gaps[1..].windows(2).all(|gap| gap[0] <= gap[1]) && gaps[5] <= 31_000, "{gaps:?}");
    // nobody else wants it: it stays, and the client finds out when it asks again
    assert_eq!(rig.lock_with(B, waits(B, &file)), Status::Granted);
    rig.nfs.clock.advance_ms(100_000);
    rig.nlm().tick();
    assert!(rig.calls.take().is_empty(), "asking again is an answer");
}

#[test]
fn an_unconfirmed_grant_goes_to_the_next_waiter_after_a_minute() {
    let (rig, file) = one_waits();
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    drop(only(&rig));
    assert_eq!(rig.lock_with(A, waits(A, &file)), Status::Blocked);
    let mut waited_s = 0;
    let next = loop {
        rig.nfs.clock.advance_ms(1000);
        waited_s += 1;
        rig.nlm().tick();
        let of_a = |call: &OutboundCall| {
            TestArgs::decode(&mut Reader::new(&call.args), Width::Bits64).unwrap().lock.svid == 10
        };
        if let Some(call) = rig.calls.take().into_iter().find(of_a) {
            break call;
        }
        assert!(waited_s < 120, "never");
    };
    assert!((60..=95).contains(&waited_s), "{waited_s} s");
    answer(&rig, next, Status::Granted);
    assert_eq!(rig.lock_with(B, waits(B, &file)), Status::Blocked);
}

#[test]
fn a_cancelled_request_is_not_granted() {
    let (rig, file) = one_waits();
    assert_eq!(rig.cancel(B, true, B.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    assert!(rig.calls.take().is_empty());
    assert_eq!(rig.nfs.state.totals().files, 0);
    // a cancel that crosses the grant leaves the lock; the client gives it back
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(rig.lock_with(B, waits(B, &file)), Status::Blocked);
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    let call = only(&rig);
    assert_eq!(rig.cancel(B, true, B.lock(&file, 0, 10)), Status::Denied);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Denied);
    assert_eq!(rig.unlock(B, B.lock(&file, 0, 10)), Status::Granted);
    answer(&rig, call, Status::Denied);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
}

#[test]
fn two_owners_waiting_for_each_other_are_a_deadlock() {
    let (rig, file) = one_waits();
    let behind = |who: Owner| who.lock(&file, 20, 10);
    assert_eq!(rig.lock(B, true, behind(B)), Status::Granted);
    let args = LockArgs { block: true, ..try_args(behind(A)) };
    assert_eq!(rig.lock_with(A, args), Status::Deadlock);
    assert_eq!(rig.nfs.state.totals().waiters, 1);
}

#[test]
fn locks_of_a_rebooted_client_go_to_waiters() {
    let (rig, file) = one_waits();
    let addr = "127.0.0.1".parse().unwrap();
    assert_eq!(rig.nlm().client_rebooted(addr, b"nobody", 7), None);
    assert_eq!(rig.nlm().client_rebooted(addr, A.addr.as_bytes(), 1), None, "the same number");
    assert_eq!(rig.nlm().client_rebooted(addr, A.addr.as_bytes(), 3), Some(1));
    answer(&rig, only(&rig), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Denied);
}

#[test]
fn the_timer_thread_is_woken_when_a_call_is_due_earlier() {
    let (rig, file) = one_waits();
    let woken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&woken);
    rig.nlm().set_waker(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let idle = rig.nlm().tick();
    assert!(idle.is_some_and(|due| due >= rig.nlm().now().0 + 10_000), "{idle:?}");
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(woken.load(Ordering::Relaxed), 1, "the next call is due earlier than it knows");
    let due = rig.nlm().tick().unwrap();
    assert!(due <= rig.nlm().now().0 + 2000);
    let call = only(&rig);
    (call.done)(Err(CallFailure::NoAnswer));
    assert_eq!(woken.load(Ordering::Relaxed), 1, "no answer is nothing to do");
}

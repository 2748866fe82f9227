//! Replies that are sent after their call has returned.

use crate::toy::{PENDING_MAX, Toy, peer, procedure};
use bowline_rpc::{
    Deferred, DispatchSettings, Done, Duplicate, Fault, OpIndex, Peer, Posted, Reject, Request,
    Transport, Verdict,
};
use std::sync::atomic::Ordering::SeqCst;
use xdr::Writer;

fn toy() -> Toy {
    Toy::new(DispatchSettings::default())
}

fn call(xid: u32, procedure: u32) -> Vec<u8> {
    let mut w = Writer::new();
    let (program, version) = (crate::toy::PROGRAM, 1);
    w.put(&Request { xid, program, version, procedure, credential: None });
    w.bytes().to_vec()
}

fn ask(toy: &Toy, transport: Transport, record: &[u8]) -> (Done, Vec<u8>) {
    ask_from(toy, peer(transport, 700), record)
}

fn ask_from(toy: &Toy, peer: Peer, record: &[u8]) -> (Done, Vec<u8>) {
    let mut reply = Writer::new();
    let done = toy.dispatch_from(peer, record, &mut reply);
    (done, reply.bytes().to_vec())
}

fn take(toy: &Toy) -> Deferred {
    toy.state.deferred.lock().unwrap().pop().expect("a call is pending")
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

#[test]
fn a_deferred_reply_equals_an_immediate_one() {
    let toy = toy();
    let (done, bytes) = ask(&toy, Transport::Tcp, &call(7, procedure::LATER));
    assert_eq!((done.verdict, bytes.len()), (Verdict::Deferred, 0));
    let deferred = take(&toy);
    let posted = std::thread::spawn(move || {
        deferred.complete(|reply, outcome| {
            reply.u32(42);
            outcome.status = 3;
            Ok(())
        })
    });
    assert_eq!(posted.join().unwrap(), Some(Posted::Sent));
    let (reply, done) = toy.posted.replies.lock().unwrap().pop().unwrap();
    assert_eq!(reply, words(&[7, 1, 0, 0, 0, 0, 42]));
    assert_eq!((done.verdict, done.op), (Verdict::Reply, Some(OpIndex(16))));
    assert_eq!((done.outcome.status, done.outcome.export), (3, Some(5)));
    assert_eq!(toy.posted.pending.load(SeqCst), 0);
}

#[test]
fn a_deferred_fault_is_answered_and_a_silent_call_is_not() {
    let toy = toy();
    ask(&toy, Transport::Tcp, &call(7, procedure::LATER));
    let faulty = |fault| {
        move |reply: &mut Writer, _: &mut _| {
            reply.u32(1);
            Err(fault)
        }
    };
    assert_eq!(take(&toy).complete(faulty(Fault::SystemErr)), Some(Posted::Sent));
    let (reply, done) = toy.posted.replies.lock().unwrap().pop().unwrap();
    assert_eq!((reply, done.rejected), (words(&[7, 1, 0, 0, 0, 5]), Some(Reject::SystemErr)));
    ask(&toy, Transport::Tcp, &call(8, procedure::LATER));
    assert_eq!(take(&toy).complete(faulty(Fault::Silence)), None);
    assert!(toy.posted.replies.lock().unwrap().is_empty());
}

#[test]
fn a_retransmission_is_dropped_until_the_deferred_call_completes() {
    let toy = toy();
    let record = call(9, procedure::LATER_ONCE);
    assert_eq!(ask(&toy, Transport::Udp, &record).0.verdict, Verdict::Deferred);
    let again = ask(&toy, Transport::Udp, &record).0;
    assert_eq!((again.verdict, again.duplicate), (Verdict::Silence, Some(Duplicate::Dropped)));
    take(&toy).complete(|reply, _| {
        reply.u32(5);
        Ok(())
    });
    let (again, bytes) = ask(&toy, Transport::Udp, &record);
    assert_eq!((again.verdict, again.duplicate), (Verdict::Reply, Some(Duplicate::Replayed)));
    assert_eq!((bytes, toy.count()), (words(&[9, 1, 0, 0, 0, 0, 5]), 1));
    assert_eq!(again.outcome.export, Some(5));
}

#[test]
fn a_duplicate_over_tcp_waits_for_the_thread_that_completes() {
    let toy = toy();
    let record = call(9, procedure::LATER_ONCE);
    ask(&toy, Transport::Tcp, &record);
    std::thread::scope(|scope| {
        let duplicate = scope.spawn(|| ask_from(&toy, peer(Transport::Tcp, 701), &record));
        while toy.slept() == 0 {
            std::thread::yield_now();
        }
        take(&toy).complete(|_, _| Ok(()));
        let (done, bytes) = duplicate.join().unwrap();
        assert_eq!(done.duplicate, Some(Duplicate::Replayed));
        assert_eq!(bytes, words(&[9, 1, 0, 0, 0, 0]));
    });
}

#[test]
fn a_dropped_deferred_call_is_removed_from_the_cache() {
    let toy = toy();
    let record = call(9, procedure::LATER_ONCE);
    for run in 1..=3 {
        let (done, _) = ask(&toy, Transport::Udp, &record);
        assert_eq!((done.verdict, done.duplicate), (Verdict::Deferred, None));
        assert_eq!((toy.count(), toy.dispatcher.reply_cache().entries), (run, 1));
        drop(take(&toy));
        assert_eq!(toy.dispatcher.reply_cache().entries, 0);
    }
    assert!(toy.posted.replies.lock().unwrap().is_empty());
    assert_eq!(toy.posted.pending.load(SeqCst), 0);
}

#[test]
fn beyond_the_pending_limit_the_call_is_answered_at_once() {
    let toy = toy();
    for xid in 0..PENDING_MAX {
        let record = call(u32::try_from(xid).unwrap(), procedure::LATER);
        assert_eq!(ask(&toy, Transport::Tcp, &record).0.verdict, Verdict::Deferred);
    }
    let (done, bytes) = ask(&toy, Transport::Tcp, &call(99, procedure::LATER));
    assert_eq!((done.verdict, bytes), (Verdict::Reply, words(&[99, 1, 0, 0, 0, 0, 0])));
    drop(take(&toy));
    let again = ask(&toy, Transport::Tcp, &call(99, procedure::LATER)).0;
    assert_eq!(again.verdict, Verdict::Deferred);
}

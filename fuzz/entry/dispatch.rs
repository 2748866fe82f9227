//! The whole dispatcher over a toy program: every record gets one well-formed reply to its own
//! transaction, or none; a record that comes twice runs a non-idempotent call once; and one of which
//! data is taken before it is whole, wherever it is cut, has the answer of the whole.

#[path = "../../crates/rpc/tests/it/toy/mod.rs"]
#[allow(dead_code, reason = "tests of the dispatcher use the rest")]
mod toy;

use bowline_rpc::{DispatchSettings, Duplicate, Reply, Transport, Verdict};
use toy::{Toy, peer, procedure};
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    // small, because it is made anew for each input
    let settings = DispatchSettings { reply_cache_bytes: 1 << 16, ..Default::default() };
    let toy = Toy::new(settings);
    let mut first = Writer::new();
    let done = toy.dispatch(data, &mut first);
    assert_eq!(done.verdict == Verdict::Reply, !first.is_empty());
    assert!(done.op.is_none_or(|op| usize::from(op.0) < toy.dispatcher.ops().len()));
    if !first.is_empty() {
        let reply = Reply::parse(first.bytes()).expect("a reply that is well-formed");
        assert_eq!(Reader::new(data).u32(), Ok(reply.xid));
        assert_eq!(reply.results.is_ok(), done.rejected.is_none());
    }
    // a call that is answered later is forgotten, and runs again
    toy.state.deferred.lock().expect("nobody panicked").clear();
    let before = toy.count();
    let mut second = Writer::new();
    let again = toy.dispatch_from(peer(Transport::Tcp, 701), data, &mut second);
    assert_eq!((again.verdict, again.op, again.rejected), (done.verdict, done.op, done.rejected));
    // The toy is the first program, so that its procedures' numbers are their places.
    let op = |number: u32| done.op.is_some_and(|op| u32::from(op.0) == number);
    // MIXED counts its calls, and its argument says whether the second one is a call of its own
    if !op(procedure::MIXED) || again.duplicate.is_some() {
        assert_eq!(first.bytes(), second.bytes(), "the same record, the same answer");
    }
    let cached = [procedure::COUNT, procedure::SLEEPY, procedure::HOARD, procedure::HELD];
    let kept = done.rejected.is_none() && cached.into_iter().any(op);
    // whether the reply of MIXED is kept depends on its argument
    if !op(procedure::MIXED) {
        assert_eq!(again.duplicate, kept.then_some(Duplicate::Replayed));
    }
    if kept {
        assert_eq!(toy.count(), before, "it did not run again");
    }
    for cut in [data.len() / 4, data.len() / 2, data.len().saturating_sub(1)] {
        let toy = Toy::new(settings);
        let mut parts = Writer::new();
        let (in_parts, _) = toy.dispatch_parts(data, cut, &mut parts);
        assert_eq!(parts.bytes(), first.bytes(), "cut at {cut}");
        assert_eq!((in_parts.verdict, in_parts.rejected), (done.verdict, done.rejected));
    }
}

//! The calls of NLM version 4 that are counted: a client that locks and unlocks one file again and again, while local
//! programs are excluded. The file rests between two locks: it is not opened anew.

use super::{Calls, Served};
use proto::nlm::{Lock, LockArgs, PROGRAM, UnlockArgs, Versioned, Width, procedure};
use rpc::Verdict;
use xdr::Writer;

const VERSION: u32 = 4;

fn range(served: &Served, number: u64) -> Lock<'_> {
    let offset = number * 100;
    Lock { caller_name: b"client", handle: &served.file, oh: b"owner", svid: 7, offset, len: 10 }
}

fn record<'a>(served: &Served, procedure: u32, args: &impl Versioned<'a>) -> Vec<u8> {
    let mut wire = Writer::new();
    args.encode(&mut wire, Width::Bits64);
    served.server.record_to(PROGRAM, VERSION, procedure, wire.bytes())
}

/// Each range is another, so that no reply of before is the answer.
fn locking(served: &Served, number: u64) -> Vec<u8> {
    let lock = range(served, number);
    let args =
        LockArgs { cookie: b"", block: false, exclusive: true, lock, reclaim: false, state: 1 };
    record(served, procedure::LOCK, &args)
}

fn unlocking(served: &Served, number: u64) -> Vec<u8> {
    record(served, procedure::UNLOCK, &UnlockArgs { cookie: b"", lock: range(served, number) })
}

/// A pair of calls, both granted: the host is recorded, the file is open.
fn warm(served: &Served) {
    for record in [locking(served, 0), unlocking(served, 0)] {
        let mut reply = Writer::new();
        assert_eq!(served.server.answer(&record, &mut reply), Verdict::Reply);
        let status = reply.bytes().last_chunk::<4>();
        assert_eq!(status, Some(&[0; 4]), "it is granted");
    }
}

pub fn lock(served: &Served) -> Calls {
    warm(served);
    let before = vec![locking(served, 1), unlocking(served, 1)];
    Calls { before, counted: locking(served, 2), range_min: None }
}

pub fn unlock(served: &Served) -> Calls {
    warm(served);
    let before = vec![locking(served, 1), unlocking(served, 1), locking(served, 2)];
    Calls { before, counted: unlocking(served, 2), range_min: None }
}

//! Loads of version 4 on servers that refuse them, and on one that does not take each request at once.

use super::bad_servers::{marked, record, server};
use bench::load::{FileSet, LiveCounters, LoadError, Plan, Run, Version, Workload, run};
use proto::nfs4::{CompoundHead, ExchangeIdArgs, Nfsstat4, SequenceArgs, op};
use proto::rpc::{Accepted, CallHeader, ReplyHeader};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use xdr::{Reader, Writer};

const DELAY: u32 = Nfsstat4::Delay.number();

fn plan(server: SocketAddr, version: Version) -> Plan {
    let mut plan = Plan::new(server, "/", Workload::Null);
    plan.version = version;
    (plan.clients, plan.depth) = (2, 3);
    (plan.warmup, plan.time) = (Duration::ZERO, Duration::from_millis(400));
    plan
}

fn load(plan: &Plan) -> Result<Run, LoadError> {
    let file_set = Arc::new(FileSet::prepare(plan).unwrap());
    run(plan, &file_set, &LiveCounters::new(1), &AtomicBool::new(false))
}

/// A COMPOUND: what stands before its operations, the number of the first of them, and the rest.
fn compound(call: &[u8]) -> Option<(u32, Reader<'_>)> {
    let mut r = Reader::new(call);
    let header: CallHeader<'_> = r.get().unwrap();
    if header.procedure == 0 {
        return None;
    }
    let head: CompoundHead<'_> = r.get().unwrap();
    assert_eq!((header.version, head.tag), (4, &b""[..]));
    Some((r.u32().unwrap(), r))
}

/// The reply to a call, with these words behind its RPC header.
fn reply(call: &[u8], words: &[u32]) -> Vec<u8> {
    let xid = u32::from_be_bytes(*call.first_chunk().unwrap());
    let mut w = Writer::new();
    w.put(&ReplyHeader::accepted(xid, Accepted::Success));
    words.iter().for_each(|word| w.u32(*word));
    marked(w.bytes())
}

/// Answers NULL, and everything else with a status.
fn refusing(status: Nfsstat4) -> SocketAddr {
    server(move |mut stream| {
        while let Some(call) = record(&mut stream) {
            let words = match compound(&call) {
                None => vec![],
                Some(_) => vec![status.number(), 0, 0],
            };
            if stream.write_all(&reply(&call, &words)).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_server_without_the_minor_version_is_told_in_one_line() {
    for version in [Version::V40, Version::V41, Version::V42] {
        let addr = refusing(Nfsstat4::MinorVersMismatch);
        let error = load(&plan(addr, version)).unwrap_err().to_string();
        assert!(error.contains("client 1") && error.contains("MinorVersMismatch"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Grants sessions of so many slots; every seventh request of a slot is told to come again later. A request with another
/// number than its slot's next gets SEQ_MISORDERED.
fn sequencing(slots: u32) -> SocketAddr {
    server(move |mut stream| {
        let mut next = vec![1_u32; slots as usize];
        let mut requests = 0_u32;
        while let Some(call) = record(&mut stream) {
            let words = match compound(&call) {
                None => vec![],
                Some((op::EXCHANGE_ID, mut r)) => {
                    let args: ExchangeIdArgs<'_> = r.get().unwrap();
                    assert!(args.ownerid.starts_with(b"bowline bench "));
                    vec![0, 0, 1, op::EXCHANGE_ID, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0]
                }
                Some((op::CREATE_SESSION, _)) => {
                    let channel = |slots| [0, 1 << 20, 1 << 20, 4096, 16, slots, 0];
                    let head = [0, 0, 1, op::CREATE_SESSION, 0, 7, 7, 7, 7, 1, 0];
                    [&head[..], &channel(slots), &channel(1)].concat()
                }
                Some((op::SEQUENCE, mut r)) => {
                    let args: SequenceArgs = r.get().unwrap();
                    requests += 1;
                    let slot = &mut next[args.slotid as usize];
                    if args.sequenceid != *slot {
                        let wrong = Nfsstat4::SeqMisordered.number();
                        vec![wrong, 0, 1, op::SEQUENCE, wrong]
                    } else if requests.is_multiple_of(7) {
                        vec![DELAY, 0, 1, op::SEQUENCE, DELAY]
                    } else {
                        *slot += 1;
                        // with RECLAIM_COMPLETE's result, where it is wanted
                        let done = [0, 0, 1, op::SEQUENCE, 0, 7, 7, 7, 7, args.sequenceid];
                        let rest = [args.slotid, slots - 1, slots - 1, 0];
                        [&done[..], &rest, &[op::RECLAIM_COMPLETE, 0]].concat()
                    }
                }
                Some((number, _)) => vec![0, 0, 1, number, 0],
            };
            if stream.write_all(&reply(&call, &words)).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_request_that_got_no_slot_keeps_its_number() {
    let report = load(&plan(sequencing(3), Version::V41)).unwrap().report;
    let [sequence] = &report.operations[..] else { panic!("{report:?}") };
    assert_eq!(sequence.op, "sequence");
    assert!(sequence.calls > 100, "{report:?}");
    let errors: Vec<_> = sequence.errors.keys().map(String::as_str).collect();
    assert_eq!(errors, ["NFS4ERR_DELAY"], "no number was out of order");
}

#[test]
fn fewer_slots_than_calls_in_progress_are_an_error() {
    let error = load(&plan(sequencing(2), Version::V42)).unwrap_err().to_string();
    assert!(error.contains("2 slots") && error.contains("--depth"), "{error}");
}

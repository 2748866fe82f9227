//! The dispatcher's answers byte by byte against RFC 5531 §9, and what it does about
//! retransmissions, panics and sleep.

use crate::toy::{OTHER, PROGRAM, Toy, peer, procedure};
use bowline_rpc::{
    AuthSys, ConnId, DispatchSettings, Done, Duplicate, LargeArgument, OpIndex, Outcome, Reject,
    Request, Transport, Verdict,
};
use proto::rpc::AuthStat;
use std::sync::atomic::Ordering::SeqCst;
use xdr::Writer;

const XID: u32 = 0xfeed_beef;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

fn toy() -> Toy {
    Toy::new(DispatchSettings::default())
}

/// A call of the toy without a credential.
fn call(procedure: u32, args: &[u8]) -> Vec<u8> {
    request(None, procedure, args)
}

fn request(credential: Option<AuthSys<'_>>, procedure: u32, args: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&Request { xid: XID, program: PROGRAM, version: 1, procedure, credential });
    w.raw(args);
    w.bytes().to_vec()
}

/// Dispatches behind what is in the writer already, which must stay as it is.
fn answer(toy: &Toy, record: &[u8]) -> (Done, Vec<u8>) {
    let mut reply = Writer::new();
    reply.u32(0x1234_5678);
    let start = reply.mark();
    let done = toy.dispatch(record, &mut reply);
    assert_eq!(reply.bytes().get(..4), Some(&[0x12, 0x34, 0x56, 0x78][..]));
    (done, reply.since(start).to_vec())
}

#[track_caller]
fn refused(record: &[u8], reject: Reject, op: Option<u16>, reply: &[u32]) {
    let (done, bytes) = answer(&toy(), record);
    assert_eq!(done.verdict, Verdict::Reply);
    assert_eq!(done.rejected, Some(reject));
    assert_eq!(done.op, op.map(OpIndex));
    assert_eq!(bytes, words(&[&[XID, 1], reply].concat()));
}

#[track_caller]
fn unanswered(toy: &Toy, record: &[u8], verdict: Verdict) {
    let (done, bytes) = answer(toy, record);
    assert_eq!((done.verdict, done.rejected), (verdict, Some(Reject::Malformed)));
    assert_eq!((done.op, bytes.len()), (None, 0));
}

#[test]
fn a_result_follows_the_accepted_header() {
    let (done, bytes) = answer(&toy(), &call(procedure::ECHO, b"\0\0\0\x05hello\0\0\0"));
    let outcome = Outcome { bytes_read: 5, ..Outcome::default() };
    let op = Some(OpIndex(1));
    let verdict = Verdict::Reply;
    assert_eq!(done, Done { verdict, op, outcome, rejected: None, duplicate: None });
    let mut expected = words(&[XID, 1, 0, 0, 0, 0, 5]);
    expected.extend_from_slice(b"hello\0\0\0");
    assert_eq!(bytes, expected);
}

#[test]
fn procedures_are_numbered_without_a_gap() {
    let toy = toy();
    let ops = toy.dispatcher.ops();
    let names: Vec<_> = ops.iter().map(|o| (o.program, o.version, o.procedure)).collect();
    assert_eq!(names.len(), 26);
    assert_eq!(names[21], ("toy", 1, "NOTHING"), "operations follow the procedures");
    assert_eq!(names[2], ("toy", 1, "COUNT"));
    assert_eq!(names[24..], [("other", 2, "NULL"), ("other", 4, "NULL")]);
    let (done, _) = answer(&toy, &words(&[XID, 0, 2, OTHER, 4, 0, 0, 0, 0, 0]));
    assert_eq!(done.op, Some(OpIndex(25)));
    let served: Vec<_> = toy.dispatcher.served().collect();
    assert_eq!(served, [(PROGRAM, 1), (OTHER, 2), (OTHER, 4)]);
}

#[test]
fn null_works_with_every_flavour() {
    let sys = AuthSys::new(b"box", 5, 6, &[7; 16]).unwrap();
    for credential in [None, Some(sys)] {
        let (done, bytes) = answer(&toy(), &request(credential, procedure::NULL, b""));
        assert_eq!(done.rejected, None);
        assert_eq!(bytes, words(&[XID, 1, 0, 0, 0, 0]));
    }
}

#[test]
fn other_rpc_versions_are_mismatches() {
    for version in [0, 1, 3, u32::MAX] {
        // What follows the version is that version's own: it may be anything, or nothing.
        for rest in [&[][..], &[PROGRAM, 1, 0, 0, 0, 0, 0]] {
            let record = words(&[&[XID, 0, version], rest].concat());
            refused(&record, Reject::RpcMismatch, None, &[1, 0, 2, 2]);
        }
    }
}

#[test]
fn unknown_programs_versions_and_procedures_are_distinguished() {
    let of =
        |program, version, procedure| words(&[XID, 0, 2, program, version, procedure, 0, 0, 0, 0]);
    for program in [0, PROGRAM - 1, OTHER + 1] {
        refused(&of(program, 1, 0), Reject::ProgUnavail, None, &[0, 0, 0, 1]);
    }
    for version in [0, 2, u32::MAX] {
        let record = of(PROGRAM, version, 99);
        refused(&record, Reject::ProgMismatch, None, &[0, 0, 0, 2, 1, 1]);
    }
    for version in [1, 3, 5] {
        refused(&of(OTHER, version, 0), Reject::ProgMismatch, None, &[0, 0, 0, 2, 2, 4]);
    }
    for procedure in [21, u32::MAX] {
        refused(&of(PROGRAM, 1, procedure), Reject::ProcUnavail, None, &[0, 0, 0, 3]);
    }
    refused(&of(PROGRAM, 1, procedure::HOLE), Reject::ProcUnavail, Some(8), &[0, 0, 0, 3]);
}

#[test]
fn undecodable_arguments_are_garbage_args() {
    let reply = [0, 0, 0, 4];
    for args in [&b""[..], b"\0\0\0\x04abc", b"\0\0\x04\x01", b"\0\0\0\0more"] {
        refused(&call(procedure::ECHO, args), Reject::GarbageArgs, Some(1), &reply);
    }
    refused(&call(procedure::NULL, b"more"), Reject::GarbageArgs, Some(0), &reply);
}

#[test]
fn a_fault_discards_the_partial_result() {
    refused(&call(procedure::FAIL, b""), Reject::SystemErr, Some(3), &[0, 0, 0, 5]);
}

#[test]
fn a_panic_ends_its_call_only() {
    refused(&call(procedure::PANIC, b""), Reject::Panicked, Some(4), &[0, 0, 0, 5]);
    let toy = toy();
    for _ in 0..3 {
        assert_eq!(answer(&toy, &call(procedure::PANIC, b"")).0.rejected, Some(Reject::Panicked));
    }
    assert_eq!(toy.count(), 3, "a call that panicked is forgotten, not taken for running");
    assert_eq!(answer(&toy, &call(procedure::NULL, b"")).0.rejected, None);
    assert_eq!(toy.dispatcher.reply_cache().entries, 0);
}

#[test]
fn a_weak_credential_is_rejected_as_too_weak() {
    let reject = Reject::Auth(AuthStat::TooWeak);
    refused(&call(procedure::WHO, b""), reject, Some(5), &[1, 1, 5]);
    let sys = AuthSys::new(b"box", 1234, 6, &[]).unwrap();
    let (_, bytes) = answer(&toy(), &request(Some(sys), procedure::WHO, b""));
    assert_eq!(bytes, words(&[XID, 1, 0, 0, 0, 0, 1234]));
}

/// A call with this credential and verifier, up to where the arguments would start.
fn with_auth(program: u32, auth: &[u32]) -> Vec<u8> {
    words(&[&[XID, 0, 2, program, 1, 0], auth].concat())
}

#[test]
fn bad_credentials_are_denied_before_anything_else() {
    let bad = |auth: &[u32], stat, number| {
        // Even where there is no such program.
        for program in [PROGRAM, 7] {
            refused(&with_auth(program, auth), Reject::Auth(stat), None, &[1, 1, number]);
        }
    };
    bad(&[6, 0, 0, 0], AuthStat::BadCred, 1);
    bad(&[3, 4, 99, 0, 0], AuthStat::BadCred, 1);
    bad(&[u32::MAX, 0, 0, 0], AuthStat::BadCred, 1);
    bad(&[2, 4, 99, 0, 0], AuthStat::RejectedCred, 2);
    // AUTH_SYS: empty, cut short, too many groups, something left over.
    bad(&[1, 0, 0, 0], AuthStat::BadCred, 1);
    bad(&[1, 16, 0, 0, 5, 5, 0, 0], AuthStat::BadCred, 1);
    bad(&[&[1, 88, 0, 0, 5, 5, 17][..], &[1; 17], &[0, 0]].concat(), AuthStat::BadCred, 1);
    bad(&[1, 24, 0, 0, 5, 5, 0, 0, 0, 0], AuthStat::BadCred, 1);
    // Verifiers are AUTH_NONE.
    bad(&[0, 0, 1, 0], AuthStat::BadVerf, 3);
    bad(&[1, 20, 0, 0, 5, 5, 0, 6, 4, 1], AuthStat::BadVerf, 3);
    // Longer than 400 bytes, whether the bytes are there or not.
    bad(&[0, 401, 0, 0], AuthStat::BadCred, 1);
    bad(&[0, 0, 0, u32::MAX], AuthStat::BadVerf, 3);
    bad(&[&[1, 404][..], &[0; 101], &[0, 0]].concat(), AuthStat::BadCred, 1);
}

#[test]
fn an_auth_body_of_400_bytes_is_accepted() {
    let auth = [&[0, 400][..], &[9; 100], &[0, 400], &[9; 100]].concat();
    let (done, bytes) = answer(&toy(), &with_auth(PROGRAM, &auth));
    assert_eq!((done.rejected, bytes), (None, words(&[XID, 1, 0, 0, 0, 0])));
}

#[test]
fn a_truncated_header_gets_no_reply() {
    let whole = call(procedure::NULL, b"");
    for len in 0..whole.len() {
        unanswered(&toy(), &whole[..len], Verdict::Silence);
    }
}

#[test]
fn replies_are_ignored_and_other_messages_close_the_connection() {
    let toy = toy();
    unanswered(&toy, &words(&[XID, 1, 0, 0, 0, 0]), Verdict::Silence);
    for kind in [2, u32::MAX] {
        unanswered(&toy, &words(&[XID, kind, 2, PROGRAM]), Verdict::Close);
    }
    unanswered(&toy, b"GET / HTTP/1.1\r\n\r\n", Verdict::Close);
    let mut reply = Writer::new();
    let udp = peer(Transport::Udp, 700);
    let done = toy.dispatch_from(udp, b"GET / HTTP/1.1\r\n\r\n", &mut reply);
    assert_eq!((done.verdict, reply.len()), (Verdict::Silence, 0));
}

#[test]
fn a_retransmission_gets_the_first_reply_again() {
    let toy = toy();
    let record = call(procedure::COUNT, b"");
    let (first, bytes) = answer(&toy, &record);
    let outcome = Outcome {
        export: Some(3),
        status: 17,
        bytes_read: 1,
        bytes_written: 2,
        ..Outcome::default()
    };
    assert_eq!((first.outcome, first.duplicate), (outcome, None));
    let mut reply = Writer::new();
    let again = toy.dispatch_from(peer(Transport::Tcp, 999), &record, &mut reply);
    assert_eq!((again.verdict, again.duplicate), (Verdict::Reply, Some(Duplicate::Replayed)));
    assert_eq!((again.op, again.rejected), (Some(OpIndex(2)), None));
    let outcome = Outcome {
        export: Some(3),
        status: 17,
        bytes_read: 0,
        bytes_written: 0,
        ..Outcome::default()
    };
    assert_eq!(again.outcome, outcome);
    assert_eq!(reply.bytes(), bytes);
    assert_eq!(toy.count(), 1);
    // Another argument is another call.
    assert_eq!(answer(&toy, &call(procedure::COUNT, b"\0\0\0\x01")).0.duplicate, None);
    assert_eq!(toy.count(), 2);
}

#[test]
fn replies_of_idempotent_calls_are_not_cached() {
    let toy = toy();
    for _ in 0..2 {
        let (done, _) = answer(&toy, &call(procedure::NULL, b""));
        assert_eq!(done.duplicate, None);
    }
    assert_eq!(toy.dispatcher.reply_cache().entries, 0);
}

#[test]
fn a_plan_may_depend_on_the_arguments() {
    let toy = toy();
    for (first, kept) in [(0, None), (1, Some(Duplicate::Replayed)), (4, None)] {
        let record = call(procedure::MIXED, &words(&[first]));
        assert_eq!(answer(&toy, &record).0.duplicate, None);
        assert_eq!(answer(&toy, &record).0.duplicate, kept, "{first}");
        assert_eq!(toy.dispatcher.is_urgent(&record), first >= 4);
    }
    // Of no arguments, and of others that do not decode.
    for args in [&b""[..], b"\0\0"] {
        let record = call(procedure::MIXED, args);
        assert!(!toy.dispatcher.is_urgent(&record));
        assert_eq!(answer(&toy, &record).0.rejected, None);
    }
}

#[test]
fn a_call_counts_as_its_main_operation_and_others_as_nested() {
    let toy = toy();
    let (first, add, fail) = (21, OpIndex(22), OpIndex(23));
    let (done, _) = answer(&toy, &call(procedure::COMPOUND, &words(&[3, 0, 1, 0])));
    assert_eq!((done.op, done.outcome.status), (Some(add), 0));
    let nothing = (OpIndex(first), 0);
    assert_eq!(*toy.operations.lock().unwrap(), [nothing, nothing]);
    let (done, _) = answer(&toy, &call(procedure::COMPOUND, &words(&[2, 1, 2])));
    assert_eq!((done.op, done.outcome.status), (Some(fail), 70));
    assert_eq!(toy.operations.lock().unwrap().last(), Some(&(add, 0)));
    let (done, _) = answer(&toy, &call(procedure::COMPOUND, &words(&[0])));
    assert_eq!(done.op, Some(OpIndex(15)), "without operations it counts as the procedure");
}

#[test]
fn only_calls_of_urgent_procedures_are_urgent() {
    let toy = toy();
    let urgent = |words: &[u8]| toy.dispatcher.is_urgent(words);
    let of = |kind, program, procedure| words(&[XID, kind, 2, program, 1, procedure]);
    assert!(urgent(&of(0, PROGRAM, procedure::WHO)), "though its credential has not come");
    assert!(!urgent(&of(0, PROGRAM, procedure::WHO)[..23]));
    assert!(!urgent(&of(1, PROGRAM, procedure::WHO)), "a reply");
    assert!(!urgent(&of(0, PROGRAM, procedure::ECHO)));
    assert!(!urgent(&of(0, PROGRAM, 99)) && !urgent(&of(0, OTHER, 0)) && !urgent(b""));
}

#[test]
fn calls_that_fail_or_stay_silent_are_run_again() {
    let toy = toy();
    for run in 1..=2 {
        assert_eq!(answer(&toy, &call(procedure::FAIL, b"")).0.duplicate, None);
        let (done, bytes) = answer(&toy, &call(procedure::SILENT, b""));
        assert_eq!((done.verdict, done.duplicate), (Verdict::Silence, None));
        assert_eq!((done.rejected, bytes.len()), (None, 0));
        assert_eq!(toy.count(), 2 * run);
    }
}

#[test]
fn without_memory_no_reply_is_cached() {
    let toy = Toy::new(DispatchSettings { reply_cache_bytes: 0, ..DispatchSettings::default() });
    for _ in 0..2 {
        assert_eq!(answer(&toy, &call(procedure::COUNT, b"")).0.duplicate, None);
    }
    assert_eq!(toy.count(), 2);
}

#[test]
fn only_blocking_procedures_announce_blocking_and_replays_do_not() {
    let toy = toy();
    answer(&toy, &call(procedure::COUNT, b""));
    assert_eq!(toy.slept(), 0);
    answer(&toy, &call(procedure::SLEEPY, b""));
    assert_eq!(toy.slept(), 1);
    let (done, _) = answer(&toy, &call(procedure::SLEEPY, b""));
    assert_eq!((done.duplicate, toy.slept()), (Some(Duplicate::Replayed), 1));
}

/// Waits for what another thread does.
fn until(what: &str, done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 20, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// What a call by the connection of this port gets.
fn by_port(toy: &Toy, port: u16, record: &[u8]) -> (Verdict, Option<Duplicate>, Vec<u8>) {
    let mut reply = Writer::new();
    let done = toy.dispatch_from(peer(Transport::Tcp, port), record, &mut reply);
    (done.verdict, done.duplicate, reply.bytes().to_vec())
}

fn set_alive(toy: &Toy, ports: &[u64]) {
    *toy.state.alive.lock().unwrap() = ports.iter().map(|port| ConnId(*port)).collect();
}

#[test]
fn each_copy_by_another_connection_waits_for_the_call_that_runs() {
    let toy = toy();
    let record = call(procedure::HELD, b"");
    toy.state.hold.store(true, SeqCst);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| by_port(&toy, 700, &record));
        until("it runs", || toy.count() == 1);
        let copy = |port| {
            let (toy, record) = (&toy, &record);
            scope.spawn(move || by_port(toy, port, record))
        };
        let copies = [copy(701), copy(702)];
        until("both wait and have announced it", || toy.slept() == 2);
        let same = by_port(&toy, 700, &record);
        assert_eq!(same, (Verdict::Silence, Some(Duplicate::Dropped), vec![]), "the first answers");
        assert!(copies.iter().all(|copy| !copy.is_finished()));
        toy.state.hold.store(false, SeqCst);
        let first = first.join().unwrap();
        assert_eq!((first.0, first.1), (Verdict::Reply, None));
        for copy in copies {
            let expected = (Verdict::Reply, Some(Duplicate::Replayed), first.2.clone());
            assert_eq!(copy.join().unwrap(), expected);
        }
    });
    assert_eq!(toy.count(), 1);
}

#[test]
fn a_copy_beyond_the_wait_limit_closes_its_connection() {
    let toy = toy();
    let record = call(procedure::HELD, b"");
    toy.state.hold.store(true, SeqCst);
    std::thread::scope(|scope| {
        let ports = 700..=708;
        let calls: Vec<_> = ports
            .map(|port| {
                let (toy, record) = (&toy, &record);
                let asks = scope.spawn(move || by_port(toy, port, record).0);
                until("it runs or waits", || {
                    toy.count() == 1 && toy.slept() == port as usize - 700
                });
                asks
            })
            .collect();
        let more = by_port(&toy, 709, &record);
        assert_eq!(more, (Verdict::Close, Some(Duplicate::Dropped), vec![]));
        toy.state.hold.store(false, SeqCst);
        assert!(calls.into_iter().all(|call| call.join().unwrap() == Verdict::Reply));
    });
    assert_eq!(by_port(&toy, 710, &record).1, Some(Duplicate::Replayed), "now there is room");
    assert_eq!(toy.count(), 1);
}

#[test]
fn equal_calls_of_open_connections_each_run_once() {
    let toy = toy();
    let record = call(procedure::COUNT, b"");
    set_alive(&toy, &[700, 701, 702]);
    let replies: Vec<_> = (700..=702).map(|port| by_port(&toy, port, &record)).collect();
    assert!(replies.iter().all(|reply| (reply.0, reply.1) == (Verdict::Reply, None)));
    assert_eq!(toy.count(), 3);
    for (port, first) in (700..=702).zip(&replies) {
        let again = by_port(&toy, port, &record);
        assert_eq!(again, (Verdict::Reply, Some(Duplicate::Replayed), first.2.clone()));
    }
    assert_eq!(toy.count(), 3);
}

#[test]
fn a_reply_of_a_closed_connection_goes_to_the_next_copy() {
    let toy = toy();
    let record = call(procedure::COUNT, b"");
    set_alive(&toy, &[700, 701]);
    let first = [700, 701].map(|port| by_port(&toy, port, &record).2);
    set_alive(&toy, &[701, 702]);
    let again = by_port(&toy, 702, &record);
    assert_eq!(again, (Verdict::Reply, Some(Duplicate::Replayed), first[0].clone()));
    assert_eq!(by_port(&toy, 701, &record).2, first[1], "the other's is still its own");
    // the reply has gone to 702, which lives: for 703 there is nothing, whose call is its own
    set_alive(&toy, &[701, 702, 703]);
    assert_eq!(by_port(&toy, 703, &record).1, None);
    assert_eq!(toy.count(), 3);
}

#[test]
fn concurrent_equal_calls_each_get_their_own_reply() {
    let toy = toy();
    let record = call(procedure::HELD, b"");
    set_alive(&toy, &[700, 701, 702, 703]);
    toy.state.hold.store(true, SeqCst);
    std::thread::scope(|scope| {
        let call = |port| {
            let (toy, record) = (&toy, &record);
            scope.spawn(move || by_port(toy, port, record))
        };
        let first = call(700);
        until("it runs", || toy.count() == 1);
        let others = [call(701), call(702), call(703)];
        until("they wait for it", || toy.slept() == 3);
        toy.state.hold.store(false, SeqCst);
        let mut replies: Vec<_> = others.into_iter().map(|call| call.join().unwrap().2).collect();
        replies.push(first.join().unwrap().2);
        replies.sort();
        replies.dedup();
        assert_eq!((replies.len(), toy.count()), (4, 4));
    });
}

#[test]
fn a_call_that_cannot_be_answered_now_closes_the_connection() {
    let toy = toy();
    let record = call(procedure::NOT_NOW, b"");
    assert_eq!(by_port(&toy, 700, &record), (Verdict::Close, None, vec![]));
    assert_eq!(by_port(&toy, 701, &record), (Verdict::Close, None, vec![]));
    let mut reply = Writer::new();
    let done = toy.dispatch_from(peer(Transport::Udp, 700), &record, &mut reply);
    assert_eq!((done.verdict, reply.len(), toy.count()), (Verdict::Silence, 0, 3));
}

#[test]
fn a_replay_unsafe_call_is_cached_over_udp_only() {
    let toy = toy();
    let data = |last| call(procedure::UNDO, &words(&[&[7; 200][..], &[last]].concat()));
    let ask = |transport, record: &[u8]| {
        toy.dispatch_from(peer(transport, 700), record, &mut Writer::new()).duplicate
    };
    let (one, other) = (data(1), data(2));
    assert_eq!(ask(Transport::Udp, &one), None);
    assert_eq!(
        ask(Transport::Udp, &other),
        None,
        "other data is another call, wherever it differs"
    );
    assert_eq!(ask(Transport::Udp, &one), Some(Duplicate::Replayed));
    assert_eq!(toy.count(), 2);
    assert_eq!([(); 2].map(|()| ask(Transport::Tcp, &one)), [None; 2]);
}

#[test]
fn a_duplicate_over_udp_is_dropped_without_waiting() {
    let toy = toy();
    let record = call(procedure::HELD, b"");
    let udp = || toy.dispatch_from(peer(Transport::Udp, 700), &record, &mut Writer::new());
    toy.state.hold.store(true, SeqCst);
    std::thread::scope(|scope| {
        let first = scope.spawn(udp);
        until("it runs", || toy.count() == 1);
        assert_eq!(udp().duplicate, Some(Duplicate::Dropped));
        toy.state.hold.store(false, SeqCst);
        assert_eq!(first.join().unwrap().duplicate, None);
    });
    assert_eq!((toy.count(), toy.slept()), (1, 0));
}

/// The arguments of GATHER, with this many words behind the data.
fn much(words_behind: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..103).collect();
    [&words(&[103])[..], &data, &[0], &words(&vec![7; words_behind])].concat()
}

#[test]
fn a_call_with_data_taken_early_equals_a_whole_call() {
    for behind in [0, 3] {
        let toy = toy();
        let record = call(procedure::GATHER, &much(behind));
        let (whole, expected) = answer(&toy, &record);
        assert_eq!(whole.rejected, None);
        let head = record.len() - 104 - 4 * behind;
        for cut in 0..record.len() {
            let mut reply = Writer::new();
            let (done, taken) = toy.dispatch_parts(&record, cut, &mut reply);
            assert_eq!((done, reply.bytes()), (whole, &expected[..]), "cut at {cut}");
            assert_eq!(taken, cut.saturating_sub(head).min(103) / 4 * 4);
            let counted = toy.operations.lock().unwrap().drain(..).next();
            let expected = (behind > 0 && taken > 0).then_some((OpIndex(22), 0));
            assert_eq!(counted, expected, "an operation behind the data");
        }
    }
}

#[test]
fn data_is_taken_in_pieces_as_it_arrives() {
    let toy = toy();
    let record = call(procedure::GATHER, &much(3));
    let (whole, expected) = answer(&toy, &record);
    // A transport shows a record when more than its header is there.
    let (head, rest) = record.split_at(40);
    let (mut so_far, mut large) = (head.to_vec(), LargeArgument::default());
    for (at, byte) in rest.iter().enumerate() {
        so_far.push(*byte);
        toy.take(&mut so_far, rest.len() - at - 1, &mut large);
    }
    assert_eq!((large.taken(), large.left(), large.piped()), (100, 3, 0));
    let mut reply = Writer::new();
    assert_eq!(toy.finish(&so_far, large, &mut reply), whole);
    assert_eq!(reply.bytes(), expected);
}

#[test]
fn no_data_is_taken_early_from_a_cached_call() {
    let toy = toy();
    let record = call(procedure::HOARD, &much(0));
    for _ in 0..2 {
        let (done, taken) = toy.dispatch_parts(&record, record.len() - 1, &mut Writer::new());
        assert_eq!((done.verdict, taken), (Verdict::Reply, 0));
    }
    assert_eq!(toy.dispatcher.reply_cache().entries, 1);
}

#[test]
fn no_data_is_taken_early_from_an_invalid_call() {
    let toy = toy();
    let long = words(&[&[200][..], &[0; 49]].concat());
    for record in [
        call(99, &much(0)),
        call(procedure::ECHO, &much(0)),
        call(procedure::GATHER, &long),
        b"\x80\0".repeat(40),
    ] {
        assert_eq!(toy.dispatch_parts(&record, 70, &mut Writer::new()).1, 0);
    }
}

#[test]
fn a_call_that_refused_early_data_is_not_offered_more() {
    let toy = toy();
    let offer = |number, large: &mut LargeArgument| {
        let record = call(number, &much(0));
        let mut so_far = record[..record.len() - 4].to_vec();
        toy.take(&mut so_far, 4, large);
        (large.taken(), large.is_over())
    };
    assert_eq!(offer(procedure::GATHER, &mut LargeArgument::default()), (100, false));
    let mut refused = LargeArgument::default();
    assert_eq!(offer(procedure::ECHO, &mut refused), (0, true));
    assert_eq!(offer(procedure::GATHER, &mut refused), (0, true));
}

#[test]
fn a_panic_in_an_argument_sink_fails_only_its_call() {
    let toy = toy();
    let (done, taken) =
        toy.dispatch_parts(&call(procedure::BURST, &much(0)), 100, &mut Writer::new());
    assert_eq!((done.rejected, taken), (Some(Reject::Panicked), 0));
    assert_eq!(answer(&toy, &call(procedure::NULL, b"")).0.rejected, None);
    let record = call(procedure::BURST_LATER, &much(0));
    let (mut so_far, mut large) = (record[..60].to_vec(), LargeArgument::default());
    toy.take(&mut so_far, record.len() - 60, &mut large);
    assert_eq!((large.taken(), large.is_over()), (16, false));
    so_far.extend_from_slice(&record[60..100]);
    toy.take(&mut so_far, record.len() - 100, &mut large);
    assert_eq!((large.taken(), large.is_over()), (16, true));
    so_far.extend_from_slice(&record[100..]);
    let mut reply = Writer::new();
    let done = toy.finish(&so_far, large, &mut reply);
    assert_eq!((done.rejected, done.op), (Some(Reject::Panicked), Some(OpIndex(18))));
    assert_eq!(reply.bytes(), words(&[XID, 1, 0, 0, 0, 5]));
}

//! A flavour that seals arguments and results: what passes through it is what it would be without.

use crate::toy::seal::{SEAL, SealFlavor, control, message, open, reply_verifier, service};
use crate::toy::{PROGRAM, Toy, peer, procedure};
use bowline_rpc::auth::{AuthTls, STARTTLS};
use bowline_rpc::{
    DispatchSettings, Done, Duplicate, LargeArgument, Peer, Reject, Transport, TransportSecurity,
    Verdict,
};
use proto::rpc::{Accepted, AuthStat, OpaqueAuth, ReplyBody, ReplyHeader, flavor};
use xdr::{Reader, Writer};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn toy() -> Toy {
    let toy = Toy::new(DispatchSettings::default());
    toy.dispatcher.auth().add(Box::new(SealFlavor::new(b"joe@REALM"))).unwrap();
    toy
}

fn call(xid: u32, procedure: u32, sequence: u32, service: u32, args: &[u8]) -> Vec<u8> {
    message([xid, PROGRAM, 1, procedure], control::DATA, sequence, service, args)
}

fn ask(toy: &Toy, transport: Transport, record: &[u8]) -> (Done, Vec<u8>) {
    let mut reply = Writer::new();
    let done = toy.dispatch_from(peer(transport, 700), record, &mut reply);
    (done, reply.bytes().to_vec())
}

/// What became of a call, and what follows, if the verifier is that of this number.
#[track_caller]
fn accepted(reply: &[u8], sequence: u32) -> (Accepted, Vec<u8>) {
    let mut r = Reader::new(reply);
    let header: ReplyHeader<'_> = r.get().unwrap();
    let ReplyBody::Accepted { verifier, status } = header.body else { panic!("denied") };
    let expected = reply_verifier(sequence);
    assert_eq!(verifier, OpaqueAuth { flavor: SEAL, body: &expected });
    (status, r.rest().to_vec())
}

/// The results of a sealed reply.
#[track_caller]
fn results(reply: &[u8], sequence: u32) -> Vec<u8> {
    let (status, sealed) = accepted(reply, sequence);
    assert_eq!(status, Accepted::Success);
    open(sequence, &sealed).expect("results that were not tampered with")
}

const HELLO: &[u8] = b"\0\0\0\x05hello\0\0\0";

#[test]
fn sealed_calls_are_answered_as_plain_ones() {
    let toy = toy();
    for (n, transport) in (1..).zip(BOTH) {
        let (done, reply) =
            ask(&toy, transport, &call(7, procedure::ECHO, n, service::SEALED, HELLO));
        assert_eq!((done.verdict, done.rejected), (Verdict::Reply, None));
        assert_eq!(results(&reply, n), HELLO);
        assert!(!reply.windows(5).any(|five| five == b"hello"), "it is sealed");
        let record = call(8, procedure::WHO, 100 + n, service::SEALED, b"");
        let who = results(&ask(&toy, transport, &record).1, 100 + n);
        assert_eq!(who, b"\0\0\0\x09joe@REALM\0\0\0");
        let record = call(9, procedure::ECHO, 200 + n, service::NONE, HELLO);
        let (status, plain) = accepted(&ask(&toy, transport, &record).1, 200 + n);
        assert_eq!((status, &plain[..]), (Accepted::Success, HELLO));
    }
}

#[test]
fn a_tampered_call_reaches_no_procedure() {
    let toy = toy();
    let good = call(7, procedure::COUNT, 1, service::SEALED, b"\0\0\0\x01");
    for at in 0..good.len() {
        let mut record = good.clone();
        record[at] ^= 0x10;
        let _ = ask(&toy, Transport::Tcp, &record);
        assert_eq!(toy.count(), 0, "byte {at}");
    }
    let mut args = call(8, procedure::COUNT, 2, service::SEALED, b"\0\0\0\x01");
    *args.last_mut().unwrap() ^= 1;
    let (done, reply) = ask(&toy, Transport::Tcp, &args);
    assert_eq!(done.rejected, Some(Reject::GarbageArgs));
    assert_eq!(accepted(&reply, 2), (Accepted::GarbageArgs, vec![]));
    let mut header = call(9, procedure::COUNT, 3, service::SEALED, b"\0\0\0\x01");
    header[3] ^= 1;
    let (done, _) = ask(&toy, Transport::Tcp, &header);
    assert_eq!(done.rejected, Some(Reject::Auth(AuthStat::GssCredProblem)));
}

#[test]
fn a_repeated_sequence_number_gets_no_reply() {
    let toy = toy();
    let record = call(7, procedure::COUNT, 1, service::SEALED, b"");
    assert_eq!(ask(&toy, Transport::Tcp, &record).0.verdict, Verdict::Reply);
    let (done, reply) = ask(&toy, Transport::Tcp, &record);
    assert_eq!((done.verdict, done.rejected, reply.len()), (Verdict::Silence, None, 0));
}

#[test]
fn a_retransmission_gets_the_cached_results_sealed_again() {
    let toy = toy();
    for (n, transport) in (0..).zip(BOTH) {
        let send = |sequence| {
            let record = call(7, procedure::COUNT, sequence, service::SEALED, b"");
            let (done, reply) = ask(&toy, transport, &record);
            (done.duplicate, results(&reply, sequence))
        };
        let (first, again) = (send(10 * n + 1), send(10 * n + 2));
        assert_eq!((first.0, again.0), (None, Some(Duplicate::Replayed)));
        assert_eq!((first.1, toy.count()), (again.1, n + 1));
    }
}

#[test]
fn replies_without_results_have_a_verifier_and_are_not_sealed() {
    let toy = toy();
    for (n, procedure, status) in [
        (1, procedure::FAIL, Accepted::SystemErr),
        (2, procedure::PANIC, Accepted::SystemErr),
        (3, procedure::HOLE, Accepted::ProcUnavail),
        (4, 99, Accepted::ProcUnavail),
    ] {
        let record = call(n, procedure, n, service::SEALED, b"");
        assert_eq!(accepted(&ask(&toy, Transport::Tcp, &record).1, n), (status, vec![]));
    }
    let missing = message([9, 7, 1, 0], control::DATA, 9, service::SEALED, b"");
    let (status, _) = accepted(&ask(&toy, Transport::Tcp, &missing).1, 9);
    assert_eq!(status, Accepted::ProgUnavail);
}

#[test]
fn a_deferred_reply_is_sealed_after_its_flavour_was_removed() {
    let toy = toy();
    let record = call(7, procedure::LATER, 1, service::SEALED, b"");
    assert_eq!(ask(&toy, Transport::Tcp, &record).0.verdict, Verdict::Deferred);
    drop(toy.dispatcher.auth().remove(SEAL).unwrap());
    let deferred = toy.state.deferred.lock().unwrap().pop().unwrap();
    deferred.complete(|reply, _| {
        reply.u32(42);
        Ok(())
    });
    let (reply, _) = toy.posted.replies.lock().unwrap().pop().unwrap();
    assert_eq!(results(&reply, 1), [0, 0, 0, 42]);
}

#[test]
fn no_data_is_taken_early_from_a_sealed_record() {
    let toy = toy();
    let data = [&[0, 0, 0, 200][..], &[7; 200]].concat();
    for (n, service) in [(1, service::NONE), (2, service::SEALED)] {
        let record = call(7, procedure::GATHER, n, service, &data);
        let (mut so_far, mut large) = (record[..150].to_vec(), LargeArgument::default());
        toy.take(&mut so_far, record.len() - 150, &mut large);
        assert_eq!((large.taken(), large.is_over()), (0, true));
        let (done, _) = ask(&toy, Transport::Tcp, &record);
        assert_eq!((done.verdict, done.rejected), (Verdict::Reply, None), "not taken for a replay");
    }
}

#[test]
fn file_ranges_are_used_only_in_unsealed_replies() {
    let toy = toy();
    let ask = |n, service| {
        let mut reply = Writer::new();
        reply.take_ranges(Some(1));
        let record = call(7, procedure::RANGES, n, service, b"");
        toy.dispatch(&record, &mut reply);
        reply.bytes().to_vec()
    };
    assert_eq!(accepted(&ask(1, service::NONE), 1).1, [0, 0, 0, 1]);
    assert_eq!(results(&ask(2, service::SEALED), 2), [0, 0, 0, 0]);
}

#[test]
fn control_messages_are_answered_by_the_flavour() {
    let toy = toy();
    let record =
        message([7, PROGRAM, 1, procedure::COUNT], control::INIT, 1, service::NONE, b"token");
    let (done, reply) = ask(&toy, Transport::Tcp, &record);
    assert_eq!((done.verdict, done.op, toy.count()), (Verdict::Reply, None, 0));
    assert_eq!(accepted(&reply, 1), (Accepted::Success, b"nekot".to_vec()));
}

/// Sends a call with this transport security.
fn ask_through(toy: &Toy, peer: Peer, record: &[u8]) -> (Done, Vec<u8>) {
    let mut reply = Writer::new();
    let done = toy.dispatch_from(peer, record, &mut reply);
    (done, reply.bytes().to_vec())
}

#[test]
fn a_probe_for_tls_is_answered_where_it_can_begin_and_refused_elsewhere() {
    let toy = Toy::new(DispatchSettings::default());
    let probe = |procedure, credential: &OpaqueAuth<'_>, verifier: &OpaqueAuth<'_>| {
        let mut w = Writer::new();
        w.words([7, 0, 2, PROGRAM, 1, procedure]);
        w.put(credential);
        w.put(verifier);
        w.bytes().to_vec()
    };
    let tls = OpaqueAuth { flavor: flavor::AUTH_TLS, body: &[] };
    let right = probe(0, &tls, &OpaqueAuth::NONE);
    let plain = peer(Transport::Tcp, 700);
    let refused = Some(Reject::Auth(AuthStat::BadCred));
    // without a certificate the flavour is not there
    assert_eq!(ask_through(&toy, plain, &right).0.rejected, refused);
    toy.dispatcher.auth().add(Box::new(AuthTls)).unwrap();
    let (done, reply) = ask_through(&toy, plain, &right);
    assert_eq!(done.verdict, Verdict::StartTls);
    let header: ReplyHeader<'_> = Reader::new(&reply).get().unwrap();
    let verifier = OpaqueAuth { flavor: 0, body: STARTTLS };
    assert_eq!(header.body, ReplyBody::Accepted { verifier, status: Accepted::Success });
    // RFC 9289 §4.1: not for another procedure, not with a body, not inside TLS; and no DTLS here
    let long = OpaqueAuth { body: &[0; 4], ..tls };
    let other = OpaqueAuth { flavor: 1, body: &[] };
    let full = OpaqueAuth { flavor: 0, body: &[0; 4] };
    for (peer, record) in [
        (plain, probe(1, &tls, &OpaqueAuth::NONE)),
        (plain, probe(0, &long, &OpaqueAuth::NONE)),
        (plain, probe(0, &tls, &other)),
        (plain, probe(0, &tls, &full)),
        (peer(Transport::Udp, 700), right.clone()),
        (Peer { security: TransportSecurity::TLS, ..plain }, right.clone()),
    ] {
        let (done, _) = ask_through(&toy, peer, &record);
        assert_eq!((done.verdict, done.rejected), (Verdict::Reply, refused), "{peer:?}");
    }
}

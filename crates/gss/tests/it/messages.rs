//! The rules of RFC 2203 §5, one by one.

use crate::client::{Answer, Client, answer, init, message, protected};
use crate::toy::Server;
use bowline_gss::{CONTEXTS_OF_PRINCIPAL_MAX, QUEUE_OF_CLIENT_MAX, WINDOW};
use proto::rpc::{Accepted, AuthStat, ReplyBody, ReplyHeader, flavor};
use proto::rpcsec_gss::{Control, GssCredential, InitResult, Service};
use rpc::{Duplicate, Reject, Verdict};
use std::time::Duration;
use xdr::Reader;

const ECHO: u32 = 1;
const WHO: u32 = 2;
const COUNT: u32 = 3;
const HELLO: &[u8] = b"\0\0\0\x05hello\0\0\0";

#[test]
fn calls_of_each_service_are_answered_in_kind() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    for (n, service) in (1..).zip(Service::ALL) {
        let results = client.ask(&server, ECHO, n, *service, HELLO);
        assert_eq!(results, Answer::Results(HELLO.to_vec()), "{service:?}");
        let Answer::Results(who) = client.ask(&server, WHO, 10 + n, *service, b"") else {
            panic!()
        };
        let mut r = Reader::new(&who);
        assert_eq!(r.opaque(99), Ok(&b"alice@LAB.TEST"[..]));
        assert_eq!(r.u32(), Ok(390_002 + n), "the pseudo-flavour of {service:?}");
    }
    let sealed = server.ask(&client.call(1, ECHO, 99, Service::Privacy, HELLO)).1;
    assert!(!sealed.windows(5).any(|five| five == b"hello"));
    assert_eq!((server.counts)().contexts, 1);
}

#[test]
fn a_call_with_a_changed_bit_is_not_executed() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    let mut sequence = 0;
    for service in Service::ALL {
        let len = client.call(7, COUNT, 0, *service, b"").len();
        for at in 8..len {
            sequence += 1;
            let mut record = client.call(7, COUNT, sequence, *service, b"");
            record[at] ^= 1;
            let (done, _) = server.ask(&record);
            assert!(done.op.is_none() || done.rejected.is_some(), "byte {at}, {service:?}");
        }
    }
    // the procedure has not run
    let Answer::Results(n) = client.ask(&server, COUNT, sequence + 1, Service::None, b"") else {
        panic!()
    };
    assert_eq!(n, [0, 0, 0, 0]);
}

#[test]
fn a_wrong_header_is_credproblem_and_wrong_arguments_are_garbage_args() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    let mut record = client.call(7, COUNT, 1, Service::None, b"");
    record[3] ^= 1;
    let (done, _) = server.ask(&record);
    assert_eq!(done.rejected, Some(Reject::Auth(AuthStat::GssCredProblem)));
    let told = server.refusals.recv().unwrap();
    assert!(told.starts_with("alice@LAB.TEST: wrong checksum of a call header"), "{told}");
    for (n, service) in [(2, Service::Integrity), (3, Service::Privacy)] {
        // signed or sealed with the sequence number of another message
        let args = protected(n + 100, service, b"");
        let record = message(7, COUNT, &client.credential(n, service), &args);
        let reply = server.ask(&record).1;
        assert_eq!(answer(&reply, n, service), Answer::Status(Accepted::GarbageArgs));
    }
    assert_eq!((server.counts)().wrong_checksums, 3);
}

#[test]
fn a_sequence_number_is_answered_once_and_not_below_the_window() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    let ask = |sequence| client.ask(&server, COUNT, sequence, Service::None, b"");
    assert!(matches!(ask(5), Answer::Results(_)));
    assert_eq!(ask(5), Answer::Nothing);
    assert!(matches!(ask(5 + WINDOW), Answer::Results(_)));
    assert_eq!(ask(4), Answer::Nothing);
    assert_eq!(ask(0x8000_0000), Answer::Denied(AuthStat::GssCtxProblem));
    assert_eq!((server.counts)().replays, 2);
    for _ in 0..2 {
        let told = server.refusals.recv().unwrap();
        assert!(told.starts_with("alice@LAB.TEST: repeated or outdated sequence number"), "{told}");
    }
}

#[test]
fn a_retransmission_with_a_new_number_gets_the_first_results() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    for (n, service) in (1..).zip(Service::ALL) {
        let send = |sequence| {
            let (done, reply) = server.ask(&client.call(70 + n, COUNT, sequence, *service, b""));
            (done.duplicate, answer(&reply, sequence, *service))
        };
        let (first, again) = (send(10 * n), send(10 * n + 1));
        assert_eq!((first.0, again.0), (None, Some(Duplicate::Replayed)));
        assert_eq!(first.1, again.1);
    }
}

#[test]
fn a_refused_token_is_answered_with_its_gss_status_and_reported() {
    let server = Server::new();
    let (done, _) = server.ask(&init(4, b"wrong"));
    assert_eq!(done.verdict, Verdict::Deferred);
    let reply = server.later();
    let mut r = Reader::new(&reply);
    let header: ReplyHeader<'_> = r.get().unwrap();
    let ReplyBody::Accepted { verifier, status: Accepted::Success } = header.body else { panic!() };
    let result: InitResult<'_> = r.get().unwrap();
    assert_eq!((verifier.flavor, result.handle), (flavor::AUTH_NONE, &b""[..]));
    assert_eq!((result.major, result.minor), (9 << 16, 77));
    assert_eq!(server.refusals.recv().unwrap(), "a wrong token");
    assert_eq!((server.counts)().refused, 1);
}

#[test]
fn an_expired_context_is_ctxproblem_and_an_unknown_one_credproblem() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    let credential =
        GssCredential { control: Control::Destroy, ..client.credential(1, Service::None) };
    let (done, reply) = server.ask(&message(7, 0, &credential, b""));
    assert_eq!(done.verdict, Verdict::Reply);
    assert_eq!(answer(&reply, 1, Service::None), Answer::Results(Vec::new()));
    assert_eq!((server.counts)().contexts, 0);
    let after = client.ask(&server, ECHO, 2, Service::None, HELLO);
    assert_eq!(after, Answer::Denied(AuthStat::GssCredProblem));
    for handle in [&b""[..], b"short", &[7; 16], &[7; 64]] {
        let stranger = Client { handle: handle.to_vec() };
        let answer = stranger.ask(&server, ECHO, 1, Service::None, HELLO);
        assert_eq!(answer, Answer::Denied(AuthStat::GssCredProblem));
    }
}

#[test]
fn a_principal_with_too_many_contexts_loses_its_oldest_only() {
    let server = Server::new();
    let other = Client::new(&server, "bob@LAB.TEST");
    let first = Client::new(&server, "alice@LAB.TEST");
    let second = Client::new(&server, "alice@LAB.TEST");
    for _ in 0..CONTEXTS_OF_PRINCIPAL_MAX - 1 {
        Client::new(&server, "alice@LAB.TEST");
    }
    let ask = |client: &Client| client.ask(&server, ECHO, 1, Service::None, HELLO);
    assert_eq!(ask(&first), Answer::Denied(AuthStat::GssCredProblem));
    assert_eq!(ask(&second), Answer::Results(HELLO.to_vec()));
    assert_eq!(ask(&other), Answer::Results(HELLO.to_vec()));
    let counts = (server.counts)();
    assert_eq!((counts.contexts, counts.evicted), (CONTEXTS_OF_PRINCIPAL_MAX as u64 + 1, 1));
}

/// Tokens that take long, as with a KDC or a name service that does not answer: calls of established contexts go on, and
/// another client's token has its place.
#[test]
fn a_flood_of_tokens_takes_the_places_of_its_own_client_only() {
    let server = Server::new();
    let client = Client::new(&server, "alice@LAB.TEST");
    let send = |from: &str, token: &[u8]| {
        let (done, reply) = server.ask_from(from, &init(5, token));
        assert_eq!((done.verdict, reply.len()), (Verdict::Deferred, 0));
    };
    // both threads have one
    for n in 1..=2 {
        send("192.0.2.7:700", b"held");
        server.gate.until(n);
    }
    let beyond = 10_000 - QUEUE_OF_CLIENT_MAX;
    (0..QUEUE_OF_CLIENT_MAX + beyond).for_each(|_| send("192.0.2.7:701", b"held"));
    assert_eq!((server.counts)().dropped, beyond as u64);
    // addresses of one network of IPv6 are one client
    for n in 0..=QUEUE_OF_CLIENT_MAX {
        send(&format!("[2001:db8::{n:x}]:700"), b"held");
    }
    assert_eq!((server.counts)().dropped, beyond as u64 + 1);
    let results = client.ask(&server, ECHO, 1, Service::Integrity, HELLO);
    assert_eq!(results, Answer::Results(HELLO.to_vec()));
    send("[2001:db8:0:1::1]:700", b"bob");
    server.gate.open();
    let replies: Vec<Vec<u8>> =
        (0..2 + 2 * QUEUE_OF_CLIENT_MAX + 1).map(|_| server.later()).collect();
    let is_bobs = |reply: &&Vec<u8>| reply.windows(7).any(|part| part == b"\0\0\0\x03bob");
    assert_eq!(replies.iter().filter(is_bobs).count(), 1);
}

#[test]
fn tokens_are_accepted_in_null_calls_of_limited_length_only() {
    let server = Server::new();
    let credential =
        GssCredential { control: Control::Init, sequence: 0, service: Service::None, handle: &[] };
    let long = [&(1_u32 << 20).to_be_bytes()[..], b"short"].concat();
    for (procedure, args) in [(ECHO, &b"\0\0\0\x05alice\0\0\0"[..]), (0, &long), (0, b"")] {
        let (done, _) = server.ask(&message(7, procedure, &credential, args));
        assert!(matches!(done.rejected, Some(Reject::Auth(_))), "{:?}", done.rejected);
    }
    let again = GssCredential { control: Control::ContinueInit, ..credential };
    let (done, _) = server.ask(&message(7, 0, &again, b"\0\0\0\x05alice\0\0\0"));
    assert_eq!(done.rejected, Some(Reject::Auth(AuthStat::BadCred)));
    assert!(
        server.refusals.recv_timeout(Duration::from_millis(1)).is_err(),
        "no token was processed"
    );
}

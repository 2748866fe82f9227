//! The flavour that seals arguments and results, over real connections and datagrams: what is sealed passes through
//! receiving ahead, ranges of files, deferred replies and several records at once as plain calls do.

#[path = "../../../rpc/tests/it/toy/seal.rs"]
#[allow(dead_code, reason = "tests of the dispatcher use the rest")]
mod seal;

use crate::toy::{ECHO, FILE, LATER, PROGRAM, TAKE, Toy, config, datagrams, opaque, record, until};
use bowline_svc::{Config, ZeroCopy};
use proto::rpc::{Accepted, OpaqueAuth, ReplyBody, ReplyHeader};
use seal::{SEAL, SealFlavor, control, open, reply_verifier, service};
use std::io::Write;
use std::sync::Arc;
use telemetry::Counter;
use xdr::Reader;

fn toy(config: Config) -> Toy {
    let toy = Toy::start(config);
    toy.dispatcher.auth().add(Box::new(SealFlavor::new(b"joe@REALM"))).unwrap();
    toy
}

/// A call whose arguments are sealed; its number is both xid and sequence.
fn sealed(number: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let numbers = [number, PROGRAM, 1, procedure];
    seal::message(numbers, control::DATA, number, service::SEALED, args)
}

/// What became of the call of this number, and what follows the reply's header, as it was on the wire.
#[track_caller]
fn parse(reply: &[u8], number: u32) -> (Accepted, Vec<u8>) {
    let mut r = Reader::new(reply);
    let header: ReplyHeader<'_> = r.get().unwrap();
    assert_eq!(header.xid, number);
    let ReplyBody::Accepted { verifier, status } = header.body else { panic!("denied") };
    assert_eq!(verifier, OpaqueAuth { flavor: SEAL, body: &reply_verifier(number) });
    (status, r.rest().to_vec())
}

/// The results of a sealed reply.
#[track_caller]
fn results(reply: &[u8], number: u32) -> Vec<u8> {
    let (status, sealed) = parse(reply, number);
    assert_eq!(status, Accepted::Success);
    open(number, &sealed).expect("results that were not tampered with")
}

#[test]
fn sealed_calls_are_answered_over_connections_and_datagrams() {
    let toy = toy(config());
    let args = opaque(b"not for others");
    let mut client = toy.client();
    // several records at once, then one that arrives in two parts
    let batch: Vec<u8> = (1..=20).flat_map(|n| record(&sealed(n, ECHO, &args))).collect();
    client.0.write_all(&batch).unwrap();
    for number in 1..=20 {
        let reply = client.try_receive().unwrap();
        assert!(!reply.windows(14).any(|part| part == b"not for others"), "it is sealed");
        assert_eq!(results(&reply, number), args);
    }
    let wire = record(&sealed(21, ECHO, &args));
    client.0.write_all(&wire[..50]).unwrap();
    until("a part has arrived", || toy.server.conns()[0].partial_bytes > 0);
    client.0.write_all(&wire[50..]).unwrap();
    assert_eq!(results(&client.try_receive().unwrap(), 21), args);

    let socket = datagrams(toy.udp);
    let mut buf = [0; 500];
    for number in 30..40 {
        socket.send(&sealed(number, ECHO, &args)).unwrap();
        let len = socket.recv(&mut buf).unwrap();
        assert_eq!(results(&buf[..len], number), args);
    }
    toy.stop();
}

#[test]
fn sealed_data_is_not_taken_early() {
    let toy = toy(config());
    let mut client = toy.client();
    let data = vec![7; 600_000];
    let args = [&0_u32.to_be_bytes()[..], &opaque(&data)].concat();
    for (number, pieces) in [(1, 1), (2, 7)] {
        let wire = record(&sealed(number, TAKE, &args));
        for piece in wire.chunks(wire.len().div_ceil(pieces)) {
            client.0.write_all(piece).unwrap();
        }
        let results = results(&client.try_receive().unwrap(), number);
        assert_eq!(results[..4], [0; 4], "none of it came ahead");
        assert!(results[4..] == opaque(&data));
    }
    assert_eq!(toy.counter(Counter::PiecesAhead), 0);
    toy.stop();
}

#[test]
fn tampered_and_repeated_calls_have_no_effect() {
    let toy = toy(config());
    let mut client = toy.client();
    let mut tampered = sealed(1, ECHO, &opaque(b"hello"));
    *tampered.last_mut().unwrap() ^= 1;
    client.0.write_all(&record(&tampered)).unwrap();
    assert_eq!(parse(&client.try_receive().unwrap(), 1), (Accepted::GarbageArgs, vec![]));
    // a copy of a call gets no answer, and the next call does
    let args = opaque(b"x");
    let socket = datagrams(toy.udp);
    for number in [2, 2, 3] {
        socket.send(&sealed(number, ECHO, &args)).unwrap();
    }
    client.0.write_all(&record(&sealed(4, ECHO, &args)).repeat(2)).unwrap();
    client.0.write_all(&record(&sealed(5, ECHO, &args))).unwrap();
    for number in [4, 5] {
        assert_eq!(results(&client.try_receive().unwrap(), number), args);
    }
    let mut buf = [0; 500];
    for number in [2, 3] {
        let len = socket.recv(&mut buf).unwrap();
        assert_eq!(results(&buf[..len], number), args);
    }
    toy.stop();
}

#[test]
fn file_ranges_are_sealed() {
    let toy = toy(Config { zero_copy: ZeroCopy::On, ..config() });
    let data: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, &data).unwrap();
    *toy.state.file.lock().unwrap() = Some(Arc::new(std::fs::File::open(&path).unwrap().into()));
    let args = [&0_u64.to_be_bytes()[..], &1_000_000_u32.to_be_bytes()].concat();
    let mut client = toy.client();
    client.0.write_all(&record(&sealed(1, FILE, &args))).unwrap();
    assert!(results(&client.try_receive().unwrap(), 1) == opaque(&data));
    assert_eq!(toy.counter(Counter::BytesNotCopied), 0);
    // the flavour leaves results as they are if only the header is signed
    let plain = seal::message([2, PROGRAM, 1, FILE], control::DATA, 2, service::NONE, &args);
    client.0.write_all(&record(&plain)).unwrap();
    let (status, results) = parse(&client.try_receive().unwrap(), 2);
    assert!(status == Accepted::Success && results == opaque(&data));
    until("the range is counted", || toy.counter(Counter::BytesNotCopied) == 1_000_000);
    toy.stop();
}

#[test]
fn deferred_replies_are_sealed() {
    let toy = toy(config());
    let mut client = toy.client();
    let socket = datagrams(toy.udp);
    client.0.write_all(&record(&sealed(1, LATER, &11_u32.to_be_bytes()))).unwrap();
    socket.send(&sealed(2, LATER, &12_u32.to_be_bytes())).unwrap();
    until("both are pending", || toy.state.deferred.lock().unwrap().len() == 2);
    for (argument, deferred) in toy.state.deferred.lock().unwrap().drain(..) {
        crate::deferred::complete(argument, deferred);
    }
    assert_eq!(results(&client.try_receive().unwrap(), 1), 11_u32.to_be_bytes());
    let mut buf = [0; 500];
    let len = socket.recv(&mut buf).unwrap();
    assert_eq!(results(&buf[..len], 2), 12_u32.to_be_bytes());
    toy.stop();
}

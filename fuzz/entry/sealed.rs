//! A flavour that seals arguments and results: a sealed call has the answer of the plain one,
//! sealed; one that was tampered with gets one well-formed reply, or none.

#[path = "../../crates/rpc/tests/it/toy/mod.rs"]
#[allow(dead_code, reason = "tests of the dispatcher use the rest")]
mod toy;

use bowline_rpc::{DispatchSettings, Reply, Request, Verdict};
use proto::rpc::{Accepted, OpaqueAuth, ReplyBody, ReplyHeader};
use toy::seal::{SEAL, SealFlavor, control, message, open, reply_verifier, service};
use toy::{PROGRAM, Toy, procedure};
use xdr::{Reader, Writer};

const XID: u32 = 7;

fn toy() -> Toy {
    // small, because it is made anew for each input
    let settings = DispatchSettings { reply_cache_bytes: 1 << 16, ..Default::default() };
    let toy = Toy::new(settings);
    toy.dispatcher.auth().add(Box::new(SealFlavor::new(b"name"))).expect("its number is free");
    toy
}

/// What an accepted call's reply says, and its results.
fn parts(reply: &[u8]) -> Option<(OpaqueAuth<'_>, Accepted, &[u8])> {
    let mut r = Reader::new(reply);
    let header: ReplyHeader<'_> = r.get().ok()?;
    match header.body {
        ReplyBody::Accepted { verifier, status } => Some((verifier, status, r.rest())),
        ReplyBody::Denied(_) => None,
    }
}

/// Checks one input: the procedure, the number of the message, the byte that is changed, the
/// arguments.
pub fn run(data: &[u8]) {
    let mut r = Reader::new(data);
    let Ok([number, sequence, change]) = r.words() else { return };
    let args = r.rest();
    let sealed = message([XID, PROGRAM, 1, number], control::DATA, sequence, service::SEALED, args);
    // These know their caller, and how their reply leaves.
    if ![procedure::WHO, procedure::RANGES].contains(&number) {
        same_as_plain(number, args, sequence, &sealed);
    }
    tampered(&sealed, change);
}

fn same_as_plain(number: u32, args: &[u8], sequence: u32, sealed: &[u8]) {
    let mut call = Writer::new();
    let (program, version) = (PROGRAM, 1);
    call.put(&Request { xid: XID, program, version, procedure: number, credential: None });
    call.raw(args);
    let (mut plain, mut wrapped) = (Writer::new(), Writer::new());
    let expected = toy().dispatch(call.bytes(), &mut plain);
    let done = toy().dispatch(sealed, &mut wrapped);
    assert_eq!((done.verdict, done.op), (expected.verdict, expected.op));
    assert_eq!(done.rejected, expected.rejected);
    let Some((_, status, results)) = parts(plain.bytes()) else { return };
    let (verifier, same, body) = parts(wrapped.bytes()).expect("it was accepted");
    let body_of_verifier = reply_verifier(sequence);
    assert_eq!(verifier, OpaqueAuth { flavor: SEAL, body: &body_of_verifier });
    assert_eq!(same, status);
    match status {
        Accepted::Success => assert_eq!(open(sequence, body).as_deref(), Some(results)),
        _ => assert_eq!(body, results),
    }
}

fn tampered(sealed: &[u8], change: u32) {
    let mut record = sealed.to_vec();
    let at = change as usize >> 8;
    let Some(byte) = record.get_mut(at) else { return };
    *byte ^= (change & 0xff) as u8;
    let mut reply = Writer::new();
    let done = toy().dispatch(&record, &mut reply);
    assert_eq!(done.verdict == Verdict::Reply, !reply.is_empty());
    if !reply.is_empty() {
        Reply::parse(reply.bytes()).expect("a reply that is well-formed");
    }
}

//! A client of the test program: encodes messages, and checks replies as RFC 2203 requires.

use crate::toy::{PROGRAM, Server, checksum};
use bowline_gss::Messages;
use proto::rpc::{Accepted, AuthStat, Denied, OpaqueAuth, ReplyBody, ReplyHeader, flavor};
use proto::rpcsec_gss::{Control, GssCredential, InitResult, IntegrityBody, Service};
use rpc::Verdict;
use xdr::{Encode, Reader, Writer};

/// A context that a client has established.
pub struct Client {
    pub handle: Vec<u8>,
}

/// A message with the right checksum over its header.
pub fn message(xid: u32, procedure: u32, credential: &GssCredential<'_>, args: &[u8]) -> Vec<u8> {
    let mut body = Writer::new();
    credential.encode(&mut body);
    let mut w = Writer::new();
    w.words([xid, 0, 2, PROGRAM, 1, procedure]);
    w.put(&OpaqueAuth { flavor: flavor::RPCSEC_GSS, body: body.bytes() });
    match credential.control {
        Control::Init => w.put(&OpaqueAuth::NONE),
        _ => {
            let sum = checksum(w.bytes());
            w.put(&OpaqueAuth { flavor: flavor::RPCSEC_GSS, body: &sum });
        }
    }
    w.raw(args);
    w.bytes().to_vec()
}

/// The first message of a context.
pub fn init(xid: u32, token: &[u8]) -> Vec<u8> {
    let credential =
        GssCredential { control: Control::Init, sequence: 0, service: Service::None, handle: &[] };
    let mut args = Writer::new();
    args.opaque(token);
    message(xid, 0, &credential, args.bytes())
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Results(Vec<u8>),
    Status(Accepted),
    Denied(AuthStat),
    Nothing,
}

impl Client {
    /// Establishes a context.
    pub fn new(server: &Server, token: &str) -> Self {
        let (done, reply) = server.ask(&init(1, token.as_bytes()));
        assert_eq!((done.verdict, reply.len()), (Verdict::Deferred, 0));
        let reply = server.later();
        let mut r = Reader::new(&reply);
        let header: ReplyHeader<'_> = r.get().unwrap();
        let ReplyBody::Accepted { verifier, status } = header.body else { panic!("denied") };
        let result: InitResult<'_> = r.get().unwrap();
        assert_eq!((status, result.major), (Accepted::Success, 0));
        assert_eq!(verifier.body, checksum(&result.window.to_be_bytes()));
        let token: Vec<u8> = token.bytes().rev().collect();
        assert_eq!(result.token, token);
        Self { handle: result.handle.to_vec() }
    }

    pub fn credential(&self, sequence: u32, service: Service) -> GssCredential<'_> {
        GssCredential { control: Control::Data, sequence, service, handle: &self.handle }
    }

    /// A call, its arguments protected.
    pub fn call(
        &self,
        xid: u32,
        procedure: u32,
        sequence: u32,
        service: Service,
        args: &[u8],
    ) -> Vec<u8> {
        let args = protected(sequence, service, args);
        message(xid, procedure, &self.credential(sequence, service), &args)
    }

    /// The answer to a call, its verifier checked and its results unprotected.
    pub fn ask(
        &self,
        server: &Server,
        procedure: u32,
        sequence: u32,
        service: Service,
        args: &[u8],
    ) -> Answer {
        let (_, reply) = server.ask(&self.call(9, procedure, sequence, service, args));
        answer(&reply, sequence, service)
    }
}

/// Arguments or results as they are sent.
pub fn protected(sequence: u32, service: Service, args: &[u8]) -> Vec<u8> {
    let body = [&sequence.to_be_bytes(), args].concat();
    let mut w = Writer::new();
    match service {
        Service::None => w.raw(args),
        Service::Integrity => w.put(&IntegrityBody { body: &body, checksum: &checksum(&body) }),
        Service::Privacy => w.opaque(&crate::toy::sealed(&body)),
    }
    w.bytes().to_vec()
}

/// Reads an answer.
pub fn answer(reply: &[u8], sequence: u32, service: Service) -> Answer {
    if reply.is_empty() {
        return Answer::Nothing;
    }
    let mut r = Reader::new(reply);
    let header: ReplyHeader<'_> = r.get().unwrap();
    match header.body {
        ReplyBody::Denied(Denied::AuthError(stat)) => Answer::Denied(stat),
        ReplyBody::Denied(other) => panic!("{other:?}"),
        ReplyBody::Accepted { verifier, status } => {
            assert_eq!(verifier.flavor, flavor::RPCSEC_GSS);
            assert_eq!(verifier.body, checksum(&sequence.to_be_bytes()));
            if status != Accepted::Success {
                return Answer::Status(status);
            }
            let body = match service {
                Service::None => return Answer::Results(r.rest().to_vec()),
                Service::Integrity => {
                    let IntegrityBody { body, checksum: sum } = r.get().unwrap();
                    assert_eq!(sum, checksum(body));
                    body.to_vec()
                }
                Service::Privacy => {
                    let sealed = r.opaque(r.remaining()).unwrap();
                    let mut message = Vec::new();
                    crate::toy::Toy.open(sealed, &mut message).unwrap();
                    message
                }
            };
            r.end().unwrap();
            let (number, results) = body.split_at(4);
            assert_eq!(number, sequence.to_be_bytes());
            Answer::Results(results.to_vec())
        }
    }
}

//! A flavour that seals bytes, in the manner of RPCSEC_GSS (RFC 2203) but without a secret: the
//! credential is {control, sequence, service}, the verifier a checksum of the header, arguments and
//! results are XORed and end with a checksum.

use bowline_rpc::Principal;
use bowline_rpc::auth::{
    Acceptance, CallMessage, Flavor, FlavorReply, NotAccepted, Protection, SecurityContext,
    UnwrapError,
};
use proto::rpc::{AuthStat, OpaqueAuth};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use xdr::{Mark, Reader, Writer};

/// The number of RPCSEC_GSS.
pub const SEAL: u32 = 6;

/// What a message of the flavour is.
pub mod control {
    /// A call.
    pub const DATA: u32 = 0;
    /// Is answered by the flavour.
    pub const INIT: u32 = 1;
}

/// How a call is protected.
pub mod service {
    /// Only its header.
    pub const NONE: u32 = 0;
    /// Arguments and results are sealed.
    pub const SEALED: u32 = 1;
}

/// A checksum of these bytes, of the message of this number.
pub fn checksum(sequence: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5 ^ sequence, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn xor(sequence: u32, bytes: &[u8]) -> Vec<u8> {
    let key = (sequence % 251) as u8 | 1;
    bytes.iter().map(|byte| byte ^ key).collect()
}

/// As it goes over the wire.
pub fn seal(sequence: u32, plain: &[u8]) -> Vec<u8> {
    [xor(sequence, plain), checksum(sequence, plain).to_be_bytes().to_vec()].concat()
}

/// What was sealed.
pub fn open(sequence: u32, sealed: &[u8]) -> Option<Vec<u8>> {
    let (data, sum) = sealed.split_last_chunk::<4>()?;
    let plain = xor(sequence, data);
    (checksum(sequence, &plain) == u32::from_be_bytes(*sum)).then_some(plain)
}

/// The body of the verifier of a reply.
pub fn reply_verifier(sequence: u32) -> [u8; 4] {
    checksum(sequence, b"reply").to_be_bytes()
}

/// A message of the flavour; the arguments are sealed if the service says so.
pub fn message(
    numbers: [u32; 4],
    control: u32,
    sequence: u32,
    service: u32,
    args: &[u8],
) -> Vec<u8> {
    let [xid, program, version, procedure] = numbers;
    let body = [control, sequence, service].map(u32::to_be_bytes).concat();
    let mut w = Writer::new();
    w.words([xid, 0, 2, program, version, procedure]);
    w.put(&OpaqueAuth { flavor: SEAL, body: &body });
    let sum = checksum(sequence, w.bytes()).to_be_bytes();
    w.put(&OpaqueAuth { flavor: SEAL, body: &sum });
    match service {
        service::SEALED => w.raw(&seal(sequence, args)),
        _ => w.raw(args),
    }
    w.bytes().to_vec()
}

/// Room before results; it is taken out again.
const HEAD_LEN: usize = 12;

struct Context {
    principal: Principal,
    seen: Mutex<HashSet<u32>>,
}

/// Sequence and service in one number.
fn token(sequence: u32, service: u32) -> u64 {
    u64::from(service) << 32 | u64::from(sequence)
}

fn parts(token: u64) -> (u32, u32) {
    ((token & 0xffff_ffff) as u32, (token >> 32) as u32)
}

impl SecurityContext for Context {
    fn principal(&self, _: u64) -> &Principal {
        &self.principal
    }

    fn verifier(&self, sequence: u64, body: &mut Vec<u8>) -> u32 {
        body.extend_from_slice(&reply_verifier(parts(sequence).0));
        SEAL
    }

    fn unwrap<'a>(
        &self,
        sequence: u64,
        sealed: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], UnwrapError> {
        match parts(sequence) {
            (sequence, service::SEALED) => {
                *buffer = open(sequence, sealed).ok_or(UnwrapError)?;
                Ok(buffer)
            }
            (_, _) => Ok(sealed),
        }
    }

    fn head_len(&self, sequence: u64) -> usize {
        if parts(sequence).1 == service::SEALED { HEAD_LEN } else { 0 }
    }

    fn wrap(&self, sequence: u64, results: Mark, reply: &mut Writer) {
        if let (sequence, service::SEALED) = parts(sequence) {
            let room = reply.since_mut(results, HEAD_LEN);
            assert!(
                room.iter().take(HEAD_LEN).all(|byte| *byte == 0),
                "the room before the results"
            );
            let sealed = seal(sequence, reply.since(results));
            let (start, end) = (reply.len() - reply.written_since(results) - HEAD_LEN, reply.len());
            reply.remove(start..end);
            reply.raw(&sealed);
        }
    }

    fn leaves_results_plain(&self, sequence: u64) -> bool {
        parts(sequence).1 == service::NONE
    }
}

/// The flavour.
pub struct SealFlavor(Arc<Context>);

impl SealFlavor {
    /// The pseudo-flavour of its principals.
    pub const PSEUDO_FLAVOR: u32 = 390_005;

    /// One whose callers are all of this name.
    pub fn new(name: &[u8]) -> Self {
        let principal = Principal { flavor: Self::PSEUDO_FLAVOR, name: name.into(), user: None };
        Self(Arc::new(Context { principal, seen: Mutex::default() }))
    }
}

impl Flavor for SealFlavor {
    fn number(&self) -> u32 {
        SEAL
    }

    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        let mut body = Reader::new(message.header.credential.body);
        let Ok([control, sequence, service]) = body.words() else {
            return Err(AuthStat::BadCred.into());
        };
        let sum = checksum(sequence, message.signed_header()).to_be_bytes();
        if message.header.verifier != (OpaqueAuth { flavor: SEAL, body: &sum }) {
            return Err(AuthStat::GssCredProblem.into());
        }
        if !self.0.seen.lock().unwrap().insert(sequence) {
            return Err(NotAccepted::Discarded);
        }
        if control == control::INIT {
            return Err(NotAccepted::Answered(Box::new(FlavorReply {
                verifier_flavor: SEAL,
                verifier: reply_verifier(sequence).to_vec(),
                results: message.args.rest().iter().rev().copied().collect(),
                start_tls: false,
            })));
        }
        let context: Arc<dyn SecurityContext> = Arc::clone(&self.0) as _;
        Ok(Acceptance::Protected(Protection::new(context, token(sequence, service))))
    }
}

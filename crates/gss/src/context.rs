//! One security context: whose it is, until when, which numbers it has seen, and what it does to arguments and results.

use crate::counters::Counters;
use crate::mechanism::{Established, Messages, Unprotected};
use crate::window::Window;
use proto::rpc::flavor;
use proto::rpcsec_gss::{IntegrityBody, Service};
use rpc::Principal;
use rpc::auth::{SecurityContext, Tampered};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdr::{Mark, Reader, Writer};

/// Pseudo-flavours by which MNT and SECINFO call a service over Kerberos (RFC 2623 §2.2.1).
const KRB5: u32 = 390_003;

/// How long after its ticket's end a context is valid: the difference of clocks that Kerberos allows.
const SKEW: Duration = Duration::from_secs(300);
/// The longest life of a context, whatever its ticket says.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// A context that is established.
pub struct Context {
    messages: Box<dyn Messages>,
    /// The same caller by each service.
    principals: [Principal; 3],
    pub window: Window,
    /// Who has established it.
    pub client: IpAddr,
    ends: Instant,
    counters: Arc<Counters>,
}

/// How one message is protected, in the number that the dispatcher gets.
#[derive(Debug, Clone, Copy)]
pub struct Protected {
    pub sequence: u32,
    pub service: Service,
}

impl Protected {
    pub fn number(self) -> u64 {
        u64::from(self.service.number()) << 32 | u64::from(self.sequence)
    }

    /// The reverse of [`Protected::number`]; of any other number, what protects most.
    fn of(number: u64) -> Self {
        let service = u32::try_from(number >> 32).ok().and_then(Service::from_number);
        Self { sequence: number as u32, service: service.unwrap_or(Service::Privacy) }
    }
}

impl Context {
    /// The context, and the token for its client.
    pub fn new(
        established: Established,
        client: IpAddr,
        now: Instant,
        counters: Arc<Counters>,
    ) -> (Self, Vec<u8>) {
        let Established { messages, token, principal, user, lifetime_s } = established;
        let name: Box<[u8]> = principal.into_bytes().into();
        let principals = [0, 1, 2].map(|service| Principal {
            flavor: KRB5 + service,
            name: name.clone(),
            user: user.clone(),
        });
        let lifetime = lifetime_s.map_or(LIFETIME_MAX, |seconds| {
            Duration::from_secs(seconds.into()).saturating_add(SKEW).min(LIFETIME_MAX)
        });
        let ends = now.checked_add(lifetime).unwrap_or(now);
        (Self { messages, principals, window: Window::new(), client, ends, counters }, token)
    }

    /// Whose it is.
    pub fn name(&self) -> &[u8] {
        let [principal, ..] = &self.principals;
        &principal.name
    }

    pub fn has_ended(&self, now: Instant) -> bool {
        now >= self.ends
    }

    /// Whether a message's header is as its client has sent it.
    pub fn verify(&self, header: &[u8], checksum: &[u8]) -> Result<(), Unprotected> {
        self.messages.verify(header, checksum)
    }

    /// The checksum of a number: the body of a reply's verifier (RFC 2203 §5.2.3.1, §5.3.3.2).
    pub fn checksum_of(&self, number: u32) -> Result<Vec<u8>, Unprotected> {
        self.messages.checksum(&number.to_be_bytes())
    }

    /// The bytes of arguments that are signed (RFC 2203 §5.3.2.2).
    fn signed<'a>(&self, sequence: u32, args: &'a [u8]) -> Option<&'a [u8]> {
        let mut r = Reader::new(args);
        let IntegrityBody { body, checksum } = r.get().ok()?;
        r.end().ok()?;
        self.messages.verify(body, checksum).ok()?;
        behind_sequence(sequence, body)
    }

    /// Decrypts arguments (RFC 2203 §5.3.2.3).
    fn opened<'a>(&self, sequence: u32, args: &[u8], buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let mut r = Reader::new(args);
        let sealed = r.opaque(r.remaining()).ok()?;
        r.end().ok()?;
        *buffer = self.messages.open(sealed).ok()?;
        behind_sequence(sequence, buffer)
    }
}

/// What stands behind the sequence number, if that is the one of the header (RFC 2203 §5.3.3.4.2).
fn behind_sequence(sequence: u32, body: &[u8]) -> Option<&[u8]> {
    let (number, args) = body.split_first_chunk::<4>()?;
    (u32::from_be_bytes(*number) == sequence).then_some(args)
}

impl SecurityContext for Context {
    fn principal(&self, sequence: u64) -> &Principal {
        let [none, integrity, privacy] = &self.principals;
        match Protected::of(sequence).service {
            Service::None => none,
            Service::Integrity => integrity,
            Service::Privacy => privacy,
        }
    }

    fn verifier(&self, sequence: u64, body: &mut Vec<u8>) -> u32 {
        // without a checksum, of a context that has just ended, the client throws the reply away and begins another
        if let Ok(checksum) = self.checksum_of(Protected::of(sequence).sequence) {
            *body = checksum;
        }
        flavor::RPCSEC_GSS
    }

    fn unwrap<'a>(
        &self,
        sequence: u64,
        sealed: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Tampered> {
        let Protected { sequence, service } = Protected::of(sequence);
        let args = match service {
            Service::None => Some(sealed),
            Service::Integrity => self.signed(sequence, sealed),
            Service::Privacy => self.opened(sequence, sealed, buffer),
        };
        args.ok_or_else(|| {
            Counters::add(&self.counters.wrong_checksums);
            Tampered
        })
    }

    fn wrap(&self, sequence: u64, results: Mark, reply: &mut Writer) {
        let Protected { sequence, service } = Protected::of(sequence);
        if service == Service::None {
            return;
        }
        let body = [&sequence.to_be_bytes(), reply.since(results)].concat();
        reply.rewind(results);
        // of a context that has just ended nothing is sent behind the header
        match service {
            Service::Integrity => {
                if let Ok(checksum) = self.messages.checksum(&body) {
                    reply.put(&IntegrityBody { body: &body, checksum: &checksum });
                }
            }
            Service::Privacy | Service::None => {
                if let Ok(sealed) = self.messages.seal(&body) {
                    reply.opaque(&sealed);
                }
            }
        }
    }

    fn leaves_results_plain(&self, sequence: u64) -> bool {
        Protected::of(sequence).service == Service::None
    }
}

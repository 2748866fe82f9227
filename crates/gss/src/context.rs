//! One established security context: its principal, lifetime, sequence window, and per-message protection.

use crate::counters::Counters;
use crate::mechanism::{Established, Messages, Room, Unprotected};
use crate::window::Window;
use proto::rpc::flavor;
use proto::rpcsec_gss::{IntegrityBody, Service};
use rpc::Principal;
use rpc::auth::{SecurityContext, UnwrapError};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdr::{Mark, Reader, Writer};

/// Pseudo-flavours by which MNT and SECINFO call a service over Kerberos (RFC 2623 §2.2.1).
const KRB5: u32 = 390_003;

/// How long after its ticket's end a context remains valid: the clock difference that Kerberos tolerates.
const SKEW: Duration = Duration::from_secs(300);
/// The longest lifetime of a context, whatever its ticket says.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// An established context.
pub struct Context {
    messages: Box<dyn Messages>,
    /// The caller, with the pseudo-flavour of each service.
    principals: [Principal; 3],
    pub window: Window,
    /// The address of the client that has established it.
    pub client: IpAddr,
    ends: Instant,
    counters: Arc<Counters>,
}

/// How one message is protected; [`Protected::number`] encodes it in the number that the dispatcher passes back.
#[derive(Debug, Clone, Copy)]
pub struct Protected {
    pub sequence: u32,
    pub service: Service,
}

impl Protected {
    pub fn number(self) -> u64 {
        u64::from(self.service.number()) << 32 | u64::from(self.sequence)
    }

    /// The reverse of [`Protected::number`]; an invalid number gives the strongest protection.
    fn of(number: u64) -> Self {
        let service = u32::try_from(number >> 32).ok().and_then(Service::from_number);
        Self { sequence: number as u32, service: service.unwrap_or(Service::Privacy) }
    }
}

impl Context {
    /// Creates the context; returns it and the token for its client.
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

    /// The principal's name.
    pub fn name(&self) -> &[u8] {
        let [principal, ..] = &self.principals;
        &principal.name
    }

    pub fn has_ended(&self, now: Instant) -> bool {
        now >= self.ends
    }

    /// Verifies the checksum of a message's header.
    pub fn verify(&self, header: &[u8], checksum: &[u8]) -> Result<(), Unprotected> {
        self.messages.verify(header, checksum)
    }

    /// The checksum of a sequence number: the body of a reply's verifier (RFC 2203 §5.2.3.1, §5.3.3.2).
    pub fn checksum_of(&self, number: u32) -> Result<Vec<u8>, Unprotected> {
        self.messages.checksum(&number.to_be_bytes())
    }

    /// Verifies signed arguments and returns them (RFC 2203 §5.3.2.2).
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
        let message = self.messages.open(sealed, buffer).ok()?;
        behind_sequence(sequence, buffer.get(message)?)
    }
}

/// Bytes before signed results: the length of the signed part, and the sequence number at its beginning.
const SIGNED_HEAD: usize = 8;
/// Bytes of the sequence number.
const NUMBER: usize = 4;

impl Context {
    /// Signs results in place (RFC 2203 §5.3.3.4.2).
    fn sign(&self, sequence: u32, results: Mark, reply: &mut Writer) {
        let body_len = reply.written_since(results).saturating_add(NUMBER);
        let all = reply.since_mut(results, SIGNED_HEAD);
        let checksum = all.split_first_chunk_mut::<4>().map(|(length, body)| {
            *length = u32::try_from(body_len).unwrap_or(u32::MAX).to_be_bytes();
            if let Some(number) = body.first_chunk_mut::<NUMBER>() {
                *number = sequence.to_be_bytes();
            }
            self.messages.checksum(body)
        });
        match checksum {
            Some(Ok(checksum)) => {
                reply.pad(body_len);
                reply.opaque(&checksum);
            }
            // the context has just expired: send nothing after the header
            Some(Err(Unprotected)) | None => without(reply, results, SIGNED_HEAD),
        }
    }

    /// Encrypts results in place (RFC 2203 §5.3.3.4.3).
    fn seal(&self, sequence: u32, results: Mark, reply: &mut Writer) {
        let Room { head, tail } = self.messages.room();
        let before = SIGNED_HEAD.saturating_add(head);
        reply.space(tail).fill(0);
        reply.advance(tail);
        let all = reply.since_mut(results, before);
        let token_len = all.len().saturating_sub(4);
        let sealed = all.split_first_chunk_mut::<4>().map(|(length, token)| {
            *length = u32::try_from(token.len()).unwrap_or(u32::MAX).to_be_bytes();
            let number =
                token.get_mut(head..).and_then(|message| message.first_chunk_mut::<NUMBER>());
            if let Some(number) = number {
                *number = sequence.to_be_bytes();
            }
            self.messages.seal(token)
        });
        match sealed {
            Some(Ok(())) => reply.pad(token_len),
            Some(Err(Unprotected)) | None => without(reply, results, before),
        }
    }
}

/// Removes results and the reserved bytes before them from a reply.
fn without(reply: &mut Writer, results: Mark, before: usize) {
    let end = reply.len();
    let start = end.saturating_sub(reply.written_since(results)).saturating_sub(before);
    reply.remove(start..end);
}

/// What follows the sequence number, if that equals the header's (RFC 2203 §5.3.3.4.2).
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
        // the context has just expired: without a valid checksum the client discards the reply and creates a new context
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
    ) -> Result<&'a [u8], UnwrapError> {
        let Protected { sequence, service } = Protected::of(sequence);
        let args = match service {
            Service::None => Some(sealed),
            Service::Integrity => self.signed(sequence, sealed),
            Service::Privacy => self.opened(sequence, sealed, buffer),
        };
        args.ok_or_else(|| {
            Counters::add(&self.counters.wrong_checksums);
            UnwrapError
        })
    }

    fn head_len(&self, sequence: u64) -> usize {
        match Protected::of(sequence).service {
            Service::None => 0,
            // length and sequence number
            Service::Integrity => SIGNED_HEAD,
            Service::Privacy => SIGNED_HEAD.saturating_add(self.messages.room().head),
        }
    }

    fn wrap(&self, sequence: u64, results: Mark, reply: &mut Writer) {
        let Protected { sequence, service } = Protected::of(sequence);
        match service {
            Service::None => {}
            Service::Integrity => self.sign(sequence, results, reply),
            Service::Privacy => self.seal(sequence, results, reply),
        }
    }

    fn leaves_results_plain(&self, sequence: u64) -> bool {
        Protected::of(sequence).service == Service::None
    }
}

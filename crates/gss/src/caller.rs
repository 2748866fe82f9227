//! The client's side of RPCSEC_GSS (RFC 2203): a context that this process begins, calls protected by it, and replies
//! whose verifiers and bodies are checked. For the load generator and for tests.
//!
//! Invariant: each call has a number of its own, so that none is taken for a repetition.

use crate::krb5::initiator_messages;
use crate::mechanism::{Messages, Room, Unprotected};
use proto::rpc::{Accepted, CallHeader, OpaqueAuth, ReplyBody, ReplyHeader, flavor};
use proto::rpcsec_gss::{Control, GssCredential, InitResult, IntegrityBody, Service};
use std::io;
use sys::gssapi::{GssError, Initiator, InitiatorCredential};
use xdr::{Encode, Error, Reader, Writer};

/// Words of the header of an accepted reply with an empty verifier (RFC 5531 §9): xid, REPLY, MSG_ACCEPTED, AUTH_NONE and
/// its length, SUCCESS.
const PLAIN_HEADER_WORDS: usize = 6;

/// An established context, and how calls are protected by it.
pub struct Caller {
    messages: Box<dyn Messages>,
    handle: Vec<u8>,
    service: Service,
    /// Of the last call.
    sequence: u32,
}

/// Why there is no context, or a message of it is not what it has to be.
#[derive(Debug)]
pub enum CallerError {
    /// The Kerberos library's reason: there is no ticket, or the server is not who it has to be.
    Kerberos(GssError),
    /// The connection broke.
    Io(io::Error),
    /// The server's answer does not decode.
    Garbled(Error),
    /// The server refuses the context, with GSS-API's major status and the mechanism's own, or the call that begins it.
    Refused(String),
    /// A verifier, a checksum or a number is wrong, or a message does not decrypt.
    NotOfServer,
}

impl std::fmt::Display for CallerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kerberos(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Garbled(error) => write!(f, "the answer does not decode: {error}"),
            Self::Refused(why) => write!(f, "the server refuses the context: {why}"),
            Self::NotOfServer => f.write_str("a reply is not protected by the context of its call"),
        }
    }
}

impl std::error::Error for CallerError {}

impl From<GssError> for CallerError {
    fn from(error: GssError) -> Self {
        Self::Kerberos(error)
    }
}

impl From<io::Error> for CallerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for CallerError {
    fn from(error: Error) -> Self {
        Self::Garbled(error)
    }
}

impl From<Unprotected> for CallerError {
    fn from(_: Unprotected) -> Self {
        Self::NotOfServer
    }
}

impl Caller {
    /// Begins a context with `target`, as `nfs@server.example`; `exchange` sends the NULL call of this program and
    /// version, and gives its reply.
    ///
    /// # Errors
    /// [`CallerError`].
    pub fn establish(
        credential: &InitiatorCredential,
        target: &str,
        service: Service,
        (program, version): (u32, u32),
        exchange: impl FnOnce(&[u8]) -> io::Result<Vec<u8>>,
    ) -> Result<Self, CallerError> {
        let (initiator, token) = Initiator::begin(credential, target)?;
        let mut args = Writer::new();
        args.opaque(&token);
        let begin = GssCredential {
            control: Control::Init,
            sequence: 0,
            service: Service::None,
            handle: &[],
        };
        let body = encoded(&begin);
        let mut call = Writer::new();
        call.put(&CallHeader {
            xid: 1,
            program,
            version,
            procedure: 0,
            credential: OpaqueAuth { flavor: flavor::RPCSEC_GSS, body: body.bytes() },
            verifier: OpaqueAuth::NONE,
        });
        call.raw(args.bytes());
        let record = exchange(call.bytes())?;
        let mut r = Reader::new(&record);
        let header: ReplyHeader<'_> = r.get()?;
        let ReplyBody::Accepted { verifier, status: Accepted::Success } = header.body else {
            return Err(CallerError::Refused(format!("{:?}", header.body)));
        };
        let InitResult { handle, major, minor, window, token } = r.get()?;
        if major != 0 {
            return Err(CallerError::Refused(format!("major status {major:#x}, minor {minor}")));
        }
        let messages =
            initiator_messages(initiator.finish(token)?).map_err(CallerError::Refused)?;
        messages.verify(&window.to_be_bytes(), verifier.body)?;
        Ok(Self { messages, handle: handle.to_vec(), service, sequence: 0 })
    }

    /// Appends to `w` the call in `plain`, which has any credential, as one of this context; the call's number.
    ///
    /// # Errors
    /// [`CallerError::Garbled`]: `plain` is no call.
    pub fn protect(&mut self, plain: &[u8], w: &mut Writer) -> Result<u32, CallerError> {
        let mut args = Reader::new(plain);
        let header: CallHeader<'_> = args.get()?;
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let credential = encoded(&GssCredential {
            control: Control::Data,
            sequence,
            service: self.service,
            handle: &self.handle,
        });
        let start = w.mark();
        // as a call header without its verifier, which is the checksum of what is before it (RFC 2203 §5.3.1)
        let CallHeader { xid, program, version, procedure, .. } = header;
        w.words([xid, proto::rpc::CALL, proto::rpc::RPC_VERSION, program, version, procedure]);
        w.put(&OpaqueAuth { flavor: flavor::RPCSEC_GSS, body: credential.bytes() });
        let checksum = self.messages.checksum(w.since(start))?;
        w.put(&OpaqueAuth { flavor: flavor::RPCSEC_GSS, body: &checksum });
        let args = args.rest();
        match self.service {
            Service::None => w.raw(args),
            Service::Integrity => {
                let body = [&sequence.to_be_bytes(), args].concat();
                let checksum = self.messages.checksum(&body)?;
                w.put(&IntegrityBody { body: &body, checksum: &checksum });
            }
            Service::Privacy => {
                let Room { head, tail } = self.messages.room();
                let (head, tail) = (vec![0; head], vec![0; tail]);
                let mut token = [&head, &sequence.to_be_bytes()[..], args, &tail].concat();
                self.messages.seal(&mut token)?;
                w.opaque(&token);
            }
        }
        Ok(sequence)
    }

    /// The reply to the call of this number as it would be without protection: `record` itself if nothing but its header
    /// is protected or the call was not run, else in `buffer`.
    ///
    /// # Errors
    /// [`CallerError::NotOfServer`], [`CallerError::Garbled`].
    pub fn open<'a>(
        &self,
        sequence: u32,
        record: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], CallerError> {
        let mut r = Reader::new(record);
        let header: ReplyHeader<'_> = r.get()?;
        let ReplyBody::Accepted { verifier, status } = header.body else { return Ok(record) };
        self.messages.verify(&sequence.to_be_bytes(), verifier.body)?;
        if status != Accepted::Success {
            return Ok(record);
        }
        let mut opened = Vec::new();
        let body = match self.service {
            Service::None => return Ok(record),
            Service::Integrity => {
                let IntegrityBody { body, checksum } = r.get()?;
                self.messages.verify(body, checksum)?;
                body
            }
            Service::Privacy => {
                let sealed = r.opaque(r.remaining())?;
                let range = self.messages.open(sealed, &mut opened)?;
                opened.get(range).unwrap_or_default()
            }
        };
        r.end()?;
        let (number, results) = body.split_first_chunk::<4>().ok_or(CallerError::NotOfServer)?;
        if u32::from_be_bytes(*number) != sequence {
            return Err(CallerError::NotOfServer);
        }
        let words: [u32; PLAIN_HEADER_WORDS] = [header.xid, proto::rpc::REPLY, 0, 0, 0, 0];
        buffer.clear();
        buffer.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        buffer.extend_from_slice(results);
        Ok(buffer)
    }
}

fn encoded(credential: &GssCredential<'_>) -> Writer {
    let mut w = Writer::new();
    credential.encode(&mut w);
    w
}

//! Authentication flavours (RFC 5531 §8.2, §10) and the table that calls look them up in.
//!
//! Flavours can be added and removed while calls run. A call reads the table as a
//! [`Snapshot`]: no lock, no reference count, no write that another thread's call would see.
//! Writers copy the table and swap it; `writing` keeps them apart and is never held while anything
//! waits.
//!
//! A flavour is a transformer: it reads a call's credential and verifier, and says who is calling
//! and what the arguments and the reply of this call pass through ([`Protection`]). It can also
//! answer a message by itself, so that no procedure sees it ([`FlavorReply`]): control messages of
//! RPCSEC_GSS (RFC 2203 §5.2) and the probe of AUTH_TLS (RFC 9289 §4.1).
//!
//! Invariant: [`AuthTable::remove`] returns only when no call is inside the flavour any more. A
//! call that was accepted goes on with what it was given.

mod none;
mod protection;
mod sys;
mod tls;

use crate::{Credential, Done, Line, Posted, Transport, TransportSecurity, Verdict};
use ::sys::snapshot::{ShortReads, Snapshot};
use proto::rpc::{Accepted, AuthStat, CallHeader, OpaqueAuth, ReplyBody, ReplyHeader, flavor};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use xdr::{Reader, Writer};

pub use none::AuthNone;
pub use protection::{Protection, SecurityContext, UnwrapError};
pub use sys::AuthSysFlavor;
pub use tls::{AuthTls, STARTTLS};

/// Flavour numbers are below this: RPCSEC_GSS (6) and TLS (7) are the highest on the wire.
pub const FLAVORS_MAX: usize = 8;

/// How long [`AuthTable::remove`] sleeps before it looks again for tables that are being dropped.
const REMOVE_POLL: Duration = Duration::from_micros(100);

/// A call's message as a flavour sees it.
#[derive(Debug, Clone)]
pub struct CallMessage<'a> {
    /// The header.
    pub header: CallHeader<'a>,
    /// The arguments, as they came.
    pub args: Reader<'a>,
    /// All of the message.
    pub record: &'a [u8],
    /// How it came.
    pub transport: Transport,
    /// What protected it on its way.
    pub security: TransportSecurity,
}

impl<'a> CallMessage<'a> {
    /// The header up to and with the credential: what the verifier of RPCSEC_GSS is a checksum of
    /// (RFC 2203 §5.3.1).
    pub fn signed_header(&self) -> &'a [u8] {
        let verifier = 8_usize.saturating_add(xdr::padded(self.header.verifier.body.len()));
        let behind = self.args.remaining().saturating_add(verifier);
        self.record.get(..self.record.len().saturating_sub(behind)).unwrap_or_default()
    }
}

/// The protection of a call that its flavour has accepted.
pub enum Acceptance<'a> {
    /// Arguments and reply are as they are, the reply's verifier is that of AUTH_NONE.
    Plain(Credential<'a>),
    /// Arguments and reply pass through this, which also says who is calling.
    Protected(Protection),
}

/// Why a message reaches no procedure.
pub enum NotAccepted {
    /// MSG_DENIED / AUTH_ERROR.
    Denied(AuthStat),
    /// Nothing is sent (RFC 2203 §5.3.3.1: a sequence number that was seen before).
    Discarded,
    /// The flavour's own answer.
    Answered(Box<FlavorReply>),
    /// The flavour sends its own answer later, from another thread: the function gets the way to send it. It must not
    /// block, and is not called if the connection has too many pending replies.
    AnsweredLater(Box<dyn FnOnce(LaterAnswer) + Send>),
}

impl From<AuthStat> for NotAccepted {
    fn from(stat: AuthStat) -> Self {
        Self::Denied(stat)
    }
}

/// A flavour's own answer: MSG_ACCEPTED, SUCCESS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorReply {
    /// The flavour of the verifier.
    pub verifier_flavor: u32,
    /// The body of the verifier, at most 400 bytes.
    pub verifier: Vec<u8>,
    /// The results.
    pub results: Vec<u8>,
    /// Whether what follows the reply on its connection is TLS (RFC 9289 §4.1).
    pub start_tls: bool,
}

impl FlavorReply {
    /// Appends it, as the reply to a call.
    pub(crate) fn put(&self, reply: &mut Writer, xid: u32) {
        let verifier = OpaqueAuth { flavor: self.verifier_flavor, body: &self.verifier };
        let body = ReplyBody::Accepted { verifier, status: Accepted::Success };
        reply.put(&ReplyHeader { xid, body });
        reply.raw(&self.results);
    }
}

/// Sends a flavour's own answer that is not available at once ([`NotAccepted::AnsweredLater`]). If it is dropped, the
/// client gets no reply.
pub struct LaterAnswer {
    pub(crate) xid: u32,
    pub(crate) client: SocketAddr,
    pub(crate) line: Box<dyn Line>,
}

impl LaterAnswer {
    /// The client that gets the answer.
    pub const fn client(&self) -> SocketAddr {
        self.client
    }

    /// Sends the answer. It cannot start TLS: only a probe does that, and a probe is answered at once.
    pub fn send(self, answer: &FlavorReply) -> Posted {
        let mut reply = Writer::new();
        answer.put(&mut reply, self.xid);
        self.line.post(reply, &Done::new(Verdict::Reply, None, None))
    }
}

/// An authentication flavour.
pub trait Flavor: Send + Sync {
    /// Its number, below [`FLAVORS_MAX`].
    fn number(&self) -> u32;

    /// Checks a message of this flavour. Must not wait for anything.
    ///
    /// # Errors
    /// [`NotAccepted`]: what is sent instead.
    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted>;

    /// Whether the flavour accepts the same message twice, and before all of its arguments have
    /// arrived: the condition for using data before its record is whole ([`crate::ArgumentSink`]).
    /// Not if the second time is a replay, or if the checksum is over the whole message.
    fn accepts_twice(&self) -> bool {
        false
    }
}

/// Why a flavour cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The number is [`FLAVORS_MAX`] or higher.
    #[error("flavour {0} is out of range")]
    OutOfRange(u32),
    /// There is a flavour of this number already; remove it first.
    #[error("flavour {0} is there already")]
    NumberInUse(u32),
}

/// Wraps a flavour so that only calls through TLS, and NULL, are accepted.
struct RequireTls(Box<dyn Flavor>);

impl Flavor for RequireTls {
    fn number(&self) -> u32 {
        self.0.number()
    }

    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        if message.security.is_plain() && message.header.procedure != 0 {
            return Err(AuthStat::TooWeak.into());
        }
        self.0.accept(message)
    }

    fn accepts_twice(&self) -> bool {
        self.0.accepts_twice()
    }
}

/// A flavour; counts the tables that hold it.
type Entry = Arc<Box<dyn Flavor>>;
type Slots = [Option<Entry>; FLAVORS_MAX];

/// The flavours that are served.
pub struct AuthTable {
    slots: Snapshot<Slots, ShortReads>,
    /// Serializes copying and replacing `slots`; the value: whether only calls through TLS are accepted.
    writing: Mutex<bool>,
}

impl Default for AuthTable {
    fn default() -> Self {
        let mut slots: Slots = Slots::default();
        let standard: [Box<dyn Flavor>; 2] = [Box::new(AuthNone), Box::new(AuthSysFlavor)];
        for (slot, flavor) in slots.iter_mut().zip(standard) {
            *slot = Some(Arc::new(flavor));
        }
        Self { slots: Snapshot::new(slots), writing: Mutex::new(false) }
    }
}

impl AuthTable {
    /// Has a message checked by its flavour.
    ///
    /// # Errors
    /// AUTH_BADCRED for a flavour that is not there, AUTH_REJECTEDCRED if it is AUTH_SHORT: the
    /// client then sends the whole credential (RFC 5531, appendix A). Else those of
    /// the flavour.
    pub fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        let slots = self.slots.load();
        let number = message.header.credential.flavor;
        match index(number).and_then(|i| slots.get(i)).and_then(Option::as_ref) {
            Some(flavor) => flavor.accept(message),
            None if number == flavor::AUTH_SHORT => Err(AuthStat::RejectedCred.into()),
            None => Err(AuthStat::BadCred.into()),
        }
    }

    /// Who sends a message whose arguments have not all come; `None` if its flavour has to see the
    /// whole message, or does not accept it.
    pub(crate) fn accept_beginning<'a>(&self, message: &CallMessage<'a>) -> Option<Credential<'a>> {
        let slots = self.slots.load();
        let flavor = slots.get(index(message.header.credential.flavor)?)?.as_ref()?;
        match flavor.accepts_twice().then(|| flavor.accept(message))? {
            Ok(Acceptance::Plain(credential)) => Some(credential),
            Ok(Acceptance::Protected(_)) | Err(_) => None,
        }
    }

    /// Adds a flavour, for all calls that arrive from now on.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add(&self, flavor: Box<dyn Flavor>) -> Result<(), AddError> {
        let number = flavor.number();
        let tls_required = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let flavor: Box<dyn Flavor> = match *tls_required && number != flavor::AUTH_TLS {
            true => Box::new(RequireTls(flavor)),
            false => flavor,
        };
        let mut slots = Slots::clone(&self.slots.load());
        let slot = index(number).and_then(|i| slots.get_mut(i));
        let slot = slot.ok_or(AddError::OutOfRange(number))?;
        if slot.is_some() {
            return Err(AddError::NumberInUse(number));
        }
        *slot = Some(Arc::new(flavor));
        self.slots.replace(slots);
        Ok(())
    }

    /// From now on only calls through TLS, and NULL, are accepted, whatever their flavour. Call it before serving: each
    /// flavour is missing from the table for a moment.
    ///
    /// # Errors
    /// Another thread adds a flavour at the same time.
    pub fn demand_tls(&self) -> Result<(), AddError> {
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let others = (0..).take(FLAVORS_MAX).filter(|number| *number != flavor::AUTH_TLS);
        others.filter_map(|number| self.remove(number)).try_for_each(|flavor| self.add(flavor))
    }

    /// Takes a flavour out of force, waits until the last call has left it, and hands it back;
    /// `None` if it is not there. Never to be called from inside a flavour.
    pub fn remove(&self, number: u32) -> Option<Box<dyn Flavor>> {
        let (entry, replaced) = {
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut slots = Slots::clone(&self.slots.load());
            let entry = slots.get_mut(index(number)?)?.take()?;
            (entry, self.slots.begin_replacing(slots))
        };
        drop(replaced.wait());
        // No call is inside any more or can enter. Older tables that hold the entry have no readers
        // either; they are dropped now, unless another writer is just dropping them.
        let mut entry = entry;
        loop {
            self.slots.collect();
            match Arc::try_unwrap(entry) {
                Ok(flavor) => return Some(flavor),
                Err(shared) => entry = shared,
            }
            std::thread::sleep(REMOVE_POLL);
        }
    }
}

/// A flavour's index; the caller checks bounds.
fn index(flavor: u32) -> Option<usize> {
    usize::try_from(flavor).ok().filter(|i| *i < FLAVORS_MAX)
}

/// The verifier that goes with both standard flavours is of flavour AUTH_NONE (RFC 5531,
/// appendix A); its body is undefined (§10.1) and not looked at.
fn check_no_verifier(verifier: &OpaqueAuth<'_>) -> Result<(), AuthStat> {
    if verifier.flavor == flavor::AUTH_NONE { Ok(()) } else { Err(AuthStat::BadVerf) }
}

#[cfg(test)]
mod tests;

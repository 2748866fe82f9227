//! NFS version 4 from the client's side, as the proof, tests and loads use it: a session of versions 4.1 and 4.2, and
//! compounds on its slots; for all minor versions a [`ClientRecord`], and files that are open.
//!
//! A [`Session`] knows the number of the next request of each slot. There is no recovery: an error ends the use of it.

mod client_record;
mod opens;

pub use client_record::ClientRecord;
pub use opens::{OpenDone, OpenOwner, WITHOUT_DELEGATION};

use crate::client::{Client, Reply};
use crate::error::{Error, Result};
use crate::message::Target;
use proto::layout::Bytes;
use proto::nfs4::{
    BindConnArgs, ChannelAttrs, CompoundHead, ExchangeIdArgs, FHSIZE, Nfsstat4, SequenceArgs,
    SessionId, StateProtectHow, TAG_MAX, VERSION, create_session, op, procedure,
};
use xdr::{Encode, Reader, Writer};

/// The largest request and reply that is asked for.
const LARGEST: u32 = (1 << 20) + 4096;
/// The most operations of a compound.
const OPERATIONS: u32 = 16;
/// Bytes of the result of SEQUENCE behind its status.
const SEQUENCE_RESULT: usize = 36;

/// The operations of a compound behind SEQUENCE.
#[derive(Default)]
pub struct Operations {
    bytes: Writer,
    count: u32,
}

impl Operations {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one with its arguments.
    #[must_use]
    pub fn with(mut self, number: u32, args: &(impl Encode + ?Sized)) -> Self {
        self.bytes.u32(number);
        self.bytes.put(args);
        self.count = self.count.saturating_add(1);
        self
    }

    /// Adds one that has no arguments.
    #[must_use]
    pub fn bare(mut self, number: u32) -> Self {
        self.bytes.u32(number);
        self.count = self.count.saturating_add(1);
        self
    }

    /// Adds PUTFH.
    #[must_use]
    pub fn at(self, handle: &[u8]) -> Self {
        self.with(op::PUTFH, &Bytes::<FHSIZE>(handle))
    }
}

/// A compound as it is sent.
struct Compound<'a> {
    minor: u32,
    sequence: Option<SequenceArgs>,
    operations: &'a Operations,
}

impl Encode for Compound<'_> {
    fn encode(&self, w: &mut Writer) {
        let count = self.operations.count.saturating_add(u32::from(self.sequence.is_some()));
        w.put(&CompoundHead { tag: b"", minor: self.minor, count });
        if let Some(sequence) = &self.sequence {
            w.u32(op::SEQUENCE);
            w.put(sequence);
        }
        w.raw(self.operations.bytes.bytes());
    }
}

/// A session of this client.
#[derive(Debug, Clone)]
pub struct Session {
    /// The client's id, which owners of opens have.
    pub client_id: u64,
    /// The minor version of its compounds.
    minor: u32,
    id: SessionId,
    /// The number of the last request of each slot.
    numbers: Vec<u32>,
}

impl Session {
    /// How many requests can be in flight.
    pub const fn slots(&self) -> usize {
        self.numbers.len()
    }

    /// The arguments of SEQUENCE of the next request on a slot; `None`: there is no such slot. With `cachethis` the
    /// server must keep the reply.
    pub fn next_request(&mut self, slot: usize, cachethis: bool) -> Option<SequenceArgs> {
        let number = self.numbers.get_mut(slot)?;
        *number = number.wrapping_add(1);
        let sequenceid = *number;
        let slotid = u32::try_from(slot).unwrap_or(u32::MAX);
        let highest_slotid = u32::try_from(self.numbers.len().saturating_sub(1)).unwrap_or(0);
        let sessionid = self.id;
        Some(SequenceArgs { sessionid, sequenceid, slotid, highest_slotid, cachethis })
    }

    /// Takes the number of a slot's last request back: its SEQUENCE failed, and left the slot as it was (RFC 8881
    /// §2.10.6.1.2).
    pub fn take_back_request(&mut self, slot: usize) {
        if let Some(number) = self.numbers.get_mut(slot) {
            *number = number.wrapping_sub(1);
        }
    }
}

const COMPOUND: Target =
    Target { program: proto::nfs3::PROGRAM, version: VERSION, procedure: procedure::COMPOUND };

const fn garbled(source: xdr::Error) -> Error {
    Error::Garbled { operation: "COMPOUND", source }
}

/// The results behind the head of a reply, if all operations succeeded.
///
/// # Errors
/// [`Error::Nfs`] with the status of the operation that failed; [`Error::Garbled`].
pub fn results(reply: &Reply) -> Result<Reader<'_>> {
    let mut r = Reader::new(reply.body());
    let status: Nfsstat4 = r.get().map_err(garbled)?;
    if status != Nfsstat4::Ok {
        let name = format!("{status:?}");
        return Err(Error::Nfs { operation: "COMPOUND", name, number: status.number() });
    }
    r.opaque(TAG_MAX).and_then(|_| r.u32()).map_err(garbled)?;
    Ok(r)
}

/// The status flags of SEQUENCE (`sr_status_flags`).
///
/// # Errors
/// As [`results`].
pub fn status_flags(reply: &Reply) -> Result<u32> {
    let mut r = results(reply)?;
    succeeded(&mut r, op::SEQUENCE)?;
    r.opaque_fixed(SEQUENCE_RESULT - 4).map_err(garbled)?;
    r.u32().map_err(garbled)
}

/// The results behind that of SEQUENCE.
///
/// # Errors
/// As [`results`].
pub fn results_inside(reply: &Reply) -> Result<Reader<'_>> {
    let mut r = results(reply)?;
    succeeded(&mut r, op::SEQUENCE)?;
    r.opaque_fixed(SEQUENCE_RESULT).map_err(garbled)?;
    Ok(r)
}

/// Reads the head of the result of an operation that succeeded.
///
/// # Errors
/// [`Error::Garbled`] if it is another operation's.
pub fn succeeded(r: &mut Reader<'_>, number: u32) -> Result<()> {
    match r.words().map_err(garbled)? {
        [found, 0] if found == number => Ok(()),
        [value, _] => Err(garbled(xdr::Error::NotMember { what: "the operation sent", value })),
    }
}

impl Client {
    /// Makes a client of this name known, and a session of this many slots.
    ///
    /// # Errors
    /// Any.
    pub fn open_session(&mut self, owner: &[u8], slots: u32) -> Result<Session> {
        self.open_session_of_minor(1, owner, slots)
    }

    /// The same of a minor version, 1 or later.
    ///
    /// # Errors
    /// Any.
    pub fn open_session_of_minor(
        &mut self,
        minor: u32,
        owner: &[u8],
        slots: u32,
    ) -> Result<Session> {
        let session = self.open(minor, owner, (slots, None))?;
        self.end_reclaiming(session)
    }

    /// A session of a minor version, for a client that opens nothing: the server has nothing to record of it.
    ///
    /// # Errors
    /// Any.
    pub fn open_reading_session(
        &mut self,
        minor: u32,
        owner: &[u8],
        slots: u32,
    ) -> Result<Session> {
        self.open(minor, owner, (slots, None))
    }

    /// The same with callbacks over this connection, by AUTH_SYS, on this many slots.
    ///
    /// # Errors
    /// Any.
    pub fn open_session_with_callbacks(
        &mut self,
        owner: &[u8],
        (slots, back_slots): (u32, u32),
    ) -> Result<Session> {
        self.open_session_with_callbacks_of_minor(1, owner, (slots, back_slots))
    }

    /// The same of a minor version, 1 or later.
    ///
    /// # Errors
    /// Any.
    pub fn open_session_with_callbacks_of_minor(
        &mut self,
        minor: u32,
        owner: &[u8],
        (slots, back_slots): (u32, u32),
    ) -> Result<Session> {
        let session = self.open(minor, owner, (slots, Some(back_slots)))?;
        self.end_reclaiming(session)
    }

    /// Binds this connection to a session (BIND_CONN_TO_SESSION): to which channels, as the numbers of the RFC say.
    ///
    /// # Errors
    /// Any.
    pub fn bind_to_session(&mut self, session: &Session, channels: u32) -> Result<u32> {
        let args = BindConnArgs { sessionid: session.id, dir: channels, use_rdma: false };
        let operations = Operations::new().with(op::BIND_CONN_TO_SESSION, &args);
        let reply = self.compound_alone(session.minor, &operations)?;
        let mut r = results(&reply)?;
        succeeded(&mut r, op::BIND_CONN_TO_SESSION)?;
        let _id: SessionId = r.array().map_err(garbled)?;
        r.u32().map_err(garbled)
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Any.
    pub fn destroy_session(&mut self, session: &Session) -> Result<()> {
        let operations = Operations::new().with(op::DESTROY_SESSION, &session.id);
        results(&self.compound_alone(session.minor, &operations)?)?;
        Ok(())
    }

    /// Ends a session and the client that it is of, which has no other.
    ///
    /// # Errors
    /// Any.
    pub fn destroy_client(&mut self, session: &Session) -> Result<()> {
        self.destroy_session(session)?;
        let operations = Operations::new().with(op::DESTROY_CLIENTID, &session.client_id);
        results(&self.compound_alone(session.minor, &operations)?)?;
        Ok(())
    }

    fn open(
        &mut self,
        minor: u32,
        owner: &[u8],
        (slots, back_slots): (u32, Option<u32>),
    ) -> Result<Session> {
        let state_protect = StateProtectHow::None;
        let verifier = [1; 8];
        let known =
            ExchangeIdArgs { verifier, ownerid: owner, flags: 0, state_protect, impl_id: None };
        let reply = self.compound_alone(minor, &Operations::new().with(op::EXCHANGE_ID, &known))?;
        let mut r = results(&reply)?;
        succeeded(&mut r, op::EXCHANGE_ID)?;
        let client_id = r.u64().map_err(garbled)?;
        let sequence = r.u32().map_err(garbled)?;
        let wanted = CreateSession { client_id, sequence, slots, back_slots };
        let reply =
            self.compound_alone(minor, &Operations::new().with(op::CREATE_SESSION, &wanted))?;
        let mut r = results(&reply)?;
        succeeded(&mut r, op::CREATE_SESSION)?;
        let id = r.array().map_err(garbled)?;
        let [_sequence, _flags] = r.words().map_err(garbled)?;
        let fore: ChannelAttrs = r.get().map_err(garbled)?;
        let granted = fore.maxrequests.min(slots) as usize;
        Ok(Session { client_id, minor, id, numbers: vec![0; granted] })
    }

    /// Says that nothing more is reclaimed: before this the server lets the client open nothing.
    fn end_reclaiming(&mut self, mut session: Session) -> Result<Session> {
        let done = Operations::new().with(op::RECLAIM_COMPLETE, &false);
        results(&self.compound(&mut session, &done)?)?;
        Ok(session)
    }

    /// Sends a compound outside of a session, and waits for its answer.
    ///
    /// # Errors
    /// Any; an operation's failure is in the answer.
    pub fn compound_alone(&mut self, minor: u32, operations: &Operations) -> Result<Reply> {
        self.call(COMPOUND, &Compound { minor, sequence: None, operations })
    }

    /// Sends a compound on a slot that no other request is on, and gives its transaction id.
    ///
    /// # Errors
    /// Those of sending; [`Error::Unsendable`] if there is no such slot.
    pub fn send_compound(
        &mut self,
        session: &mut Session,
        slot: usize,
        operations: &Operations,
    ) -> Result<u32> {
        let sequence = session.next_request(slot, false);
        if sequence.is_none() {
            return Err(Error::Unsendable("no such slot"));
        }
        let minor = session.minor;
        self.send(COMPOUND, &Compound { minor, sequence, operations })
    }

    /// Sends a compound on the first slot, and waits for its answer.
    ///
    /// # Errors
    /// Any; an operation's failure is in the answer.
    pub fn compound(&mut self, session: &mut Session, operations: &Operations) -> Result<Reply> {
        let xid = self.send_compound(session, 0, operations)?;
        self.recv(xid)
    }
}

/// The arguments of CREATE_SESSION. Without callbacks these are offered on no connection, without a security flavour.
struct CreateSession {
    client_id: u64,
    sequence: u32,
    slots: u32,
    back_slots: Option<u32>,
}

/// The program of callbacks.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;

impl Encode for CreateSession {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.client_id);
        let flags = if self.back_slots.is_some() { create_session::CONN_BACK_CHAN } else { 0 };
        w.words([self.sequence, flags]);
        w.put(&ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: LARGEST,
            maxresponsesize: LARGEST,
            maxresponsesize_cached: 4096,
            maxoperations: OPERATIONS,
            maxrequests: self.slots,
        });
        w.put(&ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: 4096,
            maxresponsesize: 4096,
            maxresponsesize_cached: 0,
            maxoperations: 2,
            maxrequests: self.back_slots.unwrap_or(1),
        });
        match self.back_slots {
            // one flavour: AUTH_NONE
            None => w.words([CALLBACK_PROGRAM, 1, 0]),
            Some(_) => {
                // AUTH_SYS: stamp, machine, user, group, no other groups
                w.words([CALLBACK_PROGRAM, 1, 1, 0]);
                w.opaque(b"client");
                w.words([0, 0, 0]);
            }
        }
    }
}

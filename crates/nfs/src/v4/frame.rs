//! What the operations of a COMPOUND work on (RFC 8881 §16.2.3.1).

use super::arrived_write::ArrivedWrite;
use super::server_state::V4;
use super::status::Failed;
use crate::Nfs;
use crate::object::{Caller, Object};
use export::Requester;
use proto::nfs4::{Nfsstat4, Stateid4, op};
use proto::rpc::flavor;
use rpc::{Copied, Credential};
use siphasher::sip::SipHasher13;
use state::v4::{MachineCredential, OwnerTicket, Principal, Reading, Session, SlotTicket, Stateid};
use state::{FileKey, Now};
use std::cell::Cell;
use std::hash::Hasher;
use vfs::{Attr, Want};
use xdr::Writer;

/// Bytes of the RPC header of a reply, with the largest that a flavour's verifier may be here.
pub(super) const REPLY_HEADER: usize = 24;
/// What a reply of version 4.0 may have beside data: headers, handles, attributes.
const HEADERS: usize = 16 * 1024;

/// The current filehandle, and the stateid that goes with it.
#[derive(Clone)]
pub(super) struct CurrentObject<'f> {
    pub object: Object<'f>,
    pub stateid: Option<Stateid4>,
}

/// The session of a COMPOUND, and the slot that it runs on.
pub(super) struct Running<'f> {
    pub session: &'f Session,
    pub ticket: SlotTicket<'f>,
    /// Whether the client wants the reply to be kept.
    pub cachethis: bool,
}

/// Whether an operation leaves [`Frame::fetched`] as it is; all others end it, before they run.
#[inline]
pub(super) const fn keeps_fetched(number: u32) -> bool {
    matches!(number, op::GETATTR | op::GETFH | op::ACCESS)
}

/// A COMPOUND that runs.
pub(super) struct Frame<'f> {
    pub nfs: &'f Nfs,
    pub caller: &'f Caller<'f>,
    /// Who sends the request.
    pub principal: Principal,
    /// The connection that the request came by, for callbacks.
    pub connection: rpc::CallConnection<'f>,
    /// The minor version of the request.
    pub minor: u32,
    /// The sessions and opens, which do not go while it lives.
    pub reading: &'f Reading<'f>,
    pub now: Now,
    pub current: Option<CurrentObject<'f>>,
    /// The attributes of the current object, if the operation just before has fetched them: a GETATTR or an ACCESS behind it
    /// does not ask again. A COMPOUND runs without any atomicity (RFC 8881 §2.3), so that what was fetched since the call
    /// arrived is as good as what would be fetched now; but a reservation or a delegation that was granted meanwhile must
    /// not be followed by attributes from before it, and the client's own changes must show.
    pub fetched: Option<Attr>,
    pub saved: Option<CurrentObject<'f>>,
    pub running: Option<Running<'f>>,
    /// The open owner whose OPEN runs, in version 4.0.
    pub opener: Option<OwnerTicket>,
    /// The client of version 4.0 that an operation has named, by its id or a stateid.
    pub named_client: Cell<Option<u64>>,
    /// The reply to send instead of what was written: this request has run before.
    pub replay: Option<Vec<u8>>,
    /// The place of the operation that runs, and how many there are.
    pub position: u32,
    pub count: u32,
    /// Bytes of the request, with its RPC header.
    pub request_bytes: usize,
    /// The hash by which a retry is known.
    pub request_hash: u64,
    /// After the handle of an object that the export gives to other flavours only: what may be done with it.
    pub returns_state: Option<MachineCredential>,
    /// Whether something was changed that a second run would change again.
    pub changed: bool,
    /// Bytes of ranges of files in the reply.
    pub range_bytes: usize,
    /// Where the reply begins.
    pub start: xdr::Mark,
    pub bytes_read: u32,
    pub bytes_written: u32,
    pub copied: Option<Copied>,
    /// The WRITE of which data is in its file already.
    pub ahead: Option<&'f ArrivedWrite<'f>>,
}

impl<'f> Frame<'f> {
    pub const fn v4(&self) -> &'f V4 {
        &self.nfs.v4
    }

    /// The current filehandle's object.
    pub fn object(&self) -> Result<&Object<'f>, Failed> {
        let place = self.current.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
        Ok(&place.object)
    }

    /// The saved filehandle's object.
    pub fn saved_object(&self) -> Result<&Object<'f>, Failed> {
        let place = self.saved.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
        Ok(&place.object)
    }

    /// Makes another object the current filehandle; there is no current stateid then.
    #[inline]
    pub fn set_current(&mut self, object: Object<'f>) {
        self.current = Some(CurrentObject { object, stateid: None });
    }

    /// Moves the current filehandle to another object of its export.
    pub fn move_to(&mut self, fid: vfs::Fid) {
        if let Some(place) = &mut self.current {
            place.object.fid = fid;
            place.stateid = None;
        }
    }

    /// The attributes of the current object that were just fetched, if all that is wanted is among them.
    #[inline]
    pub fn fetched(&self, want: Want) -> Option<&Attr> {
        let has_all = |attr: &&Attr| !want.has(Want::BIRTH) || attr.birth.known().is_some();
        self.fetched.as_ref().filter(has_all)
    }

    /// Sets the current stateid.
    pub fn set_stateid(&mut self, stateid: Stateid4) {
        if let Some(place) = &mut self.current {
            place.stateid = Some(stateid);
        }
    }

    /// The session: there is one wherever an operation needs one.
    pub fn session(&self) -> Result<&'f Session, Failed> {
        let running = self.running.as_ref().ok_or(Nfsstat4::OpNotInSession)?;
        Ok(running.session)
    }

    /// Whether the request is signed or encrypted with its sender's key.
    pub fn is_signed(&self) -> bool {
        matches!(self.caller.credential().flavor(), flavor::KRB5I | flavor::KRB5P)
    }

    /// Whether the sender may do to a client what its state protection may reserve for its machine's credential (RFC 8881
    /// §2.10.8.3).
    pub fn check_protection(
        &self,
        protection: Option<(Principal, MachineCredential)>,
        op: u32,
    ) -> Result<(), Failed> {
        let reserved = protection.filter(|(_, machine)| machine.enforces(op));
        let is_machine = |(principal, _)| self.is_signed() && self.client_principal() == principal;
        if reserved.is_none_or(is_machine) { Ok(()) } else { Err(Nfsstat4::WrongCred.into()) }
    }

    /// The session's state protection, if the request is by the credential of its client's machine.
    pub fn machine(&self) -> Option<MachineCredential> {
        let (principal, machine) = self.running.as_ref()?.session.machine()?;
        (self.is_signed() && self.client_principal() == principal).then_some(machine)
    }

    /// The session's client, or in version 4.0 the one that an operation of the COMPOUND has named, if one has.
    pub fn client_id(&self) -> Option<u64> {
        match &self.running {
            Some(running) => Some(running.session.client_id()),
            None => self.named_client.get(),
        }
    }

    /// The client, of whatever version, that asks for state.
    pub fn client(&self) -> Result<state::v4::Requester<'_>, Failed> {
        match &self.opener {
            Some(ticket) => Ok(ticket.requester()),
            None => Ok(self.session()?.requester()),
        }
    }

    /// The stateid that an argument names: the current one, if it says so (RFC 8881 §8.2.3), of which there is none in version
    /// 4.0.
    pub fn named_stateid(&self, argument: Stateid4) -> Result<Stateid4, Failed> {
        if self.minor == 0 || argument != Stateid4::CURRENT {
            return Ok(argument);
        }
        let stateid = self.current.as_ref().and_then(|place| place.stateid);
        stateid.ok_or_else(|| Nfsstat4::BadStateid.into())
    }

    /// The name of the current file in the tables of the state.
    pub fn file_key(&self) -> Result<FileKey, Failed> {
        let object = self.object()?;
        file_key(object.export().id.0, &object.fid).ok_or_else(|| Nfsstat4::ServerFault.into())
    }

    /// Bytes that the reply may still have.
    ///
    /// # Errors
    /// The second: what it fails with that needs more.
    #[inline]
    pub fn room(&self, reply: &Writer) -> (usize, Nfsstat4) {
        self.room_behind(reply.written_since(self.start))
    }

    /// The same behind so many bytes of it, without ranges.
    #[inline]
    pub fn room_behind(&self, written: usize) -> (usize, Nfsstat4) {
        let written = written.saturating_add(self.range_bytes);
        let used = written.saturating_add(REPLY_HEADER);
        match &self.running {
            Some(running) => {
                let limits = running.session.limits();
                let whole = (limits.response_bytes as usize).saturating_sub(used);
                let kept = (limits.cached_bytes as usize).saturating_sub(used);
                if running.cachethis && kept < whole {
                    (kept, Nfsstat4::RepTooBigToCache)
                } else {
                    (whole, Nfsstat4::RepTooBig)
                }
            }
            // where nothing was agreed on: one READ of the largest size with all that goes with it
            None => {
                let most = self.nfs.settings.read_max(self.caller.peer().transport) as usize;
                (most.saturating_add(HEADERS).saturating_sub(used), Nfsstat4::Resource)
            }
        }
    }

    /// Whether the reply will be kept because the client asked for it.
    pub fn is_cached(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.cachethis)
    }

    /// Who sends the request, as far as client ids are concerned: where the client has shown a certificate, that is a
    /// part of it, so that no other machine can take its state over by saying that it is it.
    pub fn client_principal(&self) -> Principal {
        let Principal { flavor, user } = self.principal;
        let Requester { security, certificates, .. } = self.caller.requester();
        let Some(certificate) = security.certificate().and_then(|id| certificates.find(id)) else {
            return self.principal;
        };
        let mut hasher = SipHasher13::new_with_keys(0, 7);
        hasher.write_u64(user);
        // not the serial number: the state of a client outlives the renewal of its certificate
        for part in [&certificate.issuer, certificate.name()] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        Principal { flavor, user: hasher.finish() }
    }
}

/// A file's name in the tables of the state.
pub(super) fn file_key(export: u32, fid: &vfs::Fid) -> Option<FileKey> {
    let mut key = [0; 4 + vfs::Fid::MAX];
    let bytes = fid.bytes();
    *key.first_chunk_mut::<4>()? = export.to_be_bytes();
    key.get_mut(4..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
    FileKey::new(key.get(..4_usize.saturating_add(bytes.len()))?)
}

/// Who sends a request with this credential. By which service of RPCSEC_GSS does not matter: the same name is the same user.
#[inline(always)]
pub(super) fn principal_of(credential: &Credential<'_>) -> Principal {
    let (flavor, user) = match credential {
        Credential::Anonymous => (flavor::AUTH_NONE, 0),
        Credential::Sys(sys) => (flavor::AUTH_SYS, u64::from(sys.uid)),
        Credential::Principal(principal) => {
            let mut hasher = SipHasher13::new_with_keys(0, 6);
            hasher.write(&principal.name);
            (flavor::RPCSEC_GSS, hasher.finish())
        }
    };
    Principal { flavor, user }
}

/// A stateid as the state has it.
pub(super) const fn stateid_of(wire: Stateid4) -> Stateid {
    Stateid { seqid: wire.seqid, other: wire.other }
}

/// A stateid as the wire has it.
pub(super) const fn wire_stateid(stateid: Stateid) -> Stateid4 {
    Stateid4 { seqid: stateid.seqid, other: stateid.other }
}

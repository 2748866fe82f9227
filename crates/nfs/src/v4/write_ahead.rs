//! A COMPOUND with a large WRITE, whose data goes to the file as it arrives ([`rpc::ArgumentSink`]): in front of the WRITE
//! are SEQUENCE (since version 4.1) and PUTFH only, as Linux sends it.
//!
//! When the beginning has come, everything is checked that would be before the data is written: the session and the request's
//! place in its slot, the filehandle, the right of the stateid. Whatever is not plainly in order is received whole, and
//! answered like any other COMPOUND; so are the few large requests whose reply the client wants to be kept. Then the
//! request takes its slot ([`ArrivingRequest`]), and pieces of its data are written, each as an unstable WRITE that ends
//! with a page. When the record is whole the COMPOUND runs from its beginning: PUTFH and the stateid are checked again, WRITE
//! writes the rest and makes all of it as safe as it was asked for.
//!
//! - Before each piece it is looked whether the exports are those of the beginning, whether the stateid still gives the
//!   right, and whether the request has the slot: if its client has sent it again by another connection, nothing more
//!   of it is written. From then on its data is dropped; what was written counts as a short WRITE.
//! - If the record breaks, its slot is as it was before, and the request that comes again runs.
//! - Version 4.0 has no slots, and replies of what must not run twice are kept by RPC: data goes ahead only if no more
//!   follows it than a GETATTR needs, where no operation that fits would do something else the second time.
//! - The verifier is the one from before the first piece: see [`v3::write`](crate::v3).

use super::arrived_write::{ArrivedWrite, WrittenAhead};
use super::compound::{self, CALL_HEADER, HASHED, Received, hash_of};
use super::frame::{file_key, principal_of, stateid_of};
use super::stateids::opened_for;
use crate::Nfs;
use crate::object::{Caller, OwnedObject};
use crate::verbs::{self, Written};
use proto::nfs4::{CompoundHead, FHSIZE, OPS_MAX, SequenceArgs, WriteHead, op};
use rpc::{ArgumentSink, Begun, Blocking, Call, Consumed, Fault, Piece};
use state::v4::{ArrivingRequest, Stateid, StateidAccess};
use state::{FileKey, ShareBits};
use std::sync::Arc;
use vfs::{Right, Stability};
use xdr::{Reader, Writer};

/// Bytes of a GETATTR of attributes below 64: what may follow the data in version 4.0.
const GETATTR_BYTES: usize = 4 + 4 + 2 * 4;

/// Begins a COMPOUND with a large WRITE, if its data can go ahead.
pub(super) fn begin(
    nfs: &Arc<Nfs>,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    missing: usize,
) -> Begun {
    let request = args.rest();
    let sink = Beginning::read(args).and_then(|beginning| {
        let front = request.len().checked_sub(args.remaining())?;
        let behind = args.remaining().saturating_add(missing);
        let behind = behind.checked_sub(xdr::padded(beginning.write.count))?;
        let hashed = request.get(..HASHED)?;
        let bytes = request.len().saturating_add(missing);
        let hash = hash_of(hashed, bytes, principal_of(&call.credential), nfs.v4.request_key);
        let file = FileAhead::open(nfs, call, &beginning, (behind, bytes, hash))?;
        let front = request.get(..front)?.to_vec();
        let WriteHead { offset, count, .. } = beginning.write;
        let sink =
            WriteSink { file, front, bytes, hash, offset, taken: 0, done: WrittenAhead::default() };
        Some((Box::new(sink), count))
    });
    match sink {
        Some((sink, data_len)) => Begun::Sink { sink, data_len },
        None => Begun::WholeRecord,
    }
}

/// What stands in front of the data.
struct Beginning<'r> {
    head: CompoundHead<'r>,
    sequence: Option<SequenceArgs>,
    handle: &'r [u8],
    write: WriteHead,
}

impl<'r> Beginning<'r> {
    /// `None` if it is not that.
    fn read(args: &mut Reader<'r>) -> Option<Self> {
        let head: CompoundHead<'r> = args.get().ok()?;
        let is_next = |args: &mut Reader<'r>, number: u32| args.u32().ok().filter(|n| *n == number);
        let sequence = if head.minor > 0 {
            is_next(args, op::SEQUENCE)?;
            Some(args.get().ok()?)
        } else {
            None
        };
        is_next(args, op::PUTFH)?;
        let handle = args.opaque(FHSIZE).ok()?;
        is_next(args, op::WRITE)?;
        Some(Self { head, sequence, handle, write: args.get().ok()? })
    }
}

/// The file of a WRITE that arrives, and what gives the right to write it.
struct FileAhead {
    nfs: Arc<Nfs>,
    object: OwnedObject,
    right: Right,
    key: FileKey,
    stateid: Stateid,
    /// None in version 4.0.
    arriving: Option<ArrivingRequest>,
}

impl FileAhead {
    /// `None` unless all checks succeed.
    fn open(
        nfs: &Arc<Nfs>,
        call: &mut Call<'_>,
        beginning: &Beginning<'_>,
        (behind, bytes, hash): (usize, usize, u64),
    ) -> Option<Self> {
        let Beginning { head, sequence, handle, write } = beginning;
        let most = nfs.settings.write_max(call.peer.transport) as usize;
        let is_served = nfs.settings.serves_minor(head.minor) && head.count <= OPS_MAX;
        if !is_served || write.count > most || head.minor == 0 && behind > GETATTR_BYTES {
            return None;
        }
        let principal = principal_of(&call.credential);
        let caller = Caller::new(&nfs.exports, call);
        let object = caller.open_v4(handle).ok()?;
        object.check_writable().ok()?;
        let key = file_key(object.export().id.0, &object.fid)?;
        let (object, stateid) = (object.into_owned(), stateid_of(write.stateid));
        let mut opened = Self {
            nfs: Arc::clone(nfs),
            object,
            right: Right::Check,
            key,
            stateid,
            arriving: None,
        };
        let session = match sequence {
            Some(sequence) => Some(nfs.v4.state.read().shared_session(&sequence.sessionid)?),
            None => None,
        };
        let client = session.as_ref().map(|session| session.client_id());
        let access = opened.access(client)?;
        // anybody else's permissions are looked at when all has come
        access.user.filter(|user| *user == principal)?;
        opened.right = opened_for(access.access);
        if let (Some(session), Some(a)) = (session, sequence) {
            let limits = session.limits();
            let fits = head.count <= limits.operations
                && bytes.saturating_add(CALL_HEADER) <= limits.request_bytes as usize;
            if !fits || a.cachethis || !session.takes_from(|| None) {
                return None;
            }
            let slot = (a.slotid, a.sequenceid);
            let now = nfs.clock.now();
            opened.arriving = Some(session.begin_arriving(now, slot, a.highest_slotid, hash)?);
        }
        Some(opened)
    }

    /// Whom the stateid gives the right to write the file, of a client or, in version 4.0, of whatever client it is.
    fn access(&self, client: Option<u64>) -> Option<StateidAccess> {
        let state = &self.nfs.v4.state;
        let (reading, write) = (state.read(), ShareBits::WRITE);
        let access = match client {
            Some(client) => reading.check_access(client, self.stateid, &self.key, write),
            None => {
                let now = self.nfs.clock.now();
                state.check_access(now, &reading, self.stateid, &self.key, write)
            }
        };
        access.ok()
    }

    /// Writes a piece; `None` if it may not be written any more, or cannot.
    fn write(
        &self,
        blocking: &dyn Blocking,
        (piece, len): (Piece<'_>, usize),
        offset: u64,
    ) -> Option<Written> {
        if !self.object.is_of(&self.nfs.exports.load()) {
            return None;
        }
        let client = self.arriving.as_ref().map(|arriving| arriving.session().client_id());
        let _slot = match &self.arriving {
            Some(arriving) => Some(arriving.resume()?),
            None => None,
        };
        self.access(client)?;
        let mut file = self.object.as_object(blocking);
        file.right = self.right;
        let written = match piece {
            Piece::Piped(piped) => verbs::write_piped(&file, offset, piped.pipe, len),
            Piece::Bytes(data) => {
                let data = data.get(..len).unwrap_or_default();
                verbs::write(&file, offset, data, Stability::Unstable)
            }
        };
        written.ok()
    }
}

/// Takes the data of a WRITE.
struct WriteSink {
    file: FileAhead,
    /// The COMPOUND up to the data.
    front: Vec<u8>,
    /// Bytes of the COMPOUND, and its hash.
    bytes: usize,
    hash: u64,
    offset: u64,
    taken: usize,
    done: WrittenAhead,
}

impl ArgumentSink for WriteSink {
    /// Writes up to the last whole page.
    fn take(&mut self, blocking: &dyn Blocking, piece: Piece<'_>) -> Consumed {
        if self.done.is_over {
            self.taken = self.taken.saturating_add(piece.len());
            return Consumed::Bytes(piece.len());
        }
        let offset = self.offset.saturating_add(self.taken as u64);
        let pages = verbs::whole_pages(offset, piece.len());
        if pages == 0 {
            return Consumed::TooFew;
        }
        match self.file.write(blocking, (piece, pages), offset) {
            Some(Written { done, verifier }) => {
                self.done.bytes = self.done.bytes.saturating_add(done.count);
                self.done.verifier.get_or_insert(verifier);
                self.done.is_over = done.count < pages;
            }
            // as if nothing had gone ahead: the WRITE of the whole record says why
            None if self.taken == 0 => return Consumed::NoMore,
            None => self.done.is_over = true,
        }
        self.taken = self.taken.saturating_add(pages);
        Consumed::Bytes(pages)
    }

    fn finish(
        self: Box<Self>,
        call: &mut Call<'_>,
        data: &[u8],
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> Result<(), Fault> {
        let Self { file: FileAhead { nfs, arriving, .. }, front, bytes, hash, done, .. } = *self;
        let ahead = ArrivedWrite { arriving, done, data, behind: args.rest() };
        let mut front = Reader::new(&front);
        let head = front.get()?;
        let operations = Reader::new(front.rest());
        let principal = principal_of(&call.credential);
        let received = Received { head, operations, bytes, principal, hash, ahead: Some(&ahead) };
        compound::answer_arrived(&nfs, call, &received, reply);
        Ok(())
    }
}

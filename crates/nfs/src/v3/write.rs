//! WRITE (RFC 1813 §3.3.7). The data is borrowed from the record. More of it than the server takes at
//! once is written in part, which a client must expect.
//!
//! The data of a large record goes to the file as it arrives ([`WriteSink`]), each piece as an unstable
//! WRITE of its own. When the record is whole, the sink writes the rest, makes all of it as safe as it
//! was asked for, and answers for the whole:
//!
//! - The file is opened, with all checks of its export, client and caller, before the first piece.
//!   After a reload of the exports it is opened again before the next piece: a client keeps nothing
//!   that a reload takes from it because its record takes long to arrive.
//! - A piece comes from the record, or from a pipe, from where the kernel moves it to the file.
//! - A piece ends where a page of the file does: half a page would have to be read from the disk to
//!   be changed.
//! - If a piece does not fit, the answer is a short WRITE of those before it.
//! - The verifier is the one from before the first piece. Had the server lost data since, a client
//!   that commits sees another one; for a stable WRITE the answer is NFS3ERR_IO.
//! - `wcc_data` spans all pieces only if nobody else changed the file between two of them: each
//!   must have found it as the one before left it, and have been the next change of it (two within a tick of the
//!   clock leave the same times). Else the reply says nothing of before.

use super::failed::Failed;
use super::{arguments, attr, finish, status};
use crate::object::{Caller, Object, OwnedObject};
use crate::share_denial::ShareDenial;
use crate::verbs::Written;
use crate::{Nfs, verbs};
use proto::nfs3::{FHSIZE, Res, StableHow, WriteArgs, WriteHead, WriteOk};
use rpc::{
    ArgumentSink, AuthSys, Begun, Blocking, Call, Consumed, Credential, Fault, Outcome, Peer, Piece,
};
use state::ShareBits;
use std::sync::Arc;
use vfs::{Change, ChangeNumber, Stability, Status, Verifier, WriteDone};
use xdr::{Reader, Writer};

pub(super) fn write(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: WriteArgs<'_> = arguments(args)?;
    let most = nfs.settings.write_max(call.peer.transport) as usize;
    let data = a.data.0.get(..most).unwrap_or(a.data.0);
    let stable = stability(a.stable);
    let denial = ShareDenial::of(nfs, call);
    let written = nfs.on_object_v3(call, a.file.0, |file| {
        nfs.before_change(file, &file.fid, None)?;
        denial.check(nfs, file, ShareBits::WRITE)?;
        let written = verbs::write(file, a.offset, data, stable);
        // the result is not moved for it
        if written.is_ok() {
            nfs.after_change(file, &file.fid, None)?;
        }
        written
    });
    answer(call, reply, &written)
}

fn answer(
    call: &mut Call<'_>,
    reply: &mut Writer,
    written: &Result<Written, Failed>,
) -> Result<(), Fault> {
    let result = match written {
        Ok(written) => {
            let count = u32::try_from(written.done.count).unwrap_or(u32::MAX);
            call.outcome.bytes_written = count;
            Res::Ok(WriteOk {
                file: attr::wcc(&written.done.file),
                count,
                committed: stable_how(written.done.committed),
                verf: written.verifier,
            })
        }
        Err(failed) => failed.wcc_as(status::of_data(failed.status)),
    };
    finish(call, reply, &result)
}

/// Begins a large WRITE, if its arguments fill the record exactly.
pub(super) fn begin(
    nfs: &Arc<Nfs>,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    missing: usize,
) -> Begun {
    let Ok(head) = args.get::<WriteHead<'_>>() else { return Begun::WholeRecord };
    let most = nfs.settings.write_max(call.peer.transport) as usize;
    let all = args.remaining().checked_add(missing);
    let end = head.offset.checked_add(head.count as u64);
    if head.count > most || all != Some(xdr::padded(head.count)) || end.is_none() {
        return Begun::WholeRecord;
    }
    let Some(file) = WriteFile::open(nfs, call, head.file.0) else { return Begun::WholeRecord };
    let progress = match &file.opened {
        Ok(_) => Progress::Nothing,
        Err(status) => Progress::Failed((*status).into()),
    };
    let (offset, stable) = (head.offset, stability(head.stable));
    let sink = Box::new(WriteSink { file, offset, stable, taken: 0, progress });
    Begun::Sink { sink, data_len: head.count }
}

/// The file of a large WRITE, and what it is opened with again after a reload.
struct WriteFile {
    nfs: Arc<Nfs>,
    opened: Result<OwnedObject, Status>,
    filehandle: [u8; FHSIZE],
    filehandle_len: usize,
    peer: Peer,
    /// Without the machine name, which opening does not look at.
    caller: Option<AuthSys<'static>>,
    /// What opening tells the statistics and the transport.
    outcome: Outcome,
}

impl WriteFile {
    /// `None` for a caller who cannot be remembered.
    fn open(nfs: &Arc<Nfs>, call: &Call<'_>, filehandle: &[u8]) -> Option<Self> {
        let caller = match &call.credential {
            Credential::Anonymous => None,
            Credential::Sys(sys) => Some(AuthSys::new(b"", sys.uid, sys.gid, sys.groups())?),
            Credential::Principal(_) => return None,
        };
        let mut bytes = [0; FHSIZE];
        bytes.get_mut(..filehandle.len())?.copy_from_slice(filehandle);
        let mut file = Self {
            nfs: Arc::clone(nfs),
            opened: Err(Status::ServerFault),
            filehandle: bytes,
            filehandle_len: filehandle.len(),
            peer: *call.peer,
            caller,
            outcome: Outcome::default(),
        };
        file.open_again(call.blocking);
        Some(file)
    }

    fn open_again(&mut self, blocking: &dyn Blocking) {
        let credential = self.caller.map_or(Credential::Anonymous, Credential::Sys);
        let mut call = Call::new(0, &self.peer, credential, blocking);
        let filehandle = self.filehandle.get(..self.filehandle_len).unwrap_or_default();
        let opened =
            Caller::new(&self.nfs.exports, &mut call).open(filehandle).map(Object::into_owned);
        (self.opened, self.outcome) = (opened, call.outcome);
    }

    /// Does `work` on the file; a failure gets the file's attributes.
    fn on_file<T>(
        &mut self,
        blocking: &dyn Blocking,
        work: impl FnOnce(&Object<'_>) -> vfs::Result<T>,
    ) -> Result<T, Failed> {
        let reloaded = |file: &OwnedObject| !file.is_of(&self.nfs.exports.load());
        if self.opened.as_ref().is_ok_and(reloaded) {
            self.open_again(blocking);
        }
        let file = self.opened.as_ref().map_err(|status| Failed::from(*status))?;
        let object = file.as_object(blocking);
        let denial = ShareDenial::for_client(&self.nfs, &self.peer);
        let checked = self.nfs.before_change(&object, &object.fid, None);
        let checked = checked.and_then(|()| denial.check(&self.nfs, &object, ShareBits::WRITE));
        let done = checked.and_then(|()| {
            let done = work(&object)?;
            self.nfs.after_change(&object, &object.fid, None)?;
            Ok(done)
        });
        done.map_err(|status| Failed::on(&self.nfs, &object, status))
    }
}

/// Takes the data of a large WRITE.
struct WriteSink {
    file: WriteFile,
    offset: u64,
    stable: Stability,
    /// Bytes of the data that were taken, written or not.
    taken: usize,
    progress: Progress,
}

/// What a WRITE has done before its record was whole.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// Nothing yet.
    Nothing,
    /// The file could not be opened, or the first piece failed.
    Failed(Failed),
    /// The front of the data is in the file.
    Written(Front),
}

/// The front of a WRITE's data, in the file.
#[derive(Debug, Clone, Copy)]
struct Front {
    /// So many bytes.
    count: usize,
    /// From before the first piece.
    verifier: Verifier,
    /// The file around all pieces.
    file: Change,
    /// Which change of it the last piece was.
    change_number: Option<ChangeNumber>,
    /// The last piece did not fit: nothing more is written.
    full: bool,
}

impl Progress {
    /// Whether nothing more is written.
    const fn is_over(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Written(Front { full: true, .. }))
    }

    /// The same with another piece of `len` bytes behind it.
    fn with(self, piece: Result<Written, Failed>, len: usize) -> Self {
        match (self, piece) {
            (Self::Failed(failed), _) | (Self::Nothing, Err(failed)) => Self::Failed(failed),
            (Self::Nothing, Ok(Written { done, verifier })) => {
                let WriteDone { count, file, change_number, .. } = done;
                Self::Written(Front { count, verifier, file, change_number, full: count < len })
            }
            (Self::Written(front), Err(_)) => Self::Written(Front { full: true, ..front }),
            (Self::Written(front), Ok(Written { done, .. })) => Self::Written(Front {
                count: front.count.saturating_add(done.count),
                file: spanning((&front.file, front.change_number), &done),
                change_number: done.change_number,
                full: done.count < len,
                ..front
            }),
        }
    }
}

impl ArgumentSink for WriteSink {
    /// Writes up to the last whole page.
    fn take(&mut self, blocking: &dyn Blocking, piece: Piece<'_>) -> Consumed {
        if self.progress.is_over() {
            self.taken = self.taken.saturating_add(piece.len());
            return Consumed::Bytes(piece.len());
        }
        let at = self.offset.saturating_add(self.taken as u64);
        let pages = verbs::whole_pages(at, piece.len());
        if pages == 0 {
            return Consumed::TooFew;
        }
        let written = self.file.on_file(blocking, |file| match piece {
            Piece::Piped(piped) => verbs::write_piped(file, at, piped.pipe, pages),
            Piece::Bytes(data) => {
                let data = data.get(..pages).unwrap_or_default();
                verbs::write(file, at, data, Stability::Unstable)
            }
        });
        self.progress = self.progress.with(written, pages);
        self.taken = self.taken.saturating_add(pages);
        Consumed::Bytes(pages)
    }

    fn finish(
        mut self: Box<Self>,
        call: &mut Call<'_>,
        data: &[u8],
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> Result<(), Fault> {
        args.end()?;
        let written = self.write_rest(call.blocking, data);
        call.outcome.export = self.file.outcome.export;
        call.outcome.buffers = self.file.outcome.buffers;
        answer(call, reply, &written)
    }
}

impl WriteSink {
    /// Writes what was not taken, and makes all of it as safe as it was asked for.
    fn write_rest(&mut self, blocking: &dyn Blocking, data: &[u8]) -> Result<Written, Failed> {
        let (offset, stable) = (self.offset, self.stable);
        let Front { mut count, verifier, mut file, mut change_number, full } = match self.progress {
            Progress::Written(front) => front,
            Progress::Failed(failed) => return Err(failed),
            Progress::Nothing => return Err(Status::ServerFault.into()),
        };
        let at = |bytes: usize| offset.saturating_add(bytes as u64);
        // Unstable: what is to be synced is what fits, and a sync that fails fails the call.
        if !full
            && let Ok(last) = self
                .file
                .on_file(blocking, |file| verbs::write(file, at(count), data, Stability::Unstable))
        {
            count = count.saturating_add(last.done.count);
            file = spanning((&file, change_number), &last.done);
            change_number = last.done.change_number;
            if stable == Stability::Unstable {
                let done = WriteDone { count, file, ..last.done };
                return Ok(Written { done, verifier });
            }
        }
        let sync = |file: &Object<'_>| verbs::write(file, at(count), &[], stable);
        let end = self.file.on_file(blocking, sync)?;
        if stable != Stability::Unstable && end.verifier != verifier {
            return Err(Failed { status: Status::Io, attr: end.done.file.after });
        }
        let file = spanning((&file, change_number), &end.done);
        let done = WriteDone { count, file, ..end.done };
        Ok(Written { done, verifier })
    }
}

/// The file around several changes, of which the last was `change_number`, and the next one, if that found the file as they left
/// it and nobody else's came between; else nothing is known of before.
fn spanning((all, change_number): (&Change, Option<ChangeNumber>), next: &WriteDone) -> Change {
    let left = all.after.map(|after| after.wcc());
    let as_left =
        left.zip(next.file.before).is_some_and(|(left, next)| left.same_size_and_times(&next));
    let is_next =
        change_number.zip(next.change_number).is_none_or(|(last, next)| next.follows(last));
    Change { before: all.before.filter(|_| as_left && is_next), after: next.file.after }
}

const fn stability(how: StableHow) -> Stability {
    match how {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

const fn stable_how(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}

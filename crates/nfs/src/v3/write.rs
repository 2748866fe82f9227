//! WRITE (RFC 1813 §3.3.7). The data is borrowed from the record. More of it than the server takes at
//! once is written in part, which a client must expect.
//!
//! Of a large record the data goes to the file as it arrives ([`ahead`]), each piece as an unstable
//! WRITE of its own, through all the checks. The call itself then writes the rest ([`rest`]), makes
//! all of it as safe as it was asked for, and answers for the whole:
//!
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
use crate::verbs::Written;
use crate::{Nfs, verbs};
use proto::nfs3::{Res, StableHow, WriteArgs, WriteHead, WriteOk};
use rpc::{Ahead, Call, Fault, Piped, Taken};
use vfs::{Change, ChangeNumber, Stability, Status, Verifier, WriteDone};
use xdr::{Reader, Writer};

/// Bytes of a page of the page cache.
const PAGE_BYTES: u64 = 4096;

pub(super) fn write(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let written = match call.ahead {
        None => {
            let a: WriteArgs<'_> = arguments(args)?;
            let most = nfs.settings.write_max(call.peer.transport) as usize;
            let data = a.data.0.get(..most).unwrap_or(a.data.0);
            let stable = stability(a.stable);
            nfs.on_object_v3(call, a.file.0, |file| verbs::write(file, a.offset, data, stable))
        }
        Some(ahead) => {
            let head: WriteHead<'_> = args.get()?;
            let left = args.rest();
            let len = data_len(&head, ahead, left.len(), 0).ok_or(Fault::SystemErr)?;
            rest(nfs, call, &head, left.get(..len).unwrap_or_default(), ahead)
        }
    };
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

/// What a WRITE has done before its record was whole.
#[derive(Debug, Clone, Copy)]
enum Begun {
    /// The first piece failed.
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

impl Begun {
    /// The same with another piece of `len` bytes behind it.
    fn with(front: Option<Front>, piece: Result<Written, Failed>, len: usize) -> Self {
        match (front, piece) {
            (None, Err(failed)) => Self::Failed(failed),
            (None, Ok(Written { done, verifier })) => {
                let WriteDone { count, file, change_number, .. } = done;
                Self::Written(Front { count, verifier, file, change_number, full: count < len })
            }
            (Some(front), Err(_)) => Self::Written(Front { full: true, ..front }),
            (Some(front), Ok(Written { done, .. })) => Self::Written(Front {
                count: front.count.saturating_add(done.count),
                file: spanning((&front.file, front.change_number), &done),
                change_number: done.change_number,
                full: done.count < len,
                ..front
            }),
        }
    }
}

/// Writes what there is of the data, up to the last whole page.
pub(super) fn ahead(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    missing: usize,
    ahead: &mut Ahead,
) -> Taken {
    let Ok(head) = args.get::<WriteHead<'_>>() else { return Taken::Never };
    // what has begun goes on, though the setting has changed meanwhile
    let most = nfs.settings.write_max(call.peer.transport) as usize;
    let fits = head.count <= most || !ahead.is_empty();
    let (there, piped) = (args.rest(), call.piped);
    let arrived = piped.map_or(there.len(), |piped| piped.len);
    let Some(len) = data_len(&head, ahead, arrived, missing).filter(|_| fits) else {
        return Taken::Never;
    };
    let front = match ahead.memo::<Begun>() {
        Some(Begun::Failed(_) | Begun::Written(Front { full: true, .. })) => {
            return Taken::Bytes(len);
        }
        Some(Begun::Written(front)) => Some(*front),
        None => None,
    };
    let Some(at) = head.offset.checked_add(ahead.len() as u64) else { return Taken::Never };
    let pages = whole_pages(at, len);
    if pages == 0 {
        return Taken::NotYet;
    }
    let written = nfs.on_object_v3(call, head.file.0, |file| match piped {
        Some(Piped { pipe, .. }) => verbs::write_piped(file, at, pipe, pages),
        None => {
            let piece = there.get(..pages).unwrap_or_default();
            verbs::write(file, at, piece, Stability::Unstable)
        }
    });
    ahead.remember(Begun::with(front, written, pages));
    Taken::Bytes(pages)
}

/// Writes what did not go ahead, and answers for all of it.
fn rest(
    nfs: &Nfs,
    call: &mut Call<'_>,
    head: &WriteHead<'_>,
    data: &[u8],
    ahead: &Ahead,
) -> Result<Written, Failed> {
    let stable = stability(head.stable);
    let Front { mut count, verifier, mut file, mut change_number, full } =
        match ahead.memo::<Begun>() {
            Some(Begun::Written(front)) => *front,
            Some(Begun::Failed(failed)) => return Err(*failed),
            None => return Err(Status::ServerFault.into()),
        };
    let at = |bytes: usize| head.offset.saturating_add(bytes as u64);
    // Unstable: what is to be synced is what fits, and a sync that fails fails the call.
    if !full
        && let Ok(last) = nfs.on_object(call, head.file.0, |file| {
            verbs::write(file, at(count), data, Stability::Unstable)
        })
    {
        count = count.saturating_add(last.done.count);
        file = spanning((&file, change_number), &last.done);
        change_number = last.done.change_number;
        if stable == Stability::Unstable {
            let done = WriteDone { count, file, ..last.done };
            return Ok(Written { done, verifier });
        }
    }
    let end =
        nfs.on_object_v3(call, head.file.0, |file| verbs::write(file, at(count), &[], stable))?;
    if stable != Stability::Unstable && end.verifier != verifier {
        return Err(Failed { status: Status::Io, attr: end.done.file.after });
    }
    let done = WriteDone { count, file: spanning((&file, change_number), &end.done), ..end.done };
    Ok(Written { done, verifier })
}

/// How much of the data is there, if the arguments, with `there` bytes behind them and `missing` that are still to
/// come, fill the record exactly.
fn data_len(head: &WriteHead<'_>, ahead: &Ahead, there: usize, missing: usize) -> Option<usize> {
    let all = ahead.len().checked_add(there)?.checked_add(missing)?;
    let left = head.count.checked_sub(ahead.len()).filter(|_| all == xdr::padded(head.count))?;
    Some(left.min(there))
}

/// How many of `len` bytes at `offset` end with a page.
fn whole_pages(offset: u64, len: usize) -> usize {
    let beyond = offset.saturating_add(len as u64) % PAGE_BYTES;
    len.saturating_sub(usize::try_from(beyond).unwrap_or(usize::MAX))
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

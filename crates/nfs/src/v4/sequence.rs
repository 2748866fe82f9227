//! SEQUENCE (RFC 8881 §18.46). All checks of a request are made before its slot is taken, so that a failed request leaves the
//! slot unchanged.

use super::frame::{Frame, REPLY_HEADER, Running};
use super::status::Failed;
use proto::nfs4::{Nfsstat4, SequenceArgs};
use state::v4::{SequenceError, Started};
use xdr::{Reader, Writer};

/// Bytes of the result.
const RESULT: usize = 36;

pub(super) fn sequence<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: SequenceArgs = args.get()?;
    let session = frame.reading.session(&a.sessionid).ok_or(Nfsstat4::BadSession)?;
    if !session.takes_from(|| frame.way_back.conn().map(|conn| conn.0)) {
        return Err(Nfsstat4::ConnNotBoundToSession.into());
    }
    let limits = *session.limits();
    if frame.count > limits.operations {
        return Err(Nfsstat4::TooManyOps.into());
    }
    if frame.request_bytes > limits.request_bytes as usize {
        return Err(Nfsstat4::ReqTooBig.into());
    }
    let least = reply.written_since(frame.start).saturating_add(REPLY_HEADER + RESULT);
    if a.cachethis && least > limits.cached_bytes as usize {
        return Err(Nfsstat4::RepTooBigToCache.into());
    }
    let slot = (a.slotid, a.sequenceid);
    let started = session.sequence(frame.now, slot, a.highest_slotid, frame.request_hash);
    match started.map_err(status)? {
        Started::Replay(kept) => frame.replay = Some(kept),
        Started::Run(ticket) => {
            frame.running = Some(Running { session, ticket, cachethis: a.cachethis });
        }
    }
    let (highest, target) = session.highest_slots();
    reply.raw(&a.sessionid);
    reply.words([a.sequenceid, a.slotid, highest, target, session.status()]);
    Ok(())
}

fn status(error: SequenceError) -> Failed {
    Failed::As(match error {
        SequenceError::BadSlot => Nfsstat4::BadSlot,
        SequenceError::BadHighSlot => Nfsstat4::BadHighSlot,
        SequenceError::Misordered => Nfsstat4::SeqMisordered,
        SequenceError::Running | SequenceError::Leaving => Nfsstat4::Delay,
        SequenceError::Uncached => Nfsstat4::RetryUncachedRep,
        SequenceError::FalseRetry => Nfsstat4::SeqFalseRetry,
        SequenceError::Dead => Nfsstat4::DeadSession,
    })
}

//! SEQUENCE (RFC 8881 §18.46). All checks of a request are made before its slot is taken, so that a failed request leaves the
//! slot unchanged.

use super::frame::{Frame, REPLY_HEADER, Running};
use super::status::Failed;
use proto::nfs4::{Nfsstat4, SequenceArgs};
use state::Now;
use state::v4::{ArrivingRequest, SequenceError, Session, Started};
use xdr::{Reader, Writer};

/// Bytes of the result.
const RESULT: usize = 36;

pub(super) fn sequence<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: SequenceArgs = args.get()?;
    if let Some(arriving) = frame.ahead.and_then(|ahead| ahead.arriving.as_ref()) {
        return run_arrived(frame, &a, arriving, reply);
    }
    let session = frame.reading.session(&a.sessionid).ok_or(Nfsstat4::BadSession)?;
    if !session.takes_from(|| frame.connection.conn().map(|conn| conn.0)) {
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
    put(session, frame.now, &a, reply);
    Ok(())
}

#[inline(always)]
fn put(session: &Session, now: Now, a: &SequenceArgs, reply: &mut Writer) {
    let (highest, target) = session.highest_slots();
    reply.raw(&a.sessionid);
    reply.words([a.sequenceid, a.slotid, highest, target, session.status(now)]);
}

/// The same of a request that has its slot since its beginning came, when all checks were made. If it has come again by
/// another connection meanwhile, it is answered as a retry.
#[cold]
#[inline(never)]
fn run_arrived<'f>(
    frame: &mut Frame<'f>,
    a: &SequenceArgs,
    arriving: &'f ArrivingRequest,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let session = arriving.session();
    let Some(ticket) = arriving.run(a.highest_slotid) else {
        let slot = (a.slotid, a.sequenceid);
        let started = session.sequence(frame.now, slot, a.highest_slotid, frame.request_hash);
        return match started.map_err(status)? {
            Started::Replay(kept) => {
                frame.replay = Some(kept);
                Ok(())
            }
            // the slot was retired since: the client has given this request up
            Started::Run(_) => Err(Nfsstat4::Delay.into()),
        };
    };
    frame.running = Some(Running { session, ticket, cachethis: a.cachethis });
    put(session, frame.now, a, reply);
    Ok(())
}

fn status(error: SequenceError) -> Failed {
    Failed::As(match error {
        SequenceError::BadSlot => Nfsstat4::BadSlot,
        SequenceError::BadHighSlot => Nfsstat4::BadHighSlot,
        SequenceError::Misordered => Nfsstat4::SeqMisordered,
        SequenceError::Running | SequenceError::BeingRemoved => Nfsstat4::Delay,
        SequenceError::Uncached => Nfsstat4::RetryUncachedRep,
        SequenceError::FalseRetry => Nfsstat4::SeqFalseRetry,
        SequenceError::Dead => Nfsstat4::DeadSession,
    })
}

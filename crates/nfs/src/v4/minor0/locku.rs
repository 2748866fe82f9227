//! LOCKU in version 4.0 (RFC 7530 §16.12).

use super::super::frame::{Frame, stateid_of, wire_stateid};
use super::super::lock::{give_back, range};
use super::super::status::Failed;
use super::owner_request::{request_of, run_or_replay};
use proto::nfs4::{LockuArgs, op};
use xdr::{Reader, Writer};

pub(super) fn locku<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let before = args.rest();
    let a: LockuArgs = args.get()?;
    let request = request_of(frame, (op::LOCKU, a.seqid), before, args);
    let file = frame.file_key()?;
    let (state, reading) = (&frame.v4().state, frame.reading);
    let stateid = stateid_of(a.stateid);
    let begun = state.begin_by_lock(frame.now, reading, stateid, request);
    run_or_replay(frame, reply, (op::LOCKU, begun), |frame, ticket, reply| {
        let range = range(a.offset, a.length)?;
        let lock = state.lock_by_owner(reading, ticket, stateid, &file)?;
        give_back(frame, &file, lock, range)?;
        reply.put(&wire_stateid(lock.changed()));
        Ok(())
    })
}

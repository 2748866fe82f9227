//! CLOSE in version 4.0 (RFC 7530 §16.2). The open's locks are released.

use super::super::frame::{Frame, stateid_of, wire_stateid};
use super::super::status::Failed;
use super::owner_request::{request_of, run_or_replay};
use proto::nfs4::{CloseArgs, op};
use xdr::{Reader, Writer};

pub(super) fn close<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let before = args.rest();
    let a: CloseArgs = args.get()?;
    let request = request_of(frame, (op::CLOSE, a.seqid), before, args);
    let file = frame.file_key()?;
    let (state, reading) = (&frame.v4().state, frame.reading);
    let stateid = stateid_of(a.stateid);
    let begun = state.begin_by_open(frame.now, reading, stateid, request);
    run_or_replay(frame, reply, (op::CLOSE, begun), |_, ticket, reply| {
        let closed = state.close_by_owner(reading, ticket, stateid, &file)?;
        reply.put(&wire_stateid(closed));
        Ok(())
    })
}

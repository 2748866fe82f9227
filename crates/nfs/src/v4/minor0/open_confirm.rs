//! OPEN_CONFIRM (RFC 7530 §16.18).

use super::super::frame::{Frame, stateid_of, wire_stateid};
use super::super::status::Failed;
use super::owner_request::{request_of, run_or_replay};
use proto::nfs4::{OpenConfirmArgs, op};
use state::v4::OwnerError;
use xdr::{Reader, Writer};

pub(super) fn open_confirm<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let before = args.rest();
    let a: OpenConfirmArgs = args.get()?;
    let request = request_of(frame, (op::OPEN_CONFIRM, a.seqid), before, args);
    let file = frame.file_key()?;
    let (state, reading) = (&frame.v4().state, frame.reading);
    let stateid = stateid_of(a.stateid);
    let begun = state.begin_by_open(frame.now, reading, stateid, request);
    if begun.as_ref().is_err_and(|error| *error == OwnerError::BadSeqid) {
        state.take_back_unconfirmed(reading, stateid);
    }
    run_or_replay(frame, reply, (op::OPEN_CONFIRM, begun), |_, ticket, reply| {
        let confirmed = state.confirm_open(reading, ticket, stateid, &file)?;
        reply.put(&wire_stateid(confirmed));
        Ok(())
    })
}

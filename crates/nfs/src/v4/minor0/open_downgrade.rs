//! OPEN_DOWNGRADE in version 4.0 (RFC 7530 §16.19).

use super::super::frame::{Frame, stateid_of, wire_stateid};
use super::super::status::Failed;
use super::owner_request::{request_of, run_or_replay};
use proto::nfs4::{Nfsstat4, OpenDowngradeArgs, op};
use state::v4::DowngradeError;
use state::{ShareBits, ShareMode};
use xdr::{Reader, Writer};

pub(super) fn open_downgrade<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let before = args.rest();
    let a: OpenDowngradeArgs = args.get()?;
    let request = request_of(frame, (op::OPEN_DOWNGRADE, a.seqid), before, args);
    let file = frame.file_key()?;
    let (state, reading) = (&frame.v4().state, frame.reading);
    let stateid = stateid_of(a.stateid);
    let begun = state.begin_by_open(frame.now, reading, stateid, request);
    run_or_replay(frame, reply, (op::OPEN_DOWNGRADE, begun), |_, ticket, reply| {
        let bits = (ShareBits::from_number(a.share_access), ShareBits::from_number(a.share_deny));
        let (Some(access), Some(deny)) = bits else { return Err(Nfsstat4::Inval.into()) };
        let mode = ShareMode { access, deny };
        let narrowed = state.downgrade_by_owner(reading, ticket, (stateid, &file), mode);
        let stateid = narrowed.map_err(|error| match error {
            DowngradeError::Stateid(error) => Failed::from(error),
            DowngradeError::Inval => Nfsstat4::Inval.into(),
        })?;
        reply.put(&wire_stateid(stateid));
        Ok(())
    })
}

//! CLOSE and OPEN_DOWNGRADE (RFC 8881 §18.2, §18.18).

use super::frame::{Frame, stateid_of, wire_stateid};
use super::status::Failed;
use proto::nfs4::{CloseArgs, Nfsstat4, OpenDowngradeArgs, Stateid4};
use state::v4::DowngradeError;
use state::{ShareBits, ShareMode};
use xdr::{Reader, Writer};

pub(super) fn close<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let CloseArgs { stateid, .. } = args.get()?;
    let file = frame.file_key()?;
    let stateid = stateid_of(frame.named_stateid(stateid)?);
    let client = frame.session()?.client_id();
    frame.v4().state.close(frame.reading, client, stateid, &file)?;
    // a stateid that is never valid (RFC 8881 §18.2.4)
    reply.put(&Stateid4::INVALID);
    frame.set_stateid(Stateid4::INVALID);
    frame.changed = true;
    Ok(())
}

pub(super) fn open_downgrade<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: OpenDowngradeArgs = args.get()?;
    let file = frame.file_key()?;
    let stateid = stateid_of(frame.named_stateid(a.stateid)?);
    let bits = (ShareBits::from_number(a.share_access), ShareBits::from_number(a.share_deny));
    let (Some(access), Some(deny)) = bits else { return Err(Nfsstat4::Inval.into()) };
    let mode = ShareMode { access, deny };
    let client = frame.session()?.client_id();
    let narrowed = frame.v4().state.downgrade(frame.reading, client, (stateid, &file), mode);
    let stateid = match narrowed {
        Ok(stateid) => wire_stateid(stateid),
        Err(DowngradeError::Stateid(error)) => return Err(error.into()),
        Err(DowngradeError::Inval) => return Err(Nfsstat4::Inval.into()),
    };
    reply.put(&stateid);
    frame.set_stateid(stateid);
    frame.changed = true;
    Ok(())
}

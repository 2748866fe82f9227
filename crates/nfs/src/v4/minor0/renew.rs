//! RENEW (RFC 7530 §16.28). It never fails with NFS4ERR_CB_PATH_DOWN, because there are no delegations.

use super::super::frame::Frame;
use super::super::status::Failed;
use proto::nfs4::RenewArgs;
use xdr::{Reader, Writer};

pub(super) fn renew<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let RenewArgs { clientid } = args.get()?;
    Ok(frame.v4().state.renew_client(frame.now, clientid)?)
}

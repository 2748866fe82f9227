//! RENEW (RFC 7530 §16.28). A client with delegations whose callback address does not answer is told so
//! (NFS4ERR_CB_PATH_DOWN), after its lease was renewed; the address is tried again.

use super::super::frame::Frame;
use super::super::status::Failed;
use proto::nfs4::{Nfsstat4, RenewArgs};
use xdr::{Reader, Writer};

pub(super) fn renew<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let RenewArgs { clientid } = args.get()?;
    let v4 = frame.v4();
    v4.state.renew_client(frame.now, clientid)?;
    frame.named_client.set(Some(clientid));
    match v4.state.path_down(clientid) {
        None => Ok(()),
        Some((callback, is_told)) => {
            v4.callbacks.by_address.probe(callback);
            if is_told { Err(Nfsstat4::CbPathDown.into()) } else { Ok(()) }
        }
    }
}

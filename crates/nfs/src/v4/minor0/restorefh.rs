//! RESTOREFH (RFC 7530 §16.29), which has an error of its own in version 4.0.

use super::super::filehandles;
use super::super::frame::Frame;
use super::super::status::Failed;
use proto::nfs4::Nfsstat4;
use xdr::{Reader, Writer};

pub(super) fn restorefh<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    if frame.saved.is_none() {
        return Err(Nfsstat4::RestoreFh.into());
    }
    filehandles::restorefh(frame, args, reply)
}

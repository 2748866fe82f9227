//! READLINK (RFC 8881 §18.24).

use super::frame::Frame;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::Nfsstat4;
use xdr::{Reader, Writer};

pub(super) fn readlink<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let mut target = Vec::new();
    match verbs::readlink(frame.object()?, &mut target) {
        // another type of object
        Err(vfs::Status::Inval) => return Err(Nfsstat4::WrongType.into()),
        read => read?,
    };
    let (room, too_big) = frame.room(reply);
    if room < xdr::padded(target.len()).saturating_add(4) {
        return Err(too_big.into());
    }
    reply.opaque(&target);
    Ok(())
}

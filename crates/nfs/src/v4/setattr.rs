//! SETATTR (RFC 8881 §18.30). A change of the size is a write, which the stateid must allow.

use super::frame::Frame;
use super::settable_attrs;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{Nfsstat4, SetattrArgs};
use xdr::{Reader, Writer};

pub(super) fn setattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let SetattrArgs { stateid, attrs } = args.get()?;
    frame.object()?;
    let set = settable_attrs::parse(frame.minor, &attrs)?;
    let right = if set.size.is_some() {
        stateids::data_right(frame, stateid, DataAccess::Write)?
    } else {
        vfs::Right::Check
    };
    let place = frame.current.as_mut().ok_or(Nfsstat4::NoFilehandle)?;
    place.object.right = right;
    let changed = verbs::setattr(&place.object, Ok(set), None);
    place.object.right = vfs::Right::Check;
    changed?;
    reply.put(&settable_attrs::mask_of(&set));
    frame.changed = true;
    Ok(())
}

//! GETATTR (RFC 8881 §18.7).

use super::absent;
use super::attr;
use super::delegation;
use super::frame::Frame;
use super::ops;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::GetattrArgs;
use xdr::{Reader, Writer};

pub(super) fn getattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let GetattrArgs { attrs } = args.get()?;
    attr::check_readable(&attrs)?;
    delegation::check_not_lost(frame, args.rest())?;
    if frame.nfs.v4.state.any_write_delegations() {
        delegation::before_attrs(frame, &attrs)?;
    }
    let object = frame.object()?;
    if object.is_absent() {
        return absent::put(frame, object, &attrs, reply);
    }
    let want = attr::want(&attrs);
    let asked;
    let found = if let Some(attr) = frame.fetched(want) {
        attr
    } else {
        asked = verbs::getattr_with(object, want)?;
        &asked
    };
    let (start, before) = (reply.mark(), reply.written_since(frame.start));
    attr::put(frame, object, found, &attrs, reply)?;
    let written = reply.written_since(start);
    // an ACL may be longer than what was checked before
    if written > ops::ATTRS as usize {
        let (room, too_big) = frame.room_behind(before);
        if written > room {
            return Err(too_big.into());
        }
    }
    Ok(())
}

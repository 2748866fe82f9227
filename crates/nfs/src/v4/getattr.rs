//! GETATTR (RFC 8881 §18.7).

use super::absent;
use super::attr;
use super::delegation;
use super::frame::Frame;
use super::ops;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{Bitmap4, GetattrArgs};
use vfs::Attr;
use xdr::{Reader, Writer};

pub(super) fn getattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let GetattrArgs { attrs } = args.get()?;
    attr::check_readable(&attrs)?;
    delegation::check_not_lost(frame, args.rest())?;
    if frame.nfs.v4.state.any_write_delegations()
        && let Some(held) = delegation::attrs_by_holder(frame, &attrs)?
    {
        return put(frame, &held, &attrs, reply);
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
    put(frame, found, &attrs, reply)
}

#[inline]
fn put(frame: &Frame<'_>, found: &Attr, attrs: &Bitmap4, reply: &mut Writer) -> Result<(), Failed> {
    let object = frame.object()?;
    let (start, before) = (reply.mark(), reply.written_since(frame.start));
    attr::put(frame, object, found, attrs, reply)?;
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

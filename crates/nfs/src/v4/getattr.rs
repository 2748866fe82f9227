//! GETATTR (RFC 8881 §18.7).

use super::absent;
use super::attr;
use super::delegation;
use super::frame::Frame;
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
    // an ACL may be longer than what was checked before
    let (room, too_big) = frame.room(reply);
    let start = reply.mark();
    attr::put(frame, object, found, &attrs, reply)?;
    if reply.written_since(start) > room { Err(too_big.into()) } else { Ok(()) }
}

//! GETATTR (RFC 8881 §18.7).

use super::attr;
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
    let object = frame.object()?;
    let found = verbs::getattr(object)?;
    attr::put(frame, object, &found, &attrs, reply)
}

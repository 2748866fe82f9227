//! SECINFO (RFC 7530 §16.31), which leaves the current filehandle in version 4.0.

use super::super::frame::Frame;
use super::super::secinfo;
use super::super::status::Failed;
use xdr::{Reader, Writer};

pub(super) fn secinfo<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let current = frame.current.clone();
    secinfo::secinfo(frame, args, reply)?;
    frame.current = current;
    Ok(())
}

//! LOCK, LOCKT and LOCKU (RFC 8881 §18.10 to §18.12). Byte-range locks are not served over version 4 yet: each fails with an
//! error that the RFC allows it and that clients take for a lasting one.

use super::frame::Frame;
use super::status::Failed;
use proto::nfs4::Nfsstat4;
use xdr::{Reader, Writer};

pub(super) fn lock<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    frame.object()?;
    Err(Nfsstat4::LockNotSupp.into())
}

pub(super) fn lockt<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    frame.object()?;
    Err(Nfsstat4::BadRange.into())
}

/// There is no stateid of a lock.
pub(super) fn locku<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    frame.object()?;
    Err(Nfsstat4::BadStateid.into())
}

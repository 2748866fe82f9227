//! PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH and RESTOREFH (RFC 8881 §18.19 to §18.21, §18.8, §18.27, §18.28).
//!
//! PUTFH opens the handle with all checks that version 3 makes of one; what LOOKUP finds is not sealed unless GETFH asks
//! for it.

use super::frame::Frame;
use super::status::Failed;
use crate::object::Refused;
use export::Root;
use proto::nfs4::{Nfsstat4, PutfhArgs};
use xdr::{Reader, Writer};

pub(super) fn putfh<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let PutfhArgs { object } = args.get()?;
    match frame.caller.open_v4(object.0) {
        Ok(object) => frame.set_current(object),
        Err(Refused::Flavor) => put_for_machine(frame, object.0)?,
        Err(refused) => return Err(refused.into()),
    }
    Ok(())
}

/// The same with a flavour that the export does not accept: the machine of a client may give back what its users have,
/// who may be gone (RFC 8881 §18.35.3, `spo_must_allow`).
#[cold]
fn put_for_machine(frame: &mut Frame<'_>, handle: &[u8]) -> Result<(), Failed> {
    let machine = frame.machine().ok_or(Refused::Flavor)?;
    let object = frame.caller.open_whatever_flavor(handle)?;
    frame.set_current(object);
    frame.returns_state = Some(machine);
    Ok(())
}

/// Also PUTPUBFH: the public filehandle is the root.
pub(super) fn putrootfh<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let table = frame.caller.table();
    let (pseudo, exports) = (table.pseudo(), table.exports());
    let root = match pseudo.root(exports) {
        Root::Export(export) => frame.caller.enter(export, export.backend.root())?,
        Root::Pseudo => frame.caller.pseudo_object(pseudo.export().backend.root()),
    };
    frame.set_current(root);
    Ok(())
}

pub(super) fn getfh<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let object = frame.object()?;
    let handle = object.seal(&object.fid);
    let (bytes, len) = handle.padded();
    reply.opaque_within(bytes, len);
    Ok(())
}

pub(super) fn savefh<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let current = frame.current.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
    frame.saved = Some(current.clone());
    Ok(())
}

pub(super) fn restorefh<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let saved = frame.saved.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
    frame.current = Some(saved.clone());
    Ok(())
}

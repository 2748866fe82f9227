//! SECINFO and SECINFO_NO_NAME (RFC 8881 §18.29, §18.45): the flavours under which an object may be used. Both consume the
//! current filehandle.

use super::frame::Frame;
use super::lookup;
use super::name;
use super::status::Failed;
use crate::junction::Crossing;
use crate::object::Object;
use export::Flavor;
use proto::nfs4::{Nfsstat4, SecinfoArgs, SecinfoNoNameArgs};
use proto::rpc::flavor;
use xdr::{Reader, Writer};

/// `SECINFO_STYLE4_CURRENT_FH`, `SECINFO_STYLE4_PARENT`.
const CURRENT: u32 = 0;
const PARENT: u32 = 1;

pub(super) fn secinfo<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let SecinfoArgs { name } = args.get()?;
    let dir = frame.object()?;
    name::check(name.0, dir)?;
    // where it leads to another export, the answer must not depend on the flavour of this call
    let export = match frame.caller.junction(dir, name.0, Crossing::All)? {
        Some(inner) => Some(inner),
        None => {
            let found = lookup::find(dir, name.0)?;
            let table = frame.caller.table();
            let inside = table.pseudo().is(dir.export());
            if inside { table.pseudo().export_at(&found, table.exports()) } else { None }
        }
    };
    match export {
        Some(export) => match frame.caller.open_root(export) {
            Ok(root) => put_flavors(&root, reply),
            Err(_) => return Err(Nfsstat4::NoEnt.into()),
        },
        None => put_flavors(dir, reply),
    }
    frame.current = None;
    Ok(())
}

pub(super) fn secinfo_no_name<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let SecinfoNoNameArgs { style } = args.get()?;
    let object = frame.object()?;
    match style {
        CURRENT => put_flavors(object, reply),
        PARENT => put_flavors(&lookup::parent(frame.caller, object)?, reply),
        _ => return Err(Nfsstat4::BadXdr.into()),
    }
    frame.current = None;
    Ok(())
}

fn put_flavors(object: &Object<'_>, reply: &mut Writer) {
    let flavors = object.flavors();
    reply.u32(u32::try_from(flavors.iter().count()).unwrap_or(u32::MAX));
    for accepted in flavors.iter() {
        reply.u32(match accepted {
            Flavor::Sys => flavor::AUTH_SYS,
            Flavor::None => flavor::AUTH_NONE,
        });
    }
}

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
            let found = lookup::find(dir, name.0)?.node.fid;
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
        match accepted {
            Flavor::Sys | Flavor::None => reply.u32(accepted.number()),
            Flavor::Krb5 => put_kerberos(reply, SERVICE_NONE),
            Flavor::Krb5i => put_kerberos(reply, SERVICE_INTEGRITY),
            Flavor::Krb5p => put_kerberos(reply, SERVICE_PRIVACY),
        }
    }
}

/// `rpc_gss_svc_t` (RFC 2203 §5.3.1).
const SERVICE_NONE: u32 = 1;
const SERVICE_INTEGRITY: u32 = 2;
const SERVICE_PRIVACY: u32 = 3;
/// Kerberos 5, 1.2.840.113554.1.2.2: the contents octets of its encoding, without tag and length, as all clients and
/// servers send it (RFC 8881 §18.29.2 leaves it open).
const KERBEROS_OID: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";

/// `rpcsec_gss_info` (RFC 8881 §18.29.2): mechanism, the default quality of protection, service.
fn put_kerberos(reply: &mut Writer, service: u32) {
    reply.u32(flavor::RPCSEC_GSS);
    reply.opaque(KERBEROS_OID);
    reply.words([0, service]);
}

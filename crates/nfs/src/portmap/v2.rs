//! Version 2, the port mapper (RFC 1833 §3.2). Ports of IPv4 only.

use super::Portmap;
use super::table::may_list;
use proto::list;
use proto::portmap::{Mapping, Netid, PROTOCOL_TCP, PROTOCOL_UDP};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

/// SET and UNSET: refused, other programs cannot register.
pub(super) fn set(
    _: &Portmap,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    args.get::<Mapping>()?;
    args.end()?;
    reply.bool(false);
    Ok(())
}

/// GETPORT: the port, or 0.
pub(super) fn getport(
    state: &Portmap,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let wanted = args.get::<Mapping>()?;
    args.end()?;
    let netid = match wanted.protocol {
        PROTOCOL_TCP => Some(Netid::Tcp),
        PROTOCOL_UDP => Some(Netid::Udp),
        _ => None,
    };
    let found = netid
        .and_then(|netid| state.find_any(wanted.program, wanted.version, netid, call.peer.local));
    reply.u32(found.map_or(0, |r| u32::from(r.addr.port())));
    Ok(())
}

/// DUMP: every mapping of IPv4. Bytes after the call are ignored, as by rpcbind: a client library in
/// Python sends version and procedure again.
pub(super) fn dump(
    state: &Portmap,
    call: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    if !may_list(call) {
        return Err(Fault::Silence);
    }
    let mappings = state.list().filter(|r| !r.netid.is_v6()).map(|r| Mapping {
        program: r.program,
        version: r.version,
        protocol: r.netid.protocol(),
        port: u32::from(r.addr.port()),
    });
    list::encode(reply, mappings);
    Ok(())
}

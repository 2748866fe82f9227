//! Versions 3 and 4, rpcbind (RFC 1833 §2.2). Procedures of both behave the same.

use super::Portmap;
use super::table::{may_list, netid_of, reachable};
use proto::list;
use proto::portmap::{
    Address, AddressEntry, Netbuf, Registration, Rpcb, SEMANTICS_DATAGRAM, SEMANTICS_STREAM,
    decode_taddr, encode_taddr, from_universal, to_universal,
};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

/// The owner of all registrations, as lists show it.
const OWNER: &[u8] = b"bowline";

/// SET and UNSET: refused, other programs cannot register.
pub(super) fn set(
    _: &Portmap,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    args.get::<Rpcb<'_>>()?;
    args.end()?;
    reply.bool(false);
    Ok(())
}

/// GETADDR: where the program is on the transport that the call came by; another
/// version is as good. Empty if there is none.
pub(super) fn getaddr(
    state: &Portmap,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let wanted = args.get::<Rpcb<'_>>()?;
    args.end()?;
    let (netid, local) = (netid_of(call.peer), call.peer.local);
    put_address(state.find_any(wanted.program, wanted.version, netid, local), call, reply);
    Ok(())
}

/// GETVERSADDR: as GETADDR, for exactly the version that is asked for.
pub(super) fn getversaddr(
    state: &Portmap,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let wanted = args.get::<Rpcb<'_>>()?;
    args.end()?;
    let (netid, local) = (netid_of(call.peer), call.peer.local);
    put_address(state.find(wanted.program, wanted.version, netid, local), call, reply);
    Ok(())
}

fn put_address(found: Option<&Registration>, call: &Call<'_>, reply: &mut Writer) {
    let address = found.and_then(|r| reachable(r, call.peer.local)).map(to_universal);
    reply.put(&Address(address.unwrap_or_default().as_bytes()));
}

/// DUMP: every registration, with the address that it listens on.
pub(super) fn dump(
    state: &Portmap,
    call: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    if !may_list(call) {
        return Err(Fault::Silence);
    }
    for registration in state.list() {
        reply.bool(true);
        reply.put(&Rpcb {
            program: registration.program,
            version: registration.version,
            netid: registration.netid.text().as_bytes(),
            address: to_universal(registration.addr).as_bytes(),
            owner: OWNER,
        });
    }
    reply.bool(false);
    Ok(())
}

/// GETADDRLIST: the addresses of one version of a program on all transports, as far as they are
/// known to be reachable for this caller.
pub(super) fn getaddrlist(
    state: &Portmap,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let wanted = args.get::<Rpcb<'_>>()?;
    args.end()?;
    if !may_list(call) {
        return Err(Fault::Silence);
    }
    let wanted = |r: &&Registration| r.program == wanted.program && r.version == wanted.version;
    let addresses: Vec<(&Registration, String)> = state
        .list()
        .filter(wanted)
        .filter_map(|r| Some((r, to_universal(reachable(r, call.peer.local)?))))
        .collect();
    list::encode(reply, addresses.iter().map(|(r, address)| entry(r, address)));
    Ok(())
}

fn entry<'a>(registration: &Registration, address: &'a str) -> AddressEntry<'a> {
    let netid = registration.netid;
    AddressEntry {
        address: address.as_bytes(),
        netid: netid.text().as_bytes(),
        semantics: if netid.is_tcp() { SEMANTICS_STREAM } else { SEMANTICS_DATAGRAM },
        family: if netid.is_v6() { b"inet6" } else { b"inet" },
        protocol: if netid.is_tcp() { b"tcp" } else { b"udp" },
    }
}

/// GETTIME: seconds since 1970.
pub(super) fn gettime(
    state: &Portmap,
    _: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    reply.u32((state.clock)());
    Ok(())
}

/// UADDR2TADDR: a `struct sockaddr`, empty for what is no address.
pub(super) fn uaddr2taddr(
    _: &Portmap,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let address = args.get::<Address<'_>>()?;
    args.end()?;
    let taddr = from_universal(address.0).map(encode_taddr).unwrap_or_default();
    let max_len = u32::try_from(taddr.len()).unwrap_or_default();
    reply.put(&Netbuf { max_len, data: &taddr });
    Ok(())
}

/// TADDR2UADDR: the universal address, empty for what is no `struct sockaddr` of the Internet.
pub(super) fn taddr2uaddr(
    _: &Portmap,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let netbuf = args.get::<Netbuf<'_>>()?;
    args.end()?;
    let address = decode_taddr(netbuf.data).map(to_universal).unwrap_or_default();
    reply.put(&Address(address.as_bytes()));
    Ok(())
}

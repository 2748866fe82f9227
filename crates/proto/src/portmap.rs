//! The port mapper, version 2, and rpcbind, versions 3 and 4 (RFC 1833): arguments and results.
//!
//! Both directions of every type, borrowed from the record. RFC 1833 has no limits for its strings,
//! so that they are defined here.

mod universal;

use crate::list;
use xdr::{Decode, Encode, Error, Reader, Writer};

pub use universal::{
    Netid, Registration, decode_taddr, encode_taddr, from_universal, to_universal,
};

/// The program's number.
pub const PROGRAM: u32 = 100_000;
/// The well-known port, of TCP and UDP.
pub const PORT: u16 = 111;
/// IPPROTO_TCP, as `mapping` carries it.
pub const PROTOCOL_TCP: u32 = 6;
/// IPPROTO_UDP, as `mapping` carries it.
pub const PROTOCOL_UDP: u32 = 17;
/// The longest network identifier in bytes; the longest in use has nine.
pub const NETID_MAX: usize = 64;
/// The longest universal address in bytes: a UNIX socket's path is the longest that exists.
pub const ADDRESS_MAX: usize = 256;
/// The longest owner in bytes; a user name or number.
pub const OWNER_MAX: usize = 128;
/// The most bytes of arguments that an indirect call may carry: a datagram.
pub const INDIRECT_MAX: usize = 65_535;
/// The longest transport address in bytes (`sizeof(struct sockaddr_storage)`).
pub const TADDR_MAX: usize = 128;
/// The most rows of a list that a client accepts.
pub const LIST_MAX: usize = 65_536;

/// Procedure numbers of version 2 (RFC 1833 §3.1).
pub mod procedure2 {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Registers.
    pub const SET: u32 = 1;
    /// Unregisters.
    pub const UNSET: u32 = 2;
    /// Returns a program's port.
    pub const GETPORT: u32 = 3;
    /// Lists all registrations.
    pub const DUMP: u32 = 4;
    /// Calls another program through the port mapper.
    pub const CALLIT: u32 = 5;
}

/// Procedure numbers of versions 3 and 4 (RFC 1833 §2.1).
pub mod procedure4 {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Registers.
    pub const SET: u32 = 1;
    /// Unregisters.
    pub const UNSET: u32 = 2;
    /// Returns a program's universal address.
    pub const GETADDR: u32 = 3;
    /// Lists all registrations.
    pub const DUMP: u32 = 4;
    /// CALLIT in version 3, BCAST in version 4.
    pub const BCAST: u32 = 5;
    /// Seconds since 1970.
    pub const GETTIME: u32 = 6;
    /// Universal address to transport address.
    pub const UADDR2TADDR: u32 = 7;
    /// Transport address to universal address.
    pub const TADDR2UADDR: u32 = 8;
    /// GETADDR for exactly one version of the program; from version 4 on.
    pub const GETVERSADDR: u32 = 9;
    /// Calls another program and reports errors; from version 4 on.
    pub const INDIRECT: u32 = 10;
    /// All addresses of a program; from version 4 on.
    pub const GETADDRLIST: u32 = 11;
    /// Statistics; from version 4 on.
    pub const GETSTAT: u32 = 12;
}

/// `mapping` (RFC 1833 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`].
    pub protocol: u32,
    /// The port, 0 if unused.
    pub port: u32,
}

impl<'a> Decode<'a> for Mapping {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { program: r.u32()?, version: r.u32()?, protocol: r.u32()?, port: r.u32()? })
    }
}

impl Encode for Mapping {
    fn encode(&self, w: &mut Writer) {
        [self.program, self.version, self.protocol, self.port].iter().for_each(|n| w.u32(*n));
    }
}

/// The result of DUMP in version 2.
///
/// # Errors
/// [`Error`], also for more than [`LIST_MAX`] rows.
pub fn decode_mappings(r: &mut Reader<'_>) -> Result<Vec<Mapping>, Error> {
    list::decode(r, LIST_MAX)
}

/// `rpcb` (RFC 1833 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpcb<'a> {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Network identifier: `tcp`, `udp6`.
    pub netid: &'a [u8],
    /// Universal address.
    pub address: &'a [u8],
    /// Who registered it.
    pub owner: &'a [u8],
}

impl<'a> Decode<'a> for Rpcb<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            program: r.u32()?,
            version: r.u32()?,
            netid: r.opaque(NETID_MAX)?,
            address: r.opaque(ADDRESS_MAX)?,
            owner: r.opaque(OWNER_MAX)?,
        })
    }
}

impl Encode for Rpcb<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.program);
        w.u32(self.version);
        w.opaque(self.netid);
        w.opaque(self.address);
        w.opaque(self.owner);
    }
}

/// The result of DUMP in versions 3 and 4.
///
/// # Errors
/// [`Error`], also for more than [`LIST_MAX`] rows.
pub fn decode_rpcbs<'a>(r: &mut Reader<'a>) -> Result<Vec<Rpcb<'a>>, Error> {
    list::decode(r, LIST_MAX)
}

/// A universal address by itself: the result of GETADDR and the argument of UADDR2TADDR. Empty
/// means that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for Address<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.opaque(ADDRESS_MAX).map(Self)
    }
}

impl Encode for Address<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.0);
    }
}

/// `call_args` and `rpcb_rmtcallargs`: a call to be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indirect<'a> {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Its arguments.
    pub args: &'a [u8],
}

impl<'a> Decode<'a> for Indirect<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            program: r.u32()?,
            version: r.u32()?,
            procedure: r.u32()?,
            args: r.opaque(INDIRECT_MAX)?,
        })
    }
}

impl Encode for Indirect<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.program);
        w.u32(self.version);
        w.u32(self.procedure);
        w.opaque(self.args);
    }
}

/// `netbuf`: a transport address in the machine's own layout (`struct sockaddr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Netbuf<'a> {
    /// Size of the original buffer.
    pub max_len: u32,
    /// The address; empty if there is none.
    pub data: &'a [u8],
}

impl<'a> Decode<'a> for Netbuf<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { max_len: r.u32()?, data: r.opaque(TADDR_MAX)? })
    }
}

impl Encode for Netbuf<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.max_len);
        w.opaque(self.data);
    }
}

/// Transport semantics: connectionless (`NC_TPI_CLTS`).
pub const SEMANTICS_DATAGRAM: u32 = 1;
/// Transport semantics: connections that close gracefully (`NC_TPI_COTS_ORD`).
pub const SEMANTICS_STREAM: u32 = 3;

/// `rpcb_entry`, one row of GETADDRLIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressEntry<'a> {
    /// Universal address, reachable for the caller.
    pub address: &'a [u8],
    /// Network identifier.
    pub netid: &'a [u8],
    /// [`SEMANTICS_DATAGRAM`] or [`SEMANTICS_STREAM`].
    pub semantics: u32,
    /// `inet` or `inet6`.
    pub family: &'a [u8],
    /// `tcp` or `udp`.
    pub protocol: &'a [u8],
}

impl<'a> Decode<'a> for AddressEntry<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            address: r.opaque(ADDRESS_MAX)?,
            netid: r.opaque(NETID_MAX)?,
            semantics: r.u32()?,
            family: r.opaque(NETID_MAX)?,
            protocol: r.opaque(NETID_MAX)?,
        })
    }
}

impl Encode for AddressEntry<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.address);
        w.opaque(self.netid);
        w.u32(self.semantics);
        w.opaque(self.family);
        w.opaque(self.protocol);
    }
}

/// The result of GETADDRLIST.
///
/// # Errors
/// [`Error`], also for more than [`LIST_MAX`] rows.
pub fn decode_addresses<'a>(r: &mut Reader<'a>) -> Result<Vec<AddressEntry<'a>>, Error> {
    list::decode(r, LIST_MAX)
}

/// Decodes the arguments of one procedure and checks that nothing follows them; for tests with
/// arbitrary bytes. A procedure without arguments ignores what follows.
///
/// # Errors
/// [`Error`]: what the server would answer with GARBAGE_ARGS; [`Error::NotMember`] for a
/// procedure that the version does not have.
pub fn decode_all_args(version: u32, number: u32, bytes: &[u8]) -> Result<(), Error> {
    let mut r = Reader::new(bytes);
    let unknown = Error::NotMember { what: "a procedure of the port mapper", value: number };
    match version {
        2 => decode_args_2(number, &mut r, unknown),
        3 if number > procedure4::TADDR2UADDR => Err(unknown),
        3 | 4 => decode_args_4(number, &mut r, unknown),
        _ => Err(unknown),
    }
}

fn decode_args_2(number: u32, r: &mut Reader<'_>, unknown: Error) -> Result<(), Error> {
    match number {
        procedure2::NULL | procedure2::DUMP => Ok(()),
        procedure2::SET | procedure2::UNSET | procedure2::GETPORT => {
            r.get::<Mapping>().and_then(|_| r.end())
        }
        procedure2::CALLIT => r.get::<Indirect<'_>>().and_then(|_| r.end()),
        _ => Err(unknown),
    }
}

fn decode_args_4(number: u32, r: &mut Reader<'_>, unknown: Error) -> Result<(), Error> {
    match number {
        procedure4::NULL | procedure4::DUMP | procedure4::GETTIME | procedure4::GETSTAT => Ok(()),
        procedure4::SET
        | procedure4::UNSET
        | procedure4::GETADDR
        | procedure4::GETVERSADDR
        | procedure4::GETADDRLIST => r.get::<Rpcb<'_>>().and_then(|_| r.end()),
        procedure4::BCAST | procedure4::INDIRECT => r.get::<Indirect<'_>>().and_then(|_| r.end()),
        procedure4::UADDR2TADDR => r.get::<Address<'_>>().and_then(|_| r.end()),
        procedure4::TADDR2UADDR => r.get::<Netbuf<'_>>().and_then(|_| r.end()),
        _ => Err(unknown),
    }
}

#[cfg(test)]
mod tests;

//! The port mapper and rpcbind (RFC 1833) from the client's side.

use crate::client::{Client, Nothing};
use crate::error::{Error, Result};
use crate::message::Target;
use proto::portmap::{
    Address, Mapping, Netid, PROGRAM, Registration, Rpcb, decode_mappings, decode_rpcbs,
    from_universal, procedure2, procedure4, to_universal,
};
use std::net::SocketAddr;

/// One row of rpcbind's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Network identifier.
    pub netid: String,
    /// Universal address.
    pub address: String,
    /// Who registered it.
    pub owner: String,
}

const fn target(version: u32, procedure: u32) -> Target {
    Target { program: PROGRAM, version, procedure }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mapping(service: &Registration) -> Mapping {
    Mapping {
        program: service.program,
        version: service.version,
        protocol: service.netid.protocol(),
        port: u32::from(service.addr.port()),
    }
}

impl Client {
    /// A program's port, by version 2 of the port mapper; `None` if it is not registered.
    ///
    /// # Errors
    /// Any.
    pub fn getport(&mut self, program: u32, version: u32, protocol: u32) -> Result<Option<u16>> {
        let args = Mapping { program, version, protocol, port: 0 };
        let reply = self.call(target(2, procedure2::GETPORT), &args)?;
        let port = reply.decode::<u32>("GETPORT")?;
        let port = u16::try_from(port).map_err(|_| Error::Garbled {
            operation: "GETPORT",
            source: xdr::Error::Invalid("a port is at most 65535"),
        })?;
        Ok((port != 0).then_some(port))
    }

    /// All mappings, by version 2 of the port mapper.
    ///
    /// # Errors
    /// Any.
    pub fn mappings(&mut self) -> Result<Vec<Mapping>> {
        let reply = self.call(target(2, procedure2::DUMP), &Nothing)?;
        reply.decode_with("DUMP", decode_mappings)
    }

    /// All registrations, by version 4 of rpcbind.
    ///
    /// # Errors
    /// Any.
    pub fn registrations(&mut self) -> Result<Vec<Listed>> {
        let reply = self.call(target(4, procedure4::DUMP), &Nothing)?;
        let rows = reply.decode_with("DUMP", decode_rpcbs)?;
        let row = |r: &Rpcb<'_>| Listed {
            program: r.program,
            version: r.version,
            netid: text(r.netid),
            address: text(r.address),
            owner: text(r.owner),
        };
        Ok(rows.iter().map(row).collect())
    }

    /// The address of exactly this version of a program, by version 4 of rpcbind.
    ///
    /// # Errors
    /// Any.
    pub fn getversaddr(
        &mut self,
        program: u32,
        version: u32,
        netid: Netid,
    ) -> Result<Option<SocketAddr>> {
        let netid = netid.text().as_bytes();
        let args = Rpcb { program, version, netid, address: b"", owner: b"" };
        let reply = self.call(target(4, procedure4::GETVERSADDR), &args)?;
        Ok(from_universal(reply.decode::<Address<'_>>("GETVERSADDR")?.0))
    }

    /// Registers a service by version 2; `false` if another server is registered for it.
    ///
    /// # Errors
    /// Any.
    pub fn pmap_set(&mut self, service: &Registration) -> Result<bool> {
        self.call(target(2, procedure2::SET), &mapping(service))?.decode("SET")
    }

    /// Unregisters a program's version on all transports, by version 2.
    ///
    /// # Errors
    /// Any.
    pub fn pmap_unset(&mut self, service: &Registration) -> Result<bool> {
        self.call(target(2, procedure2::UNSET), &mapping(service))?.decode("UNSET")
    }

    /// Registers a service by version 4; `false` if another server is registered for it.
    ///
    /// # Errors
    /// Any.
    pub fn rpcb_set(&mut self, service: &Registration, owner: &str) -> Result<bool> {
        self.rpcb_change(procedure4::SET, service, owner)
    }

    /// Unregisters a service on its one transport, by version 4.
    ///
    /// # Errors
    /// Any.
    pub fn rpcb_unset(&mut self, service: &Registration, owner: &str) -> Result<bool> {
        self.rpcb_change(procedure4::UNSET, service, owner)
    }

    fn rpcb_change(&mut self, number: u32, service: &Registration, owner: &str) -> Result<bool> {
        let address = to_universal(service.addr);
        let args = Rpcb {
            program: service.program,
            version: service.version,
            netid: service.netid.text().as_bytes(),
            address: address.as_bytes(),
            owner: owner.as_bytes(),
        };
        self.call(target(4, number), &args)?.decode("SET or UNSET")
    }
}

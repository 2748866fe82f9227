//! Registering with the machine's rpcbind, so that clients that query port 111 find the server.
//!
//! By version 4 over rpcbind's UNIX socket, where it identifies us by our user id; if there is no
//! such socket, by version 2 from a reserved port, for IPv4 only. All or nothing: registrations
//! before an error are undone.

use crate::Nothing;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::message::Target;
use crate::portmap::Listed;
use proto::portmap::{Mapping, Netid, PORT, Registration};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How long rpcbind may take for each call; it is on this machine.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the check whether a registered server still answers.
const ALIVE_TIMEOUT: Duration = Duration::from_millis(500);
/// The owner, as rpcbind shows it if it does not know the user.
const OWNER: &str = "bowline";

/// Addresses of rpcbind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rpcbind {
    /// Its UNIX socket.
    pub socket: PathBuf,
    /// Its address, used if there is no such socket.
    pub addr: SocketAddr,
}

impl Default for Rpcbind {
    /// `/run/rpcbind.sock` and 127.0.0.1:111.
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/run/rpcbind.sock"),
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
        }
    }
}

/// Why registration failed.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// rpcbind is not running.
    #[error(
        "no rpcbind answers on this machine ({0}); clients need the port in their mount options"
    )]
    NoRpcbind(Error),
    /// A call failed.
    #[error("rpcbind: {0}")]
    Call(#[from] Error),
    /// Another server is registered and answers.
    #[error(
        "program {program} version {version} ({netid}) is registered by a server that answers at {address}; stop it first"
    )]
    Taken {
        /// Program number.
        program: u32,
        /// Version number.
        version: u32,
        /// Transport.
        netid: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// rpcbind refuses without a reason.
    #[error(
        "rpcbind refuses program {program} version {version} ({netid}); registering needs root"
    )]
    Refused {
        /// Program number.
        program: u32,
        /// Version number.
        version: u32,
        /// Transport.
        netid: &'static str,
    },
}

/// The registered services; [`Registered::unregister`] unregisters them.
#[derive(Debug)]
#[must_use = "what is registered stays so until it is taken back"]
pub struct Registered {
    rpcbind: Rpcbind,
    services: Vec<Registration>,
}

/// Registers `services`. A registration of a server that no longer answers is replaced.
///
/// # Errors
/// [`RegisterError`]; nothing is registered then.
pub fn register(
    services: &[Registration],
    rpcbind: Rpcbind,
) -> std::result::Result<Registered, RegisterError> {
    let mut session = Session::open(&rpcbind).map_err(RegisterError::NoRpcbind)?;
    let mut registered = Registered { rpcbind, services: Vec::new() };
    for service in services {
        if !session.supports_service(service) {
            continue;
        }
        if let Err(error) = session.register(service) {
            // The first error is reported.
            let _ = registered.unregister();
            return Err(error);
        }
        registered.services.push(*service);
    }
    Ok(registered)
}

impl Registered {
    /// The registered services: without IPv6 if only version 2 is available.
    pub fn services(&self) -> &[Registration] {
        &self.services
    }

    /// Registers the missing ones of `services`, and unregisters the others.
    ///
    /// # Errors
    /// [`RegisterError`]: the first one ends the attempt, earlier changes stay.
    pub fn change(&mut self, services: &[Registration]) -> std::result::Result<(), RegisterError> {
        let mut session = Session::open(&self.rpcbind).map_err(RegisterError::NoRpcbind)?;
        let spare: Vec<Registration> =
            self.services.iter().filter(|held| !services.contains(held)).copied().collect();
        for service in spare {
            session.unset(&service)?;
            self.services.retain(|held| *held != service);
        }
        for service in services {
            if !self.services.contains(service) && session.supports_service(service) {
                session.register(service)?;
                self.services.push(*service);
            }
        }
        Ok(())
    }

    /// Registers one more service.
    ///
    /// # Errors
    /// [`RegisterError`]; the others stay registered.
    pub fn add(&mut self, service: &Registration) -> std::result::Result<(), RegisterError> {
        let mut session = Session::open(&self.rpcbind).map_err(RegisterError::NoRpcbind)?;
        if session.supports_service(service) && !self.services.contains(service) {
            session.register(service)?;
            self.services.push(*service);
        }
        Ok(())
    }

    /// Registers services again that a restarted rpcbind has lost; returns their number.
    ///
    /// # Errors
    /// [`RegisterError`]: the first one ends the attempt, earlier changes stay.
    pub fn restore(&self) -> std::result::Result<usize, RegisterError> {
        let mut session = Session::open(&self.rpcbind).map_err(RegisterError::NoRpcbind)?;
        let listed = session.list()?;
        let lost = self.services.iter().filter(|service| !listed.contains(&service_key(service)));
        let mut restored = 0;
        for service in lost {
            if session.supports_service(service) {
                session.register(service)?;
                restored += 1;
            }
        }
        Ok(restored)
    }

    /// Unregisters everything. Missing registrations are not an error.
    ///
    /// # Errors
    /// Errors of the calls; the first one ends the attempt.
    pub fn unregister(self) -> Result<()> {
        let mut session = Session::open(&self.rpcbind)?;
        self.services.iter().try_for_each(|service| session.unset(service).map(|_| ()))
    }
}

/// The unique key of a registration: program, version, and the protocol and family of the
/// transport.
type ServiceKey = (u32, u32, Netid);

const fn service_key(service: &Registration) -> ServiceKey {
    (service.program, service.version, service.netid)
}

/// A connection to rpcbind, and its protocol version.
enum Session {
    V4(Client),
    V2(Client),
}

impl Session {
    fn open(rpcbind: &Rpcbind) -> Result<Self> {
        if let Ok(client) = Client::unix(&rpcbind.socket, TIMEOUT) {
            return Ok(Self::V4(client));
        }
        let mut client = Client::udp_reserved(rpcbind.addr, TIMEOUT)
            .or_else(|_| Client::udp(rpcbind.addr, TIMEOUT))?;
        client.mappings()?;
        Ok(Self::V2(client))
    }

    /// Version 2 has no IPv6.
    const fn supports_service(&self, service: &Registration) -> bool {
        match self {
            Self::V4(_) => true,
            Self::V2(_) => !service.netid.is_v6(),
        }
    }

    fn set(&mut self, service: &Registration) -> Result<bool> {
        match self {
            Self::V4(client) => client.rpcb_set(service, OWNER),
            Self::V2(client) => client.pmap_set(service),
        }
    }

    fn unset(&mut self, service: &Registration) -> Result<bool> {
        match self {
            Self::V4(client) => client.rpcb_unset(service, OWNER),
            Self::V2(client) => client.pmap_unset(service),
        }
    }

    /// All existing registrations.
    fn list(&mut self) -> Result<Vec<ServiceKey>> {
        match self {
            Self::V4(client) => {
                let list = client.registrations()?;
                let row =
                    |r: &Listed| Some((r.program, r.version, Netid::parse(r.netid.as_bytes())?));
                Ok(list.iter().filter_map(row).collect())
            }
            Self::V2(client) => {
                let v4 = [Netid::Tcp, Netid::Udp];
                let netid = |protocol| v4.into_iter().find(|netid| netid.protocol() == protocol);
                let list = client.mappings()?;
                let row = |m: &Mapping| Some((m.program, m.version, netid(m.protocol)?));
                Ok(list.iter().filter_map(row).collect())
            }
        }
    }

    /// The address registered for the key of `service`.
    fn holder(&mut self, service: &Registration) -> Result<Option<SocketAddr>> {
        let Registration { program, version, netid, .. } = *service;
        match self {
            Self::V4(client) => {
                let list = client.registrations()?;
                let same = list.iter().find(|r| {
                    r.program == program && r.version == version && r.netid == netid.text()
                });
                Ok(same.and_then(|r| proto::portmap::from_universal(r.address.as_bytes())))
            }
            Self::V2(client) => {
                let list = client.mappings()?;
                let same = list.iter().find(|m| {
                    m.program == program && m.version == version && m.protocol == netid.protocol()
                });
                let port = same.and_then(|m| u16::try_from(m.port).ok());
                Ok(port.map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
            }
        }
    }

    fn register(&mut self, service: &Registration) -> std::result::Result<(), RegisterError> {
        if self.set(service)? {
            return Ok(());
        }
        let Registration { program, version, netid, .. } = *service;
        let netid = netid.text();
        let holder = self.holder(service)?;
        match holder {
            Some(addr) if self.is_same(addr, service.addr) => return Ok(()),
            Some(address) if is_alive(service, address) => {
                return Err(RegisterError::Taken { program, version, netid, address });
            }
            Some(_) => {}
            None => return Err(RegisterError::Refused { program, version, netid }),
        }
        // A server that ended without unregistering.
        self.unset(service)?;
        if self.set(service)? {
            Ok(())
        } else {
            Err(RegisterError::Refused { program, version, netid })
        }
    }

    /// Whether the registered address is our own from an earlier run; version 2 has ports only.
    fn is_same(&self, holder: SocketAddr, ours: SocketAddr) -> bool {
        match self {
            Self::V4(_) => holder == ours,
            Self::V2(_) => holder.port() == ours.port(),
        }
    }
}

/// Whether a server answers for `service` at `addr`.
fn is_alive(service: &Registration, addr: SocketAddr) -> bool {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let addr = SocketAddr::new(ip, addr.port());
    let client = if service.netid.is_tcp() {
        Client::tcp(addr, ALIVE_TIMEOUT)
    } else {
        Client::udp(addr, ALIVE_TIMEOUT)
    };
    let target = Target { program: service.program, version: service.version, procedure: 0 };
    // Even a rejection of the call proves that a server is running.
    match client.and_then(|mut client| client.call(target, &Nothing)) {
        Ok(_) | Err(Error::Rejected(_) | Error::Garbled { .. }) => true,
        Err(_) => false,
    }
}

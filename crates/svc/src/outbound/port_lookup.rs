//! Where a program of another machine is: questions to its port mapper (RFC 1833), and the answers of the last minutes.
//!
//! rpcbind is asked by version 4, then 3; the port mapper by version 2, which knows IPv4 only. An rpcbind that does not
//! know the program is asked by version 2 as well: some answer with nothing for a version of the program that they know
//! under another name.

use crate::outbound::OutboundLimits;
use proto::portmap::{Address, Mapping, Netid, Rpcb, from_universal, procedure2, procedure4};
use rpc::Transport;
use std::collections::HashMap;
use std::net::IpAddr;
use xdr::{Reader, Writer};

/// The most ports that are remembered.
const PORTS_MAX: usize = 4096;

/// A version of a program on one transport of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Service {
    pub host: IpAddr,
    pub program: u32,
    pub version: u32,
    pub transport: Transport,
}

/// The version by which the port mapper is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupVersion {
    V4,
    V3,
    V2,
}

impl LookupVersion {
    /// What to ask by if this one was not understood, or knows nothing.
    pub const fn next(self, host: IpAddr) -> Option<Self> {
        match (self, host) {
            (Self::V4, _) => Some(Self::V3),
            (Self::V3, IpAddr::V4(_)) => Some(Self::V2),
            (Self::V3, IpAddr::V6(_)) | (Self::V2, _) => None,
        }
    }

    /// Version and procedure.
    pub const fn numbers(self) -> (u32, u32) {
        match self {
            Self::V4 => (4, procedure4::GETADDR),
            Self::V3 => (3, procedure4::GETADDR),
            Self::V2 => (2, procedure2::GETPORT),
        }
    }

    /// The arguments of the question.
    pub fn args(self, service: &Service) -> Vec<u8> {
        let netid = Netid::new(service.transport == Transport::Tcp, service.host);
        let Service { program, version, .. } = *service;
        let mut args = Writer::new();
        match self {
            Self::V4 | Self::V3 => {
                let netid = netid.text().as_bytes();
                args.put(&Rpcb { program, version, netid, address: b"", owner: b"" });
            }
            Self::V2 => {
                args.put(&Mapping { program, version, protocol: netid.protocol(), port: 0 });
            }
        }
        args.bytes().to_vec()
    }

    /// The port in an answer; `Ok(None)`: the program is not known.
    pub fn port(self, results: &mut Reader<'_>) -> Result<Option<u16>, xdr::Error> {
        let port = match self {
            Self::V2 => u16::try_from(results.u32()?)
                .map_err(|_| xdr::Error::Invalid("a port is at most 65535"))?,
            Self::V4 | Self::V3 => match results.get::<Address<'_>>()? {
                Address(b"") => 0,
                // the machine is the one that was asked, whatever address it names
                Address(text) => {
                    from_universal(text).ok_or(xdr::Error::Invalid("no universal address"))?.port()
                }
            },
        };
        Ok((port != 0).then_some(port))
    }
}

/// The answers of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Ports(HashMap<Service, (u16, u64)>);

impl Ports {
    pub fn get(&self, service: &Service, now_ms: u64) -> Option<u16> {
        self.0.get(service).filter(|(_, until_ms)| now_ms < *until_ms).map(|(port, _)| *port)
    }

    pub fn learn(&mut self, service: Service, port: u16, now_ms: u64, limits: &OutboundLimits) {
        if self.0.len() >= PORTS_MAX {
            self.0.retain(|_, (_, until_ms)| now_ms < *until_ms);
        }
        if self.0.len() < PORTS_MAX {
            self.0.insert(service, (port, now_ms.saturating_add(limits.port_age_ms)));
        }
    }

    pub fn forget(&mut self, service: &Service) {
        self.0.remove(service);
    }
}

#[cfg(test)]
mod tests {
    use super::{LookupVersion, Ports, Service};
    use crate::outbound::OutboundLimits;
    use rpc::Transport;
    use xdr::{Reader, Writer};

    const NLM: Service = Service {
        host: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        program: 100_021,
        version: 4,
        transport: Transport::Udp,
    };

    fn opaque(text: &[u8]) -> Vec<u8> {
        let mut w = Writer::new();
        w.opaque(text);
        w.bytes().to_vec()
    }

    #[test]
    fn answers_of_all_versions_are_read() {
        let port = |version: LookupVersion, bytes: &[u8]| version.port(&mut Reader::new(bytes));
        assert_eq!(port(LookupVersion::V4, &opaque(b"10.0.0.9.3.232")), Ok(Some(1000)));
        assert_eq!(port(LookupVersion::V3, &opaque(b"::.8.1")), Ok(Some(2049)));
        assert_eq!(port(LookupVersion::V4, &opaque(b"")), Ok(None));
        assert!(port(LookupVersion::V4, &opaque(b"/run/socket")).is_err());
        assert_eq!(port(LookupVersion::V2, &[0, 0, 8, 1]), Ok(Some(2049)));
        assert_eq!(port(LookupVersion::V2, &[0; 4]), Ok(None));
        assert!(port(LookupVersion::V2, &[0, 1, 0, 0]).is_err());
    }

    #[test]
    fn a_cached_port_expires() {
        let (mut ports, limits) = (Ports::default(), OutboundLimits::default());
        ports.learn(NLM, 4045, 10, &limits);
        assert_eq!(ports.get(&NLM, limits.port_age_ms), Some(4045));
        assert_eq!(ports.get(&NLM, limits.port_age_ms + 10), None);
        assert_eq!(ports.get(&Service { version: 3, ..NLM }, 10), None);
        ports.forget(&NLM);
        assert_eq!(ports.get(&NLM, 10), None);
    }
}

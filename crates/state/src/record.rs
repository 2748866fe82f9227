//! The records of the recovery store: who may reclaim after a restart.
//!
//! A record is `len u32 | crc32c u32 | kind u8 | body`, little endian; `len` counts the kind and the body, the
//! checksum covers `len`, kind and body. Reading stops at the first record that is short or has another checksum: an
//! append that a crash cut off. Kinds that this version does not know are passed over and counted.

use crate::client_record::{ClientName, RecordedClient};
use crate::crc32c::crc32c;
use crate::limits::NAME_MAX;
use crate::principal::Principal;
use std::net::{IpAddr, Ipv6Addr};

/// The most bytes of a kind and a body.
pub const RECORD_MAX: usize = 4096;
/// Bytes before the kind.
const HEAD: usize = 8;

/// What a host's calls came over: its callbacks go the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A host's name in the records: its address and the name that its calls carry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName {
    /// The address that its calls come from; IPv4 ones never as IPv6.
    pub addr: IpAddr,
    /// The name.
    pub name: Box<[u8]>,
}

impl HostName {
    /// A name; an IPv4 address in IPv6's form becomes one of IPv4.
    pub fn new(addr: IpAddr, name: &[u8]) -> Self {
        Self { addr: addr.to_canonical(), name: name.into() }
    }
}

/// A host that is to be told of our restarts and may reclaim after them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MonitoredHost {
    /// The address that its calls come from.
    pub addr: IpAddr,
    /// The name that its calls carry.
    pub name: Box<[u8]>,
    /// The address of ours that it uses.
    pub local: IpAddr,
    /// The version of NLM that it speaks.
    pub nlm_version: u8,
    /// What its calls come over.
    pub transport: Transport,
    /// The last state number of its status monitor; 0 if it is unknown.
    pub nsm_state: i32,
}

impl MonitoredHost {
    /// Its name in the records.
    pub fn host_name(&self) -> HostName {
        HostName { addr: self.addr, name: self.name.clone() }
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Record {
    /// The server started for the n-th time.
    Instance(u32),
    /// The n-th instance began a grace period.
    GraceBegan(u32),
    /// It ended: who has no `NsmHost` since it began has nothing to reclaim any more.
    GraceEnded(u32),
    /// The host is about to hold its first lock of this instance.
    NsmHost(MonitoredHost),
    /// The host's status monitor has a new state number.
    NsmState(HostName, i32),
    /// The host holds nothing and may reclaim nothing.
    NsmGone(HostName),
    /// A client of version 4 is about to get its first state of this instance; one with sessions that reclaims in a
    /// grace period is done.
    Client(RecordedClient),
    /// The client, in this life and earlier ones, holds nothing and may reclaim nothing.
    ClientGone(ClientName, u64),
}

impl Record {
    /// Appends the record as it is stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(64);
        match self {
            Self::Instance(n) => word(&mut body, 1, *n),
            Self::GraceBegan(n) => word(&mut body, 2, *n),
            Self::GraceEnded(n) => word(&mut body, 3, *n),
            Self::NsmHost(host) => {
                body.push(4);
                address(&mut body, host.addr);
                address(&mut body, host.local);
                let transport = match host.transport {
                    Transport::Tcp => 6,
                    Transport::Udp => 17,
                };
                body.extend([host.nlm_version, transport]);
                body.extend(host.nsm_state.to_le_bytes());
                body.extend(&host.name);
            }
            Self::NsmState(name, state) => {
                body.push(5);
                address(&mut body, name.addr);
                body.extend(state.to_le_bytes());
                body.extend(&name.name);
            }
            Self::NsmGone(name) => {
                body.push(6);
                address(&mut body, name.addr);
                body.extend(&name.name);
            }
            Self::Client(client) => {
                body.push(7);
                body.extend(client.life.to_le_bytes());
                address(&mut body, client.address);
                client_name(&mut body, &client.name);
            }
            Self::ClientGone(name, life) => {
                body.push(8);
                body.extend(life.to_le_bytes());
                client_name(&mut body, name);
            }
        }
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
        out.extend(len);
        out.extend(crc32c(&[&len, &body]).to_le_bytes());
        out.extend(body);
    }

    /// The record of a kind and a body; `None` if they are none that this version knows.
    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut body = Body(body);
        let record = match kind {
            1 => Self::Instance(body.u32()?),
            2 => Self::GraceBegan(body.u32()?),
            3 => Self::GraceEnded(body.u32()?),
            4 => {
                let (addr, local) = (body.address()?, body.address()?);
                let nlm_version = body.byte()?;
                let transport = match body.byte()? {
                    6 => Transport::Tcp,
                    17 => Transport::Udp,
                    _ => return None,
                };
                let (nsm_state, name) = (body.u32()?.cast_signed(), body.name()?);
                let host = MonitoredHost { addr, name, local, nlm_version, transport, nsm_state };
                Self::NsmHost(host)
            }
            5 => {
                let (addr, state) = (body.address()?, body.u32()?.cast_signed());
                Self::NsmState(HostName { addr, name: body.name()? }, state)
            }
            6 => Self::NsmGone(HostName { addr: body.address()?, name: body.name()? }),
            7 => {
                let (life, address) = (body.u64()?, body.address()?);
                Self::Client(RecordedClient { life, address, name: body.client_name()? })
            }
            8 => {
                let life = body.u64()?;
                Self::ClientGone(body.client_name()?, life)
            }
            _ => return None,
        };
        body.0.is_empty().then_some(record)
    }
}

fn word(body: &mut Vec<u8>, kind: u8, value: u32) {
    body.push(kind);
    body.extend(value.to_le_bytes());
}

/// Always 16 bytes: IPv4 in IPv6's form.
fn address(body: &mut Vec<u8>, addr: IpAddr) {
    let ip = match addr {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    body.extend(ip.octets());
}

fn client_name(body: &mut Vec<u8>, name: &ClientName) {
    body.push(name.minor);
    body.extend(name.principal.flavor.to_le_bytes());
    body.extend(name.principal.user.to_le_bytes());
    body.extend(&name.owner);
}

/// What is left of a body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn client_name(&mut self) -> Option<ClientName> {
        let minor = self.byte()?;
        let principal = Principal { flavor: self.u32()?, user: self.u64()? };
        Some(ClientName { minor, principal, owner: self.name()? })
    }

    fn address(&mut self) -> Option<IpAddr> {
        self.array().map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
    }

    /// The rest.
    fn name(&mut self) -> Option<Box<[u8]>> {
        let name = std::mem::take(&mut self.0);
        (name.len() <= NAME_MAX).then(|| name.into())
    }
}

/// Why reading stopped before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TornRecord {
    /// The last record is not whole.
    #[error("the last record is not whole")]
    Short,
    /// A length that no record has.
    #[error("a length that no record has")]
    Length,
    /// The checksum is another.
    #[error("the checksum is another")]
    Checksum,
}

/// Reads stored records one after the other.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    stored: &'a [u8],
    /// Where the next record begins.
    at: usize,
    torn: Option<TornRecord>,
    unknown: usize,
}

impl<'a> Records<'a> {
    /// Those of a store's whole content.
    pub const fn new(stored: &'a [u8]) -> Self {
        Self { stored, at: 0, torn: None, unknown: 0 }
    }

    /// How many bytes hold good records so far: what follows them is to be cut off, and said, if
    /// [`torn`](Self::torn) says why.
    pub const fn good_len(&self) -> usize {
        self.at
    }

    /// Why reading stopped, if not at the end.
    pub const fn torn(&self) -> Option<TornRecord> {
        self.torn
    }

    /// How many records had a right checksum and a kind or body that this version does not know.
    pub const fn unknown(&self) -> usize {
        self.unknown
    }

    /// The next kind and body.
    fn step(&mut self) -> Result<Option<(u8, &'a [u8])>, TornRecord> {
        let rest = self.stored.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let (len, rest) = rest.split_first_chunk::<4>().ok_or(TornRecord::Short)?;
        let (crc, rest) = rest.split_first_chunk::<4>().ok_or(TornRecord::Short)?;
        let count = u32::from_le_bytes(*len) as usize;
        if count == 0 || count > RECORD_MAX {
            return Err(TornRecord::Length);
        }
        let whole = rest.get(..count).ok_or(TornRecord::Short)?;
        if crc32c(&[len, whole]) != u32::from_le_bytes(*crc) {
            return Err(TornRecord::Checksum);
        }
        self.at += HEAD + count;
        Ok(whole.split_first().map(|(kind, body)| (*kind, body)))
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.torn.is_none() {
            match self.step() {
                Ok(Some((kind, body))) => match Record::decode(kind, body) {
                    Some(record) => return Some(record),
                    None => self.unknown += 1,
                },
                Ok(None) => return None,
                Err(torn) => self.torn = Some(torn),
            }
        }
        None
    }
}

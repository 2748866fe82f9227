//! A server and its clients, joined by several veth pairs: a server with several interfaces, each
//! in a network of its own.

use super::namespace::CONGESTION;
use super::veth::{Interface, Subnet, Traffic, pair};
use super::{LabError, Namespace};
use std::net::{IpAddr, Ipv4Addr};

/// Most pairs; their networks are 10.78.1.0/24 to 10.78.250.0/24.
pub const VETH_PAIRS_MAX: u8 = 250;

/// Two private networks joined by veth pairs; all removed when dropped.
#[derive(Debug)]
pub struct VethPairs {
    /// The server's side, with interfaces `srv1`, `srv2` …
    pub server: Namespace,
    /// The clients' side, with interfaces `cli1`, `cli2` …
    pub client: Namespace,
    ends: Vec<(Interface, Interface)>,
}

impl VethPairs {
    /// `count` pairs for packets of up to `mtu` bytes, all up. TCP is tuned as for a line, with cubic.
    ///
    /// # Errors
    /// [`LabError::Unable`] without root or `ip`; more than [`VETH_PAIRS_MAX`].
    pub fn new(count: u8, mtu: u32) -> Result<Self, LabError> {
        if count == 0 || count > VETH_PAIRS_MAX {
            return Err(LabError::Failed(format!("{count} veth pairs: 1 to {VETH_PAIRS_MAX}")));
        }
        let (server, client) = (Namespace::new("server")?, Namespace::new("client")?);
        server.tune_tcp()?;
        client.tune_tcp()?;
        let mut veth_pairs = Self { server, client, ends: Vec::new() };
        for _ in 0..count {
            veth_pairs.add(mtu)?;
        }
        Ok(veth_pairs)
    }

    /// Adds one more pair and returns the server's new address.
    ///
    /// # Errors
    /// As [`VethPairs::new`].
    pub fn add(&mut self, mtu: u32) -> Result<IpAddr, LabError> {
        let number = u8::try_from(self.ends.len() + 1).unwrap_or(u8::MAX);
        if number > VETH_PAIRS_MAX {
            return Err(LabError::Failed(format!("more than {VETH_PAIRS_MAX} veth pairs")));
        }
        let names = (format!("srv{number}"), format!("cli{number}"));
        let (near, far) = pair((&self.server, &names.0), (&self.client, &names.1))?;
        for (end, host) in [(&near, 1), (&far, 2)] {
            end.set_mtu(mtu)?;
            end.up()?;
            let subnet = Subnet::new(Ipv4Addr::new(10, 78, number, host), 24);
            end.add_address(subnet)?;
            end.pin_congestion(subnet, CONGESTION)?;
        }
        self.ends.push((near, far));
        Ok(Ipv4Addr::new(10, 78, number, 1).into())
    }

    /// The server's addresses, one for each pair.
    pub fn server_addrs(&self) -> Vec<IpAddr> {
        (1..=self.ends.len())
            .filter_map(|number| Some(Ipv4Addr::new(10, 78, u8::try_from(number).ok()?, 1).into()))
            .collect()
    }

    /// The server's end of pair `index`, counted from 0.
    pub fn server_end(&mut self, index: usize) -> Option<&mut Interface> {
        self.ends.get_mut(index).map(|(near, _)| near)
    }

    /// The clients' end of pair `index`, counted from 0.
    pub fn client_end(&mut self, index: usize) -> Option<&mut Interface> {
        self.ends.get_mut(index).map(|(_, far)| far)
    }

    /// The counters of each interface of the server, in the order of the pairs.
    ///
    /// # Errors
    /// [`LabError::Failed`]: one no longer exists.
    pub fn traffic(&self) -> Result<Vec<Traffic>, LabError> {
        let all = super::veth::traffic(&self.server)?;
        let of = |end: &Interface| {
            let own = all.iter().find(|(name, _)| name == end.name());
            own.map(|(_, traffic)| *traffic)
                .ok_or_else(|| LabError::Failed(format!("the interface {} is gone", end.name())))
        };
        self.ends.iter().map(|(near, _)| of(near)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::VethPairs;
    use crate::lab::LabError;
    use std::net::UdpSocket;

    #[test]
    fn traffic_to_an_address_uses_its_own_veth_pair() {
        let mut veth_pairs = match VethPairs::new(3, 1500) {
            Ok(veth_pairs) => veth_pairs,
            Err(error @ LabError::Unable(_)) => {
                return testing::skip(testing::Missing::Namespaces, error);
            }
            Err(error) => panic!("{error}"),
        };
        let added = veth_pairs.add(1500).unwrap();
        assert_eq!(veth_pairs.server_addrs().last(), Some(&added));
        let before = veth_pairs.traffic().unwrap();
        let client = veth_pairs.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        for (number, addr) in veth_pairs.server_addrs().into_iter().enumerate() {
            let server = veth_pairs.server.run(|| UdpSocket::bind((addr, 0)).unwrap()).unwrap();
            server.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            for _ in 0..=number {
                client.send_to(&[0; 1000], server.local_addr().unwrap()).unwrap();
                assert_eq!(server.recv(&mut [0; 2000]).unwrap(), 1000);
            }
        }
        let after = veth_pairs.traffic().unwrap();
        for (number, (after, before)) in after.iter().zip(&before).enumerate() {
            let bytes = usize::try_from(after.since(*before).bytes_in).unwrap();
            let sent = 1000 * (number + 1);
            assert!((sent..sent + 900).contains(&bytes), "{number}: {bytes}");
        }
        veth_pairs.server_end(1).unwrap().rename("other0").unwrap();
        assert!(veth_pairs.traffic().is_ok());
        veth_pairs.client_end(1).unwrap().clone().delete().unwrap();
        assert!(veth_pairs.traffic().is_err() && veth_pairs.server_end(9).is_none());
        assert!(VethPairs::new(0, 1500).is_err() && VethPairs::new(251, 1500).is_err());
    }
}

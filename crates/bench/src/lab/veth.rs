//! Veth pairs between namespaces, the addresses of their ends, and their traffic.
//!
//! Deleting an end deletes the other one, and deleting a namespace deletes its ends.

use super::{LabError, Namespace};
use std::fmt;
use std::net::IpAddr;

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the network.
    pub prefix: u8,
}

impl Subnet {
    /// `addr/prefix`.
    pub fn new(addr: impl Into<IpAddr>, prefix: u8) -> Self {
        Self { addr: addr.into(), prefix }
    }
}

impl Subnet {
    /// The network that the address is in.
    fn network(self) -> Self {
        let addr = match self.addr {
            IpAddr::V4(addr) => {
                let host = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                IpAddr::from((u32::from(addr) & !host).to_be_bytes())
            }
            IpAddr::V6(addr) => {
                let host = u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                IpAddr::from((u128::from(addr) & !host).to_be_bytes())
            }
        };
        Self { addr, prefix: self.prefix }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.addr, self.prefix)
    }
}

/// Counters of an interface since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes received.
    pub bytes_in: u64,
    /// Packets received.
    pub packets_in: u64,
    /// Received and dropped.
    pub dropped_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Dropped on sending.
    pub dropped_out: u64,
}

impl Traffic {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            packets_in: self.packets_in.saturating_sub(earlier.packets_in),
            dropped_in: self.dropped_in.saturating_sub(earlier.dropped_in),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
            packets_out: self.packets_out.saturating_sub(earlier.packets_out),
            dropped_out: self.dropped_out.saturating_sub(earlier.dropped_out),
        }
    }
}

/// A network interface in a namespace.
#[derive(Debug, Clone)]
pub struct Interface {
    namespace: Namespace,
    name: String,
}

/// Creates a veth pair with the ends `left` and `right` (namespace and interface's name), both
/// down.
///
/// # Errors
/// As [`Namespace::ip`]: a name is in use, or the kernel has no veth.
pub fn pair(
    left: (&Namespace, &str),
    right: (&Namespace, &str),
) -> Result<(Interface, Interface), LabError> {
    let far = right.0.path();
    let made = left.0.ip(&[
        "link", "add", "name", left.1, "type", "veth", "peer", "name", right.1, "netns", &far,
    ]);
    made.map_err(|error| match error {
        LabError::Failed(why) if why.contains("Unknown device type") => {
            LabError::Unable("this kernel has no veth (CONFIG_VETH)".into())
        }
        other => other,
    })?;
    Ok((Interface::of(left.0, left.1), Interface::of(right.0, right.1)))
}

impl Interface {
    /// The existing interface called `name`.
    pub fn of(namespace: &Namespace, name: &str) -> Self {
        Self { namespace: namespace.clone(), name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Brings it up.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn up(&self) -> Result<(), LabError> {
        self.link_set(&["up"])
    }

    /// Takes it down; its IPv6 addresses are removed.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn down(&self) -> Result<(), LabError> {
        self.link_set(&["down"])
    }

    /// Sets the largest packet in bytes.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn set_mtu(&self, mtu: u32) -> Result<(), LabError> {
        self.link_set(&["mtu", &mtu.to_string()])
    }

    /// Renames it, up or not (kernels before 6.2 need it down).
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn rename(&mut self, name: &str) -> Result<(), LabError> {
        self.link_set(&["name", name])?;
        name.clone_into(&mut self.name);
        Ok(())
    }

    /// Any other setting of `ip link set`.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn link_set(&self, what: &[&str]) -> Result<(), LabError> {
        let mut args = vec!["link", "set", "dev", self.name.as_str()];
        args.extend(what);
        self.namespace.ip(&args).map(drop)
    }

    /// Deletes it, and the other end of its pair.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn delete(self) -> Result<(), LabError> {
        self.namespace.ip(&["link", "delete", "dev", &self.name]).map(drop)
    }

    /// Adds an address, which can be used at once.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn add_address(&self, subnet: Subnet) -> Result<(), LabError> {
        self.address("add", subnet)
    }

    /// Removes an address.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn remove_address(&self, subnet: Subnet) -> Result<(), LabError> {
        self.address("delete", subnet)
    }

    /// Makes TCP connections to the network of `subnet`, an address that the interface has, use the
    /// congestion control `name` whatever the machine's setting is. It is a property of the route:
    /// a namespace's sysctl accepts only what the machine allows for everyone.
    ///
    /// # Errors
    /// As [`Namespace::ip`]: the kernel has none of this name.
    pub fn pin_congestion(&self, subnet: Subnet, name: &str) -> Result<(), LabError> {
        let (network, own) = (subnet.network().to_string(), subnet.addr.to_string());
        let mut args = if subnet.addr.is_ipv6() { vec!["-6"] } else { Vec::new() };
        args.extend(["route", "replace", &network, "dev", &self.name, "proto", "kernel"]);
        if subnet.addr.is_ipv6() {
            args.extend(["metric", "256"]);
        } else {
            args.extend(["scope", "link", "src", &own]);
        }
        args.extend(["congctl", name]);
        self.namespace.ip(&args).map(drop)
    }

    fn address(&self, what: &str, subnet: Subnet) -> Result<(), LabError> {
        let text = subnet.to_string();
        let mut args = vec!["address", what, &text, "dev", &self.name];
        if subnet.addr.is_ipv6() && what == "add" {
            // no duplicate address detection: the pair has no other hosts
            args.push("nodad");
        }
        self.namespace.ip(&args).map(drop)
    }

    /// Its counters.
    ///
    /// # Errors
    /// [`LabError::Failed`]: it no longer exists.
    pub fn traffic(&self) -> Result<Traffic, LabError> {
        let all = traffic(&self.namespace)?;
        let own = all.into_iter().find(|(name, _)| *name == self.name);
        own.map(|(_, traffic)| traffic).ok_or_else(|| {
            let (name, place) = (&self.name, self.namespace.label());
            LabError::Failed(format!("there is no interface {name} in {place} any more"))
        })
    }
}

/// The counters of each interface of a namespace.
///
/// # Errors
/// [`LabError::Failed`] without `/proc`.
pub fn traffic(namespace: &Namespace) -> Result<Vec<(String, Traffic)>, LabError> {
    let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
    let text = text.map_err(|error| LabError::of("reading /proc/net/dev", &error))?;
    Ok(parse(&text))
}

/// Two lines of headings, then `name: bytes packets errs drop fifo frame compressed multicast` and
/// the same for what is sent.
fn parse(text: &str) -> Vec<(String, Traffic)> {
    let rows = text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace().map(|n| n.parse().ok());
        let mut at = |skip: usize| numbers.nth(skip).flatten();
        Some((
            name.trim().to_owned(),
            Traffic {
                bytes_in: at(0)?,
                packets_in: at(0)?,
                dropped_in: at(1)?,
                bytes_out: at(4)?,
                packets_out: at(0)?,
                dropped_out: at(1)?,
            },
        ))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::{Subnet, Traffic, pair, parse, traffic};
    use crate::lab::{LabError, Namespace};
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    #[test]
    fn the_kernel_address_table_is_parsed() {
        let text =
            "Inter-|   Receive\n face |bytes\n    lo:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let lo = Traffic {
            bytes_in: 1,
            packets_in: 2,
            dropped_in: 4,
            bytes_out: 9,
            packets_out: 10,
            dropped_out: 12,
        };
        assert_eq!(parse(text), [("lo".to_owned(), lo)]);
        assert_eq!(lo.since(Traffic { bytes_in: 1, ..Traffic::default() }).bytes_in, 0);
    }

    #[test]
    fn a_network_is_its_addresses_without_the_host_bits() {
        let v4 = |prefix| Subnet::new(Ipv4Addr::new(10, 9, 8, 255), prefix).network().to_string();
        assert_eq!(
            (v4(0), v4(20), v4(32)),
            ("0.0.0.0/0".into(), "10.9.0.0/20".into(), "10.9.8.255/32".into())
        );
        let v6 = Subnet::new(Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7), 64).network();
        assert_eq!(v6.to_string(), "fd00:1:2:3::/64");
    }

    #[test]
    fn a_veth_pair_carries_both_families_and_counts_traffic() {
        let (left, right) = match (Namespace::new("left"), Namespace::new("right")) {
            (Ok(left), Ok(right)) => (left, right),
            (Err(error @ LabError::Unable(_)), _) => {
                return testing::skip(testing::Missing::Namespaces, error);
            }
            other => panic!("{other:?}"),
        };
        let (near, mut far) = pair((&left, "a0"), (&right, "b0")).unwrap();
        let v6 = |n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
        for (end, n) in [(&near, 1), (&far, 2)] {
            end.set_mtu(9000).unwrap();
            end.add_address(Subnet::new(Ipv4Addr::new(10, 9, 0, n), 24)).unwrap();
            end.up().unwrap();
            end.add_address(Subnet::new(v6(n.into()), 64)).unwrap();
        }
        let address = Subnet::new(Ipv4Addr::new(10, 9, 0, 1), 24);
        near.pin_congestion(address, "reno").unwrap();
        near.pin_congestion(Subnet::new(v6(1), 64), "reno").unwrap();
        assert!(left.ip(&["route", "show"]).unwrap().contains("congctl reno"));
        assert!(near.pin_congestion(address, "no-such-thing").is_err());
        let before = near.traffic().unwrap();
        for to in [Ipv4Addr::new(10, 9, 0, 2).into(), std::net::IpAddr::from(v6(2))] {
            let server = right.run(|| UdpSocket::bind((to, 0)).unwrap()).unwrap();
            server.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let client = left.run(|| UdpSocket::bind(any).unwrap()).unwrap();
            client.send_to(&[7; 8000], server.local_addr().unwrap()).unwrap();
            assert_eq!(server.recv(&mut [0; 9000]).unwrap(), 8000);
        }
        assert!(near.traffic().unwrap().since(before).bytes_out > 16_000);
        far.rename("renamed0").unwrap();
        assert!(traffic(&right).unwrap().iter().any(|(name, _)| name == "renamed0"));
        far.down().unwrap();
        near.remove_address(Subnet::new(Ipv4Addr::new(10, 9, 0, 1), 24)).unwrap();
        near.clone().delete().unwrap();
        assert!(far.traffic().is_err() && near.traffic().is_err());
    }
}

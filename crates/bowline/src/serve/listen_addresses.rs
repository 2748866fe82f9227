//! The addresses that clients reach the server at. Sockets from systemd may differ between TCP and UDP, and
//! an IPv6 socket may also receive IPv4.

use crate::local_addresses::local_addresses;
use anyhow::Context;
use export::Client;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use svc::InheritedSockets;

/// The addresses of each transport, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenAddresses {
    /// For TCP.
    pub tcp: Vec<SocketAddr>,
    /// For UDP, unless it is switched off.
    pub udp: Vec<SocketAddr>,
}

impl ListenAddresses {
    /// The addresses of systemd's sockets if there are any, else those of the configuration.
    ///
    /// # Errors
    /// The address of one of systemd's sockets cannot be read.
    pub fn of(
        addresses: &[IpAddr],
        port: u16,
        inherited: &InheritedSockets,
    ) -> anyhow::Result<Self> {
        if inherited.tcp.is_empty() && inherited.udp.is_empty() {
            let told = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
            return Ok(Self::both(&told.collect::<Vec<_>>()));
        }
        let found = bound_to(&inherited.tcp).and_then(|tcp| Ok((tcp, bound_to(&inherited.udp)?)));
        let (tcp, udp) = found.context("cannot read the address of a socket from systemd")?;
        Ok(Self { tcp, udp })
    }

    /// The same addresses for both transports.
    pub fn both(addrs: &[SocketAddr]) -> Self {
        Self { tcp: addrs.to_vec(), udp: addrs.to_vec() }
    }

    /// All addresses, each once.
    pub fn all(&self) -> Vec<SocketAddr> {
        let mut all = [self.tcp.as_slice(), &self.udp].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The addresses without ports, each once.
    pub fn ips(&self) -> Vec<IpAddr> {
        let mut ips: Vec<IpAddr> = self.all().iter().map(SocketAddr::ip).collect();
        ips.sort_unstable();
        ips.dedup();
        ips
    }

    /// Whether only this machine can reach the server.
    pub fn is_local(&self) -> bool {
        self.ips().iter().all(IpAddr::is_loopback)
    }

    /// Each address, with its transport if it is only one.
    pub fn text(&self) -> String {
        let one = |addr: &SocketAddr| match (self.tcp.contains(addr), self.udp.contains(addr)) {
            (true, false) => format!("{addr} (TCP only)"),
            (false, true) => format!("{addr} (UDP only)"),
            _ => addr.to_string(),
        };
        self.all().iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The server in a client's mount command: at an address in the network of one of these clients if there is
    /// one, else at any that other machines can reach; of TCP if there is one. `None`: it listens on nothing.
    pub fn mount_server(&self, clients: &[&Client]) -> Option<MountServer> {
        self.mount_server_on(clients, &local_addresses(), route_to)
    }

    fn mount_server_on(
        &self,
        clients: &[&Client],
        own: &[IpAddr],
        route: impl Fn(IpAddr) -> Option<IpAddr>,
    ) -> Option<MountServer> {
        let sockets = if self.tcp.is_empty() { &self.udp } else { &self.tcp };
        let own: Vec<IpAddr> = own.iter().copied().filter(is_for_others).collect();
        let mut found: Vec<(u8, MountServer)> = Vec::new();
        for at in sockets {
            let wildcard = at.ip().is_unspecified();
            let same_family = |ip: &IpAddr| ip.is_ipv4() == at.is_ipv4();
            let reached = |ip: &IpAddr| same_family(ip) && (wildcard || *ip == at.ip());
            let near =
                clients.iter().find_map(|client| address_near(client, &own, &route, reached));
            let any = if wildcard {
                let first = own.iter().copied().find(same_family);
                route(documentation(at.ip())).filter(is_for_others).or(first)
            } else {
                Some(at.ip())
            };
            let (rank, host) = match (near, any) {
                (Some(ip), _) => (0, Some(ip)),
                (None, Some(ip)) if ip.is_loopback() => (2, Some(ip)),
                (None, Some(ip)) => (1, Some(ip)),
                (None, None) => (3, None),
            };
            found.push((rank, MountServer { host, port: at.port(), v6: at.is_ipv6() }));
        }
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().next().map(|(_, server)| server)
    }
}

/// The server in a client's mount command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountServer {
    /// Its address; `None`: this machine has none that others can reach.
    pub host: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether clients use IPv6.
    pub v6: bool,
}

/// Whether other machines may reach this address.
fn is_for_others(ip: &IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !ip.is_unspecified() && !link_local
}

/// The address of this machine that is nearest to a client.
fn address_near(
    client: &Client,
    own: &[IpAddr],
    route: impl Fn(IpAddr) -> Option<IpAddr>,
    reached: impl Fn(&IpAddr) -> bool,
) -> Option<IpAddr> {
    let near = match client {
        Client::Address(address) if is_for_others(address) => route(*address),
        Client::Network(network) => own.iter().copied().find(|ip| network.contains(*ip)),
        _ => None,
    };
    near.filter(|ip| is_for_others(ip) && reached(ip))
}

/// The addresses that these sockets receive from, sorted.
fn bound_to<S: AsFd>(sockets: &[S]) -> io::Result<Vec<SocketAddr>> {
    let mut list = Vec::new();
    for socket in sockets {
        list.extend(sys::inherited::addresses(socket)?);
    }
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

/// The address at which this machine reaches its own socket: loopback for a wildcard address.
pub const fn loopback_for_wildcard(listen: IpAddr) -> IpAddr {
    match listen {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    }
}

/// An address for documentation: routed like others and never assigned (RFC 5737, RFC 3849).
const fn documentation(family_of: IpAddr) -> IpAddr {
    match family_of {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    }
}

/// The address of this machine from which it reaches another, by its routes. Sends nothing.
fn route_to(far: IpAddr) -> Option<IpAddr> {
    let own: IpAddr = match far {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((own, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::{ListenAddresses, bound_to};
    use export::Client;
    use std::net::{IpAddr, SocketAddr, TcpListener};

    fn at(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_client_mounts_from_an_address_in_its_network() {
        let own: Vec<IpAddr> = ["127.0.0.1", "10.0.0.1", "192.168.1.1", "2001:db8:1::1", "fe80::1"]
            .map(|ip| ip.parse().unwrap())
            .to_vec();
        let lan: IpAddr = "192.168.1.1".parse().unwrap();
        let default: IpAddr = "10.0.0.1".parse().unwrap();
        let route = |far: IpAddr| match far {
            IpAddr::V4(far) if far.octets()[0] == 192 && far.octets()[1] == 168 => Some(lan),
            IpAddr::V4(_) => Some(default),
            IpAddr::V6(_) => None,
        };
        let server = |listen: &[&str], clients: &[&str], own: &[IpAddr]| {
            let clients: Vec<Client> = clients.iter().map(|c| Client::parse(c).unwrap()).collect();
            let clients: Vec<&Client> = clients.iter().collect();
            let listen = ListenAddresses::both(&at(listen));
            let none = |_: IpAddr| None;
            let found = match own {
                [] => listen.mount_server_on(&clients, own, none),
                own => listen.mount_server_on(&clients, own, route),
            };
            found.map(|server| server.host.map_or("SERVER".to_owned(), |host| host.to_string()))
        };
        for (listen, clients, host) in [
            (&["0.0.0.0:1"][..], &["192.168.1.0/24"][..], "192.168.1.1"),
            (&["0.0.0.0:1"], &["192.168.7.7"], "192.168.1.1"),
            (&["0.0.0.0:1"], &["*"], "10.0.0.1"),
            (&["0.0.0.0:1"], &["127.0.0.0/8", "::1"], "10.0.0.1"),
            (&["10.0.0.1:1", "192.168.1.1:1"], &["192.168.1.0/24"], "192.168.1.1"),
            (&["127.0.0.1:1", "10.0.0.1:1"], &["*"], "10.0.0.1"),
            (&["127.0.0.1:1"], &["*"], "127.0.0.1"),
            (&["[::]:1"], &["*"], "2001:db8:1::1"),
            (&["0.0.0.0:1", "[::]:1"], &["2001:db8:1::/64"], "2001:db8:1::1"),
        ] {
            let found = server(listen, clients, &own);
            assert_eq!(found.as_deref(), Some(host), "{listen:?} {clients:?}");
        }
        // without a network: never loopback for others
        assert_eq!(server(&["0.0.0.0:1"], &["*"], &[]).as_deref(), Some("SERVER"));
        assert_eq!(server(&[], &["*"], &own), None);
    }

    #[test]
    fn a_dual_stack_socket_has_two_addresses() {
        let both = TcpListener::bind("[::]:0").unwrap();
        let port = both.local_addr().unwrap().port();
        let two = at(&[&format!("0.0.0.0:{port}"), &format!("[::]:{port}")]);
        assert_eq!(bound_to(&[both]).unwrap(), two);
        let one = TcpListener::bind("[::1]:0").unwrap();
        assert_eq!(bound_to(&[&one]).unwrap(), [one.local_addr().unwrap()]);
    }

    #[test]
    fn the_text_names_the_transport_of_an_address_with_one() {
        let (tcp, udp) = (at(&["127.0.0.1:1", "10.0.0.1:2"]), at(&["10.0.0.1:3"]));
        let both = ListenAddresses { tcp, udp: udp.clone() };
        assert_eq!(
            both.text(),
            "10.0.0.1:2 (TCP only), 10.0.0.1:3 (UDP only), 127.0.0.1:1 (TCP only)"
        );
        let only = ListenAddresses { tcp: Vec::new(), udp };
        assert_eq!(only.mount_server(&[]).map(|server| server.port), Some(3));
    }
}

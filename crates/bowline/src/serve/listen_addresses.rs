//! The addresses that clients reach the server at. Sockets from systemd may differ between TCP and UDP, and
//! an IPv6 socket may also receive IPv4.

use anyhow::Context;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use svc::Adopted;

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
    pub fn of(addresses: &[IpAddr], port: u16, adopted: &Adopted) -> anyhow::Result<Self> {
        if adopted.tcp.is_empty() && adopted.udp.is_empty() {
            let told = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
            return Ok(Self::both(&told.collect::<Vec<_>>()));
        }
        let found = bound_to(&adopted.tcp).and_then(|tcp| Ok((tcp, bound_to(&adopted.udp)?)));
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

    /// The address for a client's mount command: one that other machines can reach, or that this machine can
    /// if no other may mount; of TCP if there is one.
    pub fn address_for_clients(&self, local_only: bool) -> Option<SocketAddr> {
        let addresses = if self.tcp.is_empty() { &self.udp } else { &self.tcp };
        let address = |at: &SocketAddr| match at.ip() {
            ip if local_only => loopback_for_wildcard(ip),
            ip if ip.is_unspecified() => reachable(ip),
            ip => ip,
        };
        let mut seen = addresses.iter().map(|at| SocketAddr::new(address(at), at.port()));
        let first = seen.clone().next();
        let others = seen.find(|at| !at.ip().is_loopback());
        if local_only { first } else { others.or(first) }
    }
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

/// An address of this machine that others can reach: that of the default route, else loopback. Sends
/// nothing.
pub fn reachable(listen: IpAddr) -> IpAddr {
    // addresses for documentation are routed like others and never assigned (RFC 5737, RFC 3849)
    let (own, far): (IpAddr, IpAddr) = match listen {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => {
            let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            (Ipv6Addr::UNSPECIFIED.into(), far.into())
        }
    };
    let found = std::net::UdpSocket::bind((own, 0))
        .and_then(|socket| socket.connect((far, 9)).and_then(|()| socket.local_addr()));
    match (found, listen) {
        (Ok(addr), _) => addr.ip(),
        (Err(_), IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (Err(_), IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ListenAddresses, bound_to, reachable};
    use std::net::{SocketAddr, TcpListener};

    fn at(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_reachable_address_is_not_a_wildcard() {
        for any in ["0.0.0.0", "::"] {
            assert!(!reachable(any.parse().unwrap()).is_unspecified());
        }
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
    fn clients_get_a_tcp_address_that_they_can_reach() {
        let (tcp, udp) = (at(&["127.0.0.1:1", "10.0.0.1:2"]), at(&["10.0.0.1:3"]));
        let both = ListenAddresses { tcp, udp: udp.clone() };
        assert_eq!(both.address_for_clients(false), at(&["10.0.0.1:2"]).first().copied());
        assert_eq!(both.address_for_clients(true), at(&["127.0.0.1:1"]).first().copied());
        assert_eq!(
            both.text(),
            "10.0.0.1:2 (TCP only), 10.0.0.1:3 (UDP only), 127.0.0.1:1 (TCP only)"
        );
        let only = ListenAddresses { tcp: Vec::new(), udp };
        assert_eq!(only.address_for_clients(false), at(&["10.0.0.1:3"]).first().copied());
        assert_eq!(ListenAddresses::default().address_for_clients(false), None);
    }
}

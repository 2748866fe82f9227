//! Which datagram sockets there should be: a pure function of the setting, the addresses, the
//! interfaces and the number of CPUs.
//!
//! Unless there are to be none, each address has a **base**, the socket that takes what is for no other: everything
//! in `single`, and what comes by an interface that has no socket of its own (yet) in the others. So there is a
//! socket at every moment of a change, and an interface whose socket cannot be bound is served all the same.

use crate::settings::UdpSockets;
use std::net::SocketAddr;
use sys::netlink::Link;

/// Most sockets: 64 interfaces with 16 CPUs each. What would be beyond is left to the bases.
pub(crate) const SOCKETS_MAX: usize = 1024;

/// What a socket is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binding {
    /// Which of the addresses.
    pub address: usize,
    /// The number of the interface that it is bound to.
    pub interface: Option<u32>,
    /// Which of the sockets that are steered by CPU; 0 if there is only one.
    pub member: u32,
}

impl Binding {
    /// The base of an address.
    pub const fn base(address: usize) -> Self {
        Self { address, interface: None, member: 0 }
    }

    /// Whether it takes what is for no other socket.
    pub const fn is_base(&self) -> bool {
        self.interface.is_none() && self.member == 0
    }

    /// Whether both are in one group, among whose members the kernel chooses.
    pub fn is_same_group(&self, other: &Self) -> bool {
        (self.address, self.interface) == (other.address, other.interface)
    }
}

/// The sockets that there should be, bases first. The addresses in `fixed`, by index, have no more
/// than that: others have bound it to an interface, and nothing is to arrive by another.
pub(crate) fn wanted(
    mode: UdpSockets,
    addresses: &[SocketAddr],
    fixed: &[usize],
    links: &[Link],
    cpus: u32,
) -> Vec<Binding> {
    if mode == UdpSockets::Off {
        return Vec::new();
    }
    let mut bindings: Vec<Binding> = (0..addresses.len()).map(Binding::base).collect();
    let members = if mode.by_cpu() { cpus.max(1) } else { 1 };
    let free = addresses.iter().enumerate().filter(|(address, _)| !fixed.contains(address));
    for (address, addr) in free {
        let interfaces: Vec<Option<u32>> = match mode.by_interface() {
            true => {
                let served = links.iter().filter(|link| serves(link, addr));
                served.map(|link| Some(link.index)).collect()
            }
            false => vec![None],
        };
        for interface in interfaces {
            let all = (0..members).map(|member| Binding { address, interface, member });
            bindings.extend(all.filter(|binding| !binding.is_base()));
        }
    }
    bindings.truncate(SOCKETS_MAX.max(addresses.len()));
    bindings
}

/// Whether datagrams for `addr` can come by this interface, and are not taken by its master.
fn serves(link: &Link, addr: &SocketAddr) -> bool {
    link.up && !link.member && !is_scoped(addr) && (link.loopback || !addr.ip().is_loopback())
}

/// Whether the address is of one interface anyway (RFC 4007 §6).
pub(crate) fn is_scoped(addr: &SocketAddr) -> bool {
    matches!(addr, SocketAddr::V6(six) if six.scope_id() != 0)
}

#[cfg(test)]
mod tests {
    use super::{Binding, SOCKETS_MAX, wanted};
    use crate::settings::UdpSockets::{self, Cpu, Interface, InterfaceCpu, Off, Single};
    use std::net::SocketAddr;
    use sys::netlink::Link;

    fn link(index: u32, up: bool, member: bool) -> Link {
        Link { index, name: format!("eth{index}"), up, loopback: index == 1, member }
    }

    fn bindings(mode: UdpSockets, addr: &str) -> Vec<(Option<u32>, u32)> {
        let addr: SocketAddr = addr.parse().unwrap();
        let links = [
            link(1, true, false),
            link(2, true, false),
            link(3, false, false),
            link(4, true, true),
        ];
        let wanted = wanted(mode, &[addr], &[], &links, 2);
        wanted.iter().map(|binding| (binding.interface, binding.member)).collect()
    }

    #[test]
    fn each_setting_has_its_sockets_and_a_base() {
        let any = "0.0.0.0:2049";
        assert_eq!(bindings(Single, any), [(None, 0)]);
        assert_eq!(bindings(Cpu, any), [(None, 0), (None, 1)]);
        // not 3, which is down, nor 4, which is its master's
        assert_eq!(bindings(Interface, any), [(None, 0), (Some(1), 0), (Some(2), 0)]);
        let both = [(None, 0), (Some(1), 0), (Some(1), 1), (Some(2), 0), (Some(2), 1)];
        assert_eq!(bindings(InterfaceCpu, any), both);
        assert_eq!(bindings(Off, any), []);
    }

    #[test]
    fn loopback_and_link_local_addresses_bind_only_their_interface() {
        assert_eq!(bindings(Interface, "127.0.0.1:2049"), [(None, 0), (Some(1), 0)]);
        assert_eq!(bindings(Interface, "[fe80::1%2]:2049"), [(None, 0)]);
        assert_eq!(bindings(Cpu, "[fe80::1%2]:2049"), [(None, 0), (None, 1)]);
    }

    #[test]
    fn the_number_of_udp_sockets_is_bounded() {
        let links: Vec<Link> = (1..=1000).map(|index| link(index, true, false)).collect();
        let addr: SocketAddr = "0.0.0.0:2049".parse().unwrap();
        let bindings = wanted(InterfaceCpu, &[addr, addr], &[], &links, 16);
        assert_eq!(bindings.len(), SOCKETS_MAX);
        assert_eq!(bindings[..2], [Binding::base(0), Binding::base(1)]);
    }
}

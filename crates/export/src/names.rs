//! A client's names: looked up backwards, believed only if they lead forward again.
//!
//! Everything here may block for as long as the name service likes.

use std::net::{IpAddr, ToSocketAddrs};

/// Names of a client that are taken, after the first; a name service that gives more is odd.
const NAMES_MAX: usize = 8;

/// The names of an address, lower case: only those that resolve to the address again, so that who
/// controls the reverse zone alone controls nothing.
pub fn names_of(address: IpAddr) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(name) = sys::name_service::name_of(address) {
        let name = name.to_ascii_lowercase();
        let forward = (name.as_str(), 0).to_socket_addrs();
        let leads_back = forward.is_ok_and(|mut all| all.any(|a| a.ip().to_canonical() == address));
        if leads_back {
            // the unqualified name as well, as administrators write it in exports(5)
            if let Some((short, _)) = name.split_once('.') {
                names.push(short.to_owned());
            }
            names.push(name);
        }
    }
    names.truncate(NAMES_MAX);
    names
}

/// The addresses of the host of an exact rule: such a rule is decided forwards, so it works for
/// hosts with no reverse zone.
pub fn resolves_to(host: &str, address: IpAddr) -> bool {
    (host, 0).to_socket_addrs().is_ok_and(|mut all| all.any(|a| a.ip().to_canonical() == address))
}

/// Whether an address is one of this machine's own.
pub fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

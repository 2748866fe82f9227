//! Free ports in the network of a server to be started.

use super::{Placement, ServerError};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};

/// How often another port is tried.
const TRIES: usize = 64;

/// `wanted` if it is free for TCP and UDP, or any that is.
pub fn free(place: &Placement, wanted: Option<u16>) -> Result<u16, ServerError> {
    let find = || match wanted {
        Some(port) if is_free(port) => Ok(port),
        Some(port) => Err(ServerError::PortTaken { port }),
        None => any().ok_or_else(|| ServerError::Io("no free port was found".into())),
    };
    place.run(find)?
}

fn any() -> Option<u16> {
    (0..TRIES).find_map(|_| {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        let port = listener.local_addr().ok()?.port();
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok().map(|_| port)
    })
}

fn is_free(port: u16) -> bool {
    let all = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    TcpListener::bind((all, port)).is_ok() && UdpSocket::bind((all, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::free;
    use crate::servers::{Placement, ServerError};
    use std::net::TcpListener;

    #[test]
    fn a_port_in_use_is_an_error() {
        let place = Placement::default();
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port();
        assert_eq!(free(&place, Some(port)), Err(ServerError::PortTaken { port }));
        assert_ne!(free(&place, None).unwrap(), port);
    }
}

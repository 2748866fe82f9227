//! Sockets that a service manager bound and left open for this process (`LISTEN_FDS`,
//! sd_listen_fds(3)).
//!
//! Invariant: the descriptors become owned once in the life of the process.

use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that the manager passes.
const FIRST: RawFd = 3;
/// The most that are taken: a few addresses, both transports; each must be open already.
const INHERITED_MAX: RawFd = 64;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// What was passed.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// Listeners.
    pub tcp: Vec<TcpListener>,
    /// Datagram sockets.
    pub udp: Vec<UdpSocket>,
}

/// Takes the sockets over; nothing if there is no manager, or when asked again. To be called
/// before the process opens descriptors of its own.
///
/// # Errors
/// A descriptor that is not open, or neither a listener nor a datagram socket of the Internet.
pub fn take() -> io::Result<InheritedSockets> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let mut inherited = InheritedSockets::default();
    if number("LISTEN_PID") != Some(std::process::id()) || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(inherited);
    }
    let count = number("LISTEN_FDS").and_then(|n| RawFd::try_from(n).ok()).unwrap_or(0);
    for fd in FIRST..FIRST.saturating_add(count.min(INHERITED_MAX)) {
        let sorted = own(fd).and_then(|socket| sort(socket, &mut inherited));
        sorted.map_err(|error| io::Error::other(format!("descriptor {fd}: {error}")))?;
    }
    Ok(inherited)
}

fn own(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes no pointer; a number that is not an open descriptor is an error.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, as fcntl has just seen, and the manager passed it to this
    // process and to nobody in it; TAKEN sees to it that it is owned only once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// By the socket's own type and family.
fn sort(fd: OwnedFd, inherited: &mut InheritedSockets) -> io::Result<()> {
    let unfit = |what: &str| io::Error::other(what.to_owned());
    let Ok(kind) = sockopt::socket_type(&fd) else {
        return Err(unfit("no socket"));
    };
    if !matches!(sockopt::socket_domain(&fd)?, AddressFamily::INET | AddressFamily::INET6) {
        return Err(unfit("not of the Internet"));
    }
    match kind {
        SocketType::STREAM if !sockopt::socket_acceptconn(&fd)? => {
            return Err(unfit("not a listener but a connection, as with Accept=yes"));
        }
        SocketType::STREAM => {
            let listener = TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            inherited.tcp.push(listener);
        }
        SocketType::DGRAM => {
            let socket = UdpSocket::from(fd);
            socket.set_nonblocking(true)?;
            inherited.udp.push(socket);
        }
        _ => return Err(unfit("neither of TCP nor of UDP")),
    }
    Ok(())
}

/// The addresses that a bound socket is reached at: one of IPv6 that takes IPv4 too has two.
///
/// # Errors
/// As getsockname(2) and getsockopt(2).
pub fn addresses(socket: impl AsFd) -> io::Result<Vec<SocketAddr>> {
    let own = SocketAddr::try_from(getsockname(&socket)?).map_err(io::Error::other)?;
    let (ip, port) = (own.ip().to_canonical(), own.port());
    if ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !sockopt::ipv6_v6only(&socket)? {
        return Ok(vec![(Ipv4Addr::UNSPECIFIED, port).into(), own]);
    }
    Ok(vec![if ip.is_ipv4() { SocketAddr::new(ip, port) } else { own }])
}

#[cfg(test)]
mod tests {
    use super::{InheritedSockets, sort};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn inherited_sockets_are_classified() {
        let mut inherited = InheritedSockets::default();
        sort(TcpListener::bind("127.0.0.1:0").unwrap().into(), &mut inherited).unwrap();
        sort(UdpSocket::bind("[::1]:0").unwrap().into(), &mut inherited).unwrap();
        assert_eq!((inherited.tcp.len(), inherited.udp.len()), (1, 1));
        let mut refused = |fd| sort(fd, &mut inherited).unwrap_err().to_string();
        let (one, _) = UnixDatagram::pair().unwrap();
        assert_eq!(refused(one.into()), "not of the Internet");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(refused(one.into()).contains("Accept=yes"));
        assert_eq!(refused(std::fs::File::open("/").unwrap().into()), "no socket");
    }
}

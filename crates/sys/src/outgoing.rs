//! Sockets as a client makes them.

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Ports that only a privileged process may bind; those that Linux's own clients take: below are some that network cards
/// keep for remote management.
const RESERVED: RangeInclusive<u16> = 665..=1023;

fn unbound(to: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// A port below 1024 is wanted, any, or none in particular and no address either.
fn source_ports(from: Option<IpAddr>, reserved: bool) -> Vec<u16> {
    match (from, reserved) {
        (_, true) => RESERVED.rev().collect(),
        (Some(_), false) => vec![0],
        (None, false) => Vec::new(),
    }
}

/// A non-blocking socket connected to `to`, or on its way there, from this address of ours and, if wanted, from a port
/// below 1024.
fn begin(
    to: SocketAddr,
    kind: SocketType,
    from: Option<IpAddr>,
    reserved: bool,
) -> io::Result<OwnedFd> {
    let from = from.filter(|ip| !ip.is_unspecified() && ip.is_ipv4() == to.is_ipv4());
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let new = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socket_with(family, kind, flags, None)
    };
    for port in source_ports(from, reserved) {
        let fd = new()?;
        if kind == SocketType::STREAM {
            sockopt::set_socket_reuseaddr(&fd, true)?;
        }
        let source = match (from, to) {
            (Some(IpAddr::V6(ip)), SocketAddr::V6(to)) => {
                SocketAddr::V6(SocketAddrV6::new(ip, port, 0, to.scope_id()))
            }
            (Some(ip), _) => SocketAddr::new(ip, port),
            (None, _) => any(to, port),
        };
        match rustix::net::bind(&fd, &source) {
            Ok(()) => {}
            Err(rustix::io::Errno::ADDRINUSE) => continue,
            Err(error) => return Err(error.into()),
        }
        match rustix::net::connect(&fd, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => return Ok(fd),
            Err(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::ADDRINUSE) if reserved => {}
            Err(error) => return Err(error.into()),
        }
    }
    if from.is_some() || reserved {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let fd = new()?;
    match rustix::net::connect(&fd, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// A connection that is being made, from this address of ours (if it is of the family of `to`) and, with `reserved`,
/// from a port below 1024. Does not wait: it is writable once it is made or has failed, and
/// [`TcpStream::take_error`] says which.
///
/// # Errors
/// Permission denied without the privilege for the port; address not available if `from` is none of ours; as
/// connect(2).
pub fn begin_connect(
    to: SocketAddr,
    from: Option<IpAddr>,
    reserved: bool,
) -> io::Result<TcpStream> {
    let stream = TcpStream::from(begin(to, SocketType::STREAM, from, reserved)?);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A non-blocking datagram socket that sends to `to` and hears only from there, and hears when nobody listens there;
/// otherwise as [`begin_connect`].
///
/// # Errors
/// As [`begin_connect`].
pub fn connect_datagrams(
    to: SocketAddr,
    from: Option<IpAddr>,
    reserved: bool,
) -> io::Result<UdpSocket> {
    Ok(UdpSocket::from(begin(to, SocketType::DGRAM, from, reserved)?))
}

fn any(to: SocketAddr, port: u16) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

/// A connection to `to` from a port below 1024, which exports marked `secure` ask for.
///
/// # Errors
/// Permission denied without the privilege; address in use when all of these ports are taken; as
/// connect(2).
pub fn connect_reserved(to: SocketAddr) -> io::Result<TcpStream> {
    for port in RESERVED.rev() {
        let fd = unbound(to, SocketType::STREAM)?;
        // a port whose last connection is still being forgotten may be had for another server
        sockopt::set_socket_reuseaddr(&fd, true)?;
        match rustix::net::bind(&fd, &any(to, port)) {
            Ok(()) => {}
            Err(rustix::io::Errno::ADDRINUSE) => continue,
            Err(error) => return Err(error.into()),
        }
        match rustix::net::connect(&fd, &to) {
            Ok(()) => return Ok(fd.into()),
            Err(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// A datagram socket on a port below 1024 that can send to `to`.
///
/// # Errors
/// As [`connect_reserved`].
pub fn bind_reserved(to: SocketAddr) -> io::Result<UdpSocket> {
    for port in RESERVED.rev() {
        let fd = unbound(to, SocketType::DGRAM)?;
        match rustix::net::bind(&fd, &any(to, port)) {
            Ok(()) => return Ok(fd.into()),
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Asks for buffers of `len` bytes in both directions, as far as the sysctls allow.
pub fn enlarge_buffers(socket: &UdpSocket, len: usize) {
    let _ = sockopt::set_socket_recv_buffer_size(socket, len);
    let _ = sockopt::set_socket_send_buffer_size(socket, len);
}

/// Makes the end of a connection immediate: the peer gets a reset, and neither port nor buffered
/// data outlives the socket.
///
/// # Errors
/// As setsockopt(2).
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}

#[cfg(test)]
mod tests {
    use super::{bind_reserved, connect_reserved, reset_on_close};
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;

    #[test]
    fn a_reserved_port_is_below_1024_or_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        match connect_reserved(to) {
            Ok(stream) => assert!(stream.local_addr().unwrap().port() < 1024),
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        }
        match bind_reserved(to) {
            Ok(socket) => assert!(socket.local_addr().unwrap().port() < 1024),
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        }
    }

    #[test]
    fn a_reset_reaches_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        reset_on_close(&near).unwrap();
        drop(near);
        assert_eq!(far.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

//! Ways in which connections begin and end that the standard library does not offer.

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

/// Connects from an address and port of this machine, which another connection to the same server may have had
/// a moment ago.
///
/// # Errors
/// As bind(2) and connect(2).
pub fn connect_from(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &from)?;
    rustix::net::connect(&fd, &to)?;
    Ok(fd.into())
}

/// Closes a connection without telling the other side, as if the network had lost what tells it.
///
/// # Errors
/// As setsockopt(2): it takes CAP_NET_ADMIN.
pub fn close_silently(stream: TcpStream) -> io::Result<()> {
    const TCP_REPAIR: libc::c_int = 19;
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to one int that outlives the call, and the length is its size.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_REPAIR,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

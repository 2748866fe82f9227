//! Sockets as the server makes them: all non-blocking, closed on exec, IPv6 without IPv4.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt,
};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Connections that the kernel completes ahead of the server; it takes the lesser of this and
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// A silent peer is asked for a sign of life after this long,
const KEEPALIVE_AFTER: Duration = Duration::from_secs(120);
/// and again after this long,
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
/// and given up after this many questions.
const KEEPALIVE_COUNT: u32 = 6;

fn new_socket(addr: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, kind, flags, None)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    Ok(fd)
}

/// A listener on `addr`; port 0 takes any.
///
/// # Errors
/// As bind(2): the address is in use, not this machine's, or the port needs a privilege.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    listen_with(addr, |_| Ok(()))
}

/// A listener on `addr` that is set up before the first connection can come.
///
/// # Errors
/// As bind(2), and what `set_up` fails with.
pub fn listen_with(
    addr: SocketAddr,
    set_up: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<TcpListener> {
    let fd = new_socket(addr, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &addr)?;
    set_up(&fd)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd.into())
}

/// The next connection; would-block if there is none.
///
/// # Errors
/// As accept4(2).
pub fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::accept_with(listener, flags)?.into())
}

/// Whether this process may accept connections at all: a filter of system calls may know `accept` only.
///
/// # Errors
/// What accept4(2) is refused with.
pub fn may_accept() -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // listens nowhere, which the kernel finds wrong and a filter does not see
    let idle = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::accept_with(&idle, flags) {
        Ok(_) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the error is that of the one connection that was to be accepted, so that the next can be (accept(2)).
pub fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENONET
        )
    )
}

/// Sets a connection up for short messages both ways and for peers that vanish.
///
/// # Errors
/// As setsockopt(2): the connection is gone already.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    Ok(())
}

/// Has the kernel throw away what was not sent, and reset the connection, when the stream is closed.
///
/// # Errors
/// As setsockopt(2).
pub fn discard_on_close(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// How many bytes of a stream have arrived and were not received.
///
/// # Errors
/// The kernel's error.
pub fn arrived(stream: &TcpStream) -> io::Result<usize> {
    Ok(usize::try_from(rustix::io::ioctl_fionread(stream)?).unwrap_or(usize::MAX))
}

/// Receives what is there, at most a buffer full; 0 is the end of the stream.
///
/// # Errors
/// As recv(2); would-block if nothing is there.
pub fn receive(stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    let (len, _) = rustix::net::recv(stream, buf, RecvFlags::DONTWAIT)?;
    Ok(len)
}

/// Looks at what is there without taking it.
///
/// # Errors
/// As recv(2); would-block if nothing is there.
pub fn peek(stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    let (len, _) = rustix::net::recv(stream, buf, RecvFlags::DONTWAIT | RecvFlags::PEEK)?;
    Ok(len)
}

/// Sends `parts` one behind the other, as much as fits now. Never raises SIGPIPE.
///
/// # Errors
/// As sendmsg(2); would-block if nothing fits.
pub fn send(stream: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    send_with(stream, parts, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// As [`send`], but more follows at once: the last bytes may wait for it to fill a packet.
///
/// # Errors
/// As [`send`].
pub fn send_ahead(stream: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    send_with(stream, parts, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | SendFlags::MORE)
}

/// Sends a byte of urgent data (RFC 6093), as a peer may. The server never does.
///
/// # Errors
/// As send(2).
pub fn send_urgent(stream: &TcpStream, byte: u8) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | SendFlags::OOB;
    Ok(rustix::net::send(stream, &[byte], flags).map(drop)?)
}

fn send_with(stream: &TcpStream, parts: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    match parts {
        [one] => Ok(rustix::net::send(stream, one, flags)?),
        _ => {
            let mut control = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(stream.as_fd(), parts, &mut control, flags)?)
        }
    }
}

/// Sends `len` bytes of a file from `offset` out of the page cache, as many as fit now; 0 if the
/// file ends before `offset`. Waits for the disk if a page is not in the cache. To a broken socket
/// it raises SIGPIPE, which Rust's runtime ignores.
///
/// # Errors
/// As sendfile(2); would-block if nothing fits, invalid input where a file cannot be sent so.
pub fn send_file(
    socket: impl AsFd,
    file: BorrowedFd<'_>,
    mut offset: u64,
    len: usize,
) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), len)?)
}

/// How many bytes the peer has not acknowledged, the end of the stream included; 0 if the socket
/// does not tell.
pub fn unacknowledged(stream: &TcpStream) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int to the place that it is given.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Waits until a datagram can be sent, at most `timeout`; tells whether one can.
pub fn wait_writable(socket: &UdpSocket, timeout: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    matches!(poll(&mut fds, Some(&timeout)), Ok(ready) if ready > 0)
}

/// How many descriptors the process may have open (RLIMIT_NOFILE).
pub fn descriptors_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Whether the error says that the process or the machine is out of descriptors or memory, so
/// that trying again at once is in vain.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::{accept, listen, may_accept, prepare, receive, send};
    use crate::datagram::bind_alone;
    use std::io::{ErrorKind, IoSlice, Read, Write};
    use std::net::TcpStream;

    #[test]
    fn a_seccomp_filter_against_accept4_is_detected() {
        may_accept().unwrap();
        let filtered = || {
            crate::testing::syscall_filter::refuse(&[libc::SYS_accept4], libc::EPERM).unwrap();
            may_accept().unwrap_err().raw_os_error()
        };
        assert_eq!(std::thread::spawn(filtered).join().unwrap(), Some(libc::EPERM));
    }

    #[test]
    fn a_connection_carries_bytes_both_ways_without_waiting() {
        let listener = listen("[::1]:0".parse().unwrap()).unwrap();
        assert_eq!(accept(&listener).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = accept(&listener).unwrap();
        prepare(&near).unwrap();
        assert!(near.nodelay().unwrap());
        let mut buf = [0; 8];
        assert_eq!(receive(&near, &mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        far.write_all(b"ping").unwrap();
        while receive(&near, &mut buf).is_err() {}
        assert_eq!(&buf[..4], b"ping");
        assert_eq!(send(&near, &[IoSlice::new(b"po"), IoSlice::new(b"ng")]).unwrap(), 4);
        far.read_exact(&mut buf[..4]).unwrap();
        assert_eq!(&buf[..4], b"pong");
    }

    #[test]
    fn ipv4_and_ipv6_share_a_port() {
        let four = listen("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = four.local_addr().unwrap().port();
        listen((std::net::Ipv6Addr::UNSPECIFIED, port).into()).unwrap();
        let four = bind_alone("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = four.local_addr().unwrap().port();
        bind_alone((std::net::Ipv6Addr::UNSPECIFIED, port).into()).unwrap();
    }
}

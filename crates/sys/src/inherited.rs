//! Sockets that a service manager bound and left open for this process (`LISTEN_FDS`,
//! sd_listen_fds(3)).
//!
//! Invariant: the descriptors become owned once in the life of the process.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that the manager passes.
const FIRST: RawFd = 3;
/// The most that are taken: a few addresses, both transports; each must be open already.
const INHERITED_MAX: RawFd = 64;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// What was passed.
#[derive(Debug, Default)]
pub struct Inherited {
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
pub fn take() -> io::Result<Inherited> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let mut inherited = Inherited::default();
    if number("LISTEN_PID") != Some(std::process::id()) || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(inherited);
    }
    let count = number("LISTEN_FDS").and_then(|n| RawFd::try_from(n).ok()).unwrap_or(0);
    for fd in FIRST..FIRST.saturating_add(count.min(INHERITED_MAX)) {
        sort(own(fd)?, &mut inherited)?;
    }
    Ok(inherited)
}

fn own(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes no pointer; a number that is no open descriptor is an error.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, as fcntl has just seen, and the manager passed it to this
    // process and to nobody in it; TAKEN sees to it that it is owned only once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// By the socket's own type; whether it is of the Internet shows in its address.
fn sort(fd: OwnedFd, inherited: &mut Inherited) -> io::Result<()> {
    match rustix::net::sockopt::socket_type(&fd)? {
        rustix::net::SocketType::STREAM => {
            let listener = TcpListener::from(fd);
            listener.local_addr()?;
            listener.set_nonblocking(true)?;
            inherited.tcp.push(listener);
        }
        rustix::net::SocketType::DGRAM => {
            let socket = UdpSocket::from(fd);
            socket.local_addr()?;
            socket.set_nonblocking(true)?;
            inherited.udp.push(socket);
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Inherited, sort};
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn sockets_are_told_apart() {
        let mut inherited = Inherited::default();
        sort(TcpListener::bind("127.0.0.1:0").unwrap().into(), &mut inherited).unwrap();
        sort(UdpSocket::bind("[::1]:0").unwrap().into(), &mut inherited).unwrap();
        assert_eq!((inherited.tcp.len(), inherited.udp.len()), (1, 1));
        let (one, _) = UnixDatagram::pair().unwrap();
        assert!(sort(one.into(), &mut inherited).is_err());
    }
}

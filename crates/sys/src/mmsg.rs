//! recvmmsg(2) and sendmmsg(2): several datagrams per system call, each with the local address
//! that it came to or leaves from (IP_PKTINFO; RFC 3542 §6 for IPv6).
//!
//! IPv4 through a socket of IPv6 shows as IPv4, in both addresses, and is answered as IPv4 by a
//! socket of either family.
//!
//! Invariant: every pointer in a message header points into memory that outlives the system call;
//! the headers are built for each call and kept by nobody.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Most datagrams per system call.
pub const BATCH: usize = 16;
/// Room per datagram: no UDP payload is longer.
pub const DATAGRAM_MAX: usize = 65_536;

/// Room for one control message of each family, aligned as the kernel wants it.
type Control = [u64; 10];

/// The local end of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Local {
    /// The address; `None` leaves the choice to the kernel.
    pub ip: Option<IpAddr>,
    /// The number of the interface; 0 leaves the choice to the kernel.
    pub interface: u32,
}

/// One received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// What it says.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// Where it was sent to.
    pub to: Local,
    /// Whether its end was cut off.
    pub truncated: bool,
}

/// One datagram to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// What to say.
    pub bytes: &'a [u8],
    /// Whom to tell.
    pub to: SocketAddr,
    /// Where it should seem to come from.
    pub from: Local,
}

/// What is known of a received datagram beside its bytes.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    len: usize,
    from: SocketAddr,
    to: Local,
    truncated: bool,
}

/// Room for a batch of datagrams; its pages are touched only as datagrams need them.
#[derive(Debug)]
pub struct Batch {
    room: Vec<u8>,
    arrivals: Vec<Arrival>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self { room: vec![0; BATCH * DATAGRAM_MAX], arrivals: Vec::with_capacity(BATCH) }
    }

    /// Receives what is there, at most [`BATCH`] datagrams, instead of what was in the batch;
    /// tells how many. Datagrams without a sender's address are left out.
    ///
    /// # Errors
    /// As recvmmsg(2); would-block if nothing is there.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.arrivals.clear();
        let mut names = [MaybeUninit::<libc::sockaddr_storage>::zeroed(); BATCH];
        let mut controls: [Control; BATCH] = [[0; 10]; BATCH];
        let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all-zero is a valid mmsghdr: null pointers and lengths of 0.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let rooms = self.room.chunks_exact_mut(DATAGRAM_MAX);
        let places = headers.iter_mut().zip(&mut names).zip(&mut controls).zip(&mut pieces);
        for ((((header, name), control), piece), room) in places.zip(rooms) {
            piece.iov_base = room.as_mut_ptr().cast();
            piece.iov_len = room.len();
            let header = &mut header.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: each header's pointers lead to distinct memory of the lengths given, which
        // lives until the end of this function; no time-out is passed.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (header, name) in headers.iter().zip(&names).take(got) {
            // SAFETY: the storage is zeroed or filled in by the kernel, both valid.
            let from = address(unsafe { name.assume_init_ref() });
            self.arrivals.push(Arrival {
                len: header.msg_len as usize,
                from: from.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into()),
                to: destination(&header.msg_hdr),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            });
        }
        Ok(self.arrivals.len())
    }

    /// The datagram at `index`.
    pub fn at(&self, index: usize) -> Option<Datagram<'_>> {
        let arrival = self.arrivals.get(index)?;
        let room = self.room.chunks_exact(DATAGRAM_MAX).nth(index)?;
        Some(Datagram {
            bytes: room.get(..arrival.len)?,
            from: arrival.from,
            to: arrival.to,
            truncated: arrival.truncated,
        })
    }

    /// Bytes of all datagrams together.
    pub fn bytes(&self) -> usize {
        self.arrivals.iter().map(|arrival| arrival.len).sum()
    }

    /// How many datagrams there are.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }
}

/// Makes the socket tell where each datagram was sent to.
///
/// # Errors
/// As setsockopt(2).
pub fn enable_pktinfo(socket: &UdpSocket) -> io::Result<()> {
    if !socket.local_addr()?.is_ipv4() {
        tell_one(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)?;
    }
    // a socket of IPv6 is told of IPv4 as well, should it come by it
    tell_one(socket, libc::IPPROTO_IP, libc::IP_PKTINFO)
}

fn tell_one(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int, and gets a pointer to one and its size.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends up to [`BATCH`] datagrams; tells how many left. The first that cannot leave ends it.
///
/// # Errors
/// As sendmmsg(2), if the first cannot leave.
pub fn send(socket: &UdpSocket, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
    let count = datagrams.len().min(BATCH);
    let mut names = [MaybeUninit::<libc::sockaddr_storage>::zeroed(); BATCH];
    let mut controls: [Control; BATCH] = [[0; 10]; BATCH];
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
    // SAFETY: all-zero is a valid mmsghdr: null pointers and lengths of 0.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    let places = headers.iter_mut().zip(&mut names).zip(&mut controls).zip(&mut pieces);
    for ((((header, name), control), piece), datagram) in places.zip(datagrams) {
        piece.iov_base = datagram.bytes.as_ptr().cast_mut().cast();
        piece.iov_len = datagram.bytes.len();
        let header = &mut header.msg_hdr;
        header.msg_namelen = put_address(name, datagram.to);
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        if let Some(ip) = datagram.from.ip {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
            header.msg_controllen = put_source(header, ip, datagram.from.interface) as _;
        }
    }
    // SAFETY: the first `count` headers' pointers lead to memory of the lengths given, which
    // lives until the end of this function; the kernel only reads the payload.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// The address in a socket address of the kernel's, if it is of IPv4 or IPv6.
fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = std::ptr::from_ref(storage);
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: a storage is large and aligned enough for each family, and all-zero or
            // kernel-written bytes are valid in it.
            let four = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(four.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(four.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let six = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
            let (port, flow) = (u16::from_be(six.sin6_port), six.sin6_flowinfo);
            if let Some(four) = ip.to_ipv4_mapped() {
                return Some(SocketAddrV4::new(four, port).into());
            }
            Some(SocketAddrV6::new(ip, port, flow, six.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Writes an address in the kernel's form; its length.
fn put_address(
    storage: &mut MaybeUninit<libc::sockaddr_storage>,
    addr: SocketAddr,
) -> libc::socklen_t {
    match addr {
        SocketAddr::V4(four) => {
            let value = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: four.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(four.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage is large and aligned enough for each family.
            unsafe { storage.as_mut_ptr().cast::<libc::sockaddr_in>().write(value) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(six) => {
            let value = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: six.port().to_be(),
                sin6_flowinfo: six.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: six.ip().octets() },
                sin6_scope_id: six.scope_id(),
            };
            // SAFETY: as above.
            unsafe { storage.as_mut_ptr().cast::<libc::sockaddr_in6>().write(value) };
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

/// The local end in a received message's control data: what is said of IPv4, before what is said
/// of the same as mapped to IPv6.
fn destination(header: &libc::msghdr) -> Local {
    // SAFETY: the header's control pointer and length are those that the kernel has filled in,
    // over memory that lives on; CMSG_FIRSTHDR and CMSG_NXTHDR stay within that length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    let mut six = Local::default();
    // SAFETY: a non-null result of the two macros points to a whole, aligned cmsghdr.
    while let Some(message) = unsafe { next.as_ref() } {
        match (message.cmsg_level, message.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info =
                    // SAFETY: the data of this type is an in_pktinfo; it need not be aligned.
                    unsafe { libc::CMSG_DATA(message).cast::<libc::in_pktinfo>().read_unaligned() };
                // The local address that suits a reply, also where a broadcast asked.
                let ip = Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes());
                let interface = u32::try_from(info.ipi_ifindex).unwrap_or(0);
                return Local { ip: Some(ip.into()), interface };
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: the data of this type is an in6_pktinfo; it need not be aligned.
                let info = unsafe {
                    libc::CMSG_DATA(message).cast::<libc::in6_pktinfo>().read_unaligned()
                };
                let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                six = Local { ip: Some(ip.into()), interface: info.ipi6_ifindex as u32 };
            }
            _ => {}
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    six
}

/// Writes the control message that sets a datagram's source into the room that `header` has for
/// it; how many bytes that took.
fn put_source(header: &mut libc::msghdr, ip: IpAddr, interface: u32) -> usize {
    // SAFETY: the header's control room is a whole `Control`: aligned and larger than a cmsghdr
    // with either kind of data, so the first header exists and its data fits behind it.
    unsafe {
        let Some(message) = libc::CMSG_FIRSTHDR(header).as_mut() else { return 0 };
        match ip {
            IpAddr::V4(ip) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: libc::c_int::try_from(interface).unwrap_or(0),
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                put_control(message, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
            }
            IpAddr::V6(ip) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    ipi6_ifindex: interface as _,
                };
                put_control(message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
            }
        }
    }
}

/// Fills in one control message; the room that it takes.
///
/// # Safety
/// Behind `message` there must be room for a `T`, as `CMSG_DATA` counts it.
unsafe fn put_control<T>(
    message: &mut libc::cmsghdr,
    level: libc::c_int,
    kind: libc::c_int,
    data: T,
) -> usize {
    let size = size_of::<T>() as libc::c_uint;
    message.cmsg_level = level;
    message.cmsg_type = kind;
    // SAFETY: CMSG_LEN and CMSG_SPACE only compute; the room for the data is the caller's promise.
    unsafe {
        message.cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(message).cast::<T>().write_unaligned(data);
        libc::CMSG_SPACE(size) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Outgoing, send};
    use crate::datagram::bind_alone;
    use std::net::{SocketAddr, UdpSocket};

    /// Two datagrams to a socket bound to every address; the answers come from the one asked.
    fn asked_address_answers(any: &str, asked: &str) {
        let server = bind_alone(any.parse().unwrap()).unwrap();
        let port = server.local_addr().unwrap().port();
        let asked: SocketAddr = (asked.parse::<std::net::IpAddr>().unwrap(), port).into();
        let client = UdpSocket::bind((asked.ip(), 0)).unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        client.send_to(b"one", asked).unwrap();
        client.send_to(b"two!", asked).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.receive(&server).unwrap(), 2);
        assert!(!batch.is_empty() && batch.at(2).is_none());
        let replies: Vec<Outgoing<'_>> = (0..batch.len())
            .map(|i| batch.at(i).unwrap())
            .inspect(|d| assert_eq!((d.to.ip, d.truncated), (Some(asked.ip()), false)))
            .map(|d| Outgoing { bytes: d.bytes, to: d.from, from: d.to })
            .collect();
        assert_eq!(send(&server, &replies).unwrap(), 2);
        let mut buf = [0; 16];
        for expected in [&b"one"[..], b"two!"] {
            let (len, from) = client.recv_from(&mut buf).unwrap();
            assert_eq!((&buf[..len], from), (expected, asked));
        }
    }

    #[test]
    fn replies_leave_from_the_ipv4_destination_address() {
        asked_address_answers("0.0.0.0:0", "127.0.0.5");
    }

    #[test]
    fn replies_leave_from_the_ipv6_destination_address() {
        asked_address_answers("[::]:0", "::1");
    }
}

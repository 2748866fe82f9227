//! Datagram sockets that share one port: bound to an interface, members of a group that is steered
//! by CPU, or for sending only.
//!
//! # How several sockets share a port
//!
//! The first socket of a port is bound alone ([`bind_alone`]): whoever has the port already makes
//! that fail. Only then it is told to share ([`share`]), so that later ones of the same user may
//! bind beside it. Linux gives a datagram to the socket that fits best: one that is bound to the
//! interface it came by before one that is not. Sockets with the same address and interface are a
//! group ([`join`]), in which a program of three instructions chooses by the CPU that handles the
//! arrival ([`steer_by_cpu`]).
//!
//! # How one is taken out
//!
//! It is made to fit no datagram any more; those that come find the next best socket, and what it
//! has received stays. When all processors have passed a grace period ([`settle_arrivals`]), nobody
//! still delivers to it. There are two ways:
//!
//! - [`bind_to_no_interface`], for one that is bound to no interface: it is bound to one that nobody has. Nothing
//!   arrives there, and nothing can be sent.
//! - [`hide`], for one that is bound to an interface, which only the privileged may change: it is
//!   connected to a peer that does not exist. That gives it a local address, if it had none, for
//!   which Linux moves it from the list of such sockets to another, while a processor may just
//!   stand on it in its search. That one goes on in the other list, does not see what came after,
//!   and if it has found nothing before, refuses the datagram (ICMP, port unreachable): one for
//!   each some hundred sockets that hide under a flood. So the base has to come first in the list.
//!   Linux puts a new socket in front, but one of IPv6 that shares its port at the end. The list is
//!   one for both families, so **a socket for IPv4 on an interface is one of IPv6 too**, bound to
//!   the mapped form of 0.0.0.0 (RFC 4291 §2.5.5.2). Where there is no IPv6 it is an ordinary one.
//!
//! # Sending only
//!
//! A socket for sending only ([`transmit_only`]) has the port but an address that no datagram is
//! sent to; each reply names its own source. So no steering has to keep datagrams off it, and it
//! belongs to no group whose order would change when a thread ends. Linux ends its search for a
//! socket that is in the way of a new one at the first that may be shared, which would be one of
//! these, whoever else has the port on an interface. So they are also marked `SO_REUSEADDR`, as is
//! each new socket while it is bound: two that are so marked are no matter to each other.

use crate::identity::{Capability, with};
use crate::zeros::zeros;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

/// The IPv4 dummy address (RFC 7600 §4.8, in the registry of RFC 6890): no packet is sent to it.
const DUMMY_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// An address of the discard-only prefix (RFC 6666).
const DUMMY_V6: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1);
/// The peer of a hidden IPv6 socket: a group never sends.
const NOBODY_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The port of the peer of a hidden socket: discard.
const NOBODY_PORT: u16 = 9;
/// The number of an interface that nobody has.
const NOWHERE: libc::c_int = libc::c_int::MAX;
/// Buffers that nobody has chosen: this many bytes in each direction, as far as the sysctls allow;
/// nothing else holds a burst back, and the kernel's default has room for a handful of large
/// transfers only.
pub const BUFFER_AUTO: usize = 4 << 20;

/// Which datagrams a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// Those of its address's family.
    Own,
    /// An IPv6 socket for IPv4 as well.
    Both,
}

/// The sizes of a socket's buffers as the kernel counts them, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Buffers {
    /// For what has arrived.
    pub receive: usize,
    /// For what is to leave.
    pub send: usize,
}

/// What the kernel knows of a socket's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// The buffers.
    pub buffers: Buffers,
    /// Bytes of memory that hold what has arrived and was not received.
    pub unread_bytes: usize,
    /// Datagrams that found no room.
    pub drops: u64,
}

fn new_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    Ok(fd)
}

/// A socket of IPv6 that IPv4 may come by.
fn new_socket_for_both() -> io::Result<OwnedFd> {
    let fd = new_socket((Ipv6Addr::UNSPECIFIED, 0).into())?;
    sockopt::set_ipv6_v6only(&fd, false)?;
    Ok(fd)
}

fn bound(fd: OwnedFd, addr: SocketAddr) -> io::Result<UdpSocket> {
    rustix::net::bind(&fd, &addr)?;
    let socket = UdpSocket::from(fd);
    crate::mmsg::enable_pktinfo(&socket)?;
    Ok(socket)
}

/// A socket on `addr` that tells where each datagram was sent to; fails if anybody has the port.
///
/// # Errors
/// As bind(2) and setsockopt(2).
pub fn bind_alone(addr: SocketAddr) -> io::Result<UdpSocket> {
    bound(new_socket(addr)?, addr)
}

/// What comes by this socket.
///
/// # Errors
/// As getsockopt(2).
pub fn families(socket: &UdpSocket) -> io::Result<Families> {
    let any = socket.local_addr()?.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let both = any && !sockopt::ipv6_v6only(socket)?;
    Ok(if both { Families::Both } else { Families::Own })
}

/// Lets later sockets of the same user bind beside this one.
///
/// # Errors
/// As setsockopt(2).
pub fn share(socket: &UdpSocket) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseport(socket, true)?)
}

/// From here on nobody else may bind beside this one.
///
/// # Errors
/// As setsockopt(2).
pub fn unshare(socket: &UdpSocket) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseport(socket, false)?)
}

/// One more socket on `addr`, for what arrives by the interface with that number, or by any. With
/// others of the same address, families and interface it makes a group.
///
/// # Errors
/// As bind(2) and setsockopt(2): a port that is taken on that interface, an interface that is
/// gone.
pub fn join(addr: SocketAddr, families: Families, interface: Option<u32>) -> io::Result<UdpSocket> {
    let (fd, addr) = match (addr.ip(), interface) {
        (IpAddr::V4(ip), Some(_)) if ip.is_unspecified() => match new_socket_for_both() {
            Ok(fd) => (fd, (ip.to_ipv6_mapped(), addr.port()).into()),
            Err(_) => (new_socket(addr)?, addr),
        },
        (IpAddr::V6(_), _) if families == Families::Both => (new_socket_for_both()?, addr),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => (new_socket(addr)?, addr),
    };
    if let Some(index) = interface {
        bind_to_interface(&fd, index)?;
    }
    sockopt::set_socket_reuseport(&fd, true)?;
    // not in the way of sockets for sending only; nobody else is to profit from it
    sockopt::set_socket_reuseaddr(&fd, true)?;
    let socket = bound(fd, addr)?;
    sockopt::set_socket_reuseaddr(&socket, false)?;
    Ok(socket)
}

/// A socket with that port for replies, each of which names its source; receives nothing. Replies
/// to IPv4 need one of IPv4, as Linux takes what is bound to an address of IPv6 to be of that only.
///
/// # Errors
/// As bind(2) and setsockopt(2).
pub fn transmit_only(family: SocketAddr) -> io::Result<UdpSocket> {
    let fd = new_socket(family)?;
    let ip = match family.ip() {
        IpAddr::V4(_) => IpAddr::V4(DUMMY_V4),
        IpAddr::V6(_) => IpAddr::V6(DUMMY_V6),
    };
    let free = |on| match ip {
        IpAddr::V4(_) => sockopt::set_ip_freebind(&fd, on),
        IpAddr::V6(_) => sockopt::set_ipv6_freebind(&fd, on),
    };
    free(true)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    sockopt::set_socket_reuseport(&fd, true)?;
    rustix::net::bind(&fd, &SocketAddr::new(ip, family.port()))?;
    // from here on the kernel checks again that a reply's source is ours
    free(false)?;
    let socket = UdpSocket::from(fd);
    discard_arrivals(&socket)?;
    Ok(socket)
}

/// Makes datagrams that arrive on the `members` sockets of the group that `socket` is in be taken
/// by the one whose turn it is by the number of the CPU that handles them.
///
/// # Errors
/// As setsockopt(2).
pub fn steer_by_cpu(socket: &UdpSocket, members: u32) -> io::Result<()> {
    let load_cpu = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    run_program(
        socket,
        libc::SO_ATTACH_REUSEPORT_CBPF,
        [
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, load_cpu),
            instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, members.max(1)),
            instruction(libc::BPF_RET | libc::BPF_A, 0),
        ],
    )
}

/// Takes the program away; the group is steered by a hash of addresses and ports again.
///
/// # Errors
/// As setsockopt(2): there is no program.
pub fn stop_steering(socket: &UdpSocket) -> io::Result<()> {
    set_int(socket, libc::SO_DETACH_REUSEPORT_BPF, 0)
}

/// Takes a socket that is alone in its group by now out of it, so that it is weighed against
/// others by itself: of a group, the first that Linux finds is taken, even if another fits better.
///
/// # Errors
/// As setsockopt(2).
pub fn leave_group(socket: &UdpSocket) -> io::Result<()> {
    // binding to no interface, which it was before, makes Linux file it anew
    set_int(socket, libc::SO_BINDTOIFINDEX, 0)
}

/// Makes a socket that is bound to no interface fit no datagram any more, by binding it to one that
/// nobody has; what it has received stays. Nothing can be sent by it any more.
///
/// # Errors
/// As setsockopt(2).
pub fn bind_to_no_interface(socket: &UdpSocket) -> io::Result<()> {
    set_int(socket, libc::SO_BINDTOIFINDEX, NOWHERE)
}

/// Makes the socket fit no datagram any more by connecting it; what it has received stays.
///
/// # Errors
/// As connect(2): there is no way to anywhere, for one because its interface is down. Then nothing
/// arrives by it either.
pub fn hide(socket: &UdpSocket, interface: Option<u32>) -> io::Result<()> {
    let own = socket.local_addr()?.ip().to_canonical();
    let here: SocketAddr = match own {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, NOBODY_PORT).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, NOBODY_PORT).into(),
        // a specific address reaches itself
        specific @ (IpAddr::V4(_) | IpAddr::V6(_)) => (specific, NOBODY_PORT).into(),
    };
    let far: SocketAddr = match (own, interface) {
        // whatever has no route is taken to be at the other end of the interface
        (IpAddr::V4(_), Some(_)) => (DUMMY_V4, NOBODY_PORT).into(),
        (IpAddr::V6(_), Some(index)) => SocketAddrV6::new(NOBODY_V6, NOBODY_PORT, 0, index).into(),
        (IpAddr::V4(_) | IpAddr::V6(_), None) => here,
    };
    // the loopback interface has no route for groups of its own
    rustix::net::connect(socket, &far).or_else(|_| rustix::net::connect(socket, &here))?;
    Ok(())
}

/// Takes a socket out of service that others hold as well, and that is empty: its port is nobody's
/// until one who has it calls [`unpark`]. (A connection could not be taken back: Linux keeps the
/// peer's IPv6 address when a socket is disconnected, and accepts no other.)
///
/// # Errors
/// As setsockopt(2).
pub fn park(socket: &UdpSocket) -> io::Result<()> {
    // one that is bound already stays so: what arrives is thrown away
    if is_bound_to_interface(socket)? {
        return discard_arrivals(socket);
    }
    bind_to_no_interface(socket)?;
    accept_arrivals(socket)
}

/// Whether only what comes by one interface arrives.
///
/// # Errors
/// As getsockopt(2).
pub fn is_bound_to_interface(socket: &UdpSocket) -> io::Result<bool> {
    Ok(int_of(socket, libc::SO_BINDTOIFINDEX)? != 0)
}

/// Takes back what [`park`] and [`discard_arrivals`] have done, here or in another process.
///
/// # Errors
/// As connect(2) and setsockopt(2).
pub fn unpark(socket: &UdpSocket) -> io::Result<()> {
    if int_of(socket, libc::SO_BINDTOIFINDEX)? == NOWHERE {
        // what disconnects a socket also unbinds it, and needs no privilege
        rustix::net::connect_unspec(socket)?;
    }
    accept_arrivals(socket)
}

/// Waits until no processor still delivers a datagram by what it knew before this call: a grace
/// period of the kernel, some ten milliseconds.
pub fn settle_arrivals() {
    use rustix::thread::{MembarrierCommand, membarrier};
    if membarrier(MembarrierCommand::Global).is_err() {
        // processors without a tick have no such barrier; a delivery takes microseconds
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Collects what is sent into one datagram (`true`), or sends what was collected (`false`). The
/// first send names the destination, and its control data the source; what follows, pages of a
/// file too, goes along. An append that fails throws the whole datagram away.
///
/// # Errors
/// As setsockopt(2); as sendmsg(2), if what was collected cannot leave.
pub fn cork(socket: &UdpSocket, collect: bool) -> io::Result<()> {
    let on = libc::c_int::from(collect);
    // SAFETY: the option takes an int, and gets a pointer to one and its size.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            libc::UDP_CORK,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Appends to what [`cork`] collects.
///
/// # Errors
/// As send(2); nothing is collected any more then.
pub fn append(socket: &UdpSocket, bytes: &[u8]) -> io::Result<usize> {
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    Ok(rustix::net::send(socket, bytes, flags)?)
}

/// Throws away what [`cork`] has collected: the kernel does so with a datagram that grows too long.
pub fn discard(socket: &UdpSocket) {
    // one byte more would be refused without a look at what is collected
    let too_much = zeros().get(..usize::from(u16::MAX)).unwrap_or_default();
    // an error is what is wanted; without anything collected there is no destination
    let _ = append(socket, too_much);
}

/// Throws away what has arrived.
pub fn forget_arrivals(socket: &UdpSocket) {
    let flags = rustix::net::RecvFlags::DONTWAIT;
    while has_arrivals(socket) && rustix::net::recv(socket, &mut [0_u8; 1][..], flags).is_ok() {}
}

/// Whether a datagram waits to be received.
pub fn has_arrivals(socket: &UdpSocket) -> bool {
    let now = rustix::event::Timespec::default();
    let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
        && fds.iter().any(|fd| fd.revents().contains(rustix::event::PollFlags::IN))
}

/// Asks for buffers of this many bytes; beyond the sysctls' limits only with `CAP_NET_ADMIN`.
///
/// # Errors
/// As setsockopt(2).
pub fn size_buffers(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    let asked = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX / 2);
    // the kernel doubles what is asked for, for its own bookkeeping
    for (force, plain) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if with(Capability::NetAdmin, || set_int(socket, force, asked)).is_err() {
            set_int(socket, plain, asked)?;
        }
    }
    Ok(())
}

/// Asks for [`BUFFER_AUTO`] in each direction, as far as the sysctls allow.
///
/// # Errors
/// As setsockopt(2).
pub fn size_buffers_auto(socket: &UdpSocket) -> io::Result<()> {
    sockopt::set_socket_recv_buffer_size(socket, BUFFER_AUTO)?;
    Ok(sockopt::set_socket_send_buffer_size(socket, BUFFER_AUTO)?)
}

/// What the kernel knows of the socket's memory; all 0 if it does not tell.
pub fn memory(socket: &UdpSocket) -> Memory {
    let mut words = [0_u32; 16];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the option fills an array of u32, of which it gets the address and the size.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return Memory::default();
    }
    let word = |at: libc::c_int| {
        usize::try_from(at).ok().and_then(|at| words.get(at)).copied().unwrap_or(0)
    };
    Memory {
        buffers: Buffers {
            receive: word(libc::SK_MEMINFO_RCVBUF) as usize,
            send: word(libc::SK_MEMINFO_SNDBUF) as usize,
        },
        unread_bytes: word(libc::SK_MEMINFO_RMEM_ALLOC) as usize,
        drops: word(libc::SK_MEMINFO_DROPS).into(),
    }
}

fn bind_to_interface(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let index = libc::c_int::try_from(index).unwrap_or(libc::c_int::MAX);
    set_int(fd, libc::SO_BINDTOIFINDEX, index)
}

fn accept_arrivals(socket: &UdpSocket) -> io::Result<()> {
    match set_int(socket, libc::SO_DETACH_FILTER, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        done => done,
    }
}

/// Throws away whatever arrives from here on.
///
/// # Errors
/// As setsockopt(2).
pub fn discard_arrivals(socket: &UdpSocket) -> io::Result<()> {
    run_program(socket, libc::SO_ATTACH_FILTER, [instruction(libc::BPF_RET | libc::BPF_K, 0)])
}

fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Gives the kernel a classic BPF program for the socket.
fn run_program<const N: usize>(
    socket: &UdpSocket,
    option: libc::c_int,
    mut program: [libc::sock_filter; N],
) -> io::Result<()> {
    let program = libc::sock_fprog { len: N as libc::c_ushort, filter: program.as_mut_ptr() };
    // SAFETY: the option takes a sock_fprog, whose pointer leads to as many instructions as it
    // says; the kernel copies them.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn int_of(fd: &impl AsRawFd, option: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option fills an int, of which it gets the address and the size.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn set_int(fd: &impl AsRawFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the option takes an int, and gets a pointer to one and its size.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;

//! The kernel's options and statistics of a TCP connection: buffers, windows, congestion control, TCP_INFO.
//!
//! Sizes here are the kernel's own, with its overhead for each packet: SO_RCVBUF and SO_SNDBUF
//! give twice what they are asked for (socket(7)).

use crate::identity::{Capability, with};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// One of the two buffers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What has arrived; its size bounds the window that the peer is offered.
    Receive,
    /// What the peer has not acknowledged.
    Send,
}

impl Side {
    /// The bit of SO_BUF_LOCK.
    const fn lock_bit(self) -> libc::c_int {
        match self {
            Self::Send => 1,
            Self::Receive => 2,
        }
    }
}

/// A connection's memory (SO_MEMINFO), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Held by what has arrived.
    pub receive_used: u32,
    /// The most that it may hold.
    pub receive_max: u32,
    /// Held by what is to be sent and acknowledged.
    pub send_used: u32,
    /// The most that it may hold.
    pub send_max: u32,
}

impl Memory {
    /// The most that one side may hold.
    pub const fn max(&self, side: Side) -> u32 {
        match side {
            Side::Receive => self.receive_max,
            Side::Send => self.send_max,
        }
    }
}

/// What became of a request for a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// By the privilege to go beyond the sysctls (CAP_NET_ADMIN).
    Forced,
    /// As far as `net.core.rmem_max` or `net.core.wmem_max` goes.
    Within,
}

fn set_int(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer is to one int that outlives the call, and `len` is its size.
    let done = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Fills `room` with what the kernel knows of an option; the part that it filled.
fn ask(
    socket: impl AsFd,
    (level, name): (libc::c_int, libc::c_int),
    room: &mut [u8],
) -> io::Result<&[u8]> {
    let fd = socket.as_fd().as_raw_fd();
    let mut len = libc::socklen_t::try_from(room.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes at most `len` bytes to `room`, which has as many, and sets `len`.
    let done = unsafe { libc::getsockopt(fd, level, name, room.as_mut_ptr().cast(), &raw mut len) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let len = usize::try_from(len).unwrap_or(0).min(room.len());
    Ok(room.get(..len).unwrap_or_default())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let end = at.saturating_add(4);
    let four = bytes.get(at..end).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let end = at.saturating_add(8);
    let eight = bytes.get(at..end).and_then(|eight| eight.try_into().ok());
    eight.map_or(0, u64::from_ne_bytes)
}

/// A socket's memory.
///
/// # Errors
/// As getsockopt(2).
pub fn memory(socket: impl AsFd) -> io::Result<Memory> {
    let mut room = [0; 36];
    let words = ask(socket, (libc::SOL_SOCKET, libc::SO_MEMINFO), &mut room)?;
    Ok(Memory {
        receive_used: u32_at(words, 0),
        receive_max: u32_at(words, 4),
        send_used: u32_at(words, 8),
        send_max: u32_at(words, 12),
    })
}

/// Asks for a buffer of `bytes` (the kernel doubles them) and ends the kernel's own sizing of
/// that side. [`memory`] tells what it came to.
///
/// # Errors
/// As setsockopt(2).
pub fn fix_buffer(socket: impl AsFd, side: Side, bytes: u32) -> io::Result<Granted> {
    let (force, plain) = match side {
        Side::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        Side::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    };
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let forced = with(Capability::NetAdmin, || set_int(&socket, libc::SOL_SOCKET, force, bytes));
    match forced {
        Ok(()) => Ok(Granted::Forced),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            set_int(&socket, libc::SOL_SOCKET, plain, bytes)?;
            Ok(Granted::Within)
        }
        Err(error) => Err(error),
    }
}

/// What a connection would get for `bytes`, tried with a socket that goes nowhere.
///
/// # Errors
/// As socket(2) and setsockopt(2).
pub fn try_buffer(side: Side, bytes: u32) -> io::Result<u32> {
    let socket = unconnected()?;
    fix_buffer(&socket, side, bytes)?;
    Ok(memory(&socket)?.max(side))
}

/// The three numbers of `net.ipv4.tcp_rmem`, `tcp_wmem` or `tcp_mem`; `None` where the kernel
/// does not show it.
pub fn sysctl_triple(name: &str) -> Option<[u64; 3]> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Bytes that the TCP of the whole machine holds now; `None` where the kernel does not show it.
pub fn memory_in_use() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/sockstat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let pages: u64 =
        line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(crate::limits::page_bytes()))
}

/// Lets the kernel size one side by itself again, from its size now (SO_BUF_LOCK, Linux 5.15).
///
/// # Errors
/// As setsockopt(2); `ENOPROTOOPT` from an older kernel.
pub fn free_buffer(socket: impl AsFd, side: Side) -> io::Result<()> {
    const SO_BUF_LOCK: libc::c_int = 72;
    let mut room = [0; 4];
    let word = ask(&socket, (libc::SOL_SOCKET, SO_BUF_LOCK), &mut room)?;
    let locked = u32_at(word, 0).cast_signed();
    set_int(&socket, libc::SOL_SOCKET, SO_BUF_LOCK, locked & !side.lock_bit())
}

/// Lets the window of an open connection grow up to `bytes`; what the window scale that both
/// sides agreed on at the beginning does not reach stays out of reach.
///
/// # Errors
/// As setsockopt(2).
pub fn let_window_grow(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// Chooses the congestion control of a connection, or of those that a listener accepts.
///
/// # Errors
/// As setsockopt(2): the kernel has none of that name, or the process may not use it.
pub fn set_congestion(socket: impl AsFd, name: &str) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    let set = || {
        // SAFETY: the pointer is to `len` bytes that outlive the call.
        let done = unsafe {
            let value = name.as_ptr().cast();
            libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, len)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    match set() {
        // one that the sysctl does not give to everybody
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            with(Capability::NetAdmin, set)
        }
        done => done,
    }
}

/// Tries whether a connection could have a congestion control, with a socket that goes nowhere.
///
/// # Errors
/// As [`set_congestion`].
pub fn try_congestion(name: &str) -> io::Result<()> {
    set_congestion(unconnected()?, name)
}

/// The system's congestion control.
///
/// # Errors
/// As read(2) of the sysctl.
pub fn system_congestion() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    Ok(text.trim().to_owned())
}

/// Those that the kernel has, with blanks between them; empty if it does not tell.
pub fn congestions() -> String {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

fn unconnected() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?)
}

/// The congestion control of a connection.
///
/// # Errors
/// As getsockopt(2).
pub fn congestion(socket: impl AsFd) -> io::Result<String> {
    let mut room = [0; 16];
    let name = ask(socket, (libc::IPPROTO_TCP, libc::TCP_CONGESTION), &mut room)?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned())
}

/// Bytes that have arrived and nobody has received; 0 if the socket does not tell.
pub fn unread(socket: impl AsFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int to the place that it is given.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if done == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// How far a connection is, as far as a server cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Open at both ends, as far as the kernel knows.
    Established,
    /// Not open yet, or one of the ends has closed it.
    #[default]
    Other,
}

/// How a connection does (TCP_INFO); what an older kernel does not tell is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Info {
    /// How far it is.
    pub state: State,
    /// Milliseconds since data last arrived.
    pub last_data_received_ms: u32,
    /// Milliseconds since an acknowledgement last arrived.
    pub last_ack_received_ms: u32,
    /// The window scale of what this side offers.
    pub window_scale: u8,
    /// Whether the last delivery rate was bounded by what there was to send.
    pub app_limited: bool,
    /// Largest segment sent, in bytes.
    pub send_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments that the congestion control allows in flight.
    pub send_cwnd: u32,
    /// Round trip, smoothed, in microseconds; 0 before anything was acknowledged.
    pub rtt_us: u32,
    /// The shortest recent round trip.
    pub rtt_min_us: u32,
    /// Round trip as estimated by what is received; 0 if there is no estimate.
    pub receive_rtt_us: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// Segments that arrived out of order: the peer lost some.
    pub out_of_order: u32,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes not sent yet.
    pub not_sent: u32,
    /// What the network has delivered to the peer recently, in bytes per second.
    pub delivery_rate: u64,
    /// Microseconds in which there was something to send or to be acknowledged.
    pub busy_us: u64,
    /// Those of them in which the peer's window was the limit.
    pub peer_window_limited_us: u64,
    /// Those of them in which the send buffer was the limit.
    pub send_buffer_limited_us: u64,
    /// The window that the peer offers.
    pub peer_window: u32,
    /// The window that this side offers (Linux 6.2).
    pub window: u32,
}

/// How a connection does.
///
/// # Errors
/// As getsockopt(2).
pub fn info(socket: impl AsFd) -> io::Result<Info> {
    let mut room = [0; 256];
    let told = ask(socket, (libc::IPPROTO_TCP, libc::TCP_INFO), &mut room)?;
    Ok(parse_info(told))
}

/// Offsets as in `struct tcp_info` of linux/tcp.h, which only ever grows at its end.
fn parse_info(told: &[u8]) -> Info {
    const TCP_ESTABLISHED: u8 = 1;
    let byte = |at: usize| told.get(at).copied().unwrap_or(0);
    Info {
        state: if byte(0) == TCP_ESTABLISHED { State::Established } else { State::Other },
        last_data_received_ms: u32_at(told, 52),
        last_ack_received_ms: u32_at(told, 56),
        window_scale: byte(6) >> 4,
        app_limited: byte(7) & 1 == 1,
        send_mss: u32_at(told, 16),
        unacked: u32_at(told, 24),
        rtt_us: u32_at(told, 68),
        send_cwnd: u32_at(told, 80),
        receive_rtt_us: u32_at(told, 92),
        retransmits: u32_at(told, 100),
        bytes_acked: u64_at(told, 120),
        bytes_received: u64_at(told, 128),
        not_sent: u32_at(told, 144),
        rtt_min_us: u32_at(told, 148),
        delivery_rate: u64_at(told, 160),
        busy_us: u64_at(told, 168),
        peer_window_limited_us: u64_at(told, 176),
        send_buffer_limited_us: u64_at(told, 184),
        out_of_order: u32_at(told, 224),
        peer_window: u32_at(told, 228),
        window: u32_at(told, 232),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Granted, Side, congestion, congestions, fix_buffer, free_buffer, info, let_window_grow,
        memory, memory_in_use, set_congestion, sysctl_triple, system_congestion, try_buffer,
        try_congestion, unread,
    };
    use crate::socket::{accept, listen};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        loop {
            if let Ok(near) = accept(listener) {
                return (near, far);
            }
        }
    }

    #[test]
    fn a_fixed_buffer_is_twice_the_requested_size_and_can_be_reset() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (near, _far) = pair(&listener);
        for side in [Side::Receive, Side::Send] {
            let before = memory(&near).unwrap();
            let granted = fix_buffer(&near, side, 150_000).unwrap();
            assert_eq!(memory(&near).unwrap().max(side), 300_000);
            let other = if side == Side::Send { Side::Receive } else { Side::Send };
            assert_eq!(memory(&near).unwrap().max(other), before.max(other));
            assert!(matches!(granted, Granted::Forced | Granted::Within));
            free_buffer(&near, side).unwrap();
        }
    }

    #[test]
    fn an_open_connections_window_grows() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (near, mut far) = pair(&listener);
        fix_buffer(&near, Side::Receive, 1 << 20).unwrap();
        let_window_grow(&near, 2 << 20).unwrap();
        far.write_all(&[1; 1000]).unwrap();
        while unread(&near) < 1000 {}
        let told = info(&near).unwrap();
        assert_eq!(told.bytes_received, 1000);
        assert!(told.window > 0 && told.window_scale > 0, "{told:?}");
    }

    #[test]
    fn tcp_sysctls_are_read() {
        let [min, default, max] = sysctl_triple("tcp_rmem").unwrap();
        assert!(min <= default && default <= max);
        assert!(sysctl_triple("no_such").is_none());
        assert!(memory_in_use().is_some());
        assert_eq!(try_buffer(Side::Receive, 100_000).unwrap(), 200_000);
    }

    #[test]
    fn the_congestion_control_is_inherited_from_the_listener() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        // Every kernel has it, and every process may use it.
        set_congestion(&listener, "reno").unwrap();
        assert_eq!(congestion(pair(&listener).0).unwrap(), "reno");
        assert!(set_congestion(&listener, "no-such").is_err());
        assert!(try_congestion("reno").is_ok() && try_congestion("no-such").is_err());
        assert!(congestions().contains(&system_congestion().unwrap()));
    }
}

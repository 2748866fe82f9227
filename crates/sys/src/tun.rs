//! TUN devices: network interfaces whose packets a process reads and writes.
//!
//! With offload each packet has a `virtio_net_hdr` of [`HEADER_BYTES`] before it, checksums may be
//! left to the reader, and TCP hands over packets of up to 64 KiB that a real device would cut.
//! Invariant: a device belongs to the namespace of the thread that makes it, and goes with its
//! descriptor.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Bytes of the header before each packet of a device with offload.
pub const HEADER_BYTES: usize = 10;
/// No packet is longer, its header included.
pub const PACKET_MAX: usize = 65_536 + HEADER_BYTES;

/// Offload: checksums and TCP segmentation for both IP versions are left to the reader.
const OFFLOAD: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;

/// A TUN device.
#[derive(Debug)]
pub struct Tun {
    file: File,
    offload: bool,
}

impl Tun {
    /// Makes the device `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// As open(2) of `/dev/net/tun` and TUNSETIFF: no such driver, no `CAP_NET_ADMIN`, the name is
    /// taken or too long.
    pub fn new(name: &str, offload: bool) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open("/dev/net/tun")?;
        let room = libc::IFNAMSIZ - 1;
        if name.is_empty() || name.len() > room || name.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: all fields of ifreq are plain numbers, for which zero bytes are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | if offload { libc::IFF_VNET_HDR } else { 0 };
        request.ifr_ifru.ifru_flags = i16::try_from(flags).unwrap_or(0);
        // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
        if offload {
            let bits = libc::c_ulong::from(OFFLOAD);
            // SAFETY: TUNSETOFFLOAD takes its argument by value.
            check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, bits) })?;
        }
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Self { file, offload })
    }

    /// Whether packets have a header before them.
    pub fn has_header(&self) -> bool {
        self.offload
    }

    /// The next packet that the device sends; `None` if there is none.
    ///
    /// # Errors
    /// As read(2): the device is gone or down.
    pub fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(packet) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands the device a packet, as if from the wire.
    ///
    /// # Errors
    /// As write(2): the device is gone or down, or the packet makes no sense.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until one of `files` can be read or `timeout` is over, to the nanosecond where the thread's
/// timer slack allows it; `None` waits for ever. Says which can be read.
///
/// # Errors
/// As ppoll(2); an interruption is not an error.
pub fn wait_readable<const N: usize>(
    files: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut fds = files.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tun, wait_readable};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_tun_device_exists_in_its_namespace_until_dropped() {
        std::thread::spawn(|| {
            if crate::netns::enter_new().is_err() {
                testing::skip(testing::Missing::Namespaces, "a network namespace");
                return;
            }
            let devices = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let tun = match Tun::new("probe0", true) {
                Ok(tun) => tun,
                Err(error) => return testing::skip(testing::Missing::Tun, error),
            };
            assert!(devices().contains("probe0:") && tun.has_header());
            assert_eq!(tun.receive(&mut [0; 100]).unwrap(), None);
            assert!(tun.send(&[0; 100]).is_err(), "it is down");
            drop(tun);
            assert!(!devices().contains("probe0:"));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn names_that_the_kernel_would_truncate_are_refused() {
        assert!(Tun::new("a-name-of-more-than-15", false).is_err());
    }

    #[test]
    fn waiting_ends_when_there_is_something_to_read() {
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (quiet, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let both = [near.as_fd(), quiet.as_fd()];
        assert_eq!(wait_readable(both, Some(Duration::from_micros(50))).unwrap(), [false, false]);
        far.write_all(b"x").unwrap();
        assert_eq!(wait_readable(both, None).unwrap(), [true, false]);
    }
}

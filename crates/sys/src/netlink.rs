//! rtnetlink(7), as far as a server needs it: which network interfaces there are, and that
//! something about them has changed.
//!
//! A change is never taken from the message that tells of it: whoever hears of one asks for the
//! whole list again. So a message that was lost (`ENOBUFS`) costs nothing, and one kind of message
//! is all that is parsed. What the kernel sends is read with checked slices; a message cut short is
//! left out.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Groups of messages: links, IPv4 addresses, IPv6 addresses.
const GROUPS: u32 =
    (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
/// Room for what one receive gives: the kernel fills at most 32 KiB.
const ROOM: usize = 64 << 10;
/// Length of the header of every message: length, type, flags, sequence, port.
const HEADER: usize = 16;
/// Length of what a link's message has before its attributes: family, type, index, flags, change.
const LINK_HEADER: usize = 16;
/// Low bits of an attribute's type; the others are flags.
const TYPE_MASK: u16 = 0x3fff;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number, which it keeps when it is renamed.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up, as far as the administrator is concerned.
    pub up: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether it is a member of a bond, a bridge or the like, which takes what arrives on it. A
    /// member of a VRF is none: it keeps its own traffic.
    pub member: bool,
}

/// Tells that interfaces or addresses have changed; readable then.
#[derive(Debug)]
pub struct LinkWatch(OwnedFd);

impl LinkWatch {
    /// Begins to listen, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// As socket(2) and bind(2): the service manager may have forbidden `AF_NETLINK`.
    pub fn new() -> io::Result<Self> {
        let fd = open()?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(fd))
    }

    /// Throws away what was told; whether anything was.
    pub fn drain(&self) -> bool {
        let mut heard = false;
        let mut room = [0_u8; 4096];
        loop {
            match rustix::net::recv(&self.0, &mut room[..], RecvFlags::DONTWAIT) {
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => heard = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return heard,
            }
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    // protocol 0 is NETLINK_ROUTE
    Ok(rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?)
}

/// All interfaces of the calling thread's network namespace, by their number.
///
/// # Errors
/// The kernel's error: `AF_NETLINK` is forbidden, or no memory is left.
pub fn links() -> io::Result<Vec<Link>> {
    let fd = open()?;
    let mut request = Vec::with_capacity(HEADER + LINK_HEADER);
    request.extend(((HEADER + LINK_HEADER) as u32).to_ne_bytes());
    request.extend(libc::RTM_GETLINK.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    // sequence 1, no port; AF_UNSPEC and no filter
    request.extend(1_u32.to_ne_bytes());
    request.resize(HEADER + LINK_HEADER, 0);
    rustix::net::send(&fd, &request, SendFlags::empty())?;
    let mut links = Vec::new();
    let mut room = vec![0_u8; ROOM];
    loop {
        let len = match rustix::net::recv(&fd, &mut room[..], RecvFlags::empty()) {
            Ok((len, _)) => len,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if !take(room.get(..len).unwrap_or_default(), &mut links)? {
            links.sort_by_key(|link: &Link| link.index);
            links.dedup_by_key(|link| link.index);
            return Ok(links);
        }
    }
}

/// Reads the messages of one receive; `false` after the last of the answer.
fn take(mut bytes: &[u8], links: &mut Vec<Link>) -> io::Result<bool> {
    while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let len = len as usize;
        let Some(body) = bytes.get(HEADER..len) else { break };
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => {
                let code = u32_at(body, 0).map_or(libc::EIO, |code| (code as i32).wrapping_neg());
                return Err(io::Error::from_raw_os_error(code));
            }
            _ if kind == libc::RTM_NEWLINK => links.extend(link(body)),
            _ => {}
        }
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
    }
    Ok(true)
}

/// One interface's message.
fn link(body: &[u8]) -> Option<Link> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let has = |flag: libc::c_int| flags & flag as u32 != 0;
    let mut link = Link {
        index,
        name: String::new(),
        up: has(libc::IFF_UP),
        loopback: has(libc::IFF_LOOPBACK),
        member: false,
    };
    let (mut mastered, mut vrf) = (false, false);
    for (kind, value) in attributes(body.get(LINK_HEADER..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MASTER => mastered = u32_at(value, 0).is_some_and(|master| master != 0),
            libc::IFLA_LINKINFO => {
                let slave = attributes(value).find(|(kind, _)| *kind == libc::IFLA_INFO_SLAVE_KIND);
                vrf = slave.is_some_and(|(_, kind)| text(kind) == "vrf");
            }
            _ => {}
        }
    }
    link.member = mastered && !vrf;
    (!link.name.is_empty()).then_some(link)
}

/// The attributes in `bytes`, as far as they are whole.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
        let value = bytes.get(4..len.into())?;
        bytes = bytes.get(aligned(len.into())..).unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    })
}

/// Text that may end with NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

const fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

#[cfg(test)]
mod tests {
    use super::{LinkWatch, link, links, take};

    #[test]
    fn every_machine_has_a_loopback_interface() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.loopback).unwrap();
        assert_eq!((lo.name.as_str(), lo.member), ("lo", false));
        assert!(lo.index > 0 && links.is_sorted_by_key(|link| link.index));
        assert!(!LinkWatch::new().unwrap().drain(), "nothing has changed yet");
    }

    #[test]
    fn truncated_netlink_attributes_are_ignored() {
        let mut body = vec![0; 16];
        body[4] = 7;
        body[8] = 1;
        // IFLA_IFNAME "eth7", IFLA_MASTER 3
        body.extend([9, 0, 3, 0, b'e', b't', b'h', b'7', 0, 0, 0, 0]);
        body.extend([8, 0, 10, 0, 3, 0, 0, 0]);
        let whole = link(&body).unwrap();
        assert_eq!((whole.index, whole.name.as_str(), whole.up), (7, "eth7", true));
        assert!(whole.member);
        // IFLA_LINKINFO { IFLA_INFO_SLAVE_KIND "vrf" }
        body.extend([12, 0, 18, 0, 8, 0, 4, 0, b'v', b'r', b'f', 0]);
        assert!(!link(&body).unwrap().member);
        for len in 0..body.len() {
            if let Some(part) = link(&body[..len]) {
                assert_eq!(part.index, 7);
            }
        }
        let mut all = Vec::new();
        assert!(take(&[200, 0, 0, 0, 16, 0, 0, 0], &mut all).unwrap() && all.is_empty());
        // a length of 0 must not be read for ever
        assert!(take(&[0; 64], &mut all).unwrap() && all.is_empty());
    }
}

//! The name service: reverse look-ups and netgroups. Every call may block for seconds.

use std::ffi::{CStr, CString};
use std::net::IpAddr;

/// The most bytes of a host name (`NI_MAXHOST`).
const HOST_MAX: usize = 1025;

/// The name of an address; `None` if the name service has none.
pub fn name_of(address: IpAddr) -> Option<String> {
    let mut host = [0 as libc::c_char; HOST_MAX];
    let room = libc::socklen_t::try_from(HOST_MAX).unwrap_or(0);
    let status = match address {
        IpAddr::V4(address) => {
            // SAFETY: all-zero bytes are a valid `sockaddr_in`.
            let mut name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            name.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
            name.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            look_up(&raw const name, &mut host, room)
        }
        IpAddr::V6(address) => {
            // SAFETY: all-zero bytes are a valid `sockaddr_in6`.
            let mut name: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            name.sin6_family = libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or(0);
            name.sin6_addr.s6_addr = address.octets();
            look_up(&raw const name, &mut host, room)
        }
    };
    if status != 0 {
        return None;
    }
    // SAFETY: on success getnameinfo leaves a NUL-terminated string in `host`.
    let name = unsafe { CStr::from_ptr(host.as_ptr()) };
    name.to_str().ok().map(str::to_owned)
}

fn look_up<T>(name: *const T, host: &mut [libc::c_char; HOST_MAX], room: libc::socklen_t) -> i32 {
    let len = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: `name` points to a socket address of `len` bytes, `host` has `room` bytes; no service
    // name is asked for.
    unsafe {
        libc::getnameinfo(
            name.cast(),
            len,
            host.as_mut_ptr(),
            room,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    }
}

unsafe extern "C" {
    fn innetgr(
        netgroup: *const libc::c_char,
        host: *const libc::c_char,
        user: *const libc::c_char,
        domain: *const libc::c_char,
    ) -> libc::c_int;
}

/// Whether a host is in a netgroup.
pub fn in_netgroup(netgroup: &str, host: &str) -> bool {
    let (Ok(netgroup), Ok(host)) = (CString::new(netgroup), CString::new(host)) else {
        return false;
    };
    // SAFETY: both strings end with NUL and live for the call; null means "any" for the others.
    let found =
        unsafe { innetgr(netgroup.as_ptr(), host.as_ptr(), std::ptr::null(), std::ptr::null()) };
    found == 1
}

#[cfg(test)]
mod tests {
    use super::{in_netgroup, name_of};

    #[test]
    fn loopback_has_a_name_and_nobody_is_in_no_netgroup() {
        assert_eq!(name_of("127.0.0.1".parse().unwrap()).as_deref(), Some("localhost"));
        assert!(!in_netgroup("there-is-no-such-group", "localhost"));
        assert!(!in_netgroup("a\0b", "localhost"));
    }
}

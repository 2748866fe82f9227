//! Host names, addresses and netgroups, as `nsswitch.conf` orders their sources. Every function
//! may wait for a network: not for workers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The longest name that the C library gives (`NI_MAXHOST`).
const NAME_MAX: usize = 1025;
/// Most addresses of a host that are looked at; a service that gives more means no good.
const ADDRESSES_MAX: usize = 256;

/// Nothing of that name: an answer, not a failure.
const fn is_no_such_name(code: c_int) -> bool {
    matches!(code, libc::EAI_NONAME | libc::EAI_NODATA)
}

/// What `EAI_*` says.
fn failure(code: c_int) -> io::Error {
    if code == libc::EAI_SYSTEM {
        return io::Error::last_os_error();
    }
    // SAFETY: gai_strerror returns a constant string for every number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    io::Error::other(text.to_string_lossy().into_owned())
}

/// The name of an address, in lower case; `None` if it has none. Nobody has confirmed that the
/// name leads back to the address.
///
/// # Errors
/// The service did not answer.
pub fn name_of(address: IpAddr) -> io::Result<Option<String>> {
    let mut name = [0 as c_char; NAME_MAX];
    let code = match address {
        IpAddr::V4(v4) => name_into(&mut name, &socket4(v4)),
        IpAddr::V6(v6) => name_into(&mut name, &socket6(v6)),
    };
    if is_no_such_name(code) {
        return Ok(None);
    }
    if code != 0 {
        return Err(failure(code));
    }
    // SAFETY: the call succeeded, so it wrote a string with its end into `name`.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    let name = name.to_str().ok().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    Ok(name.filter(|name| !name.is_empty()))
}

fn name_into<T>(name: &mut [c_char; NAME_MAX], socket: &T) -> c_int {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `socket` is a socket address of `length` bytes (both callers pass one), `name` has
    // room for NAME_MAX bytes, and no service name is asked for.
    unsafe {
        libc::getnameinfo(
            ptr::from_ref(socket).cast(),
            length,
            name.as_mut_ptr(),
            NAME_MAX as libc::socklen_t,
            ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    }
}

const fn socket4(address: Ipv4Addr) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: address.to_bits().to_be() },
        sin_zero: [0; 8],
    }
}

const fn socket6(address: Ipv6Addr) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: address.octets() },
        sin6_scope_id: 0,
    }
}

/// The addresses of a host, at most 256; none if there is no such host.
///
/// # Errors
/// The service did not answer.
pub fn addresses_of(host: &str) -> io::Result<Vec<IpAddr>> {
    let host = CString::new(host)?;
    // SAFETY: all-zero bytes are a valid addrinfo: numbers, and null pointers.
    let mut hints: libc::addrinfo = unsafe { MaybeUninit::zeroed().assume_init() };
    hints.ai_family = libc::AF_UNSPEC;
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list: *mut libc::addrinfo = ptr::null_mut();
    let code =
        // SAFETY: `host` ends in NUL, `hints` is initialised, `list` takes the result.
        unsafe { libc::getaddrinfo(host.as_ptr(), ptr::null(), &raw const hints, &raw mut list) };
    if is_no_such_name(code) {
        return Ok(Vec::new());
    }
    if code != 0 {
        return Err(failure(code));
    }
    let mut addresses = Vec::new();
    let mut next = list;
    // SAFETY: `list` is the result of a call that succeeded: a chain that ends in null, and that
    // stays until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        if addresses.len() < ADDRESSES_MAX {
            addresses.extend(address_of(entry));
        }
        next = entry.ai_next;
    }
    // SAFETY: as above; nothing borrowed from it is left.
    unsafe { libc::freeaddrinfo(list) };
    Ok(addresses)
}

fn address_of(entry: &libc::addrinfo) -> Option<IpAddr> {
    let length = entry.ai_addrlen as usize;
    match entry.ai_family {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the family and the length say that this is a sockaddr_in.
            let socket = unsafe { ptr::read_unaligned(entry.ai_addr.cast::<libc::sockaddr_in>()) };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(socket.sin_addr.s_addr))))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the family and the length say that this is a sockaddr_in6.
            let socket = unsafe { ptr::read_unaligned(entry.ai_addr.cast::<libc::sockaddr_in6>()) };
            Some(IpAddr::V6(Ipv6Addr::from(socket.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// The C library keeps state while it looks through netgroups (`MT-Unsafe race:netgrent`), so one
/// thread does at a time. Held over the look-up: only threads that ask for this wait.
static NETGROUPS: Mutex<()> = Mutex::new(());

/// Whether a host is in a netgroup.
pub fn in_netgroup(group: &str, host: &str) -> bool {
    unsafe extern "C" {
        fn innetgr(
            group: *const c_char,
            host: *const c_char,
            user: *const c_char,
            domain: *const c_char,
        ) -> c_int;
    }
    let (Ok(group), Ok(host)) = (CString::new(group), CString::new(host)) else { return false };
    let _one = NETGROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: both strings end in NUL; null means "any" for user and domain.
    unsafe { innetgr(group.as_ptr(), host.as_ptr(), ptr::null(), ptr::null()) == 1 }
}

/// Room for a user's row of the user database; grown up to `ROW_MAX`.
const ROW_ROOM: usize = 4096;
/// The longest row that is believed.
const ROW_MAX: usize = 1 << 20;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// All groups, the primary one included.
    pub groups: Vec<u32>,
}

/// The groups of a user, its primary one included, at most `most`; `None` if there is no such user.
///
/// # Errors
/// The service did not answer.
pub fn groups_of(uid: u32, most: usize) -> io::Result<Option<Vec<u32>>> {
    Ok(row(UserKey::Uid(uid))?.map(|row| row.groups(most)))
}

/// The user of a name, with at most `most` groups; `None` if there is none.
///
/// # Errors
/// The service did not answer.
pub fn user_named(name: &str, most: usize) -> io::Result<Option<User>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let row = row(UserKey::Name(&name))?;
    Ok(row.map(|row| User { uid: row.uid, gid: row.gid, groups: row.groups(most) }))
}

/// The name of a user; `None` if there is no such user, or if its name is not UTF-8.
///
/// # Errors
/// The service did not answer.
pub fn user_name(uid: u32) -> io::Result<Option<String>> {
    Ok(row(UserKey::Uid(uid))?.and_then(|row| row.name.into_string().ok()))
}

/// The id of the user of a name; `None` if there is none.
///
/// # Errors
/// The service did not answer.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    Ok(row(UserKey::Name(&name))?.map(|row| row.uid))
}

/// The name of a group; `None` if there is no such group, or if its name is not UTF-8.
///
/// # Errors
/// The service did not answer.
pub fn group_name(gid: u32) -> io::Result<Option<String>> {
    Ok(group_row(GroupKey::Gid(gid))?.and_then(|(name, _)| name.into_string().ok()))
}

/// The id of the group of a name; `None` if there is none.
///
/// # Errors
/// The service did not answer.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    Ok(group_row(GroupKey::Name(&name))?.map(|(_, gid)| gid))
}

/// What a row of the user database is looked up by.
#[derive(Clone, Copy)]
enum UserKey<'a> {
    Uid(u32),
    Name(&'a CStr),
}

/// What a row of the group database is looked up by.
#[derive(Clone, Copy)]
enum GroupKey<'a> {
    Gid(u32),
    Name(&'a CStr),
}

/// Name and id of a group.
fn group_row(key: GroupKey<'_>) -> io::Result<Option<(CString, u32)>> {
    let ask = |row: *mut libc::group, room: &mut [c_char], found: *mut *mut libc::group| {
        let (bytes, len) = (room.as_mut_ptr(), room.len());
        match key {
            // SAFETY: `row`, `room` (of the length given) and `found` outlive the call.
            GroupKey::Gid(gid) => unsafe { libc::getgrgid_r(gid, row, bytes, len, found) },
            // SAFETY: as above, and `name` ends in NUL.
            GroupKey::Name(name) => unsafe {
                libc::getgrnam_r(name.as_ptr(), row, bytes, len, found)
            },
        }
    };
    // SAFETY: all-zero bytes are a valid group: a number, and null pointers.
    let row: libc::group = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the call found a row, so its name is a string in the room, which still lives.
    find_row(row, ask, |row| (unsafe { CStr::from_ptr(row.gr_name) }.to_owned(), row.gr_gid))
}

/// Looks a row up with more and more room for its strings; `use_row` gets the row that was found, while the room lives.
fn find_row<R, T>(
    mut row: R,
    ask: impl Fn(*mut R, &mut [c_char], *mut *mut R) -> c_int,
    use_row: impl FnOnce(&R) -> T,
) -> io::Result<Option<T>> {
    let mut room = vec![0 as c_char; ROW_ROOM];
    loop {
        let mut found: *mut R = ptr::null_mut();
        let code = ask(&raw mut row, &mut room, &raw mut found);
        if code == libc::ERANGE && room.len() < ROW_MAX {
            // a group has as many members as there are users
            room.resize(room.len().saturating_mul(4), 0);
            continue;
        }
        return match found.is_null() {
            false => Ok(Some(use_row(&row))),
            true if is_no_such_row(code) => Ok(None),
            true => Err(io::Error::from_raw_os_error(code)),
        };
    }
}

/// POSIX lets "no such user or group" be any of these as well as no error at all.
const fn is_no_such_row(code: c_int) -> bool {
    matches!(code, 0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM)
}

/// The fields of a row that are used.
struct UserRow {
    name: CString,
    uid: u32,
    gid: u32,
}

impl UserRow {
    fn groups(&self, most: usize) -> Vec<u32> {
        let mut groups = vec![0 as libc::gid_t; most];
        let mut count = c_int::try_from(most).unwrap_or(c_int::MAX);
        // SAFETY: `name` ends in NUL; `groups` has room for `count` ids, as it was just made with.
        // When there are more, the call fills the room and says how many there are.
        unsafe {
            libc::getgrouplist(self.name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count)
        };
        groups.truncate(usize::try_from(count).unwrap_or(0));
        groups
    }
}

/// A user's row.
fn row(key: UserKey<'_>) -> io::Result<Option<UserRow>> {
    let ask = |row: *mut libc::passwd, room: &mut [c_char], found: *mut *mut libc::passwd| {
        let (bytes, len) = (room.as_mut_ptr(), room.len());
        match key {
            // SAFETY: `row`, `room` (of the length given) and `found` outlive the call.
            UserKey::Uid(uid) => unsafe { libc::getpwuid_r(uid, row, bytes, len, found) },
            // SAFETY: as above, and `name` ends in NUL.
            UserKey::Name(name) => unsafe {
                libc::getpwnam_r(name.as_ptr(), row, bytes, len, found)
            },
        }
    };
    // SAFETY: all-zero bytes are a valid passwd: numbers, and null pointers.
    let row: libc::passwd = unsafe { MaybeUninit::zeroed().assume_init() };
    find_row(row, ask, |row| {
        // SAFETY: the call found a row, so its name is a string in the room, which still lives.
        let name = unsafe { CStr::from_ptr(row.pw_name) }.to_owned();
        UserRow { name, uid: row.pw_uid, gid: row.pw_gid }
    })
}

#[cfg(test)]
mod tests {
    use super::{
        addresses_of, group_id, group_name, groups_of, in_netgroup, name_of, user_id, user_name,
        user_named,
    };
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn this_machine_has_a_name_and_an_address() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(addresses_of("localhost").unwrap().contains(&loopback));
        assert!(name_of(loopback).unwrap().is_some_and(|name| name.contains("localhost")));
        assert_eq!(addresses_of("127.0.0.1").unwrap(), [loopback]);
    }

    #[test]
    fn root_has_its_group_and_an_unknown_user_has_none() {
        assert!(groups_of(0, 64).unwrap().unwrap().contains(&0));
        assert_eq!(groups_of(0, 1).unwrap().unwrap().len(), 1);
        assert_eq!(groups_of(4_000_000_123, 64).unwrap(), None);
        let root = user_named("root", 64).unwrap().unwrap();
        assert_eq!((root.uid, root.gid, root.groups.contains(&0)), (0, 0, true));
        assert_eq!(user_named("no such user", 64).unwrap(), None);
        assert_eq!(user_named("root\0", 64).unwrap(), None);
    }

    #[test]
    fn users_and_groups_have_names_and_ids() {
        assert_eq!(user_name(0).unwrap().as_deref(), Some("root"));
        assert_eq!((user_id("root").unwrap(), user_id("no such user").unwrap()), (Some(0), None));
        assert_eq!(group_name(0).unwrap().as_deref(), Some("root"));
        assert_eq!(
            (group_id("root").unwrap(), group_id("no such group").unwrap()),
            (Some(0), None)
        );
        assert_eq!(
            (user_name(4_000_000_123).unwrap(), group_name(4_000_000_123).unwrap()),
            (None, None)
        );
        assert_eq!((user_id("root\0").unwrap(), group_id("root\0").unwrap()), (None, None));
    }

    #[test]
    fn invalid_names_have_no_address_and_no_netgroup() {
        assert!(addresses_of("a\0b").is_err());
        assert!(!in_netgroup("no such group", "localhost"));
        assert!(!in_netgroup("a\0b", "localhost"));
    }
}

//! The extended attribute that holds a POSIX access ACL.

use crate::open::proc_path;
use std::io;
use std::os::fd::BorrowedFd;

/// The attribute's name.
const ACCESS: &str = "system.posix_acl_access";
/// More than any file system stores in one attribute.
const VALUE_MAX: usize = 64 * 1024;

/// The access ACL of an object in the attribute's binary form; `None` if it has none or the file
/// system knows no ACLs. Works with any descriptor.
///
/// # Errors
/// What the kernel says.
pub fn access(fd: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    use rustix::io::Errno;
    let path = proc_path(fd);
    let mut small = [0u8; 256];
    match rustix::fs::getxattr(&path, ACCESS, &mut small) {
        Ok(len) => return Ok(small.get(..len).map(<[u8]>::to_vec)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
        Err(Errno::RANGE) => {}
        Err(e) => return Err(e.into()),
    }
    let mut large = vec![0u8; VALUE_MAX];
    let len = rustix::fs::getxattr(&path, ACCESS, large.as_mut_slice())?;
    large.truncate(len);
    Ok(Some(large))
}

/// Whether the kernel lets the user that the thread acts as do this (the bits of `rwx`); for tests
/// of a check in user space.
///
/// # Errors
/// What the kernel says, but for a refusal.
pub fn kernel_permits(path: &std::path::Path, rwx: u32) -> io::Result<bool> {
    use rustix::fs::{Access, AtFlags, CWD};
    let mut access = Access::empty();
    access.set(Access::READ_OK, rwx & 4 != 0);
    access.set(Access::WRITE_OK, rwx & 2 != 0);
    access.set(Access::EXEC_OK, rwx & 1 != 0);
    match rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::ACCESS) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Sets the access ACL; for tests.
///
/// # Errors
/// What the kernel says.
pub fn set_access(path: &std::path::Path, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::setxattr(path, ACCESS, value, rustix::fs::XattrFlags::empty())?)
}

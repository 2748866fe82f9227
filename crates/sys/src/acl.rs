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

/// Sets the access ACL; for tests.
///
/// # Errors
/// What the kernel says.
pub fn set_access(path: &std::path::Path, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::setxattr(path, ACCESS, value, rustix::fs::XattrFlags::empty())?)
}

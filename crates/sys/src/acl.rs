//! The extended attributes that hold POSIX ACLs. All of this works with any descriptor of the object.

use crate::open::proc_path;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// Who may do what.
pub const ACCESS: &str = "system.posix_acl_access";
/// What objects that are made in a directory begin with.
pub const DEFAULT: &str = "system.posix_acl_default";

/// More than any file system stores in one attribute.
const VALUE_MAX: usize = 64 * 1024;

/// An ACL in the attribute's binary form; `None` if the object has none or the file system knows no ACLs.
///
/// # Errors
/// The kernel's error.
pub fn get(fd: BorrowedFd<'_>, attribute: &str) -> io::Result<Option<Vec<u8>>> {
    let path = proc_path(fd);
    let mut small = [0u8; 256];
    match rustix::fs::getxattr(&path, attribute, &mut small) {
        Ok(len) => return Ok(small.get(..len).map(<[u8]>::to_vec)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
        Err(Errno::RANGE) => {}
        Err(e) => return Err(e.into()),
    }
    let mut large = vec![0u8; VALUE_MAX];
    let len = rustix::fs::getxattr(&path, attribute, large.as_mut_slice())?;
    large.truncate(len);
    Ok(Some(large))
}

/// Sets an ACL, or takes it away.
///
/// # Errors
/// The kernel's error: `EPERM` for others than the owner, `EOPNOTSUPP` if the file system knows no ACLs.
pub fn set(fd: BorrowedFd<'_>, attribute: &str, value: Option<&[u8]>) -> io::Result<()> {
    let path = proc_path(fd);
    match value {
        Some(value) => {
            let any = rustix::fs::XattrFlags::empty();
            Ok(rustix::fs::setxattr(&path, attribute, value, any)?)
        }
        None => match rustix::fs::removexattr(&path, attribute) {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(e) => Err(e.into()),
        },
    }
}

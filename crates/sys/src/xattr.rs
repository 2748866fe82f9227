//! Extended attributes of an object by any descriptor of it.

use crate::open::proc_path;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

/// The most bytes of a value or of a list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 64 * 1024;

/// What must be true of an attribute that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing.
    Any,
    /// It is new.
    Create,
    /// It is there.
    Replace,
}

fn c_name(name: &[u8]) -> io::Result<CString> {
    CString::new(name).map_err(|_| Errno::INVAL.into())
}

/// Calls `fill` with a small buffer, and with the largest if that does not do.
fn read(fill: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Vec<u8>> {
    let mut small = [0; 256];
    match fill(&mut small) {
        Ok(len) => return Ok(small.get(..len).unwrap_or_default().to_vec()),
        Err(Errno::RANGE) => {}
        Err(e) => return Err(e.into()),
    }
    let mut large = vec![0; BYTES_MAX];
    let len = fill(&mut large)?;
    large.truncate(len);
    Ok(large)
}

/// The value of an attribute, by its whole name.
///
/// # Errors
/// As getxattr(2): `ENODATA` if there is none.
pub fn get(fd: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<u8>> {
    let (path, name) = (proc_path(fd), c_name(name)?);
    read(|buffer| rustix::fs::getxattr(&path, &name, buffer))
}

/// Sets an attribute.
///
/// # Errors
/// As setxattr(2): `EEXIST`, `ENODATA`; `E2BIG` or `ERANGE` for too large a value.
pub fn set(fd: BorrowedFd<'_>, name: &[u8], value: &[u8], how: How) -> io::Result<()> {
    let flags = match how {
        How::Any => XattrFlags::empty(),
        How::Create => XattrFlags::CREATE,
        How::Replace => XattrFlags::REPLACE,
    };
    Ok(rustix::fs::setxattr(proc_path(fd), c_name(name)?, value, flags)?)
}

/// The whole names of all attributes that this process may see, each with a zero behind it.
///
/// # Errors
/// As listxattr(2).
pub fn list(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let path = proc_path(fd);
    read(|buffer| rustix::fs::listxattr(&path, buffer))
}

/// Removes an attribute.
///
/// # Errors
/// As removexattr(2): `ENODATA` if there is none.
pub fn remove(fd: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::removexattr(proc_path(fd), c_name(name)?)?)
}

#[cfg(test)]
mod tests {
    use super::{How, get, list, remove, set};
    use std::io::ErrorKind;
    use std::os::fd::AsFd;

    #[test]
    fn attributes_of_a_file_are_set_and_read() {
        let path = std::env::temp_dir().join(format!("bowline-xattr-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let fd = file.as_fd();
        let large = vec![7; 1000];
        match set(fd, b"user.large", &large, How::Create) {
            Err(e) if e.kind() == ErrorKind::Unsupported => return,
            done => done.unwrap(),
        }
        assert_eq!(
            set(fd, b"user.large", b"", How::Create).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(get(fd, b"user.large").unwrap(), large);
        assert!(list(fd).unwrap().ends_with(b"user.large\0"));
        remove(fd, b"user.large").unwrap();
        assert!(get(fd, b"user.large").is_err());
        assert!(set(fd, b"user.\0", b"", How::Any).is_err());
    }
}

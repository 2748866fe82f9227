//! The kernel's own permission check, to hold one in user space against.

use std::io;
use std::path::Path;

/// Whether the kernel lets the user that the thread acts as do this (the bits of `rwx`).
///
/// # Errors
/// The kernel's error, but for a refusal.
pub fn kernel_permits(path: &Path, rwx: u32) -> io::Result<bool> {
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

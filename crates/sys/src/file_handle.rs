//! The kernel's own file handles: `name_to_handle_at` and `open_by_handle_at`.
//!
//! A handle names an object of a file system for its whole life, over renames and restarts, and
//! includes a generation, so that a new object with an old inode number has another handle.
//! Opening one needs `CAP_DAC_READ_SEARCH`.

use crate::open::How;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest handle of any file system (`MAX_HANDLE_SZ`).
const BYTES_MAX: usize = 128;

/// The kernel's `struct file_handle` with room.
#[repr(C)]
struct Raw {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; BYTES_MAX],
}

/// A handle: its type and its bytes.
#[derive(Clone, Copy)]
pub struct KernelHandle {
    /// The file system's own number for the layout.
    pub kind: u8,
    len: usize,
    bytes: [u8; BYTES_MAX],
}

impl KernelHandle {
    /// A handle made of parts that came from [`KernelHandle::kind`] and [`KernelHandle::bytes`].
    pub fn new(kind: u8, data: &[u8]) -> Option<Self> {
        let mut bytes = [0; BYTES_MAX];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(Self { kind, len: data.len(), bytes })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The handle of an open object.
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no handles, or the process may not ask for them; what the
/// kernel says else.
pub fn of_fd(fd: BorrowedFd<'_>) -> io::Result<KernelHandle> {
    name_to_handle(fd, c"", libc::AT_EMPTY_PATH)
}

/// The handle of an entry of a directory; a symbolic link's own.
///
/// # Errors
/// As [`of_fd`].
pub fn of_entry(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<KernelHandle> {
    name_to_handle(dir, name, 0)
}

fn name_to_handle(dir: BorrowedFd<'_>, name: &CStr, flags: i32) -> io::Result<KernelHandle> {
    let mut raw = Raw {
        handle_bytes: u32::try_from(BYTES_MAX).unwrap_or(0),
        handle_type: 0,
        f_handle: [0; BYTES_MAX],
    };
    let mut mount_id = 0i32;
    // SAFETY: `name` ends with NUL; `raw` has the room that it says and the layout of the kernel's
    // structure; both outlive the call.
    let status = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            dir.as_raw_fd(),
            name.as_ptr(),
            &raw mut raw,
            &raw mut mount_id,
            flags,
        )
    };
    if status != 0 {
        let error = io::Error::last_os_error();
        // the kernel asks for no right: it is a container's filter of system calls that refuses, as
        // Docker's and containerd's did until 2023
        let filtered = error.raw_os_error() == Some(libc::EPERM);
        return Err(if filtered { io::Error::from_raw_os_error(libc::EOPNOTSUPP) } else { error });
    }
    let odd = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    let kind = u8::try_from(raw.handle_type).map_err(|_| odd())?;
    let len = usize::try_from(raw.handle_bytes).map_err(|_| odd())?;
    Ok(KernelHandle { kind, len: len.min(BYTES_MAX), bytes: raw.f_handle })
}

/// Opens an object of the file system that `mount` is on; `mount` must be open for more than its
/// path (`EBADF` else).
///
/// # Errors
/// `ESTALE` if it is gone, `EPERM` without the capability, otherwise the kernel's error.
pub fn open(mount: BorrowedFd<'_>, handle: &KernelHandle, how: How) -> io::Result<OwnedFd> {
    let mut raw = Raw {
        handle_bytes: u32::try_from(handle.len).unwrap_or(0),
        handle_type: i32::from(handle.kind),
        f_handle: handle.bytes,
    };
    // SAFETY: `raw` has the layout of the kernel's structure and outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut raw, how.raw_flags())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

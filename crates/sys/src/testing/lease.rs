//! A lease on a file, as Samba and other programs of this machine take them (fcntl(2) with `F_SETLEASE`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `F_SETSIG` (linux/fcntl.h): which signal says that somebody wants the lease back.
const F_SETSIG: i32 = 10;

/// A lease that is held until this is dropped, and not given back before whoever asks for that.
#[derive(Debug)]
pub struct WriteLease(OwnedFd);

impl WriteLease {
    /// Takes a lease for writing: nobody else has the file open, and whoever opens it waits for the lease to
    /// be given back, 45 s at most.
    ///
    /// # Errors
    /// `EAGAIN` if it is open; otherwise the kernel's error.
    pub fn take(file: OwnedFd) -> io::Result<Self> {
        // a signal that does nothing, instead of SIGIO, which ends the process
        set(&file, F_SETSIG, libc::SIGURG)?;
        set(&file, libc::F_SETLEASE, libc::F_WRLCK)?;
        Ok(Self(file))
    }
}

impl Drop for WriteLease {
    fn drop(&mut self) {
        // closing it would do the same
        let _ = set(&self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn set(file: &OwnedFd, command: i32, value: i32) -> io::Result<()> {
    // SAFETY: both commands take a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

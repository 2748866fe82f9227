//! Converts the kernel's error numbers to the backend trait's statuses; the only place that does.

use std::io;
use sys::errno::Errno;
use vfs::Status;

/// The status for an error of a system call. A number that no file operation should return is an
/// I/O error, as in the kernel's own server.
pub fn status(error: &io::Error) -> Status {
    let Some(errno) = sys::errno::of(error) else {
        return match error.kind() {
            io::ErrorKind::WouldBlock => Status::Jukebox,
            io::ErrorKind::Unsupported => Status::NotSupp,
            io::ErrorKind::StorageFull => Status::NoSpc,
            _ => Status::Io,
        };
    };
    match errno {
        Errno::PERM => Status::Perm,
        Errno::NOENT => Status::NoEnt,
        Errno::NXIO => Status::NxIo,
        // a running program and a busy mount point may not be changed; waiting does not help
        Errno::ACCESS | Errno::TXTBSY | Errno::BUSY => Status::Acces,
        Errno::EXIST => Status::Exist,
        Errno::XDEV => Status::XDev,
        Errno::NODEV => Status::NoDev,
        Errno::NOTDIR => Status::NotDir,
        Errno::ISDIR => Status::IsDir,
        Errno::INVAL => Status::Inval,
        Errno::FBIG | Errno::OVERFLOW => Status::FBig,
        Errno::NOSPC => Status::NoSpc,
        Errno::ROFS => Status::RoFs,
        Errno::MLINK => Status::MLink,
        Errno::NAMETOOLONG => Status::NameTooLong,
        Errno::NOTEMPTY => Status::NotEmpty,
        Errno::DQUOT => Status::DQuot,
        Errno::STALE => Status::Stale,
        // O_NOFOLLOW met a link
        Errno::LOOP => Status::Symlink,
        Errno::NODATA => Status::NoXattr,
        // the second for a buffer that is too small, which an attribute of the largest size never is
        Errno::TOOBIG | Errno::RANGE => Status::XattrTooBig,
        Errno::OPNOTSUPP | Errno::NOSYS => Status::NotSupp,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::TIMEDOUT => {
            Status::Jukebox
        }
        Errno::BADF | Errno::FAULT => Status::ServerFault,
        _ => Status::Io,
    }
}

/// Whether the process or the machine is out of descriptors.
pub fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(sys::errno::of(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether the file system or a quota is full.
pub fn out_of_space(error: &io::Error) -> bool {
    matches!(sys::errno::of(error), Some(Errno::NOSPC | Errno::DQUOT))
}

/// For `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "the form that map_err calls")]
pub fn from(error: io::Error) -> Status {
    status(&error)
}

#[cfg(test)]
mod tests {
    use super::status;
    use std::io::Error;
    use vfs::Status;

    #[test]
    fn disk_errors_map_to_their_nfs_status() {
        for (errno, want) in [
            (5, Status::Io),
            (28, Status::NoSpc),
            (122, Status::DQuot),
            (30, Status::RoFs),
            (24, Status::Jukebox),
            (16, Status::Acces),
            (19, Status::NoDev),
            (116, Status::Stale),
            (9999, Status::Io),
        ] {
            assert_eq!(status(&Error::from_raw_os_error(errno)), want);
        }
    }
}

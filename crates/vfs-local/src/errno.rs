//! What the kernel says, in the backend trait's words: the only place where one becomes the other.

use std::io;
use vfs::Status;

/// The status for an error of a system call.
pub fn status(error: &io::Error) -> Status {
    // the numbers of asm-generic/errno, the same on x86-64, aarch64 and riscv64
    match error.raw_os_error() {
        Some(1) => Status::Perm,
        Some(2) => Status::NoEnt,
        Some(6 | 19) => Status::NxIo,
        Some(11 | 12 | 23 | 24 | 16) => Status::Jukebox, // EAGAIN ENOMEM ENFILE EMFILE EBUSY
        Some(13) => Status::Acces,
        Some(17) => Status::Exist,
        Some(18) => Status::XDev,
        Some(20) => Status::NotDir,
        Some(21) => Status::IsDir,
        Some(22) => Status::Inval,
        Some(26) => Status::Acces, // ETXTBSY
        Some(27) => Status::FBig,
        Some(28) => Status::NoSpc,
        Some(30) => Status::RoFs,
        Some(31) => Status::MLink,
        Some(36) => Status::NameTooLong,
        Some(39) => Status::NotEmpty,
        Some(40) => Status::Symlink, // ELOOP: O_NOFOLLOW met a link
        Some(75) => Status::FBig,    // EOVERFLOW
        Some(95) => Status::NotSupp,
        Some(116) => Status::Stale,
        Some(122) => Status::DQuot,
        _ => match error.kind() {
            io::ErrorKind::WouldBlock => Status::Jukebox,
            io::ErrorKind::Unsupported => Status::NotSupp,
            _ => Status::Io,
        },
    }
}

/// Whether the process or the machine is out of descriptors (EMFILE, ENFILE).
pub fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// For `map_err`.
pub fn from(error: io::Error) -> Status {
    status(&error)
}

#[cfg(test)]
mod tests {
    use super::status;
    use std::io::Error;
    use vfs::Status;

    #[test]
    fn what_a_disk_may_say_reaches_the_client_as_it_is() {
        for (errno, want) in [
            (5, Status::Io),
            (28, Status::NoSpc),
            (122, Status::DQuot),
            (30, Status::RoFs),
            (24, Status::Jukebox),
            (116, Status::Stale),
            (9999, Status::Io),
        ] {
            assert_eq!(status(&Error::from_raw_os_error(errno)), want);
        }
    }
}

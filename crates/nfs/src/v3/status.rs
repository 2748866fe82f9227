//! The status of version 3 (RFC 1813 §2.6) for each failure.

use proto::nfs3::Nfsstat3;
use vfs::Status;

/// The code of a failure. Version 3 has no codes for a wrong type of file: INVAL is what
/// RFC 1813 names for READ, WRITE, READLINK and COMMIT on the wrong type.
pub const fn nfsstat3(status: Status) -> Nfsstat3 {
    match status {
        Status::Perm => Nfsstat3::Perm,
        Status::NoEnt => Nfsstat3::NoEnt,
        // of no operation that version 3 has
        Status::Io | Status::NoXattr | Status::XattrTooBig => Nfsstat3::Io,
        Status::NxIo => Nfsstat3::NxIo,
        Status::Acces => Nfsstat3::Acces,
        Status::Exist => Nfsstat3::Exist,
        Status::XDev => Nfsstat3::XDev,
        Status::NoDev => Nfsstat3::NoDev,
        Status::NotDir => Nfsstat3::NotDir,
        Status::IsDir => Nfsstat3::IsDir,
        Status::Inval | Status::WrongType | Status::Symlink => Nfsstat3::Inval,
        Status::FBig => Nfsstat3::FBig,
        Status::NoSpc => Nfsstat3::NoSpc,
        Status::RoFs => Nfsstat3::RoFs,
        Status::MLink => Nfsstat3::MLink,
        Status::NameTooLong => Nfsstat3::NameTooLong,
        Status::NotEmpty => Nfsstat3::NotEmpty,
        Status::DQuot => Nfsstat3::DQuot,
        Status::Stale => Nfsstat3::Stale,
        Status::BadHandle => Nfsstat3::BadHandle,
        Status::NotSync => Nfsstat3::NotSync,
        Status::BadCookie => Nfsstat3::BadCookie,
        Status::NotSupp => Nfsstat3::NotSupp,
        Status::TooSmall => Nfsstat3::TooSmall,
        Status::ServerFault => Nfsstat3::ServerFault,
        Status::BadType => Nfsstat3::BadType,
        Status::Jukebox => Nfsstat3::Jukebox,
    }
}

/// The code of a failed READ, WRITE or COMMIT: these know no ISDIR, a directory is one of the
/// objects that are "not a regular file" and get INVAL (RFC 1813 §3.3.6, §3.3.7).
pub(super) const fn of_data(status: Status) -> Nfsstat3 {
    match nfsstat3(status) {
        Nfsstat3::IsDir => Nfsstat3::Inval,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Nfsstat3, Status, nfsstat3, of_data};

    #[test]
    fn wrong_types_are_invalid_arguments() {
        assert_eq!(nfsstat3(Status::WrongType), Nfsstat3::Inval);
        assert_eq!(nfsstat3(Status::Symlink), Nfsstat3::Inval);
        assert_eq!(nfsstat3(Status::IsDir), Nfsstat3::IsDir);
        assert_eq!(of_data(Status::IsDir), Nfsstat3::Inval);
        assert_eq!(of_data(Status::NoSpc), Nfsstat3::NoSpc);
    }
}

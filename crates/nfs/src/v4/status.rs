//! The status of version 4 for each failure. An operation fails only with what RFC 8881 §15.2 allows it.

use super::minor0;
use super::op_errors::errors_of;
use crate::object::Refused;
use proto::nfs4::{Nfsstat4, op};
use state::v4::StateidError;
use vfs::Status;

/// Why an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// With this.
    As(Nfsstat4),
    /// With what the file system says.
    File(Status),
    /// With this, and with results, which were appended.
    WithResult(Nfsstat4),
}

impl From<Nfsstat4> for Failed {
    fn from(status: Nfsstat4) -> Self {
        Self::As(status)
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::File(status)
    }
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Flavor => Self::As(Nfsstat4::WrongSec),
            Refused::Status(status) => Self::File(status),
        }
    }
}

impl From<xdr::Error> for Failed {
    fn from(_: xdr::Error) -> Self {
        Self::As(Nfsstat4::BadXdr)
    }
}

impl From<StateidError> for Failed {
    fn from(error: StateidError) -> Self {
        Self::As(match error {
            StateidError::Bad => Nfsstat4::BadStateid,
            StateidError::Revoked => Nfsstat4::AdminRevoked,
            StateidError::DelegationRevoked => Nfsstat4::DelegRevoked,
            StateidError::Old => Nfsstat4::OldStateid,
            StateidError::OpenMode => Nfsstat4::OpenMode,
            StateidError::Stale => Nfsstat4::StaleStateid,
            StateidError::Expired => Nfsstat4::Expired,
        })
    }
}

impl Failed {
    /// The status of an operation that fails so.
    pub fn status(self, op: u32, minor: u32) -> Nfsstat4 {
        match self {
            Self::As(Nfsstat4::WrongType) if minor == 0 => nfsstat4(Status::WrongType, op, minor),
            Self::As(status) => allowed(status, op, minor).unwrap_or(status),
            Self::WithResult(status) => status,
            Self::File(status) => nfsstat4(status, op, minor),
        }
    }
}

/// The plain code of a failure.
const fn code(status: Status) -> Nfsstat4 {
    match status {
        Status::Perm => Nfsstat4::Perm,
        Status::NoEnt => Nfsstat4::NoEnt,
        Status::Io => Nfsstat4::Io,
        Status::NxIo => Nfsstat4::NxIo,
        Status::Acces => Nfsstat4::Access,
        Status::Exist => Nfsstat4::Exist,
        Status::XDev => Nfsstat4::XDev,
        Status::NoDev => Nfsstat4::NxIo,
        Status::NotDir => Nfsstat4::NotDir,
        Status::IsDir => Nfsstat4::IsDir,
        Status::Inval => Nfsstat4::Inval,
        Status::WrongType => Nfsstat4::WrongType,
        Status::Symlink => Nfsstat4::Symlink,
        Status::FBig => Nfsstat4::FBig,
        Status::NoSpc => Nfsstat4::NoSpc,
        Status::RoFs => Nfsstat4::RoFs,
        Status::MLink => Nfsstat4::MLink,
        Status::NameTooLong => Nfsstat4::NameTooLong,
        Status::NotEmpty => Nfsstat4::NotEmpty,
        Status::DQuot => Nfsstat4::DQuot,
        Status::Stale => Nfsstat4::Stale,
        Status::BadHandle => Nfsstat4::BadHandle,
        Status::NotSync => Nfsstat4::Delay,
        Status::BadCookie => Nfsstat4::BadCookie,
        Status::NotSupp => Nfsstat4::NotSupp,
        Status::TooSmall => Nfsstat4::TooSmall,
        Status::ServerFault => Nfsstat4::ServerFault,
        Status::BadType => Nfsstat4::BadType,
        Status::NoXattr => Nfsstat4::NoXattr,
        Status::XattrTooBig => Nfsstat4::Xattr2Big,
        Status::Jukebox => Nfsstat4::Delay,
    }
}

/// What says nearly the same as a code that an operation may not fail with, until the most general one.
const fn next(status: Nfsstat4) -> Nfsstat4 {
    match status {
        Nfsstat4::Perm | Nfsstat4::RoFs => Nfsstat4::Access,
        Nfsstat4::BadHandle => Nfsstat4::Stale,
        Nfsstat4::Symlink => Nfsstat4::NotDir,
        Nfsstat4::WrongType
        | Nfsstat4::NotDir
        | Nfsstat4::IsDir
        | Nfsstat4::XDev
        | Nfsstat4::FBig
        | Nfsstat4::NotSupp
        | Nfsstat4::BadType
        | Nfsstat4::BadCookie
        | Nfsstat4::NameTooLong
        | Nfsstat4::TooSmall => Nfsstat4::Inval,
        Nfsstat4::DQuot | Nfsstat4::MLink | Nfsstat4::Xattr2Big => Nfsstat4::NoSpc,
        Nfsstat4::NotEmpty => Nfsstat4::Exist,
        Nfsstat4::NoEnt => Nfsstat4::Stale,
        Nfsstat4::NxIo
        | Nfsstat4::NoXattr
        | Nfsstat4::NoSpc
        | Nfsstat4::Exist
        | Nfsstat4::Stale
        | Nfsstat4::Access
        | Nfsstat4::Inval => Nfsstat4::Io,
        _ => Nfsstat4::ServerFault,
    }
}

/// The code of a failure in an operation of a minor version, which may fail with it.
pub fn nfsstat4(status: Status, op: u32, minor: u32) -> Nfsstat4 {
    let code = match (status, op) {
        // what is neither a file nor a directory (RFC 7530 §16.16.6)
        (Status::WrongType, op::OPEN) if minor == 0 => Nfsstat4::Symlink,
        // a directory is in the way of what is not one (RFC 8881 §18.26.3)
        (Status::IsDir, op::RENAME) => Nfsstat4::Exist,
        // PUTFH has no code for a client that the export is not for
        (Status::Acces, op::PUTFH) => Nfsstat4::Stale,
        _ => code(status),
    };
    allowed(code, op, minor).unwrap_or(Nfsstat4::ServerFault)
}

/// The code, or the one that says nearly the same with which the operation may fail; `None` if there is only the general one.
fn allowed(mut code: Nfsstat4, op: u32, minor: u32) -> Option<Nfsstat4> {
    let errors = if minor == 0 { minor0::errors_of(op) } else { errors_of(op) };
    while !errors.contains(&code) {
        code = next(code);
        if code == Nfsstat4::ServerFault {
            return None;
        }
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::super::{minor0, op_errors::errors_of};
    use super::{Nfsstat4, Status, nfsstat4};
    use proto::nfs4::{OPS, OpInfo, op};

    const ALL: [Status; 29] = [
        Status::Perm,
        Status::NoEnt,
        Status::Io,
        Status::NxIo,
        Status::Acces,
        Status::Exist,
        Status::XDev,
        Status::NoDev,
        Status::NotDir,
        Status::IsDir,
        Status::Inval,
        Status::WrongType,
        Status::Symlink,
        Status::FBig,
        Status::NoSpc,
        Status::RoFs,
        Status::MLink,
        Status::NameTooLong,
        Status::NotEmpty,
        Status::DQuot,
        Status::Stale,
        Status::BadHandle,
        Status::NotSync,
        Status::BadCookie,
        Status::NotSupp,
        Status::TooSmall,
        Status::NoXattr,
        Status::XattrTooBig,
        Status::Jukebox,
    ];

    #[test]
    fn operations_fail_with_what_the_rfc_allows() {
        for minor in 0..3 {
            let in_version = |row: &&OpInfo| (row.since..=row.until).contains(&minor);
            for row in OPS.iter().filter(in_version) {
                let errors =
                    if minor == 0 { minor0::errors_of(row.number) } else { errors_of(row.number) };
                assert!(!errors.is_empty(), "{}", row.name);
                assert!(minor == 0 || !errors.contains(&Nfsstat4::Resource), "{}", row.name);
                for status in ALL {
                    let code = nfsstat4(status, row.number, minor);
                    let general = code == Nfsstat4::ServerFault;
                    assert!(
                        general || errors.contains(&code),
                        "{} of 4.{minor}: {status:?} is {code:?}",
                        row.name
                    );
                }
            }
        }
    }

    #[test]
    fn statuses_allowed_for_an_operation_are_kept() {
        assert_eq!(nfsstat4(Status::Perm, op::SETATTR, 1), Nfsstat4::Perm);
        assert_eq!(nfsstat4(Status::Perm, op::LINK, 1), Nfsstat4::Access);
        assert_eq!(nfsstat4(Status::IsDir, op::RENAME, 1), Nfsstat4::Exist);
        assert_eq!(nfsstat4(Status::Symlink, op::READ, 1), Nfsstat4::Symlink);
        assert_eq!(nfsstat4(Status::Symlink, op::READDIR, 1), Nfsstat4::NotDir);
        assert_eq!(nfsstat4(Status::BadHandle, op::PUTFH, 1), Nfsstat4::BadHandle);
        assert_eq!(nfsstat4(Status::Acces, op::PUTFH, 1), Nfsstat4::Stale);
        assert_eq!(nfsstat4(Status::BadHandle, op::GETATTR, 1), Nfsstat4::Stale);
        assert_eq!(nfsstat4(Status::Jukebox, op::READ, 1), Nfsstat4::Delay);
        assert_eq!(nfsstat4(Status::BadHandle, op::GETATTR, 0), Nfsstat4::BadHandle);
        assert_eq!(nfsstat4(Status::WrongType, op::OPEN, 0), Nfsstat4::Symlink);
        assert_eq!(nfsstat4(Status::WrongType, op::READ, 0), Nfsstat4::Inval);
    }
}

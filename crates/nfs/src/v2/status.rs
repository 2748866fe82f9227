//! The status of version 2 (RFC 1094 §2.3.1) for each failure.

use proto::nfs2::Nfsstat2;
use vfs::Status;

/// The code of a failure; `None` for a temporary one, for which version 2 has no code: the call gets no
/// reply ([`rpc::Fault::NotNow`]). Others without a code are NFSERR_IO.
pub const fn nfsstat2(status: Status) -> Option<Nfsstat2> {
    Some(match status {
        Status::Perm => Nfsstat2::Perm,
        Status::NoEnt => Nfsstat2::NoEnt,
        Status::NxIo => Nfsstat2::NxIo,
        Status::Acces => Nfsstat2::Acces,
        Status::Exist => Nfsstat2::Exist,
        Status::NoDev => Nfsstat2::NoDev,
        Status::NotDir => Nfsstat2::NotDir,
        Status::IsDir => Nfsstat2::IsDir,
        Status::FBig => Nfsstat2::FBig,
        Status::NoSpc => Nfsstat2::NoSpc,
        Status::RoFs => Nfsstat2::RoFs,
        Status::NameTooLong => Nfsstat2::NameTooLong,
        Status::NotEmpty => Nfsstat2::NotEmpty,
        Status::DQuot => Nfsstat2::DQuot,
        Status::Stale | Status::BadHandle => Nfsstat2::Stale,
        Status::Io
        | Status::XDev
        | Status::Inval
        | Status::WrongType
        | Status::Symlink
        | Status::MLink
        | Status::NotSync
        | Status::BadCookie
        | Status::NotSupp
        | Status::TooSmall
        | Status::ServerFault
        | Status::NoXattr
        | Status::XattrTooBig
        | Status::BadType => Nfsstat2::Io,
        Status::Jukebox => return None,
    })
}

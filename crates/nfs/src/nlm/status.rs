//! Maps the error of a file operation to the status of NLM; the only place that does.
//!
//! NLM has no status for "try again later" except DENIED_GRACE_PERIOD: clients retry after a few seconds, whether or not
//! there is a grace period. It is the answer wherever waiting helps.

use proto::nlm::Status;

/// The answer to ask again later with.
pub(super) const LATER: Status = Status::DeniedGracePeriod;

/// The answer for a file operation that failed.
pub(super) const fn of(failed: vfs::Status) -> Status {
    use vfs::Status as F;
    match failed {
        F::Stale | F::BadHandle | F::NoEnt => Status::StaleHandle,
        F::RoFs => Status::ReadOnly,
        F::FBig => Status::TooBig,
        F::Jukebox => LATER,
        // the file system has no locks, or there is no room for what is to be noted
        F::NotSupp | F::NoSpc | F::DQuot => Status::DeniedNoLocks,
        F::Perm
        | F::Io
        | F::NxIo
        | F::Acces
        | F::Exist
        | F::XDev
        | F::NoDev
        | F::NotDir
        | F::IsDir
        | F::Inval
        | F::WrongType
        | F::Symlink
        | F::MLink
        | F::NameTooLong
        | F::NotEmpty
        | F::NotSync
        | F::BadCookie
        | F::TooSmall
        | F::ServerFault
        | F::NoXattr
        | F::XattrTooBig
        | F::BadType => Status::Failed,
    }
}

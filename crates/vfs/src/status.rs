//! The one list of ways in which a file operation can fail, in no protocol's words.
//!
//! Each protocol version maps it to its own status in exactly one exhaustive function.

/// What a backend operation gives.
pub type Result<T> = std::result::Result<T, Status>;

/// Why a file operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Status {
    /// The caller is not the owner (EPERM).
    #[error("not owner")]
    Perm,
    /// No such name (ENOENT).
    #[error("no such file or directory")]
    NoEnt,
    /// A hard I/O error of the store (EIO).
    #[error("I/O error")]
    Io,
    /// No such device (ENXIO).
    #[error("no such device or address")]
    NxIo,
    /// Permission denied (EACCES).
    #[error("permission denied")]
    Acces,
    /// The name exists (EEXIST).
    #[error("file exists")]
    Exist,
    /// Across file systems (EXDEV).
    #[error("cross-device link")]
    XDev,
    /// No such device type (ENODEV).
    #[error("no such device")]
    NoDev,
    /// Not a directory (ENOTDIR).
    #[error("not a directory")]
    NotDir,
    /// Is a directory (EISDIR).
    #[error("is a directory")]
    IsDir,
    /// An argument that makes no sense for this object (EINVAL).
    #[error("invalid argument")]
    Inval,
    /// The operation is not for this type of file: READ of a device (v4 `WRONG_TYPE`).
    #[error("wrong type of file")]
    WrongType,
    /// A symbolic link where another type was needed (v4 `SYMLINK`).
    #[error("is a symbolic link")]
    Symlink,
    /// File too large (EFBIG).
    #[error("file too large")]
    FBig,
    /// No space left (ENOSPC).
    #[error("no space left on device")]
    NoSpc,
    /// Read-only file system or export (EROFS).
    #[error("read-only file system")]
    RoFs,
    /// Too many hard links (EMLINK).
    #[error("too many links")]
    MLink,
    /// A name is too long (ENAMETOOLONG).
    #[error("name too long")]
    NameTooLong,
    /// The directory is not empty (ENOTEMPTY).
    #[error("directory not empty")]
    NotEmpty,
    /// Over quota (EDQUOT).
    #[error("quota exceeded")]
    DQuot,
    /// The object is gone (ESTALE).
    #[error("stale file handle")]
    Stale,
    /// The handle was never one of ours.
    #[error("bad file handle")]
    BadHandle,
    /// The guard of a SETATTR did not match (RFC 1813 §3.3.2).
    #[error("guard does not match")]
    NotSync,
    /// A directory cookie that was never given out.
    #[error("bad directory cookie")]
    BadCookie,
    /// The store cannot do this at all (EOPNOTSUPP).
    #[error("operation not supported")]
    NotSupp,
    /// The reply would not fit what the client allows.
    #[error("buffer too small")]
    TooSmall,
    /// A fault that is none of the above.
    #[error("server fault")]
    ServerFault,
    /// A type of object that the store cannot make.
    #[error("type not supported")]
    BadType,
    /// Try again later: descriptors or memory are short just now.
    #[error("resource busy, try again")]
    Jukebox,
}

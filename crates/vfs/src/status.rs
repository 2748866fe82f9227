//! The list of errors of file operations, independent of the protocol.
//!
//! Each protocol version maps it to its own status in exactly one exhaustive function.

/// The result of a backend operation.
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
    /// An argument that is invalid for this object (EINVAL).
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
    /// The object no longer exists (ESTALE).
    #[error("stale file handle")]
    Stale,
    /// The handle was not made by this server.
    #[error("bad file handle")]
    BadHandle,
    /// The guard of a SETATTR did not match (RFC 1813 §3.3.2).
    #[error("guard does not match")]
    NotSync,
    /// An invalid directory cookie.
    #[error("bad directory cookie")]
    BadCookie,
    /// The store does not support this (EOPNOTSUPP).
    #[error("operation not supported")]
    NotSupp,
    /// The reply would exceed the client's limit.
    #[error("buffer too small")]
    TooSmall,
    /// Any other error.
    #[error("server fault")]
    ServerFault,
    /// No such extended attribute (ENODATA).
    #[error("no such extended attribute")]
    NoXattr,
    /// An extended attribute's value is larger than the store can hold (E2BIG).
    #[error("extended attribute too large")]
    XattrTooBig,
    /// A type of object that the store cannot create.
    #[error("type not supported")]
    BadType,
    /// Try again later: descriptors or memory are temporarily short.
    #[error("resource busy, try again")]
    Jukebox,
}

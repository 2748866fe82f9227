//! `nfsstat3` (RFC 1813 §2.6).

crate::layout::numbers! {
    /// How a procedure ended.
    Nfsstat3 as "nfsstat3" {
        /// Success.
        Ok = 0,
        /// Not owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard I/O error.
        Io = 5,
        /// No such device or address.
        NxIo = 6,
        /// Permission denied.
        Acces = 13,
        /// The name exists.
        Exist = 17,
        /// A hard link across devices.
        XDev = 18,
        /// No such device.
        NoDev = 19,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// An argument that is not valid for the operation.
        Inval = 22,
        /// The file would grow beyond the limit.
        FBig = 27,
        /// No space left.
        NoSpc = 28,
        /// A read-only file system.
        RoFs = 30,
        /// Too many hard links.
        MLink = 31,
        /// A name is too long.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is used up.
        DQuot = 69,
        /// The object of the handle no longer exists.
        Stale = 70,
        /// Too many levels of remote in path.
        Remote = 71,
        /// The handle is not one of this server's.
        BadHandle = 10001,
        /// The guard of SETATTR did not match.
        NotSync = 10002,
        /// A cookie of READDIR or READDIRPLUS is stale.
        BadCookie = 10003,
        /// Not supported.
        NotSupp = 10004,
        /// The buffer or the request is too small.
        TooSmall = 10005,
        /// A fault of the server that no other code describes.
        ServerFault = 10006,
        /// An object of this type cannot be created.
        BadType = 10007,
        /// Temporarily unavailable: the client must retry.
        Jukebox = 10008,
    }
}

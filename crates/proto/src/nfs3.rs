//! NFS version 3 (RFC 1813): arguments and results of all procedures, in both directions.
//!
//! Owns: the layouts and their limits. Everything of variable length is borrowed from the record.
//! A server encodes the results of READ, READDIR and READDIRPLUS in place, without the types here;
//! the types are for decoding.

mod args;
mod attr;
mod entries;
mod results;
mod status;

pub use args::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow3, DirOpArgs3, LinkArgs, MkdirArgs, MknodArgs,
    MknodData3, ReadArgs, ReaddirArgs, ReaddirplusArgs, RenameArgs, SetattrArgs, StableHow,
    SymlinkArgs, WriteArgs, WriteHead, decode_args,
};
pub use attr::{
    FATTR3_LEN, Fattr3, FileType3, Nfstime3, Sattr3, SetTime3, Specdata3, WccAttr, WccData,
};
pub use entries::{Entry3, EntryPlus3, ReaddirOk, ReaddirplusOk, WholeEntryPlus3, decode_entries};
pub use results::{
    AccessOk, CommitOk, FsinfoOk, FsstatOk, LinkRes, LookupOk, MadeOk, NoBody, PathconfOk,
    PostOpAttr, ReadOk, ReadlinkOk, RenameRes, Res, WriteOk, fsf,
};
pub use status::Nfsstat3;

pub use crate::layout::Bytes;

/// The program's number, for all versions.
pub const PROGRAM: u32 = 100_003;
/// This version.
pub const VERSION: u32 = 3;
/// The longest file handle in bytes (`NFS3_FHSIZE`).
pub const FHSIZE: usize = 64;
/// The size of a cookie verifier (`NFS3_COOKIEVERFSIZE`).
pub const COOKIEVERFSIZE: usize = 8;
/// The size of the verifier of an exclusive CREATE (`NFS3_CREATEVERFSIZE`).
pub const CREATEVERFSIZE: usize = 8;
/// The size of a write verifier (`NFS3_WRITEVERFSIZE`).
pub const WRITEVERFSIZE: usize = 8;
/// The longest name or link target that is decoded. The protocol has no limit; names beyond the
/// file system's limit get NFS3ERR_NAMETOOLONG, and only those beyond any file system's limit are
/// GARBAGE_ARGS.
pub const STRING_MAX: usize = 64 * 1024;
/// The most data in one READ or WRITE, whatever a server's settings are.
pub const DATA_MAX: usize = 16 * 1024 * 1024;
/// The most entries of a directory reply that are decoded: as many as fit in the largest reply.
pub const ENTRIES_MAX: usize = DATA_MAX / 24;

/// Procedure numbers (RFC 1813 §3).
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Gets attributes.
    pub const GETATTR: u32 = 1;
    /// Sets attributes.
    pub const SETATTR: u32 = 2;
    /// Looks a name up.
    pub const LOOKUP: u32 = 3;
    /// Checks permissions.
    pub const ACCESS: u32 = 4;
    /// Reads a symbolic link.
    pub const READLINK: u32 = 5;
    /// Reads a file.
    pub const READ: u32 = 6;
    /// Writes to a file.
    pub const WRITE: u32 = 7;
    /// Creates a file.
    pub const CREATE: u32 = 8;
    /// Creates a directory.
    pub const MKDIR: u32 = 9;
    /// Creates a symbolic link.
    pub const SYMLINK: u32 = 10;
    /// Creates a special file.
    pub const MKNOD: u32 = 11;
    /// Removes a file.
    pub const REMOVE: u32 = 12;
    /// Removes a directory.
    pub const RMDIR: u32 = 13;
    /// Renames.
    pub const RENAME: u32 = 14;
    /// Creates a hard link.
    pub const LINK: u32 = 15;
    /// Lists a directory.
    pub const READDIR: u32 = 16;
    /// Lists a directory with handles and attributes.
    pub const READDIRPLUS: u32 = 17;
    /// Space and inodes.
    pub const FSSTAT: u32 = 18;
    /// The limits and capabilities of the server.
    pub const FSINFO: u32 = 19;
    /// The limits and capabilities of the file system.
    pub const PATHCONF: u32 = 20;
    /// Writes unstable data to disk.
    pub const COMMIT: u32 = 21;
}

/// `nfs_fh3`: a handle, which only the server understands.
pub type Fh<'a> = Bytes<'a, FHSIZE>;
/// `filename3`, unchecked.
pub type Filename3<'a> = Bytes<'a, STRING_MAX>;
/// `nfspath3`: a symbolic link's target.
pub type Path3<'a> = Bytes<'a, STRING_MAX>;
/// The data of READ and WRITE.
pub type Data<'a> = Bytes<'a, DATA_MAX>;
/// A verifier: of a cookie, an exclusive CREATE or unstable data.
pub type Verf = [u8; 8];

#[cfg(test)]
mod tests;

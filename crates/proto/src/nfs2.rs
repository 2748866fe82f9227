//! NFS version 2 (RFC 1094): arguments and results of all procedures, in both directions.
//!
//! Everything of variable length is borrowed from the record. All sizes have 32 bits. The program
//! number is that of version 3.

use crate::layout::{Bytes, fields, numbers};
use xdr::{Decode, Encode, Error, Reader, Writer};

pub use crate::nfs3::PROGRAM;

/// This version.
pub const VERSION: u32 = 2;
/// The length of every file handle (`FHSIZE`).
pub const FHSIZE: usize = 32;
/// The most data in one READ or WRITE (`MAXDATA`).
pub const MAXDATA: usize = 8192;
/// The longest target of a link (`MAXPATHLEN`).
pub const MAXPATHLEN: usize = 1024;
/// The longest name or link target that is decoded. RFC 1094 has the limits 255 and 1024; longer
/// ones get NFSERR_NAMETOOLONG, and only those beyond any file system's limit are GARBAGE_ARGS.
pub const STRING_MAX: usize = 64 * 1024;
/// The most entries of a directory reply that are decoded: more than fit in 64 KiB.
pub const ENTRIES_MAX: usize = 4096;
/// In a field of [`Sattr2`]: leave it unchanged.
pub const KEEP: u32 = u32::MAX;
/// In `useconds` of a time to be set: the server's clock. Not in any RFC; a convention of clients
/// and servers since SunOS.
pub const SERVER_TIME: u32 = 1_000_000;

/// Procedure numbers (RFC 1094 §2.2).
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Gets attributes.
    pub const GETATTR: u32 = 1;
    /// Sets attributes.
    pub const SETATTR: u32 = 2;
    /// Obsolete.
    pub const ROOT: u32 = 3;
    /// Looks a name up.
    pub const LOOKUP: u32 = 4;
    /// Reads a symbolic link.
    pub const READLINK: u32 = 5;
    /// Reads a file.
    pub const READ: u32 = 6;
    /// Never used.
    pub const WRITECACHE: u32 = 7;
    /// Writes to a file.
    pub const WRITE: u32 = 8;
    /// Creates a file.
    pub const CREATE: u32 = 9;
    /// Removes a file.
    pub const REMOVE: u32 = 10;
    /// Renames.
    pub const RENAME: u32 = 11;
    /// Creates a hard link.
    pub const LINK: u32 = 12;
    /// Creates a symbolic link.
    pub const SYMLINK: u32 = 13;
    /// Creates a directory.
    pub const MKDIR: u32 = 14;
    /// Removes a directory.
    pub const RMDIR: u32 = 15;
    /// Lists a directory.
    pub const READDIR: u32 = 16;
    /// Space of the file system.
    pub const STATFS: u32 = 17;
}

numbers! {
    /// `stat` (RFC 1094 §2.3.1).
    Nfsstat2 as "stat" {
        /// Success.
        Ok = 0,
        /// Not owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard error.
        Io = 5,
        /// No such device or address.
        NxIo = 6,
        /// Permission denied.
        Acces = 13,
        /// The file exists.
        Exist = 17,
        /// No such device.
        NoDev = 19,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// The file is too large.
        FBig = 27,
        /// No space left.
        NoSpc = 28,
        /// A read-only file system.
        RoFs = 30,
        /// A name is too long.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is used up.
        DQuot = 69,
        /// The handle is not valid any more.
        Stale = 70,
        /// The write cache was flushed (never sent).
        WFlush = 99,
    }
}

numbers! {
    /// `ftype` (RFC 1094 §2.3.2).
    FileType2 as "ftype" {
        /// None of the others: a socket.
        Non = 0,
        /// An ordinary file.
        Reg = 1,
        /// A directory.
        Dir = 2,
        /// A block device.
        Blk = 3,
        /// A character device; also a named pipe, which the mode distinguishes.
        Chr = 4,
        /// A symbolic link.
        Lnk = 5,
    }
}

/// `fhandle`.
pub type Fh2 = [u8; FHSIZE];
/// `filename`, unchecked.
pub type Filename2<'a> = Bytes<'a, STRING_MAX>;
/// `path`.
pub type Path2<'a> = Bytes<'a, STRING_MAX>;
/// `nfsdata`.
pub type Data2<'a> = Bytes<'a, MAXDATA>;

fields! {
    /// `timeval`.
    #[derive(Default)]
    Timeval {
        /// Seconds since 1970.
        seconds: u32,
        /// Microseconds.
        useconds: u32,
    }
}

fields! {
    /// `fattr` (RFC 1094 §2.3.5).
    Fattr2 {
        /// The kind of object.
        ftype: FileType2,
        /// Permission bits and type bits, as `stat` gives them.
        mode: u32,
        /// Hard links.
        nlink: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Bytes.
        size: u32,
        /// Bytes of a block.
        blocksize: u32,
        /// Device number.
        rdev: u32,
        /// Blocks in use.
        blocks: u32,
        /// File system.
        fsid: u32,
        /// Inode number.
        fileid: u32,
        /// Last access.
        atime: Timeval,
        /// Last change of the data.
        mtime: Timeval,
        /// Last change of the attributes.
        ctime: Timeval,
    }
}

fields! {
    /// `sattr`: the attributes to be set; [`KEEP`] in a field leaves it unchanged.
    Sattr2 {
        /// Permission bits, and for CREATE type bits.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Bytes; for a device node its number.
        size: u32,
        /// Last access.
        atime: Timeval,
        /// Last change of the data.
        mtime: Timeval,
    }
}

impl Default for Sattr2 {
    /// Leaves everything unchanged.
    fn default() -> Self {
        let time = Timeval { seconds: KEEP, useconds: KEEP };
        Self { mode: KEEP, uid: KEEP, gid: KEEP, size: KEEP, atime: time, mtime: time }
    }
}

fields! {
    /// `diropargs`: the arguments of LOOKUP, REMOVE and RMDIR.
    DirOpArgs2<'a> {
        /// The directory.
        dir: Fh2,
        /// The name.
        name: Filename2<'a>,
    }
}

fields! {
    /// `sattrargs`.
    SetattrArgs2 {
        /// The object.
        file: Fh2,
        /// The attributes to be set.
        set: Sattr2,
    }
}

fields! {
    /// `readargs`.
    ReadArgs2 {
        /// The file.
        file: Fh2,
        /// Where to begin.
        offset: u32,
        /// How many bytes.
        count: u32,
        /// Unused.
        totalcount: u32,
    }
}

fields! {
    /// `writeargs`.
    WriteArgs2<'a> {
        /// The file.
        file: Fh2,
        /// Unused.
        beginoffset: u32,
        /// Where to begin.
        offset: u32,
        /// Unused.
        totalcount: u32,
        /// The data.
        data: Data2<'a>,
    }
}

fields! {
    /// `createargs`: of CREATE and MKDIR.
    CreateArgs2<'a> {
        /// Where.
        place: DirOpArgs2<'a>,
        /// The attributes of the new object.
        set: Sattr2,
    }
}

fields! {
    /// `renameargs`.
    RenameArgs2<'a> {
        /// The old name.
        from: DirOpArgs2<'a>,
        /// The new name.
        to: DirOpArgs2<'a>,
    }
}

fields! {
    /// `linkargs`.
    LinkArgs2<'a> {
        /// The existing file.
        file: Fh2,
        /// The new name.
        to: DirOpArgs2<'a>,
    }
}

fields! {
    /// `symlinkargs`.
    SymlinkArgs2<'a> {
        /// Where.
        place: DirOpArgs2<'a>,
        /// What it says.
        target: Path2<'a>,
        /// Attributes, which no server uses.
        set: Sattr2,
    }
}

fields! {
    /// `readdirargs`.
    ReaddirArgs2 {
        /// The directory.
        dir: Fh2,
        /// Cookie of the entry after which to continue; 0 at the start.
        cookie: u32,
        /// The most bytes of entries.
        count: u32,
    }
}

/// A result: `T` after NFS_OK, nothing after any other status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res2<T> {
    /// Success.
    Ok(T),
    /// Failure; never [`Nfsstat2::Ok`].
    Fail(Nfsstat2),
}

impl<T: Encode> Encode for Res2<T> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Ok(ok) => {
                w.put(&Nfsstat2::Ok);
                w.put(ok);
            }
            Self::Fail(status) => w.put(status),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Res2<T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        match r.get()? {
            Nfsstat2::Ok => r.get().map(Self::Ok),
            status => Ok(Self::Fail(status)),
        }
    }
}

/// `attrstat`: the result of GETATTR, SETATTR and WRITE.
pub type AttrStat = Res2<Fattr2>;

fields! {
    /// What `diropres` holds: the result of LOOKUP, CREATE and MKDIR.
    DirOpOk2 {
        /// The object's handle.
        file: Fh2,
        /// Its attributes.
        attr: Fattr2,
    }
}

fields! {
    /// What `readres` holds.
    ReadOk2<'a> {
        /// The file's attributes.
        attr: Fattr2,
        /// The data.
        data: Data2<'a>,
    }
}

fields! {
    /// `entry` without the link to the next.
    Entry2<'a> {
        /// Inode number.
        fileid: u32,
        /// The name.
        name: Filename2<'a>,
        /// Cookie to continue after it.
        cookie: u32,
    }
}

/// `readdirok`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaddirOk2<'a> {
    /// The entries.
    pub entries: Vec<Entry2<'a>>,
    /// Whether the last entry of the directory is among them.
    pub eof: bool,
}

impl<'a> Decode<'a> for ReaddirOk2<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { entries: crate::list::decode(r, ENTRIES_MAX)?, eof: r.bool()? })
    }
}

impl Encode for ReaddirOk2<'_> {
    fn encode(&self, w: &mut Writer) {
        crate::list::encode(w, self.entries.iter().copied());
        w.bool(self.eof);
    }
}

fields! {
    /// `info` of `statfsres`.
    StatfsOk2 {
        /// The preferred size of READ and WRITE.
        tsize: u32,
        /// Bytes of a block.
        bsize: u32,
        /// Blocks in all.
        blocks: u32,
        /// Blocks free.
        bfree: u32,
        /// Blocks free for an ordinary user.
        bavail: u32,
    }
}

fn whole<'a, T: Decode<'a>>(r: &mut Reader<'a>) -> Result<(), Error> {
    r.get::<T>().map(|_| ())
}

/// Decodes the arguments of one procedure, and checks that nothing follows them; for tests with
/// arbitrary bytes.
///
/// # Errors
/// Those of the arguments; [`Error::NotMember`] for a procedure that does not exist.
pub fn decode_args(number: u32, bytes: &[u8]) -> Result<(), Error> {
    use procedure as p;
    let r = &mut Reader::new(bytes);
    match number {
        p::NULL | p::ROOT | p::WRITECACHE => return Ok(()),
        p::GETATTR | p::READLINK | p::STATFS => whole::<Fh2>(r)?,
        p::SETATTR => whole::<SetattrArgs2>(r)?,
        p::LOOKUP | p::REMOVE | p::RMDIR => whole::<DirOpArgs2<'_>>(r)?,
        p::READ => whole::<ReadArgs2>(r)?,
        p::WRITE => whole::<WriteArgs2<'_>>(r)?,
        p::CREATE | p::MKDIR => whole::<CreateArgs2<'_>>(r)?,
        p::RENAME => whole::<RenameArgs2<'_>>(r)?,
        p::LINK => whole::<LinkArgs2<'_>>(r)?,
        p::SYMLINK => whole::<SymlinkArgs2<'_>>(r)?,
        p::READDIR => whole::<ReaddirArgs2>(r)?,
        value => return Err(Error::NotMember { what: "NFS version 2 procedure", value }),
    }
    r.end()
}

#[cfg(test)]
mod tests {
    use super::{
        Bytes, DirOpArgs2, DirOpOk2, Encode, Entry2, Error, Fattr2, FileType2, KEEP, Nfsstat2,
        ReaddirOk2, Reader, Res2, Sattr2, SymlinkArgs2, Timeval, Writer, decode_args, procedure,
    };

    fn wire(value: &impl Encode) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(value);
        w.bytes().to_vec()
    }

    const ATTR: Fattr2 = Fattr2 {
        ftype: FileType2::Reg,
        mode: 0o100_644,
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 4,
        blocksize: 5,
        rdev: 6,
        blocks: 7,
        fsid: 8,
        fileid: 9,
        atime: Timeval { seconds: 10, useconds: 11 },
        mtime: Timeval { seconds: 12, useconds: 13 },
        ctime: Timeval { seconds: 14, useconds: 15 },
    };

    #[test]
    fn attributes_have_the_layout_of_the_rfc() {
        let words = [1, 0o100_644, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15u32];
        assert_eq!(wire(&ATTR), words.map(u32::to_be_bytes).concat());
    }

    #[test]
    fn results_survive_a_round_trip() {
        let found = Res2::Ok(DirOpOk2 { file: [9; 32], attr: ATTR });
        let bytes = wire(&found);
        assert_eq!(bytes.len(), 4 + 32 + 68);
        assert_eq!(Reader::new(&bytes).get(), Ok(found));
        let failed = Res2::<DirOpOk2>::Fail(Nfsstat2::NotEmpty);
        assert_eq!(wire(&failed), [0, 0, 0, 66]);
        assert_eq!(Reader::new(&wire(&failed)).get(), Ok(failed));
        let entry = Entry2 { fileid: 1, name: Bytes(b"abc"), cookie: 2 };
        let list = Res2::Ok(ReaddirOk2 { entries: vec![entry], eof: true });
        let bytes = wire(&list);
        assert_eq!(bytes[4..], *b"\0\0\0\x01\0\0\0\x01\0\0\0\x03abc\0\0\0\0\x02\0\0\0\0\0\0\0\x01");
        assert_eq!(Reader::new(&bytes).get(), Ok(list));
    }

    #[test]
    fn arguments_survive_a_round_trip() {
        let args = SymlinkArgs2 {
            place: DirOpArgs2 { dir: [1; 32], name: Bytes(b"n") },
            target: Bytes(b"../x"),
            set: Sattr2 { mode: 0o777, ..Sattr2::default() },
        };
        let mut bytes = wire(&args);
        assert_eq!(bytes[bytes.len() - 4..], KEEP.to_be_bytes());
        assert_eq!(Reader::new(&bytes).get(), Ok(args));
        assert_eq!(decode_args(procedure::SYMLINK, &bytes), Ok(()));
        bytes.extend([0; 4]);
        assert_eq!(decode_args(procedure::SYMLINK, &bytes), Err(Error::Trailing(4)));
        assert!(matches!(decode_args(18, &[]), Err(Error::NotMember { .. })));
    }
}

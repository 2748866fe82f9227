//! Arguments (RFC 1813 §3.3). GETATTR, READLINK, FSSTAT, FSINFO and PATHCONF take an [`Fh`],
//! REMOVE and RMDIR a [`DirOpArgs3`].

use super::{
    Bytes, DATA_MAX, Data, Fh, FileType3, Filename3, Nfstime3, Path3, Sattr3, Specdata3, Verf,
    procedure as p,
};
use xdr::{Decode, Encode, Error, Reader, Writer};

crate::layout::fields! {
    /// `diropargs3`: a name in a directory; the arguments of LOOKUP, REMOVE and RMDIR.
    DirOpArgs3<'a> {
        /// The directory.
        dir: Fh<'a>,
        /// The name.
        name: Filename3<'a>,
    }
}

crate::layout::fields! {
    /// `SETATTR3args`.
    SetattrArgs<'a> {
        /// The object.
        object: Fh<'a>,
        /// The attributes to be set.
        set: Sattr3,
        /// Set only if the object's ctime is this (`sattrguard3`).
        guard: Option<Nfstime3>,
    }
}

crate::layout::fields! {
    /// `ACCESS3args`.
    AccessArgs<'a> {
        /// The object.
        object: Fh<'a>,
        /// The bits of RFC 1813 §3.3.4.
        access: u32,
    }
}

crate::layout::fields! {
    /// `READ3args`.
    ReadArgs<'a> {
        /// The file.
        file: Fh<'a>,
        /// Where to begin.
        offset: u64,
        /// How many bytes.
        count: u32,
    }
}

crate::layout::numbers! {
    /// `stable_how`.
    StableHow as "stable_how" {
        /// UNSTABLE: in memory.
        Unstable = 0,
        /// DATA_SYNC: the data on disk.
        DataSync = 1,
        /// FILE_SYNC: data and attributes on disk.
        FileSync = 2,
    }
}

/// `WRITE3args`. The length of the data equals `count`: anything else does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The file.
    pub file: Fh<'a>,
    /// Where to begin.
    pub offset: u64,
    /// The required stability.
    pub stable: StableHow,
    /// The data.
    pub data: Data<'a>,
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let WriteHead { file, offset, stable, count } = r.get()?;
        Ok(Self { file, offset, stable, data: Bytes(r.opaque_fixed(count)?) })
    }
}

/// `WRITE3args` up to the first byte of the data, which `count` bytes and their padding follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteHead<'a> {
    /// The file.
    pub file: Fh<'a>,
    /// Where to begin.
    pub offset: u64,
    /// The required stability.
    pub stable: StableHow,
    /// Bytes of data.
    pub count: usize,
}

impl<'a> Decode<'a> for WriteHead<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let (file, offset, count) = (r.get()?, r.get()?, r.u32()?);
        let (stable, len) = (r.get()?, r.count(DATA_MAX)?);
        if len != count as usize {
            return Err(Error::Invalid("WRITE: count is not the length of the data"));
        }
        Ok(Self { file, offset, stable, count: len })
    }
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.file);
        w.u64(self.offset);
        w.u32(u32::try_from(self.data.0.len()).unwrap_or(u32::MAX));
        w.put(&self.stable);
        w.put(&self.data);
    }
}

/// `createhow3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow3 {
    /// An existing file is used.
    Unchecked(Sattr3),
    /// An existing name is an error.
    Guarded(Sattr3),
    /// An existing name is an error unless this verifier made it.
    Exclusive(Verf),
}

impl<'a> Decode<'a> for CreateHow3 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        match r.u32()? {
            0 => r.get().map(Self::Unchecked),
            1 => r.get().map(Self::Guarded),
            2 => r.get().map(Self::Exclusive),
            value => Err(Error::NotMember { what: "createmode3", value }),
        }
    }
}

impl Encode for CreateHow3 {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Unchecked(set) => {
                w.u32(0);
                w.put(set);
            }
            Self::Guarded(set) => {
                w.u32(1);
                w.put(set);
            }
            Self::Exclusive(verf) => {
                w.u32(2);
                w.put(verf);
            }
        }
    }
}

crate::layout::fields! {
    /// `CREATE3args`.
    CreateArgs<'a> {
        /// Where.
        place: DirOpArgs3<'a>,
        /// How.
        how: CreateHow3,
    }
}

crate::layout::fields! {
    /// `MKDIR3args`.
    MkdirArgs<'a> {
        /// Where.
        place: DirOpArgs3<'a>,
        /// The attributes of the new directory.
        set: Sattr3,
    }
}

crate::layout::fields! {
    /// `SYMLINK3args`.
    SymlinkArgs<'a> {
        /// Where.
        place: DirOpArgs3<'a>,
        /// The attributes of the new link.
        set: Sattr3,
        /// What it says.
        target: Path3<'a>,
    }
}

/// `mknoddata3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MknodData3 {
    /// A character device.
    Char(Sattr3, Specdata3),
    /// A block device.
    Block(Sattr3, Specdata3),
    /// A socket.
    Socket(Sattr3),
    /// A named pipe.
    Fifo(Sattr3),
    /// A regular file: not by MKNOD.
    Reg,
    /// A directory: not by MKNOD.
    Dir,
    /// A symbolic link: not by MKNOD.
    Lnk,
}

impl<'a> Decode<'a> for MknodData3 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match r.get()? {
            FileType3::Chr => Self::Char(r.get()?, r.get()?),
            FileType3::Blk => Self::Block(r.get()?, r.get()?),
            FileType3::Sock => Self::Socket(r.get()?),
            FileType3::Fifo => Self::Fifo(r.get()?),
            FileType3::Reg => Self::Reg,
            FileType3::Dir => Self::Dir,
            FileType3::Lnk => Self::Lnk,
        })
    }
}

impl Encode for MknodData3 {
    fn encode(&self, w: &mut Writer) {
        let (ftype, set, rdev) = match self {
            Self::Char(set, rdev) => (FileType3::Chr, Some(set), Some(rdev)),
            Self::Block(set, rdev) => (FileType3::Blk, Some(set), Some(rdev)),
            Self::Socket(set) => (FileType3::Sock, Some(set), None),
            Self::Fifo(set) => (FileType3::Fifo, Some(set), None),
            Self::Reg => (FileType3::Reg, None, None),
            Self::Dir => (FileType3::Dir, None, None),
            Self::Lnk => (FileType3::Lnk, None, None),
        };
        w.put(&ftype);
        if let Some(set) = set {
            w.put(set);
        }
        if let Some(rdev) = rdev {
            w.put(rdev);
        }
    }
}

crate::layout::fields! {
    /// `MKNOD3args`.
    MknodArgs<'a> {
        /// Where.
        place: DirOpArgs3<'a>,
        /// What.
        what: MknodData3,
    }
}

crate::layout::fields! {
    /// `RENAME3args`.
    RenameArgs<'a> {
        /// The old name.
        from: DirOpArgs3<'a>,
        /// The new name.
        to: DirOpArgs3<'a>,
    }
}

crate::layout::fields! {
    /// `LINK3args`.
    LinkArgs<'a> {
        /// The existing file.
        file: Fh<'a>,
        /// The new name.
        link: DirOpArgs3<'a>,
    }
}

crate::layout::fields! {
    /// `READDIR3args`.
    ReaddirArgs<'a> {
        /// The directory.
        dir: Fh<'a>,
        /// Cookie of the entry after which to continue; 0 at the start.
        cookie: u64,
        /// The verifier that came with the cookie.
        verf: Verf,
        /// The most bytes of `READDIR3resok`.
        count: u32,
    }
}

crate::layout::fields! {
    /// `READDIRPLUS3args`.
    ReaddirplusArgs<'a> {
        /// The directory.
        dir: Fh<'a>,
        /// Cookie of the entry after which to continue; 0 at the start.
        cookie: u64,
        /// The verifier that came with the cookie.
        verf: Verf,
        /// The most bytes of names, file ids and cookies.
        dircount: u32,
        /// The most bytes of `READDIRPLUS3resok`.
        maxcount: u32,
    }
}

crate::layout::fields! {
    /// `COMMIT3args`.
    CommitArgs<'a> {
        /// The file.
        file: Fh<'a>,
        /// Where the range begins.
        offset: u64,
        /// Its length; 0: to the end.
        count: u32,
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
pub fn decode_args(procedure: u32, bytes: &[u8]) -> Result<(), Error> {
    let r = &mut Reader::new(bytes);
    match procedure {
        p::NULL => return Ok(()),
        p::GETATTR | p::READLINK | p::FSSTAT | p::FSINFO | p::PATHCONF => whole::<Fh<'_>>(r)?,
        p::SETATTR => whole::<SetattrArgs<'_>>(r)?,
        p::LOOKUP | p::REMOVE | p::RMDIR => whole::<DirOpArgs3<'_>>(r)?,
        p::ACCESS => whole::<AccessArgs<'_>>(r)?,
        p::READ => whole::<ReadArgs<'_>>(r)?,
        p::WRITE => whole::<WriteArgs<'_>>(r)?,
        p::CREATE => whole::<CreateArgs<'_>>(r)?,
        p::MKDIR => whole::<MkdirArgs<'_>>(r)?,
        p::SYMLINK => whole::<SymlinkArgs<'_>>(r)?,
        p::MKNOD => whole::<MknodArgs<'_>>(r)?,
        p::RENAME => whole::<RenameArgs<'_>>(r)?,
        p::LINK => whole::<LinkArgs<'_>>(r)?,
        p::READDIR => whole::<ReaddirArgs<'_>>(r)?,
        p::READDIRPLUS => whole::<ReaddirplusArgs<'_>>(r)?,
        p::COMMIT => whole::<CommitArgs<'_>>(r)?,
        value => return Err(Error::NotMember { what: "NFS version 3 procedure", value }),
    }
    r.end()
}

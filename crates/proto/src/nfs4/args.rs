//! Arguments of the operations on files (RFC 8881 §18), but for OPEN.

use super::{
    Bitmap4, Component4, DATA_MAX, Fattr4, Fh, FileType4, Linktext4, Nfstime4, STATEIDS_MAX,
    Specdata4, Stateid4, Verifier4,
};
use crate::layout::Bytes;
use xdr::{Decode, Encode, Error, Reader, Writer};

/// Arguments that are one value.
macro_rules! one {
    ($($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? { $field:ident: $ty:ty })*) => {
        $(crate::layout::fields! {
            $(#[$meta])*
            $name $(<$life>)? {
                /// The one argument.
                $field: $ty,
            }
        })*
    };
}

one! {
    /// `ACCESS4args`: the permissions that are asked for.
    AccessArgs { access: u32 }
    /// `GETATTR4args`.
    GetattrArgs { attrs: Bitmap4 }
    /// `LINK4args`: the name of the new link.
    LinkArgs<'a> { name: Component4<'a> }
    /// `LOOKUP4args`.
    LookupArgs<'a> { name: Component4<'a> }
    /// `PUTFH4args`.
    PutfhArgs<'a> { object: Fh<'a> }
    /// `REMOVE4args`.
    RemoveArgs<'a> { name: Component4<'a> }
    /// `SECINFO4args`.
    SecinfoArgs<'a> { name: Component4<'a> }
    /// `SECINFO_NO_NAME4args`: 0 asks for the current filehandle, 1 for its parent.
    SecinfoNoNameArgs { style: u32 }
    /// `FREE_STATEID4args`.
    FreeStateidArgs { stateid: Stateid4 }
}

crate::layout::fields! {
    /// `GET_DIR_DELEGATION4args`.
    GetDirDelegationArgs {
        /// Whether the server is to signal when there is one.
        signal: bool,
        /// Of which changes the client wants to be notified.
        notifications: Bitmap4,
        /// How late it may be told of attributes of entries.
        child_delay: Nfstime4,
        /// How late it may be told of attributes of the directory.
        dir_delay: Nfstime4,
        /// Of which attributes of entries.
        child_attributes: Bitmap4,
        /// Of which attributes of the directory.
        dir_attributes: Bitmap4,
    }
}

crate::layout::fields! {
    /// `CLOSE4args`.
    CloseArgs {
        /// Ignored since version 4.1.
        seqid: u32,
        /// The open.
        stateid: Stateid4,
    }
}

crate::layout::fields! {
    /// `COMMIT4args`.
    CommitArgs {
        /// Where to begin.
        offset: u64,
        /// How many bytes; 0 means up to the end.
        count: u32,
    }
}

crate::layout::fields! {
    /// `OPEN_DOWNGRADE4args`.
    OpenDowngradeArgs {
        /// The open.
        stateid: Stateid4,
        /// Ignored since version 4.1.
        seqid: u32,
        /// What it is to be open for.
        share_access: u32,
        /// What it is to deny others.
        share_deny: u32,
    }
}

crate::layout::fields! {
    /// `READ4args`.
    ReadArgs {
        /// What gives the right to read.
        stateid: Stateid4,
        /// Where to begin.
        offset: u64,
        /// How many bytes.
        count: u32,
    }
}

crate::layout::fields! {
    /// `READDIR4args`.
    ReaddirArgs {
        /// After which entry to begin; 0 is the start.
        cookie: u64,
        /// What the first reply gave.
        cookieverf: Verifier4,
        /// About how many bytes of names and cookies are wanted.
        dircount: u32,
        /// The most bytes of the whole result.
        maxcount: u32,
        /// The attributes of each entry.
        attrs: Bitmap4,
    }
}

crate::layout::fields! {
    /// `RENAME4args`: from the saved filehandle to the current one.
    RenameArgs<'a> {
        /// The name in the saved directory.
        old: Component4<'a>,
        /// The name in the current directory.
        new: Component4<'a>,
    }
}

crate::layout::fields! {
    /// `SETATTR4args`.
    SetattrArgs<'a> {
        /// What gives the right to change the size.
        stateid: Stateid4,
        /// What to set.
        attrs: Fattr4<'a>,
    }
}

crate::layout::numbers! {
    /// `stable_how4`.
    StableHow4 as "stable_how4" {
        /// In memory.
        Unstable = 0,
        /// The data on disk.
        DataSync = 1,
        /// Data and attributes on disk.
        FileSync = 2,
    }
}

crate::layout::fields! {
    /// `WRITE4args`.
    WriteArgs<'a> {
        /// What gives the right to write.
        stateid: Stateid4,
        /// Where to begin.
        offset: u64,
        /// How safe it must be.
        stable: StableHow4,
        /// The data.
        data: Bytes<'a, DATA_MAX>,
    }
}

/// `WRITE4args` up to the first byte of the data, which `count` bytes and their padding follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteHead {
    /// What gives the right to write.
    pub stateid: Stateid4,
    /// Where to begin.
    pub offset: u64,
    /// How safe it must be.
    pub stable: StableHow4,
    /// Bytes of data.
    pub count: usize,
}

impl<'a> Decode<'a> for WriteHead {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let (stateid, offset, stable) = (r.get()?, r.get()?, r.get()?);
        Ok(Self { stateid, offset, stable, count: r.count(DATA_MAX)? })
    }
}

/// What CREATE makes (`createtype4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateType4<'a> {
    /// A symbolic link to this target.
    Lnk(Linktext4<'a>),
    /// A block device.
    Blk(Specdata4),
    /// A character device.
    Chr(Specdata4),
    /// A socket.
    Sock,
    /// A named pipe.
    Fifo,
    /// A directory.
    Dir,
    /// A type that CREATE does not make, by its number.
    Other(u32),
}

impl<'a> Decode<'a> for CreateType4<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let number = r.u32()?;
        Ok(match FileType4::from_number(number) {
            Some(FileType4::Lnk) => Self::Lnk(r.get()?),
            Some(FileType4::Blk) => Self::Blk(r.get()?),
            Some(FileType4::Chr) => Self::Chr(r.get()?),
            Some(FileType4::Sock) => Self::Sock,
            Some(FileType4::Fifo) => Self::Fifo,
            Some(FileType4::Dir) => Self::Dir,
            Some(FileType4::Reg | FileType4::AttrDir | FileType4::NamedAttr) | None => {
                Self::Other(number)
            }
        })
    }
}

impl Encode for CreateType4<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Lnk(target) => (w.put(&FileType4::Lnk), w.put(target)).0,
            Self::Blk(device) => (w.put(&FileType4::Blk), w.put(device)).0,
            Self::Chr(device) => (w.put(&FileType4::Chr), w.put(device)).0,
            Self::Sock => w.put(&FileType4::Sock),
            Self::Fifo => w.put(&FileType4::Fifo),
            Self::Dir => w.put(&FileType4::Dir),
            Self::Other(number) => w.u32(*number),
        }
    }
}

crate::layout::fields! {
    /// `CREATE4args`.
    CreateArgs<'a> {
        /// What to make.
        what: CreateType4<'a>,
        /// Its name.
        name: Component4<'a>,
        /// Its attributes.
        attrs: Fattr4<'a>,
    }
}

/// `TEST_STATEID4args`: stateids, decoded one by one.
#[derive(Debug, Clone)]
pub struct TestStateidArgs<'a> {
    count: usize,
    stateids: Reader<'a>,
}

impl TestStateidArgs<'_> {
    /// How many there are.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The stateids.
    pub fn iter(&self) -> impl Iterator<Item = Stateid4> {
        let mut stateids = self.stateids.clone();
        (0..self.count).map_while(move |_| stateids.get().ok())
    }
}

impl<'a> Decode<'a> for TestStateidArgs<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        /// Bytes of a stateid.
        const LEN: usize = 16;
        let count = r.count(STATEIDS_MAX)?;
        let stateids = Reader::new(r.opaque_fixed(count.saturating_mul(LEN))?);
        Ok(Self { count, stateids })
    }
}

//! Attributes: `fattr3`, `sattr3`, `wcc_data` and their parts (RFC 1813 §2.6).

use xdr::{Decode, Encode, Error, Reader, Writer, hyper};

crate::layout::numbers! {
    /// `ftype3`.
    FileType3 as "ftype3" {
        /// An ordinary file.
        Reg = 1,
        /// A directory.
        Dir = 2,
        /// A block device.
        Blk = 3,
        /// A character device.
        Chr = 4,
        /// A symbolic link.
        Lnk = 5,
        /// A socket.
        Sock = 6,
        /// A named pipe.
        Fifo = 7,
    }
}

crate::layout::fields! {
    /// `nfstime3`.
    #[derive(Default)]
    Nfstime3 {
        /// Seconds since 1970.
        seconds: u32,
        /// Nanoseconds; a value of 1,000,000,000 and above is decoded, and the server refuses it.
        nseconds: u32,
    }
}

crate::layout::fields! {
    /// `specdata3`: a device number.
    #[derive(Default)]
    Specdata3 {
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    }
}

/// `fattr3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fattr3 {
    /// The kind of object.
    pub ftype: FileType3,
    /// Permission bits.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes of storage.
    pub used: u64,
    /// Device number.
    pub rdev: Specdata3,
    /// File system.
    pub fsid: u64,
    /// Inode number.
    pub fileid: u64,
    /// Last access.
    pub atime: Nfstime3,
    /// Last change of the data.
    pub mtime: Nfstime3,
    /// Last change of the attributes.
    pub ctime: Nfstime3,
}

/// Bytes of a [`Fattr3`] on the wire.
pub const FATTR3_LEN: usize = 84;
/// Bytes of `post_op_attr` with attributes.
pub const POST_OP_ATTR_LEN: usize = 4 + FATTR3_LEN;

impl Fattr3 {
    /// `post_op_attr` with these attributes, as hypers: the boolean and the type are the first.
    pub const fn post_op_hypers(&self) -> [u64; POST_OP_ATTR_LEN / 8] {
        let Self { rdev, atime, mtime, ctime, .. } = self;
        [
            pair(1, self.ftype.number()),
            pair(self.mode, self.nlink),
            pair(self.uid, self.gid),
            self.size,
            self.used,
            pair(rdev.major, rdev.minor),
            self.fsid,
            self.fileid,
            pair(atime.seconds, atime.nseconds),
            pair(mtime.seconds, mtime.nseconds),
            pair(ctime.seconds, ctime.nseconds),
        ]
    }

    /// The attributes as words of the wire format.
    pub const fn words(&self) -> [u32; FATTR3_LEN / 4] {
        let [size, used] = [hyper(self.size), hyper(self.used)];
        let [fsid, fileid] = [hyper(self.fsid), hyper(self.fileid)];
        [
            self.ftype.number(),
            self.mode,
            self.nlink,
            self.uid,
            self.gid,
            size[0],
            size[1],
            used[0],
            used[1],
            self.rdev.major,
            self.rdev.minor,
            fsid[0],
            fsid[1],
            fileid[0],
            fileid[1],
            self.atime.seconds,
            self.atime.nseconds,
            self.mtime.seconds,
            self.mtime.nseconds,
            self.ctime.seconds,
            self.ctime.nseconds,
        ]
    }
}

impl Encode for Fattr3 {
    /// Encoded in one piece, because it is in nearly every reply.
    fn encode(&self, w: &mut Writer) {
        w.words(self.words());
    }

    fn encode_some(&self, w: &mut Writer) {
        w.hypers(self.post_op_hypers());
    }
}

/// Two words as one hyper.
pub(super) const fn pair(first: u32, second: u32) -> u64 {
    (first as u64) << 32 | second as u64
}

/// Two runs of words as one of `N`, which is the sum of their lengths.
const fn joined<const A: usize, const B: usize, const N: usize>(
    first: [u32; A],
    second: [u32; B],
) -> [u32; N] {
    const { assert!(A + B == N) };
    let mut all = [0; N];
    let (head, tail) = all.split_at_mut(A);
    head.copy_from_slice(&first);
    tail.copy_from_slice(&second);
    all
}

impl<'a> Decode<'a> for Fattr3 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            ftype: r.get()?,
            mode: r.get()?,
            nlink: r.get()?,
            uid: r.get()?,
            gid: r.get()?,
            size: r.get()?,
            used: r.get()?,
            rdev: r.get()?,
            fsid: r.get()?,
            fileid: r.get()?,
            atime: r.get()?,
            mtime: r.get()?,
            ctime: r.get()?,
        })
    }
}

/// `wcc_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WccAttr {
    /// Bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: Nfstime3,
    /// Last change of the attributes.
    pub ctime: Nfstime3,
}

/// Words of a [`WccAttr`] on the wire.
const WCC_ATTR_WORDS: usize = 6;

impl WccAttr {
    const fn words(&self) -> [u32; WCC_ATTR_WORDS] {
        let [high, low] = hyper(self.size);
        let Self { mtime, ctime, .. } = self;
        [high, low, mtime.seconds, mtime.nseconds, ctime.seconds, ctime.nseconds]
    }
}

impl Encode for WccAttr {
    fn encode(&self, w: &mut Writer) {
        w.words(self.words());
    }
}

impl<'a> Decode<'a> for WccAttr {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { size: r.get()?, mtime: r.get()?, ctime: r.get()? })
    }
}

/// `wcc_data`: an object before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WccData {
    /// Before.
    pub before: Option<WccAttr>,
    /// After.
    pub after: Option<Fattr3>,
}

impl Encode for WccData {
    /// What nearly every reply to a change has, both attributes, in one piece.
    fn encode(&self, w: &mut Writer) {
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            let before = joined::<1, 6, 7>([1], before.words());
            let after = joined::<1, 21, 22>([1], after.words());
            w.words(joined::<7, 22, 29>(before, after));
        } else {
            w.put(&self.before);
            w.put(&self.after);
        }
    }
}

impl<'a> Decode<'a> for WccData {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { before: r.get()?, after: r.get()? })
    }
}

/// `set_atime` and `set_mtime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime3 {
    /// DONT_CHANGE.
    #[default]
    Keep,
    /// SET_TO_SERVER_TIME.
    Server,
    /// SET_TO_CLIENT_TIME.
    Client(Nfstime3),
}

impl<'a> Decode<'a> for SetTime3 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        match r.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Server),
            2 => r.get().map(Self::Client),
            value => Err(Error::NotMember { what: "time_how", value }),
        }
    }
}

impl Encode for SetTime3 {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Keep => w.u32(0),
            Self::Server => w.u32(1),
            Self::Client(time) => {
                w.u32(2);
                w.put(time);
            }
        }
    }
}

crate::layout::fields! {
    /// `sattr3`: the attributes to be set.
    #[derive(Default)]
    Sattr3 {
        /// Permission bits.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Bytes.
        size: Option<u64>,
        /// Last access.
        atime: SetTime3,
        /// Last change of the data.
        mtime: SetTime3,
    }
}

//! Results (RFC 1813 §3.3): a status, and a body that depends on whether it is NFS3_OK.

use super::{Data, Fattr3, Fh, Nfsstat3, Nfstime3, Path3, Verf, WccData};
use xdr::{Decode, Encode, Error, Reader, Writer};

/// The result of a procedure: `T` after NFS3_OK, `F` after any other status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res<T, F> {
    /// Success.
    Ok(T),
    /// Failure; the status is never [`Nfsstat3::Ok`].
    Fail(Nfsstat3, F),
}

impl<T, F> Res<T, F> {
    /// The status.
    pub const fn status(&self) -> Nfsstat3 {
        match self {
            Self::Ok(_) => Nfsstat3::Ok,
            Self::Fail(status, _) => *status,
        }
    }

    /// The body of success, or the status of failure.
    ///
    /// # Errors
    /// The status of the server.
    pub fn into_result(self) -> Result<T, Nfsstat3> {
        match self {
            Self::Ok(ok) => Ok(ok),
            Self::Fail(status, _) => Err(status),
        }
    }
}

impl<T: Encode, F: Encode> Encode for Res<T, F> {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.status());
        match self {
            Self::Ok(ok) => w.put(ok),
            Self::Fail(_, fail) => w.put(fail),
        }
    }
}

impl<'a, T: Decode<'a>, F: Decode<'a>> Decode<'a> for Res<T, F> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        match r.get()? {
            Nfsstat3::Ok => r.get().map(Self::Ok),
            status => Ok(Self::Fail(status, r.get()?)),
        }
    }
}

/// A body without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoBody;

impl Encode for NoBody {
    fn encode(&self, _: &mut Writer) {}
}

impl<'a> Decode<'a> for NoBody {
    fn decode(_: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self)
    }
}

/// `post_op_attr`: attributes in failures of most procedures.
pub type PostOpAttr = Option<Fattr3>;

crate::layout::fields! {
    /// `LOOKUP3resok`.
    LookupOk<'a> {
        /// The object's handle.
        object: Fh<'a>,
        /// The object's attributes.
        attr: PostOpAttr,
        /// The directory's attributes.
        dir: PostOpAttr,
    }
}

crate::layout::fields! {
    /// `ACCESS3resok`.
    AccessOk {
        /// The object's attributes.
        attr: PostOpAttr,
        /// The granted part of the requested bits.
        access: u32,
    }
}

crate::layout::fields! {
    /// `READLINK3resok`.
    ReadlinkOk<'a> {
        /// The link's attributes.
        attr: PostOpAttr,
        /// What it says.
        target: Path3<'a>,
    }
}

crate::layout::fields! {
    /// `READ3resok`.
    ReadOk<'a> {
        /// The file's attributes.
        attr: PostOpAttr,
        /// Bytes read.
        count: u32,
        /// Whether the end of the file was reached.
        eof: bool,
        /// The data.
        data: Data<'a>,
    }
}

crate::layout::fields! {
    /// `WRITE3resok`.
    WriteOk {
        /// The file around the write.
        file: WccData,
        /// Bytes written.
        count: u32,
        /// Their stability.
        committed: super::StableHow,
        /// Changes when unstable data may have been lost.
        verf: Verf,
    }
}

crate::layout::fields! {
    /// `CREATE3resok`, `MKDIR3resok`, `SYMLINK3resok` and `MKNOD3resok`.
    MadeOk<'a> {
        /// The new object's handle (`post_op_fh3`).
        object: Option<Fh<'a>>,
        /// The new object's attributes.
        attr: PostOpAttr,
        /// The directory around the change.
        dir: WccData,
    }
}

crate::layout::fields! {
    /// `RENAME3resok` and `RENAME3resfail`.
    #[derive(Default)]
    RenameRes {
        /// The old directory around the change.
        from: WccData,
        /// The new directory around the change.
        to: WccData,
    }
}

crate::layout::fields! {
    /// `LINK3resok` and `LINK3resfail`.
    #[derive(Default)]
    LinkRes {
        /// The file's attributes.
        attr: PostOpAttr,
        /// The directory around the change.
        dir: WccData,
    }
}

crate::layout::fields! {
    /// `FSSTAT3resok`.
    FsstatOk {
        /// The object's attributes.
        attr: PostOpAttr,
        /// Bytes in all.
        tbytes: u64,
        /// Bytes free.
        fbytes: u64,
        /// Bytes free for the caller.
        abytes: u64,
        /// Inodes in all.
        tfiles: u64,
        /// Inodes free.
        ffiles: u64,
        /// Inodes free for the caller.
        afiles: u64,
        /// Seconds for which this is not expected to change.
        invarsec: u32,
    }
}

crate::layout::fields! {
    /// `FSINFO3resok`.
    FsinfoOk {
        /// The object's attributes.
        attr: PostOpAttr,
        /// The most bytes of a READ.
        rtmax: u32,
        /// The preferred size of a READ.
        rtpref: u32,
        /// What a READ's size should be a multiple of.
        rtmult: u32,
        /// The most bytes of a WRITE.
        wtmax: u32,
        /// The preferred size of a WRITE.
        wtpref: u32,
        /// What a WRITE's size should be a multiple of.
        wtmult: u32,
        /// The preferred size of a READDIR.
        dtpref: u32,
        /// The largest file.
        maxfilesize: u64,
        /// The granularity of times.
        time_delta: Nfstime3,
        /// The bits of [`fsf`].
        properties: u32,
    }
}

/// `properties` of [`FsinfoOk`] (RFC 1813 §3.3.19).
pub mod fsf {
    /// Hard links.
    pub const LINK: u32 = 0x01;
    /// Symbolic links.
    pub const SYMLINK: u32 = 0x02;
    /// PATHCONF returns the same everywhere in the file system.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR sets times exactly.
    pub const CANSETTIME: u32 = 0x10;
}

crate::layout::fields! {
    /// `PATHCONF3resok`.
    PathconfOk {
        /// The object's attributes.
        attr: PostOpAttr,
        /// Most hard links.
        linkmax: u32,
        /// Longest name.
        name_max: u32,
        /// Whether a longer name is an error.
        no_trunc: bool,
        /// Whether only a privileged user may change the owner of a file.
        chown_restricted: bool,
        /// Whether names are case-insensitive.
        case_insensitive: bool,
        /// Whether case is preserved.
        case_preserving: bool,
    }
}

crate::layout::fields! {
    /// `COMMIT3resok`.
    CommitOk {
        /// The file around the call.
        file: WccData,
        /// See [`WriteOk`].
        verf: Verf,
    }
}

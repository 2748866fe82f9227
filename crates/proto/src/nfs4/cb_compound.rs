//! CB_COMPOUND and the operations of callbacks (RFC 8881 §20; their XDR is in RFC 5662): what the server sends over a
//! session's back channel, and what it gets back.

use super::{
    Bitmap4, Fh, LockOwner4, Nfsstat4, SessionId, StableHow4, Stateid4, TAG_MAX, Verifier4,
};
use crate::layout::Bytes;
use xdr::{Decode, Encode, Error, Reader, Writer};

/// Callback operation numbers (`nfs_cb_opnum4`).
pub mod cb_op {
    /// CB_GETATTR.
    pub const GETATTR: u32 = 3;
    /// CB_RECALL.
    pub const RECALL: u32 = 4;
    /// CB_RECALL_ANY.
    pub const RECALL_ANY: u32 = 8;
    /// CB_RECALL_SLOT.
    pub const RECALL_SLOT: u32 = 10;
    /// CB_SEQUENCE.
    pub const SEQUENCE: u32 = 11;
    /// CB_NOTIFY_LOCK.
    pub const NOTIFY_LOCK: u32 = 13;
    /// CB_OFFLOAD.
    pub const OFFLOAD: u32 = 15;
}

/// The head of `CB_COMPOUND4args`: the number of operations follows the identifier of version 4.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CbCompoundHead<'a> {
    /// Echoed.
    pub tag: &'a [u8],
    /// The minor version of the client's session.
    pub minor: u32,
    /// `callback_ident`: of version 4.0 only.
    pub ident: u32,
    /// How many operations follow.
    pub count: u32,
}

impl<'a> Decode<'a> for CbCompoundHead<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let tag = r.opaque(TAG_MAX)?;
        let [minor, ident, count] = r.words()?;
        Ok(Self { tag, minor, ident, count })
    }
}

impl Encode for CbCompoundHead<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.tag);
        w.words([self.minor, self.ident, self.count]);
    }
}

/// `CB_SEQUENCE4args`, without referring calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CbSequenceArgs {
    /// The session.
    pub sessionid: SessionId,
    /// The number of this callback on its slot.
    pub sequenceid: u32,
    /// The slot.
    pub slotid: u32,
    /// The highest slot with a callback on it.
    pub highest_slotid: u32,
    /// Whether the client must keep its answer.
    pub cachethis: bool,
}

impl<'a> Decode<'a> for CbSequenceArgs {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let args = Self {
            sessionid: r.get()?,
            sequenceid: r.get()?,
            slotid: r.get()?,
            highest_slotid: r.get()?,
            cachethis: r.get()?,
        };
        match r.u32()? {
            0 => Ok(args),
            len => Err(Error::TooLong { len: len as usize, limit: 0 }),
        }
    }
}

impl Encode for CbSequenceArgs {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.sessionid);
        w.words([self.sequenceid, self.slotid, self.highest_slotid]);
        w.put(&self.cachethis);
        w.u32(0);
    }
}

crate::layout::fields! {
    /// What CB_SEQUENCE gives back if it succeeds (`CB_SEQUENCE4resok`).
    CbSequenceResult {
        /// The session.
        sessionid: SessionId,
        /// The number of the callback.
        sequenceid: u32,
        /// Its slot.
        slotid: u32,
        /// The highest slot that the client has.
        highest_slotid: u32,
        /// The highest that it wants to be used.
        target_highest_slotid: u32,
    }
}

crate::layout::fields! {
    /// `CB_NOTIFY_LOCK4args`.
    CbNotifyLockArgs<'a> {
        /// The file.
        fh: Fh<'a>,
        /// Who waited.
        owner: LockOwner4<'a>,
    }
}

crate::layout::fields! {
    /// `CB_RECALL_SLOT4args`.
    CbRecallSlotArgs {
        /// The highest slot that the client is to use from now on.
        target_highest_slotid: u32,
    }
}

crate::layout::fields! {
    /// `CB_RECALL4args`.
    CbRecallArgs<'a> {
        /// The delegation.
        stateid: Stateid4,
        /// Whether the file is about to be cut to nothing.
        truncate: bool,
        /// The file.
        fh: Fh<'a>,
    }
}

crate::layout::fields! {
    /// `CB_RECALL_ANY4args`.
    CbRecallAnyArgs {
        /// How many objects of the kinds below the client may keep.
        keep: u32,
        /// The kinds (`RCA4_TYPE_MASK_*`).
        kinds: Bitmap4,
    }
}

crate::layout::fields! {
    /// `CB_GETATTR4args`.
    CbGetattrArgs<'a> {
        /// The file.
        fh: Fh<'a>,
        /// The attributes.
        attributes: Bitmap4,
    }
}

/// `offload_info4`: how an operation has ended that was answered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadInfo4 {
    /// It has succeeded (`write_response4`, without a stateid).
    Done {
        /// Bytes written.
        count: u64,
        /// How stable they are.
        committed: StableHow4,
        /// By which a loss of what is not stable shows.
        verifier: Verifier4,
    },
    /// It has failed.
    Failed {
        /// With what; not NFS4_OK.
        status: Nfsstat4,
        /// Bytes written before.
        bytes_copied: u64,
    },
}

impl<'a> Decode<'a> for OffloadInfo4 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let status: Nfsstat4 = r.get()?;
        if status != Nfsstat4::Ok {
            return Ok(Self::Failed { status, bytes_copied: r.u64()? });
        }
        match r.u32()? {
            0 => {}
            len => return Err(Error::TooLong { len: len as usize, limit: 0 }),
        }
        Ok(Self::Done { count: r.u64()?, committed: r.get()?, verifier: r.array()? })
    }
}

impl Encode for OffloadInfo4 {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Done { count, committed, verifier } => {
                // wr_callback_id: none
                w.words([Nfsstat4::Ok.number(), 0]);
                w.u64(*count);
                w.put(committed);
                w.put(verifier);
            }
            Self::Failed { status, bytes_copied } => {
                w.u32(status.number());
                w.u64(*bytes_copied);
            }
        }
    }
}

crate::layout::fields! {
    /// `CB_OFFLOAD4args` (RFC 7862 §16.1).
    CbOffloadArgs<'a> {
        /// The file that was written.
        fh: Fh<'a>,
        /// The operation.
        stateid: Stateid4,
        /// How it has ended.
        info: OffloadInfo4,
    }
}

/// The head of `CB_COMPOUND4res`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CbCompoundResult<'a> {
    /// That of the last operation that ran; not checked.
    pub status: u32,
    /// As it was sent.
    pub tag: Bytes<'a, TAG_MAX>,
    /// How many results follow.
    pub count: u32,
}

impl<'a> Decode<'a> for CbCompoundResult<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { status: r.get()?, tag: r.get()?, count: r.get()? })
    }
}

impl Encode for CbCompoundResult<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.status);
        w.put(&self.tag);
        w.u32(self.count);
    }
}

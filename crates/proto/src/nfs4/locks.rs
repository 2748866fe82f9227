//! Arguments and results of LOCK, LOCKT and LOCKU (RFC 8881 §18.10 to §18.12).

use super::{OPAQUE_LIMIT, Stateid4};
use crate::layout::Bytes;
use xdr::{Decode, Encode, Error, Reader, Writer};

crate::layout::numbers! {
    /// `nfs_lock_type4`.
    LockType4 as "nfs_lock_type4" {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared; the client would wait for it.
        ReadWait = 3,
        /// Exclusive; the client would wait for it.
        WriteWait = 4,
    }
}

crate::layout::fields! {
    /// `lock_owner4`.
    LockOwner4<'a> {
        /// Ignored in requests since version 4.1: the session says who calls.
        clientid: u64,
        /// The client's name for one that locks files.
        owner: Bytes<'a, OPAQUE_LIMIT>,
    }
}

/// Who asks for a lock (`locker4`). The owners' sequence numbers are of version 4.0 and left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locker4<'a> {
    /// An owner without a stateid, by an open.
    New(Stateid4, LockOwner4<'a>),
    /// The owner of this stateid.
    Known(Stateid4),
}

impl<'a> Decode<'a> for Locker4<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        if r.get()? {
            let _open_seqid = r.u32()?;
            let open = r.get()?;
            let _lock_seqid = r.u32()?;
            return Ok(Self::New(open, r.get()?));
        }
        let lock = r.get()?;
        let _lock_seqid = r.u32()?;
        Ok(Self::Known(lock))
    }
}

impl Encode for Locker4<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::New(open, owner) => {
                w.put(&true);
                w.u32(0);
                w.put(open);
                w.u32(0);
                w.put(owner);
            }
            Self::Known(lock) => {
                w.put(&false);
                w.put(lock);
                w.u32(0);
            }
        }
    }
}

crate::layout::fields! {
    /// `LOCK4args`.
    LockArgs<'a> {
        /// How.
        kind: LockType4,
        /// Whether it is taken back after a restart of the server.
        reclaim: bool,
        /// The first byte.
        offset: u64,
        /// How many; all ones means up to the end, however long the file grows.
        length: u64,
        /// For whom.
        locker: Locker4<'a>,
    }
}

crate::layout::fields! {
    /// `LOCKT4args`.
    LocktArgs<'a> {
        /// How.
        kind: LockType4,
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
        /// For whom.
        owner: LockOwner4<'a>,
    }
}

crate::layout::fields! {
    /// `LOCKU4args`.
    LockuArgs {
        /// Ignored.
        kind: LockType4,
        /// Ignored since version 4.1.
        seqid: u32,
        /// Whose lock.
        stateid: Stateid4,
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
    }
}

crate::layout::fields! {
    /// `LOCK4denied`: what is in the way.
    LockDenied<'a> {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
        /// How it is held.
        kind: LockType4,
        /// By whom.
        owner: LockOwner4<'a>,
    }
}

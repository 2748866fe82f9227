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
        /// The client. Ignored in requests since version 4.1: the session says who calls.
        clientid: u64,
        /// The client's name for one that locks files.
        owner: Bytes<'a, OPAQUE_LIMIT>,
    }
}

crate::layout::fields! {
    /// `open_to_lock_owner4`: an owner that has no lock by this open yet.
    OpenToLockOwner4<'a> {
        /// The number of the request among the open owner's. Ignored since version 4.1.
        open_seqid: u32,
        /// The open.
        open: Stateid4,
        /// The number of the request among the lock owner's. Ignored since version 4.1.
        lock_seqid: u32,
        /// The lock owner.
        owner: LockOwner4<'a>,
    }
}

crate::layout::fields! {
    /// `exist_lock_owner4`: an owner that has locks by an open.
    ExistLockOwner4 {
        /// His lock state.
        lock: Stateid4,
        /// The number of the request among the lock owner's. Ignored since version 4.1.
        lock_seqid: u32,
    }
}

/// Who asks for a lock (`locker4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locker4<'a> {
    /// An owner without a stateid, by an open.
    New(OpenToLockOwner4<'a>),
    /// The owner of a stateid.
    Known(ExistLockOwner4),
}

impl<'a> Locker4<'a> {
    /// An owner by an open, where requests have no numbers.
    pub const fn by_open(open: Stateid4, owner: LockOwner4<'a>) -> Self {
        Self::New(OpenToLockOwner4 { open_seqid: 0, open, lock_seqid: 0, owner })
    }

    /// The owner of a stateid, where requests have no numbers.
    pub const fn by_lock(lock: Stateid4) -> Self {
        Self::Known(ExistLockOwner4 { lock, lock_seqid: 0 })
    }
}

impl<'a> Decode<'a> for Locker4<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        if r.get()? { r.get().map(Self::New) } else { r.get().map(Self::Known) }
    }
}

impl Encode for Locker4<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::New(new) => (w.put(&true), w.put(new)).0,
            Self::Known(known) => (w.put(&false), w.put(known)).0,
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
        /// The number of the request among the lock owner's. Ignored since version 4.1.
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

//! What a simulated client of version 4 has at the server: its session or client id, the files that are open from the
//! load's beginning to its end, and what each slot has opened and locked.
//!
//! Invariant: a slot has at most one call under way, so that its owners' requests of version 4.0 are in order.

use crate::load::call::Opened;
use client::nfs4::{ClientRecord, OpenOwner};
use client::{Fh, Identity};
use proto::nfs4::{Nfsstat4, Stateid4};

/// A file that is open.
pub(crate) type OpenFile = (Fh, Stateid4);

/// What a client has at the server.
pub(crate) struct State4 {
    pub(super) identity: Identity,
    pub(super) record: ClientRecord,
    /// Who opened what is open from beginning to end.
    pub(super) owner: OpenOwner,
    /// The files that are read, by number.
    pub(super) files: Vec<OpenFile>,
    /// The client's own file.
    pub(super) own: Option<OpenFile>,
    pub(super) slots: Vec<SlotState>,
}

/// What one slot has.
pub(super) struct SlotState {
    /// The name of the slot's open owner and of its lock owner.
    pub name: [u8; 8],
    /// The numbers of the owners' next requests, which count in version 4.0 only.
    pub open_seqid: u32,
    pub lock_seqid: u32,
    /// The file that it has opened and not closed.
    pub opened: Option<OpenFile>,
    /// Its lock state, and whether it holds the lock.
    pub lock: Stateid4,
    pub is_locked: bool,
}

impl SlotState {
    pub(super) fn new(slot: usize) -> Self {
        let number = u32::try_from(slot).unwrap_or(u32::MAX).to_be_bytes();
        let mut name = *b"slot\0\0\0\0";
        if let Some(end) = name.last_chunk_mut() {
            *end = number;
        }
        let lock = Stateid4::ANONYMOUS;
        Self { name, open_seqid: 1, lock_seqid: 1, opened: None, lock, is_locked: false }
    }
}

/// Whether an owner's number advances with a request that ended so (RFC 7530 §9.1.7).
pub(super) fn advances(status: u32) -> bool {
    const NOT: [Nfsstat4; 8] = [
        Nfsstat4::StaleClientid,
        Nfsstat4::StaleStateid,
        Nfsstat4::BadStateid,
        Nfsstat4::BadSeqid,
        Nfsstat4::BadXdr,
        Nfsstat4::Resource,
        Nfsstat4::NoFilehandle,
        Nfsstat4::Moved,
    ];
    !NOT.iter().any(|not| not.number() == status)
}

impl State4 {
    pub(super) const fn minor(&self) -> u32 {
        self.record.minor
    }

    /// By which open data is read or written.
    pub(super) fn stateid(&self, slot: usize, opened: Opened) -> Stateid4 {
        let file = match opened {
            Opened::No => None,
            Opened::File(number) => self.files.get(number),
            Opened::Own => self.own.as_ref(),
            Opened::Slot => self.slots.get(slot).and_then(|slot| slot.opened.as_ref()),
        };
        file.map_or(Stateid4::ANONYMOUS, |(_, stateid)| *stateid)
    }
}

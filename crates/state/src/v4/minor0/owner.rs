//! An owner, and the seqids of its requests (RFC 7530 §9.1.7 to §9.1.11).
//!
//! A request has the seqid after that of the last one. The same request with the same seqid is a retransmission and gets
//! the kept reply; any other seqid fails. One request of an owner runs at a time. An unknown owner may begin with any
//! seqid, and its first OPEN must be confirmed before any other request.

use crate::acquire::acquire;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::{AtomicU64, AtomicUsize, Mutex};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What an owner is for: open owners and lock owners of the same name are different owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// Opens files.
    Open,
    /// Locks bytes.
    Lock,
}

/// What identifies a request, so that a retransmission is distinguished from another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its seqid.
    pub seqid: u32,
    /// The number of the operation.
    pub op: u32,
    /// A hash of its arguments and its sender.
    pub hash: u64,
    /// Its sender.
    pub user: Principal,
}

/// The reply of the last request of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptReply {
    /// The status on the wire.
    pub status: u32,
    /// What follows the status.
    pub result: Vec<u8>,
    /// The filehandle that the operation made the current one; empty if it did not change it.
    pub handle: Vec<u8>,
}

/// Why a request of an owner does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerError {
    /// There is no such client.
    StaleClientId,
    /// The client's lease has expired, and its state is lost.
    Expired,
    /// The request's seqid is neither the last one nor the next, or another request had the last one.
    BadSeqid,
    /// A request of the owner runs.
    Running,
    /// The client has too many owners.
    NoRoom,
    /// The stateid gives no right.
    Stateid(super::super::stateid::StateidError),
}

/// How a request of an owner compares with its last one.
pub(super) enum Compared {
    /// It is the next one, and runs now.
    Next,
    /// It is a retransmission of the last one; this was its reply.
    Again(KeptReply),
}

#[derive(Default)]
struct Sequence {
    /// The seqid of the last request; `None` before the first one has run.
    last: Option<u32>,
    running: bool,
    /// The last request and its reply.
    kept: Option<(Request, KeptReply)>,
    /// The open that the last request has closed: its stateid is still known, so that the CLOSE can be sent again.
    closed: Option<[u8; 12]>,
}

/// An owner.
pub(in super::super) struct Owner {
    pub kind: OwnerKind,
    pub name: Box<[u8]>,
    confirmed: AtomicUsize,
    used_ms: AtomicU64,
    sequence: Mutex<Sequence>,
    /// The stateids of its opens, or of its lock states.
    states: Mutex<BTreeSet<[u8; 12]>>,
}

/// Whether a seqid comes after another. The highest is followed by 1 (RFC 7530 §9.1.3), and in some clients by 0.
const fn follows(last: u32, seqid: u32) -> bool {
    match last {
        u32::MAX => seqid <= 1,
        last => seqid == last.wrapping_add(1),
    }
}

impl Owner {
    pub fn new(kind: OwnerKind, name: &[u8], now: Now) -> Self {
        Self {
            kind,
            name: name.into(),
            confirmed: AtomicUsize::new(usize::from(kind == OwnerKind::Lock)),
            used_ms: AtomicU64::new(now.0),
            sequence: Mutex::default(),
            states: Mutex::default(),
        }
    }

    pub fn is_confirmed(&self) -> bool {
        self.confirmed.load(Acquire) != 0
    }

    pub fn confirm(&self) {
        self.confirmed.store(1, Release);
    }

    /// Begins a request if its seqid is the right one; [`Owner::end`] or [`Owner::give_up`] must follow.
    pub(super) fn begin(&self, now: Now, request: Request) -> Result<Compared, OwnerError> {
        let mut sequence = acquire(&self.sequence);
        if sequence.running {
            return Err(OwnerError::Running);
        }
        match (sequence.last, &sequence.kept) {
            (None, _) => {}
            (Some(last), kept) if last == request.seqid => {
                return match kept {
                    Some((before, reply)) if *before == request => {
                        Ok(Compared::Again(reply.clone()))
                    }
                    _ => Err(OwnerError::BadSeqid),
                };
            }
            (Some(last), _) if follows(last, request.seqid) => {}
            _ => return Err(OwnerError::BadSeqid),
        }
        sequence.running = true;
        drop(sequence);
        self.used_ms.store(now.0, Relaxed);
        Ok(Compared::Next)
    }

    /// Ends a request that has changed nothing, not even the owner's seqid.
    pub(super) fn give_up(&self) {
        acquire(&self.sequence).running = false;
    }

    /// Ends a request: its seqid is the last one from now on, with this reply. `closed` is the open that it has closed;
    /// returns the one that the request before it had closed.
    pub(super) fn end(
        &self,
        kept: (Request, KeptReply),
        closed: Option<[u8; 12]>,
    ) -> Option<[u8; 12]> {
        let mut sequence = acquire(&self.sequence);
        sequence.last = Some(kept.0.seqid);
        sequence.kept = Some(kept);
        sequence.running = false;
        std::mem::replace(&mut sequence.closed, closed)
    }

    /// Whether a request is a retransmission of the last one.
    pub fn would_replay(&self, request: Request) -> bool {
        let sequence = acquire(&self.sequence);
        sequence.kept.as_ref().is_some_and(|(before, _)| *before == request)
    }

    pub fn is_running(&self) -> bool {
        acquire(&self.sequence).running
    }

    pub fn add_state(&self, other: [u8; 12]) {
        acquire(&self.states).insert(other);
    }

    pub fn forget_state(&self, other: &[u8; 12]) {
        acquire(&self.states).remove(other);
    }

    pub fn states(&self) -> Vec<[u8; 12]> {
        acquire(&self.states).iter().copied().collect()
    }

    pub fn state_count(&self) -> usize {
        acquire(&self.states).len()
    }

    /// How long it has not been used.
    pub fn idle_ms(&self, now: Now) -> u64 {
        now.since(self.used_ms.load(Relaxed))
    }

    /// The seqid of its last request.
    pub fn last_seqid(&self) -> Option<u32> {
        acquire(&self.sequence).last
    }

    /// Takes the open that its last request has closed.
    pub fn take_closed(&self) -> Option<[u8; 12]> {
        acquire(&self.sequence).closed.take()
    }
}

//! The state of one file, and requests for its locks.
//!
//! Owns: the ranges that are held, the share reservations, the requests that wait, the requests that the kernel is
//! being asked about (*pending*), and what the kernel was shown. Everything is under one mutex (of the file's slot in
//! [`files`](crate::files)); nothing here blocks or takes another mutex but those of hosts, waits and grace, which
//! come later in the lock order.
//!
//! Invariants:
//! - Two ranges of different owners overlap only if both are read locks.
//! - The bytes of two pending questions are disjoint: the kernel's answers do not depend on each other's order. What
//!   overlaps a pending question waits or comes back.
//! - Outside of pending bytes the kernel shows at least the strongest mode held, except for ranges that it cannot show.
//! - A pending question that takes a range keeps others from it, though it is not held yet; it ends in
//!   [`settle`](crate::State::settle) and nowhere else.

use crate::acquire::acquire;
use crate::grace::Phase;
use crate::holder::{Holder, Who};
use crate::hosts::{EntryKind, Hosts, Refusal};
use crate::image::{Image, LocalOp, Piece};
use crate::key::{FileKey, Now, Tag};
use crate::limits::Limits;
use crate::plan::{Conflict, Effects, Kept, Plan, Ticket};
use crate::range::{ByteRange, Mode};
use crate::share::Shares;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex};
use crate::table::{Entry, RangeTable};
use crate::waiter::{Retry, UnconfirmedGrants, Waiter};
use crate::waits::Waits;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What a request does if it cannot be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// It is denied.
    Try,
    /// It waits, and its client is told.
    Wait(Tag),
    /// It takes back what the client held before the restart.
    Reclaim,
}

/// A request for a byte range.
#[derive(Debug, Clone)]
pub struct LockRequest<'a> {
    /// For whom.
    pub who: Who<'a>,
    /// The bytes.
    pub range: ByteRange,
    /// How they are to be held.
    pub mode: Mode,
    /// What happens if they cannot be.
    pub how: How,
    /// Local programs are excluded as well. The first request for a file without state decides for all that follow.
    pub local: bool,
    /// The host is to be recorded before it holds anything. False only for NLM_NM_LOCK and where somebody else
    /// monitors.
    pub monitored: bool,
    /// Keeps the file reachable; needed with the first lock of a file, handed back with the last.
    pub kept: Option<Kept>,
}

/// What the functions of a file need besides it.
pub(crate) struct Cx<'a> {
    pub now: Now,
    pub key: FileKey,
    pub limits: &'a Limits,
    pub hosts: &'a Mutex<Hosts>,
    pub waits: &'a Mutex<Waits>,
    pub tickets: &'a AtomicU64,
    pub phase: &'a AtomicUsize,
    pub effects: &'a mut Effects,
}

impl Cx<'_> {
    pub fn ticket(&self) -> Ticket {
        Ticket { file: self.key, number: self.tickets.fetch_add(1, Relaxed) }
    }

    /// Read with the file's mutex held: a new lock of this file that was granted after the grace period happened
    /// before, and then this is false.
    pub fn may_reclaim(&self) -> bool {
        Phase::from_number(self.phase.load(Acquire)) == Phase::Reclaiming
    }

    /// Whether the owner's host has sent no call for so long that others may have its locks.
    fn is_silent(&self, holder: &Holder) -> bool {
        acquire(self.hosts).is_silent(self.now, holder.host(), self.limits)
    }

    pub fn claim(&self, holder: &Holder, kind: EntryKind) -> Result<(), Refusal> {
        acquire(self.hosts).claim(holder.host(), &self.key, kind, self.limits)
    }

    /// Whether the limits allow the owner's host one more range by UNLOCK.
    pub fn may_split(&self, who: &Who<'_>) -> bool {
        acquire(self.hosts).may_split(who.host(), &self.key, self.limits)
    }

    pub fn unclaim(&self, holder: &Holder, kind: EntryKind) {
        acquire(self.hosts).unclaim(holder.host(), &self.key, kind);
    }
}

/// Where a request stands that the kernel is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Its call waits for the answer.
    Request(How),
    /// It stands in the queue.
    Queue(Tag),
}

/// A range that will be held if the kernel agrees: the tentative entry.
#[derive(Debug, Clone)]
pub(crate) struct Take {
    pub holder: Arc<Holder>,
    pub range: ByteRange,
    pub mode: Mode,
    pub origin: Origin,
    /// What the owner unlocked meanwhile.
    pub unlocked: Vec<ByteRange>,
    /// The request was cancelled or its host dropped.
    pub gone: bool,
}

/// A question to the kernel that has not been answered.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub number: u64,
    /// The bytes that nobody else may ask about.
    pub extent: ByteRange,
    pub pieces: Vec<Piece>,
    /// What is to be held; `None` if the question only weakens.
    pub take: Option<Take>,
    /// The description is closed afterwards.
    pub last: bool,
    pub since_ms: u64,
}

/// What TEST finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestAnswer {
    /// No NFS owner is in the way; a local program may be.
    Free,
    /// This lock is.
    Held(Conflict),
    /// A request that is being decided may be: ask again.
    Again,
}

/// The state.
#[derive(Clone, Default)]
pub(crate) struct FileState {
    pub ranges: RangeTable,
    /// How many ranges each owner has.
    pub owners: HashMap<Arc<Holder>, usize>,
    pub shares: Shares,
    pub waiters: VecDeque<Waiter>,
    pub pending: Vec<Pending>,
    pub unconfirmed: UnconfirmedGrants,
    pub image: Image,
    /// Whoever asks the kernel may have a description of the file open.
    pub described: bool,
    pub local: bool,
    pub kept: Option<Kept>,
    /// The slot is no longer in the map: look the file up again.
    pub removed: bool,
    /// Under which time the file stands in the index of retries.
    pub retry_ms: Option<u64>,
}

impl FileState {
    /// Whether nobody has anything here.
    pub fn is_empty(&self) -> bool {
        self.is_idle() && self.shares.is_empty()
    }

    /// Whether nothing is held, waited for or being decided.
    pub fn is_idle(&self) -> bool {
        self.ranges.len() == 0 && self.waiters.is_empty() && self.pending.is_empty()
    }

    /// When the first request that a local program blocks is to be tried again.
    pub fn next_retry_ms(&self) -> Option<u64> {
        let retries = self.waiters.iter().filter(|waiter| !waiter.trying);
        retries.filter_map(|waiter| waiter.retry).map(|retry| retry.at_ms).min()
    }

    /// What is in the way of a lock.
    pub fn test(&self, who: &Who<'_>, range: ByteRange, mode: Mode) -> TestAnswer {
        if let Some(entry) = self.ranges.conflict(who, range, mode) {
            return TestAnswer::Held(conflict_with(entry));
        }
        let tentative = self.pending.iter().filter_map(|pending| pending.take.as_ref());
        let mut tentative = tentative.filter(|take| !take.gone && take.holder.who() != *who);
        match tentative.any(|take| take.mode.conflicts(mode) && take.range.overlaps(range)) {
            true => TestAnswer::Again,
            false => TestAnswer::Free,
        }
    }

    /// Asks for a lock.
    pub fn lock(&mut self, cx: &mut Cx<'_>, request: &LockRequest<'_>) -> Plan {
        let LockRequest { who, range, mode, how, .. } = request;
        if self.ranges.held(who, *range) == Some(*mode) {
            self.unconfirmed.confirm_overlapping(who, *range);
            return Plan::Granted;
        }
        let mut waiting = self.waiters.iter().filter(|waiter| waiter.is(who, *range, *mode));
        if let (How::Wait(_), Some(waiter)) = (how, waiting.next()) {
            return Plan::Blocked(waiter.tag);
        }
        if self.asks_already(who, *range) {
            return Plan::Again;
        }
        if let Some(entry) = self.ranges.conflict(who, *range, *mode) {
            if cx.is_silent(&entry.holder) {
                return Plan::Silent(entry.holder.host());
            }
            return self.refuse(cx, request, Some(conflict_with(entry)));
        }
        if self.pending_meets(*range) {
            return self.refuse(cx, request, None);
        }
        if *how == How::Reclaim && !cx.may_reclaim() {
            return Plan::NoGrace;
        }
        if self.is_empty() {
            self.local = request.local;
        }
        let holder = Arc::new(who.to_holder());
        self.begin(cx, &holder, request)
    }

    /// The refusal of a request that somebody's lock is in the way of.
    pub fn denied(&self, cx: &Cx<'_>, request: &LockRequest<'_>) -> Option<Plan> {
        let found = self.ranges.conflict(&request.who, request.range, request.mode)?;
        (!cx.is_silent(&found.holder)).then(|| Plan::Denied(conflict_with(found)))
    }

    /// Whether the kernel is being asked for a range of this owner that overlaps.
    fn asks_already(&self, who: &Who<'_>, range: ByteRange) -> bool {
        let takes = self.pending.iter().filter_map(|pending| pending.take.as_ref());
        takes.filter(|take| take.range.overlaps(range)).any(|take| take.holder.who() == *who)
    }

    /// Whether a question to the kernel is pending about some of these bytes.
    pub fn pending_meets(&self, range: ByteRange) -> bool {
        self.pending.iter().any(|pending| pending.extent.overlaps(range))
    }

    /// Whether the limits allow this owner another range; a change may cut one into three.
    pub fn has_room(&self, holder: &Arc<Holder>, limits: &Limits) -> bool {
        let own = self.owners.get(holder).copied().unwrap_or_default();
        self.ranges.len() + 2 <= limits.ranges_per_file && own + 2 <= limits.ranges_per_owner
    }

    /// Nothing in the table is in the way: ask the kernel if need be, else take the range.
    fn begin(&mut self, cx: &mut Cx<'_>, holder: &Arc<Holder>, request: &LockRequest<'_>) -> Plan {
        if !self.has_room(holder, cx.limits) {
            return Plan::NoRoom;
        }
        if let Err(refusal) = cx.claim(holder, EntryKind::Range) {
            return refused(refusal);
        }
        let LockRequest { range, mode, how, .. } = *request;
        let pieces = self.needed(range, mode);
        if pieces.is_empty() {
            self.end_request(cx, holder, range, mode);
            if self.hold(cx, holder, range, mode) {
                self.update_kernel(cx, range);
                self.promote(cx);
            }
            return Plan::Granted;
        }
        let origin = Origin::Request(how);
        let (holder, unlocked) = (Arc::clone(holder), Vec::new());
        let take = Take { holder, range, mode, origin, unlocked, gone: false };
        let (ticket, op) = self.ask(cx, range, pieces, Some(take));
        Plan::Local(ticket, op)
    }

    /// What the kernel must be asked before this range is held.
    pub fn needed(&self, range: ByteRange, mode: Mode) -> Vec<Piece> {
        if self.local { self.image.to_strengthen(range, mode) } else { Vec::new() }
    }

    /// Notes a question to the kernel about the bytes of `extent`.
    pub fn ask(
        &mut self,
        cx: &Cx<'_>,
        extent: ByteRange,
        pieces: Vec<Piece>,
        take: Option<Take>,
    ) -> (Ticket, LocalOp) {
        let ticket = cx.ticket();
        let last = take.is_none() && self.is_idle();
        self.described = true;
        let op = LocalOp { file: cx.key, pieces: pieces.clone(), last };
        let (number, since_ms) = (ticket.number, cx.now.0);
        self.pending.push(Pending { number, extent, pieces, take, last, since_ms });
        (ticket, op)
    }

    /// Puts a range that was claimed into the table; says whether some of it is held less strongly than before.
    pub fn hold(
        &mut self,
        cx: &Cx<'_>,
        holder: &Arc<Holder>,
        range: ByteRange,
        mode: Mode,
    ) -> bool {
        let weakens = mode == Mode::Read && self.ranges.writes_in(&holder.who(), range);
        let holder = self.owners.get_key_value(holder).map_or(holder, |(known, _)| known).clone();
        let grown = self.ranges.set(&holder, range, mode);
        self.count(cx, &holder, grown);
        cx.unclaim(&holder, EntryKind::Range);
        weakens
    }

    /// Counts ranges of an owner that came or went.
    pub fn count(&mut self, cx: &Cx<'_>, holder: &Arc<Holder>, grown: isize) {
        let own = self.owners.get(holder).copied().unwrap_or_default();
        match own.saturating_add_signed(grown) {
            0 => self.owners.remove(holder),
            own => self.owners.insert(Arc::clone(holder), own),
        };
        acquire(cx.hosts).ranges_grew(holder.host(), &cx.key, grown);
    }

    /// Something is in the way: a conflict, or, if there is `None`, a question to the kernel.
    fn refuse(
        &mut self,
        cx: &mut Cx<'_>,
        request: &LockRequest<'_>,
        conflict: Option<Conflict>,
    ) -> Plan {
        let plan = conflict.map_or(Plan::Again, Plan::Denied);
        let How::Wait(tag) = request.how else { return plan };
        let holder = Arc::new(request.who.to_holder());
        let (range, mode) = (request.range, request.mode);
        let waiter = Waiter { tag, holder, range, mode, retry: None, trying: false };
        match self.enqueue(cx, waiter) {
            Ok(()) => Plan::Blocked(tag),
            Err(Refusal::UnknownHost) => Plan::UnknownHost,
            Err(Refusal::NoRoom) => plan,
        }
    }

    /// Puts a request at the end of the queue.
    pub fn enqueue(&mut self, cx: &Cx<'_>, waiter: Waiter) -> Result<(), Refusal> {
        let host = waiter.holder.host();
        let own = || self.waiters.iter().filter(|other| other.holder.host() == host).count();
        let (waiting, most) = (self.waiters.len(), cx.limits.waiters_per_host_and_file);
        if waiting >= cx.limits.waiters_per_file || waiting >= most && own() >= most {
            return Err(Refusal::NoRoom);
        }
        cx.claim(&waiter.holder, EntryKind::Waiter)?;
        acquire(cx.waits).add(&waiter.holder, cx.key, waiter.tag);
        self.waiters.push_back(waiter);
        Ok(())
    }

    /// Takes a request out of the queue.
    pub fn dequeue(&mut self, cx: &Cx<'_>, at: usize) -> Option<Waiter> {
        let waiter = self.waiters.remove(at)?;
        acquire(cx.waits).remove(&waiter.holder, cx.key, waiter.tag);
        cx.unclaim(&waiter.holder, EntryKind::Waiter);
        Some(waiter)
    }

    /// Marks the request at this place as blocked by a local program, once more.
    pub fn retry_later(&mut self, cx: &Cx<'_>, tag: Tag) {
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.tag == tag) {
            waiter.trying = false;
            waiter.retry = Some(Retry::after(waiter.retry, cx.now, cx.limits));
        }
    }
}

/// What the answer says of a lock in the way.
pub(crate) fn conflict_with(entry: Entry) -> Conflict {
    Conflict::Lock { holder: entry.holder, range: entry.range, mode: entry.mode }
}

/// What a refusal comes to.
pub(crate) const fn refused(refusal: Refusal) -> Plan {
    match refusal {
        Refusal::UnknownHost => Plan::UnknownHost,
        Refusal::NoRoom => Plan::NoRoom,
    }
}

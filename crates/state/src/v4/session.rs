//! A session, and SEQUENCE (RFC 8881 §18.46).

use super::arriving::ArrivingRequest;
use super::client::Client;
use super::machine::{BoundConns, MachineCredential};
use super::requester::Requester;
use super::rows::SessionRow;
use super::slot::{Begin, Slot};
use super::slots::Slots;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::{Arc, AtomicUsize};
use std::sync::atomic::Ordering::Relaxed;

pub use super::stateid::SessionId;

/// What requests of a session are like: what was granted of what the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelLimits {
    /// The longest request, with its RPC header.
    pub request_bytes: u32,
    /// The longest reply.
    pub response_bytes: u32,
    /// The longest reply that is kept.
    pub cached_bytes: u32,
    /// The most operations of a COMPOUND.
    pub operations: u32,
    /// The number of slots.
    pub slots: u32,
}

/// A session that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// Its name.
    pub session: SessionId,
    /// The request's number.
    pub sequence: u32,
    /// What was granted.
    pub limits: ChannelLimits,
    /// Whether its first connection is used for callbacks.
    pub back_channel: bool,
}

/// Why SEQUENCE fails; the slot is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceError {
    /// There is no slot of this number.
    BadSlot,
    /// The highest slot that the client uses is none.
    BadHighSlot,
    /// The request's number is neither the last one of its slot nor the next.
    Misordered,
    /// The request runs already.
    Running,
    /// It has run, and its reply was not kept.
    Uncached,
    /// Another request with its number has run.
    FalseRetry,
    /// The session is no more.
    Dead,
    /// The client's lease is over, and its state is being removed for somebody else's request.
    BeingRemoved,
}

/// How SEQUENCE went.
#[derive(Debug)]
pub enum Started<'s> {
    /// The request runs now.
    Run(SlotTicket<'s>),
    /// The request has run; this was its reply.
    Replay(Vec<u8>),
}

/// Flags of SEQUENCE's answer (`sr_status_flags`, RFC 8881 §18.46.3).
pub mod status_flags {
    /// No session of the client has a way for callbacks.
    pub const CB_PATH_DOWN: u32 = 1;
    /// This session has none.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x200;
    /// State was taken from the client by the operator, and it has not freed all of it.
    pub const ADMIN_STATE_REVOKED: u32 = 0x20;
    /// A delegation that was not returned in time was revoked, and the client has not freed its stateid.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x40;
    /// The session's back channel is beyond repair.
    pub const BACKCHANNEL_FAULT: u32 = 0x400;
}

/// The highest of so many slots.
fn last_of(slots: usize) -> u32 {
    u32::try_from(slots.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// A session.
pub struct Session {
    pub(super) id: SessionId,
    pub(super) client: Arc<Client>,
    limits: ChannelLimits,
    pub(super) slots: Slots,
    /// Whether the client wants as many slots as it can get.
    grows: bool,
    /// Not 0 once it has been destroyed.
    ended: AtomicUsize,
    /// [`status_flags`].
    status: AtomicUsize,
    /// Not 0 while callbacks to the client can be expected to arrive.
    callbacks: AtomicUsize,
    /// The connections that it takes requests from; `None`: from all.
    bound: Option<BoundConns>,
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        client: Arc<Client>,
        limits: ChannelLimits,
        (slots, grows): (Slots, bool),
    ) -> Self {
        let binds = client.machine.is_some_and(|machine| machine.binds_connections());
        Self {
            bound: binds.then(BoundConns::default),
            id,
            client,
            limits,
            slots,
            grows,
            ended: AtomicUsize::new(0),
            status: AtomicUsize::new(0),
            callbacks: AtomicUsize::new(0),
        }
    }

    /// What SEQUENCE's answer says besides: [`status_flags`].
    pub fn status(&self, now: Now) -> u32 {
        let revoked = self.client.revoked.is_told(now);
        let revoked = if revoked { status_flags::ADMIN_STATE_REVOKED } else { 0 };
        let recallable = match self.client.revoked_delegations.is_told(now) {
            true => status_flags::RECALLABLE_STATE_REVOKED,
            false => 0,
        };
        self.status.load(Relaxed) as u32 | revoked | recallable
    }

    /// The client has tested stateids (RFC 8881 §18.48), as it does to find those that were revoked. `lease_ms` is the lease.
    pub fn note_search(&self, now: Now, lease_ms: u64) {
        self.client.revoked.note_search(now, lease_ms);
        self.client.revoked_delegations.note_search(now, lease_ms);
    }

    /// Sets the flags of `mask` to those of `flags`.
    pub fn set_status(&self, mask: u32, flags: u32) {
        let change = |before: usize| {
            let after = (before as u32 & !mask) | (flags & mask);
            (after != before as u32).then_some(after as usize)
        };
        let _same = self.status.fetch_update(Relaxed, Relaxed, change);
    }

    /// Whether callbacks to the client can be expected to arrive, by this session or another.
    pub fn has_callbacks(&self) -> bool {
        self.callbacks.load(Relaxed) != 0
    }

    /// Notes that.
    pub fn set_callbacks(&self, arrive: bool) {
        self.callbacks.store(usize::from(arrive), Relaxed);
    }

    /// Whether it has been destroyed.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Relaxed) != 0
    }

    /// Its name.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// What its requests are like.
    pub const fn limits(&self) -> &ChannelLimits {
        &self.limits
    }

    /// The highest slot that the client may use now.
    pub fn highest_slot(&self) -> u32 {
        last_of(self.slots.count())
    }

    /// The same, and the highest that it is to use from now on.
    pub fn highest_slots(&self) -> (u32, u32) {
        let (count, target) = self.slots.count_and_target();
        (last_of(count), last_of(target))
    }

    /// The client that it belongs to.
    pub fn client_id(&self) -> u64 {
        self.client.id
    }

    /// The state protection of its client, and whose credential it is by.
    pub fn machine(&self) -> Option<(Principal, MachineCredential)> {
        Some((self.client.principal, self.client.machine?))
    }

    /// Takes requests from a connection as well, from now on.
    pub fn bind(&self, conn: u64) {
        if let Some(bound) = &self.bound {
            bound.bind(conn);
        }
    }

    /// Whether it takes a request that came by the connection that `conn` gives.
    pub fn takes_from(&self, conn: impl FnOnce() -> Option<u64>) -> bool {
        self.bound.as_ref().is_none_or(|bound| conn().is_some_and(|conn| bound.has(conn)))
    }

    /// Takes a slot for a request; `request` is a hash of it and of who sends it. The client's lease is renewed.
    ///
    /// # Errors
    /// [`SequenceError`]; then nothing has changed.
    #[inline(always)]
    pub fn sequence(
        &self,
        now: Now,
        (slot, number): (u32, u32),
        highest_slot: u32,
        request: u64,
    ) -> Result<Started<'_>, SequenceError> {
        let place = usize::try_from(slot).map_err(|_| SequenceError::BadSlot)?;
        let (count, target) = self.slots.count_and_target();
        let slot = self.slots.within(count, place).ok_or(SequenceError::BadSlot)?;
        if highest_slot > last_of(count) {
            return Err(SequenceError::BadHighSlot);
        }
        if self.ended.load(Relaxed) != 0 {
            return Err(SequenceError::Dead);
        }
        if self.client.is_leaving() {
            return Err(SequenceError::BeingRemoved);
        }
        match slot.begin(number, request) {
            Begin::Run => {
                self.client.renew(now);
                self.note_slots_of((count, target), (slot, place), highest_slot);
                Ok(Started::Run(SlotTicket::new(slot)))
            }
            Begin::Replay(reply) => {
                self.client.renew(now);
                Ok(Started::Replay(reply))
            }
            Begin::Running => Err(SequenceError::Running),
            Begin::Uncached => Err(SequenceError::Uncached),
            Begin::FalseRetry => Err(SequenceError::FalseRetry),
            Begin::Misordered => Err(SequenceError::Misordered),
        }
    }

    /// Takes a slot for a request of which the beginning has come, if it is the next one on its slot. The client's lease is
    /// renewed.
    pub fn begin_arriving(
        self: &Arc<Self>,
        now: Now,
        (slot, number): (u32, u32),
        highest_slot: u32,
        request: u64,
    ) -> Option<ArrivingRequest> {
        let slot = usize::try_from(slot).ok()?;
        let found = self.slots.get(slot)?;
        let refused = highest_slot > self.highest_slot() || self.is_ended();
        if refused || self.client.is_leaving() {
            return None;
        }
        let before = found.begin_arriving(number, request)?;
        self.client.renew(now);
        Some(ArrivingRequest::new(Arc::clone(self), slot, number, before))
    }

    /// What the request that has just got a slot says of the client's slots.
    #[inline(always)]
    pub(super) fn note_slots(&self, slot: (&Slot, usize), highest_slot: u32) {
        self.note_slots_of(self.slots.count_and_target(), slot, highest_slot);
    }

    /// The same, with how many there are, and how many the client is to use.
    #[inline(always)]
    fn note_slots_of(
        &self,
        (count, target): (usize, usize),
        slot: (&Slot, usize),
        highest_slot: u32,
    ) {
        if target != count {
            self.slots.heard(slot.0, highest_slot);
        } else if slot.1.saturating_add(1) == count && self.grows {
            self.slots.grow();
        }
    }

    /// The client, which asks for state in this session.
    pub const fn requester(&self) -> Requester<'_> {
        Requester::new(&self.client)
    }

    pub(super) fn row(&self) -> SessionRow {
        let count = |is: fn(&Slot) -> bool| self.slots.iter().filter(|slot| is(slot)).count();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        SessionRow {
            id: self.id,
            client: self.client.id,
            slots: number(self.slots.count()),
            request_bytes: self.limits.request_bytes,
            response_bytes: self.limits.response_bytes,
            slots_used: number(count(Slot::was_used)),
            slots_running: number(count(Slot::is_running)),
            callbacks: self.has_callbacks(),
        }
    }

    pub(super) fn end(&self) {
        self.ended.store(1, Relaxed);
        self.slots.end();
    }
}

/// The slot of a request that runs. Dropped without [`SlotTicket::finish`], as by a panic, it ends the request without
/// a reply to keep.
#[derive(Debug)]
pub struct SlotTicket<'s> {
    slot: Option<&'s Slot>,
}

impl<'s> SlotTicket<'s> {
    pub(super) const fn new(slot: &'s Slot) -> Self {
        Self { slot: Some(slot) }
    }

    /// Ends the request, and keeps its reply if there is one to keep.
    #[inline(always)]
    pub fn finish(mut self, reply: Option<&[u8]>) {
        if let Some(slot) = self.slot.take() {
            slot.finish(reply);
        }
    }
}

impl Drop for SlotTicket<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.finish(None);
        }
    }
}

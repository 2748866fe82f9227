//! A request of which the beginning has come, and whose data is used as it arrives. Its slot says so: what that means is told
//! in [`slot`](super::slot).

use super::session::{Session, SlotTicket};
use super::slot::{Before, Slot};
use crate::sync::Arc;

/// A request that arrives. Dropped before it has run, it has not: its slot is put back as it was.
pub struct ArrivingRequest {
    session: Arc<Session>,
    slot: usize,
    number: u32,
    before: Before,
}

impl ArrivingRequest {
    pub(super) const fn new(
        session: Arc<Session>,
        slot: usize,
        number: u32,
        before: Before,
    ) -> Self {
        Self { session, slot, number, before }
    }

    /// The session that it is of.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn slot(&self) -> Option<&Slot> {
        self.session.slots.get(self.slot)
    }

    /// Takes the slot back, if the session is there and the request has not come again.
    fn take_back(&self) -> Option<&Slot> {
        self.slot().filter(|slot| !self.session.is_ended() && slot.resume(self.number))
    }

    /// Holds the slot while a piece of the data is used; `None` if the client has sent the request again meanwhile, or
    /// destroyed the session, so that nothing more is to be used of this one.
    pub fn resume(&self) -> Option<Resumed<'_>> {
        let slot = self.take_back()?;
        Some(Resumed { slot, number: self.number })
    }

    /// Runs the request, all of which has come; `None` as for [`ArrivingRequest::resume`]. `highest_slot` is what the
    /// request says of the client's slots.
    pub fn run(&self, highest_slot: u32) -> Option<SlotTicket<'_>> {
        let slot = self.take_back()?;
        self.session.note_slots((slot, self.slot), highest_slot);
        Some(SlotTicket::new(slot))
    }
}

impl Drop for ArrivingRequest {
    fn drop(&mut self) {
        if let Some(slot) = self.slot() {
            slot.abandon(self.number, self.before);
        }
    }
}

/// The slot of a request, a piece of which is being used.
#[must_use = "the slot is held only as long as this lives"]
pub struct Resumed<'a> {
    slot: &'a Slot,
    number: u32,
}

impl Drop for Resumed<'_> {
    fn drop(&mut self) {
        self.slot.pause(self.number);
    }
}

//! Where the one thing is that only one thread may use at a time (a connection's receiving half):
//! at home, or out with a worker.
//!
//! It is the kernel's `XPT_BUSY` and `XPT_DATA` as a type. Whoever takes the thing has it alone.
//! What happens to it meanwhile (data arrives, a detached call ends) is noted, and whoever brings
//! it back is told and keeps it, to look again: nothing that happened is lost, and two workers
//! never have it at once. The lock guards one word and is held for a few instructions.

use crate::sync::Mutex;
use std::sync::PoisonError;

/// The place of a `T`.
#[derive(Debug)]
pub(crate) struct ExclusiveSlot<T>(Mutex<SlotState<T>>);

#[derive(Debug)]
enum SlotState<T> {
    Present(T),
    Taken,
    /// Out, and something has happened since.
    TakenNotified,
    /// There is no way back.
    Closed,
}

/// What a look for the thing finds.
#[derive(Debug)]
pub(crate) enum Take<T> {
    /// The thing; the caller has it alone.
    Value(T),
    /// Somebody else has it and will be told on the way back.
    Busy,
    /// It has gone for good.
    Closed,
}

/// What becomes of a thing that is brought back.
#[derive(Debug)]
pub(crate) enum Put<T> {
    /// It is home.
    Done,
    /// Something happened meanwhile: look again. The caller has it still.
    Recheck(T),
    /// There is no way back.
    Closed(T),
}

impl<T> ExclusiveSlot<T> {
    /// With the thing out; its owner brings it first.
    pub fn new_taken() -> Self {
        Self(Mutex::new(SlotState::Taken))
    }

    /// Takes it, or leaves word that it is wanted.
    pub fn take(&self) -> Take<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, SlotState::TakenNotified) {
            SlotState::Present(it) => {
                *state = SlotState::Taken;
                Take::Value(it)
            }
            SlotState::Taken | SlotState::TakenNotified => Take::Busy,
            SlotState::Closed => {
                *state = SlotState::Closed;
                Take::Closed
            }
        }
    }

    /// Brings it back.
    pub fn put(&self, it: T) -> Put<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            SlotState::TakenNotified => {
                *state = SlotState::Taken;
                Put::Recheck(it)
            }
            SlotState::Closed => Put::Closed(it),
            SlotState::Taken | SlotState::Present(_) => {
                *state = SlotState::Present(it);
                Put::Done
            }
        }
    }

    /// Whether nobody has it, as of now.
    pub fn is_present(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), SlotState::Present(_))
    }

    /// Closes the way back; the thing, if it is here.
    pub fn close(&self) -> Option<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, SlotState::Closed) {
            SlotState::Present(it) => Some(it),
            SlotState::Taken | SlotState::TakenNotified | SlotState::Closed => None,
        }
    }
}

//! A slot for a value that only one thread may use at a time (a connection's receiving half): the value is in
//! the slot, or with the thread that has taken it.
//!
//! It is the kernel's `XPT_BUSY` and `XPT_DATA` as a type. An attempt to take the value while it is taken (data
//! arrived, a detached call ended) is noted, and the thread that puts the value back keeps it, to check again:
//! no event is lost, and two workers never have it at once. The lock guards one word and is held for a few
//! instructions.

use crate::sync::Mutex;
use std::sync::PoisonError;

/// The slot of a `T`.
#[derive(Debug)]
pub(crate) struct ExclusiveSlot<T>(Mutex<SlotState<T>>);

#[derive(Debug)]
enum SlotState<T> {
    Present(T),
    Taken,
    /// Taken, and somebody has tried to take it since.
    TakenNotified,
    /// It is not put back any more.
    Closed,
}

/// What an attempt to take the value gives.
#[derive(Debug)]
pub(crate) enum Take<T> {
    /// The value; the caller has it alone.
    Value(T),
    /// Another thread has it, and will check again when it puts it back.
    Busy,
    /// The slot is closed.
    Closed,
}

/// What becomes of a value that is put back.
#[derive(Debug)]
pub(crate) enum Put<T> {
    /// It is in the slot.
    Done,
    /// Somebody has tried to take it meanwhile: check again. The caller has it still.
    Recheck(T),
    /// The slot is closed.
    Closed(T),
}

impl<T> ExclusiveSlot<T> {
    /// A slot whose value is taken; its owner puts it in first.
    pub fn new_taken() -> Self {
        Self(Mutex::new(SlotState::Taken))
    }

    /// Takes it, or notes that it is wanted.
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

    /// Puts it back.
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

    /// Whether nobody has taken it, as of now.
    pub fn is_present(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), SlotState::Present(_))
    }

    /// Closes the slot; the value, if it is in it.
    pub fn close(&self) -> Option<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, SlotState::Closed) {
            SlotState::Present(it) => Some(it),
            SlotState::Taken | SlotState::TakenNotified | SlotState::Closed => None,
        }
    }
}

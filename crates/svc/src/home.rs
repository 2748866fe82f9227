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
pub(crate) struct Home<T>(Mutex<Place<T>>);

#[derive(Debug)]
enum Place<T> {
    Here(T),
    Out,
    /// Out, and something has happened since.
    OutWanted,
    /// There is no way back.
    Closed,
}

/// What a look for the thing finds.
#[derive(Debug)]
pub(crate) enum Took<T> {
    /// The thing; the caller has it alone.
    It(T),
    /// Somebody else has it and will be told on the way back.
    Out,
    /// It has gone for good.
    Closed,
}

/// What becomes of a thing that is brought back.
#[derive(Debug)]
pub(crate) enum Put<T> {
    /// It is home.
    Done,
    /// Something happened meanwhile: look again. The caller has it still.
    Again(T),
    /// There is no way back.
    Closed(T),
}

impl<T> Home<T> {
    /// With the thing out; its owner brings it first.
    pub fn away() -> Self {
        Self(Mutex::new(Place::Out))
    }

    /// Takes it, or leaves word that it is wanted.
    pub fn take(&self) -> Took<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::OutWanted) {
            Place::Here(it) => {
                *place = Place::Out;
                Took::It(it)
            }
            Place::Out | Place::OutWanted => Took::Out,
            Place::Closed => {
                *place = Place::Closed;
                Took::Closed
            }
        }
    }

    /// Brings it back.
    pub fn put(&self, it: T) -> Put<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *place {
            Place::OutWanted => {
                *place = Place::Out;
                Put::Again(it)
            }
            Place::Closed => Put::Closed(it),
            Place::Out | Place::Here(_) => {
                *place = Place::Here(it);
                Put::Done
            }
        }
    }

    /// Whether nobody has it, as of now.
    pub fn is_here(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), Place::Here(_))
    }

    /// Closes the way back; the thing, if it is here.
    pub fn close(&self) -> Option<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::Closed) {
            Place::Here(it) => Some(it),
            Place::Out | Place::OutWanted | Place::Closed => None,
        }
    }
}

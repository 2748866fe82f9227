//! Authentication flavours (RFC 5531 §8.2, §10) and the table that calls look them up in.
//!
//! Flavours can be added and removed while calls run. A call reads the table as a
//! [`Snapshot`]: no lock, no reference count, no write that another thread's call would see.
//! Writers copy the table and swap it; `writing` keeps them apart and is never held while anything
//! waits.
//!
//! Invariant: [`AuthTable::remove`] returns only when no call is inside the flavour any more. A
//! call that has been told who is calling goes on with what it was told.

mod none;
mod unix;

use crate::Credential;
use ::sys::snapshot::{Brief, Snapshot};
use proto::rpc::{AuthStat, OpaqueAuth, flavor};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use none::AuthNone;
pub use unix::AuthSysFlavor;

/// Flavour numbers are below this: RPCSEC_GSS (6) and TLS (7) are the highest on the wire.
pub const FLAVORS_MAX: usize = 8;

/// How long [`AuthTable::remove`] sleeps before it looks again for tables that are being dropped.
const REMOVE_POLL: Duration = Duration::from_micros(100);

/// A way to tell who is calling.
pub trait Flavor: Send + Sync {
    /// Its number, below [`FLAVORS_MAX`].
    fn number(&self) -> u32;

    /// Reads a credential of this flavour. Must not wait for anything.
    ///
    /// # Errors
    /// What the client is told in MSG_DENIED / AUTH_ERROR.
    fn authenticate<'a>(
        &self,
        credential: &OpaqueAuth<'a>,
        verifier: &OpaqueAuth<'a>,
    ) -> Result<Credential<'a>, AuthStat>;
}

/// Why a flavour cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The number is [`FLAVORS_MAX`] or higher.
    #[error("flavour {0} is out of range")]
    OutOfRange(u32),
    /// There is a flavour of this number already; remove it first.
    #[error("flavour {0} is there already")]
    Taken(u32),
}

/// A flavour; counts the tables that hold it.
type Entry = Arc<Box<dyn Flavor>>;
type Slots = [Option<Entry>; FLAVORS_MAX];

/// The flavours in force.
pub struct AuthTable {
    slots: Snapshot<Slots, Brief>,
    /// Guards the way from copying `slots` to swapping it.
    writing: Mutex<()>,
}

impl Default for AuthTable {
    fn default() -> Self {
        let mut slots: Slots = Slots::default();
        let standard: [Box<dyn Flavor>; 2] = [Box::new(AuthNone), Box::new(AuthSysFlavor)];
        for (slot, flavor) in slots.iter_mut().zip(standard) {
            *slot = Some(Arc::new(flavor));
        }
        Self { slots: Snapshot::new(slots), writing: Mutex::new(()) }
    }
}

impl AuthTable {
    /// Tells who is calling.
    ///
    /// # Errors
    /// AUTH_BADCRED for a flavour that is not there, AUTH_REJECTEDCRED if it is AUTH_SHORT: the
    /// client then comes again with the whole credential (RFC 5531, appendix A). Else those of
    /// the flavour.
    pub fn authenticate<'a>(
        &self,
        credential: &OpaqueAuth<'a>,
        verifier: &OpaqueAuth<'a>,
    ) -> Result<Credential<'a>, AuthStat> {
        let slots = self.slots.load();
        match index(credential.flavor).and_then(|i| slots.get(i)).and_then(Option::as_ref) {
            Some(flavor) => flavor.authenticate(credential, verifier),
            None if credential.flavor == flavor::AUTH_SHORT => Err(AuthStat::RejectedCred),
            None => Err(AuthStat::BadCred),
        }
    }

    /// Puts a flavour into force for all calls that come from now on.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add(&self, flavor: Box<dyn Flavor>) -> Result<(), AddError> {
        let number = flavor.number();
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slots = Slots::clone(&self.slots.load());
        let slot = index(number).and_then(|i| slots.get_mut(i));
        let slot = slot.ok_or(AddError::OutOfRange(number))?;
        if slot.is_some() {
            return Err(AddError::Taken(number));
        }
        *slot = Some(Arc::new(flavor));
        self.slots.replace(slots);
        Ok(())
    }

    /// Takes a flavour out of force, waits until the last call has left it, and hands it back;
    /// `None` if it is not there. Never to be called from inside a flavour.
    pub fn remove(&self, number: u32) -> Option<Box<dyn Flavor>> {
        let (entry, replaced) = {
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut slots = Slots::clone(&self.slots.load());
            let entry = slots.get_mut(index(number)?)?.take()?;
            (entry, self.slots.begin_replacing(slots))
        };
        drop(replaced.wait());
        // Nobody can be inside any more, nor come to be. Older tables that hold the entry have no
        // readers either; they go now, unless another writer is just dropping them.
        let mut entry = entry;
        loop {
            self.slots.collect();
            match Arc::try_unwrap(entry) {
                Ok(flavor) => return Some(flavor),
                Err(shared) => entry = shared,
            }
            std::thread::sleep(REMOVE_POLL);
        }
    }
}

/// A flavour's place; bounds are checked by whoever uses it.
fn index(flavor: u32) -> Option<usize> {
    usize::try_from(flavor).ok().filter(|i| *i < FLAVORS_MAX)
}

/// The verifier that goes with both standard flavours is of flavour AUTH_NONE (RFC 5531,
/// appendix A); its body is undefined (§10.1) and not looked at.
const fn unproved(verifier: &OpaqueAuth<'_>) -> Result<(), AuthStat> {
    if verifier.flavor == flavor::AUTH_NONE { Ok(()) } else { Err(AuthStat::BadVerf) }
}

#[cfg(test)]
mod tests;

//! What becomes of a call that is known from another connection: the retransmission of that one, or a call of its
//! own. The reasons are in [`super`].
//!
//! Invariant: whoever waits here has a [`WaitPermit`] and holds no lock meanwhile but the shard's, which the
//! condition variable gives back.

use super::{Key, Lookup, Origin, ReplyCache, WAITING_MAX};
use crate::back_channel::ConnId;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// One of [`WAITING_MAX`].
pub(super) struct WaitPermit<'c>(&'c ReplyCache);

impl Drop for WaitPermit<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl ReplyCache {
    /// What a call is that came by another connection before ([`Lookup::OtherConnection`]): never that again. Waits for
    /// the end of that call and until it is known whether its connection `lives`, so that it has to be announced
    /// before. `None` if too many wait already.
    #[cold]
    pub fn begin_copy(
        self: &Arc<Self>,
        key: Key,
        origin: Origin,
        lives: impl Fn(ConnId) -> bool,
        now_ms: u64,
    ) -> Option<Lookup<'_>> {
        let _permit = self.wait_permit()?;
        // no more than the connections of one host that have sent this very call
        let mut others = Vec::new();
        loop {
            let first = match self.begin_beside(key, origin, &others, now_ms) {
                Lookup::OtherConnection(first) => first,
                known => return Some(known),
            };
            if first.runs {
                self.wait_for_end(key, first.origin);
            }
            if first.origin.conn().is_some_and(&lives) {
                others.push(first.origin);
                continue;
            }
            // another copy may have got it before: it is this one's as well, since it was the first's
            let taken = self.locked(key).lock().take_over(key, first.origin, origin);
            if let Some(stored) = taken {
                return Some(Lookup::Answered(stored));
            }
        }
    }

    pub(super) fn wait_permit(&self) -> Option<WaitPermit<'_>> {
        // given back when it is dropped
        let permit = WaitPermit(self);
        (self.waiting.fetch_add(1, Relaxed) < WAITING_MAX).then_some(permit)
    }

    /// Waits until a call has ended, if it runs.
    pub(super) fn wait_for_end(&self, key: Key, origin: Origin) {
        let locked = self.locked(key);
        let mut shard = locked.lock();
        if let Some(call) = shard.runs(key, origin) {
            call.awaited = true;
        }
        // another one that began since is not awaited
        while shard.runs(key, origin).is_some_and(|call| call.awaited) {
            shard = locked.ended.wait(shard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

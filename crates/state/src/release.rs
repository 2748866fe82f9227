//! Releasing locks: UNLOCK, CANCEL, a grant that the client refuses, and the end of a host.

use crate::file::{Cx, FileState, How, Origin, Take};
use crate::holder::{Holder, Who};
use crate::hosts::EntryKind;
use crate::key::Tag;
use crate::limits::UNLOCKED_MAX;
use crate::plan::Plan;
use crate::range::{ByteRange, Mode};
use crate::sync::Arc;

/// What CANCEL finds.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cancelled {
    /// The request waited under this tag, or was being decided, and will not be granted.
    Removed(Tag),
    /// The lock is held: the request was granted before. The client unlocks what it does not want.
    Held,
    /// There is no such request.
    Unknown,
}

impl FileState {
    /// Takes bytes from an owner, also of a request of the owner's that is being decided: the client sent UNLOCK after LOCK.
    pub fn unlock(&mut self, cx: &mut Cx<'_>, who: &Who<'_>, range: ByteRange) -> Plan {
        let is_full = || self.ranges.len() >= cx.limits.ranges_per_file || !cx.may_split(who);
        if self.ranges.splits(who, range) && is_full() {
            return Plan::NoRoom;
        }
        let takes = self.pending.iter_mut().filter_map(|pending| pending.take.as_mut());
        let own = takes.filter(|take| take.range.overlaps(range) && take.holder.who() == *who);
        for take in own {
            if take.unlocked.len() >= UNLOCKED_MAX {
                return Plan::Again;
            }
            take.unlocked.push(range);
        }
        if let Some((holder, held)) = self.ranges.owned(who, range)
            && self.give_back(cx, &holder, range)
        {
            self.update_kernel(cx, held);
            self.promote(cx);
        }
        Plan::Granted
    }

    /// Takes a waiting request back.
    pub fn cancel(
        &mut self,
        cx: &mut Cx<'_>,
        who: &Who<'_>,
        range: ByteRange,
        mode: Mode,
    ) -> Cancelled {
        let waiting = self.waiters.iter().position(|waiter| waiter.is(who, range, mode));
        if let Some(waiter) = waiting.and_then(|at| self.dequeue(cx, at)) {
            self.cancel_takes(|take| take.origin == Origin::Queue(waiter.tag));
            self.update_kernel(cx, range);
            self.promote(cx);
            return Cancelled::Removed(waiter.tag);
        }
        let mut cancelled = None;
        self.cancel_takes(|take| {
            let Origin::Request(How::Wait(tag)) = take.origin else { return false };
            let same = take.range == range && take.mode == mode && take.holder.who() == *who;
            if same && !take.gone {
                cancelled = Some(tag);
            }
            same
        });
        if let Some(tag) = cancelled {
            return Cancelled::Removed(tag);
        }
        match self.ranges.held(who, range) {
            Some(held) if held >= mode => Cancelled::Held,
            _ => Cancelled::Unknown,
        }
    }

    /// The owner has got by asking again what he waits for: the request ends, or he would be given later what he has
    /// given back by then.
    pub fn end_request(&mut self, cx: &Cx<'_>, holder: &Arc<Holder>, range: ByteRange, mode: Mode) {
        let who = holder.who();
        let waiting = self.waiters.iter().position(|waiter| waiter.is(&who, range, mode));
        if let Some(waiter) = waiting.and_then(|at| self.dequeue(cx, at)) {
            self.cancel_takes(|take| take.origin == Origin::Queue(waiter.tag));
        }
    }

    /// Takes one waiting request out that cannot be granted because its owners wait for each other; not if it was
    /// granted meanwhile or is about to be.
    pub fn dequeue_if_waiting(&mut self, cx: &mut Cx<'_>, tag: Tag) -> bool {
        let waiting = self.waiters.iter().position(|waiter| waiter.tag == tag && !waiter.trying);
        let Some(waiter) = waiting.and_then(|at| self.dequeue(cx, at)) else { return false };
        self.update_kernel(cx, waiter.range);
        self.promote(cx);
        true
    }

    /// Whether a grant is open, and if so, whether another owner's request waits for some of its bytes.
    pub fn open_grant(&self, tag: Tag) -> Option<bool> {
        let grant = self.unconfirmed.find(tag)?;
        let mut others = self.waiters.iter().filter(|waiter| waiter.holder != grant.holder);
        Some(others.any(|waiter| waiter.range.overlaps(grant.range)))
    }

    /// The client does not want, or was never told of, what it was granted: it holds again what it held before.
    /// Nothing happens if it has asked for it again, confirmed it or unlocked it meanwhile.
    pub fn withdraw(&mut self, cx: &mut Cx<'_>, tag: Tag) -> bool {
        let Some(grant) = self.unconfirmed.take(tag) else { return false };
        let had = self.give_back(cx, &grant.holder, grant.range);
        if had {
            for (range, mode) in grant.before {
                if cx.claim(&grant.holder, EntryKind::Range).is_ok() {
                    self.hold(cx, &grant.holder, range, mode);
                }
            }
            self.update_kernel(cx, grant.range);
            self.promote(cx);
        }
        had
    }

    /// Drops everything of the owners of whom `gone` is true; answers how many ranges they held.
    pub fn purge(&mut self, cx: &mut Cx<'_>, gone: impl Fn(&Holder) -> bool) -> usize {
        self.cancel_takes(|take| gone(&take.holder));
        let mut at = 0;
        while let Some(waiter) = self.waiters.get(at) {
            if gone(&waiter.holder) { drop(self.dequeue(cx, at)) } else { at += 1 }
        }
        self.unconfirmed.forget(&gone);
        let taken = self.ranges.take_all(gone);
        for entry in &taken {
            self.count(cx, &entry.holder, -1);
        }
        let ranges = taken.iter().map(|entry| entry.range);
        self.update_kernel(cx, ranges.reduce(ByteRange::hull).unwrap_or(ByteRange::ALL));
        self.promote(cx);
        taken.len()
    }

    /// Drops the share reservations of a host.
    pub fn purge_shares(&mut self, cx: &Cx<'_>, host: crate::HostId) {
        for _ in 0..self.shares.drop_host(host) {
            crate::acquire::acquire(cx.hosts).unclaim(host, &cx.key, EntryKind::Share);
        }
    }

    /// Marks requests that are being decided as not to be granted.
    fn cancel_takes(&mut self, mut which: impl FnMut(&Take) -> bool) {
        let takes = self.pending.iter_mut().filter_map(|pending| pending.take.as_mut());
        for take in takes {
            take.gone |= which(take);
        }
    }
}

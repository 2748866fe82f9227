//! Consequences of a change of a file's locks: the kernel's answer is recorded, the kernel's locks are weakened, and waiting
//! requests are granted.

use crate::file::{Cx, FileState, How, Origin, Pending, Take};
use crate::holder::{Holder, Who};
use crate::hosts::{EntryKind, Refusal};
use crate::image::strongest;
use crate::key::Tag;
use crate::plan::{Conflict, Effect, Granted, LocalAnswer, LocalConflict, Plan, Ticket};
use crate::range::{ByteRange, Mode};
use crate::sync::Arc;
use crate::waiter::{Retry, Unconfirmed, Waiter};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

impl FileState {
    /// Enters the kernel's answer. [`Plan::Gone`] for a question that is not pending.
    pub fn settle(&mut self, cx: &mut Cx<'_>, ticket: &Ticket, answer: LocalAnswer) -> Plan {
        let found = self.pending.iter().position(|pending| pending.number == ticket.number);
        let Some(at) = found else { return Plan::Gone };
        let Pending { extent, pieces, take, last, .. } = self.pending.swap_remove(at);
        // weakening cannot fail: whatever is reported, there is nothing else to do
        if answer == LocalAnswer::Done || take.is_none() {
            self.image.apply(&pieces);
        }
        self.described = !last;
        let plan = take.map_or(Plan::Granted, |take| self.settle_take(cx, &take, answer));
        self.update_kernel(cx, extent);
        self.promote(cx);
        plan
    }

    fn settle_take(&mut self, cx: &mut Cx<'_>, take: &Take, answer: LocalAnswer) -> Plan {
        let late = take.origin == Origin::Request(How::Reclaim) && !cx.may_reclaim();
        if take.gone || late {
            cx.unclaim(&take.holder, EntryKind::Range);
            return if take.gone { Plan::Gone } else { Plan::NoGrace };
        }
        match answer {
            LocalAnswer::Done | LocalAnswer::NotShown => self.taken(cx, take),
            LocalAnswer::Conflict(conflict) => {
                cx.unclaim(&take.holder, EntryKind::Range);
                self.blocked_locally(cx, take, conflict)
            }
            LocalAnswer::Failed => {
                cx.unclaim(&take.holder, EntryKind::Range);
                if let Origin::Queue(tag) = take.origin {
                    self.retry_later(cx, tag);
                }
                Plan::Failed
            }
        }
    }

    /// The kernel agreed.
    fn taken(&mut self, cx: &mut Cx<'_>, take: &Take) -> Plan {
        match take.origin {
            Origin::Queue(tag) => self.grant_from_queue(cx, tag),
            Origin::Request(_) => self.end_request(cx, &take.holder, take.range, take.mode),
        }
        let _weakened = self.hold(cx, &take.holder, take.range, take.mode);
        for range in &take.unlocked {
            self.give_back(cx, &take.holder, *range);
        }
        Plan::Granted
    }

    /// A local program did not.
    fn blocked_locally(&mut self, cx: &Cx<'_>, take: &Take, conflict: LocalConflict) -> Plan {
        let denied = Plan::Denied(Conflict::Local(conflict));
        let tag = match take.origin {
            Origin::Request(How::Try | How::Reclaim) => return denied,
            Origin::Request(How::Wait(tag)) => tag,
            Origin::Queue(tag) => {
                self.retry_later(cx, tag);
                return Plan::Blocked(tag);
            }
        };
        let retry = Some(Retry::after(None, cx.now, cx.limits));
        let (holder, range, mode) = (Arc::clone(&take.holder), take.range, take.mode);
        match self.enqueue(cx, Waiter { tag, holder, range, mode, retry, trying: false }) {
            Ok(()) => Plan::Blocked(tag),
            Err(Refusal::UnknownHost) => Plan::UnknownHost,
            Err(Refusal::NoRoom) => denied,
        }
    }

    /// Takes a request out of the queue whose client is told that it has its lock.
    fn grant_from_queue(&mut self, cx: &mut Cx<'_>, tag: Tag) {
        let at = self.waiters.iter().position(|waiter| waiter.tag == tag);
        let Some(waiter) = at.and_then(|at| self.dequeue(cx, at)) else { return };
        let Waiter { holder, range, mode, .. } = waiter;
        let before = self.ranges.held_in(&holder.who(), range);
        self.unconfirmed.add(Unconfirmed { tag, holder: Arc::clone(&holder), range, before });
        let file = cx.key;
        cx.effects.push(Effect::Granted(Granted { tag, file, holder, range, mode }));
    }

    /// Takes bytes from an owner; says whether he had any.
    pub fn give_back(&mut self, cx: &Cx<'_>, holder: &Arc<Holder>, range: ByteRange) -> bool {
        let who = holder.who();
        let Some(grown) = self.ranges.unset(&who, range) else { return false };
        self.count(cx, holder, grown);
        self.unconfirmed.confirm_overlapping(&who, range);
        true
    }

    /// Has the kernel told what is held less strongly than it was shown, in these bytes. Bytes about which a question
    /// is pending are compared when that is settled; all others now, so that whoever gives bytes back is answered when
    /// the kernel has let them go. Once nothing is left of the file, the description is closed.
    pub fn update_kernel(&mut self, cx: &mut Cx<'_>, range: ByteRange) {
        if !self.described {
            return;
        }
        if self.is_idle() {
            let pieces = self.image.to_weaken(ByteRange::ALL, &[]);
            let (ticket, op) = self.ask(cx, ByteRange::ALL, pieces, None);
            cx.effects.push(Effect::Local(ticket, op));
            return;
        }
        let mut settled = vec![range];
        for pending in self.pending.iter().filter(|pending| pending.extent.overlaps(range)) {
            let apart = |part: ByteRange| part.without(pending.extent).into_iter().flatten();
            settled = settled.into_iter().flat_map(apart).collect();
        }
        for part in settled {
            self.weaken(cx, part);
        }
    }

    /// The same for bytes about which no question is pending.
    fn weaken(&mut self, cx: &mut Cx<'_>, range: ByteRange) {
        let mut held = Vec::new();
        let _all: ControlFlow<()> = self.ranges.visit(range, |entry| {
            held.push((entry.range, entry.mode));
            ControlFlow::Continue(())
        });
        let pieces = self.image.to_weaken(range, &strongest(range, &held));
        if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
            let extent = first.range.hull(last.range);
            let (ticket, op) = self.ask(cx, extent, pieces, None);
            cx.effects.push(Effect::Local(ticket, op));
        }
    }

    /// Grants the waiting requests that can be granted now, or asks the kernel on their behalf.
    pub fn promote(&mut self, cx: &mut Cx<'_>) {
        let mut at = 0;
        while let Some(waiter) = self.waiters.get(at) {
            let (holder, range, mode) = (Arc::clone(&waiter.holder), waiter.range, waiter.mode);
            let tag = waiter.tag;
            if !self.may_try(cx, at) {
                at += 1;
                continue;
            }
            // version 4 has no way to give back what its client was never told of
            let unknown = self.unconfirmed.is_full() && matches!(*holder, Holder::V4 { .. });
            if unknown
                || !self.has_room(&holder, cx.limits)
                || cx.claim(&holder, EntryKind::Range).is_err()
            {
                // what ends this may happen in another file, which wakes nobody here
                self.retry_later(cx, tag);
                at += 1;
                continue;
            }
            let pieces = self.needed(range, mode);
            if pieces.is_empty() {
                self.grant_from_queue(cx, tag);
                if self.hold(cx, &holder, range, mode) {
                    // an earlier request may have waited for what is held less strongly now
                    self.update_kernel(cx, range);
                    at = 0;
                }
                continue;
            }
            if let Some(waiter) = self.waiters.get_mut(at) {
                waiter.trying = true;
            }
            let origin = Origin::Queue(tag);
            let take = Take { holder, range, mode, origin, unlocked: Vec::new(), gone: false };
            let (ticket, op) = self.ask(cx, range, pieces, Some(take));
            cx.effects.push(Effect::Local(ticket, op));
            at += 1;
        }
    }

    /// Whether the request at this place of the queue can go on. If locks or requests of NFS owners are in the way,
    /// their end tries it again, and no time does.
    fn may_try(&mut self, cx: &Cx<'_>, at: usize) -> bool {
        let Some(waiter) = self.waiters.get(at) else { return false };
        if waiter.trying || waiter.retry.is_some_and(|retry| retry.at_ms > cx.now.0) {
            return false;
        }
        let who = waiter.holder.who();
        let free = !self.waiters.iter().take(at).any(|earlier| earlier.conflicts(waiter))
            && self.ranges.conflict(&who, waiter.range, waiter.mode).is_none()
            && !self.pending_meets(waiter.range);
        if !free && let Some(waiter) = self.waiters.get_mut(at) {
            waiter.retry = None;
        }
        free
    }

    /// The clients of version 4 that hold what requests wait for.
    pub fn clients_in_the_way(&self, clients: &mut BTreeSet<u64>) {
        for waiter in &self.waiters {
            let _all: ControlFlow<()> = self.ranges.visit(waiter.range, |entry| {
                if let Who::V4 { client, .. } = entry.holder.who()
                    && entry.mode.conflicts(waiter.mode)
                {
                    clients.insert(client);
                }
                ControlFlow::Continue(())
            });
        }
    }

    /// The owners that a waiting request waits for: those who hold or are about to hold what excludes it, and those
    /// whose earlier requests it may not pass.
    pub fn blockers(&self, tag: Tag, most: usize) -> Vec<Arc<Holder>> {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.tag == tag) else {
            return Vec::new();
        };
        let Some(waiter) = self.waiters.get(at) else { return Vec::new() };
        let mut blockers: Vec<Arc<Holder>> = Vec::new();
        let mut add = |holder: &Arc<Holder>| {
            if *holder != waiter.holder && !blockers.contains(holder) {
                blockers.push(Arc::clone(holder));
            }
            if blockers.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let excludes = |mode: Mode, range: ByteRange| {
            mode.conflicts(waiter.mode) && range.overlaps(waiter.range)
        };
        let _full = self.ranges.visit(waiter.range, |entry| {
            if entry.mode.conflicts(waiter.mode) {
                add(&entry.holder)
            } else {
                ControlFlow::Continue(())
            }
        });
        let takes = self.pending.iter().filter_map(|pending| pending.take.as_ref());
        let _full = takes
            .filter(|take| !take.gone && excludes(take.mode, take.range))
            .try_for_each(|take| add(&take.holder));
        let _full = self
            .waiters
            .iter()
            .take(at)
            .filter(|earlier| earlier.conflicts(waiter))
            .try_for_each(|earlier| add(&earlier.holder));
        blockers
    }
}

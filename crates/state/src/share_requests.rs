//! Share reservations over all files: SHARE, UNSHARE, and what they deny to calls without one.

use crate::acquire::acquire;
use crate::file::{Cx, FileState, refused};
use crate::hosts::EntryKind;
use crate::key::{FileKey, Now};
use crate::plan::{Conflict, Effects, Kept, Plan};
use crate::server::State;
use crate::share::{Reserved, ShareBits, ShareMode, ShareOwner};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

/// A request for a share reservation.
#[derive(Debug, Clone)]
pub struct ShareRequest<'a> {
    /// For whom.
    pub owner: ShareOwner<'a>,
    /// The address that the call came from.
    pub addr: IpAddr,
    /// What is wanted and denied.
    pub mode: ShareMode,
    /// Takes back what the client had before the restart.
    pub reclaim: bool,
    /// The host is to be recorded first.
    pub monitored: bool,
    /// Keeps the file reachable; needed with the first state of a file, handed back with the last.
    pub kept: Option<Kept>,
}

impl State {
    /// Reserves: [`Plan::Granted`], [`Plan::Denied`] and the reasons to come back or not to. Never blocked.
    pub fn share(&self, now: Now, file: &FileKey, request: &ShareRequest<'_>) -> (Plan, Effects) {
        let mut effects = Effects::default();
        let ShareRequest { owner, reclaim, monitored, ref kept, .. } = *request;
        if let Some(plan) = self.refusal(now, owner.host, reclaim, monitored) {
            return (plan, effects);
        }
        let plan = self.with_new(now, file, &mut effects, |state, cx| {
            let plan = reserve(state, cx, request);
            if state.kept.is_none() && !state.is_empty() {
                state.kept.clone_from(kept);
            }
            plan
        });
        let plan = plan.unwrap_or(Plan::NoRoom);
        if reclaim && matches!(plan, Plan::Granted) {
            self.note_reclaim(now, owner.host);
        }
        (plan, effects)
    }

    /// Takes one reservation of exactly this mode back, if the owner has one.
    pub fn unshare(
        &self,
        now: Now,
        file: &FileKey,
        owner: &ShareOwner<'_>,
        mode: ShareMode,
    ) -> Effects {
        let mut effects = Effects::default();
        let _none = self.with(now, file, &mut effects, |state, cx| {
            if state.shares.release(owner, mode) {
                acquire(cx.hosts).unclaim(owner.host, &cx.key, EntryKind::Share);
            }
        });
        effects
    }

    /// Whether anybody denies anything.
    #[inline]
    pub fn has_denials(&self) -> bool {
        self.denials.load(Relaxed) != 0
    }

    /// Whether a client at this address may not read or write the file without a reservation, because somebody denies
    /// it. Costs one load while nobody denies anything.
    pub fn share_denies(&self, file: &FileKey, addr: IpAddr, access: ShareBits) -> bool {
        let denies = |state: &mut FileState| state.shares.denies(addr.to_canonical(), access);
        self.has_denials() && self.files.with(file, denies).unwrap_or(false)
    }
}

fn reserve(state: &mut FileState, cx: &mut Cx<'_>, request: &ShareRequest<'_>) -> Plan {
    if request.reclaim && !cx.may_reclaim() {
        return Plan::NoGrace;
    }
    // counted before and not after, so that a host that is being dropped gets nothing
    let claim = |cx: &Cx<'_>| {
        acquire(cx.hosts).claim(request.owner.host, &cx.key, EntryKind::Share, cx.limits)
    };
    if let Err(refusal) = claim(cx) {
        return refused(refusal);
    }
    let addr = request.addr.to_canonical();
    let reserved = state.shares.reserve(&request.owner, addr, request.mode, cx.limits);
    if reserved != Reserved::New {
        acquire(cx.hosts).unclaim(request.owner.host, &cx.key, EntryKind::Share);
    }
    match reserved {
        Reserved::New | Reserved::More => Plan::Granted,
        Reserved::Denied(host) => Plan::Denied(Conflict::Share(host)),
        Reserved::NoRoom => Plan::NoRoom,
    }
}

//! Share reservations over all files: SHARE, UNSHARE, and what they deny to opens of version 4 and to calls without an open.
//!
//! The opens of version 4 are in a table of their own, on top of this one: SHARE is decided with the lock of the file's opens
//! held ([`V4State::share`](crate::v4::V4State::share)), as OPEN is.

use crate::acquire::acquire;
use crate::file::{Cx, FileState, refused};
use crate::hosts::EntryKind;
use crate::key::{FileKey, Now};
use crate::plan::{Conflict, Effects, Kept, Plan};
use crate::record::Record;
use crate::server::State;
use crate::share::{Reserved, ShareConflict, ShareMode, ShareOwner};
use std::convert::Infallible;
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
    /// Reserves, where there is no version 4: [`Plan::Granted`], [`Plan::Denied`] and the reasons to come back or not to.
    /// Never blocked.
    pub fn share(&self, now: Now, file: &FileKey, request: &ShareRequest<'_>) -> (Plan, Effects) {
        match self.share_unless(now, file, request, || Ok::<_, Infallible>(())) {
            Ok(answer) => answer,
        }
    }

    /// Reserves, unless opens of version 4 are in the way: only where nothing else is, they are looked for.
    pub(crate) fn share_unless<E>(
        &self,
        now: Now,
        file: &FileKey,
        request: &ShareRequest<'_>,
        look_for_opens: impl FnOnce() -> Result<(), E>,
    ) -> Result<(Plan, Effects), E> {
        let mut effects = Effects::default();
        let ShareRequest { owner, reclaim, monitored, ref kept, .. } = *request;
        let refusal = self.refusal(now, owner.host, reclaim, monitored);
        match &refusal {
            // a host is not recorded for what it does not get
            None | Some(Plan::Record(Record::NsmHost(_))) => look_for_opens()?,
            Some(_) => {}
        }
        if let Some(plan) = refusal {
            return Ok((plan, effects));
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
        Ok((plan, effects))
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

    /// Whether anybody denies anything, by a reservation or an open of version 4.
    #[inline]
    pub fn has_denials(&self) -> bool {
        self.denials.load(Relaxed) != 0
    }

    /// What reservations are in the way of an open of version 4; or of an access without an open, by versions 2 and 3 if there
    /// is an address. Costs one load while there are none. With the lock of the file's opens held nobody reserves meanwhile.
    #[inline]
    pub(crate) fn share_conflict(
        &self,
        now: Now,
        file: &FileKey,
        wanted: (ShareMode, Option<IpAddr>),
    ) -> Option<ShareConflict> {
        if self.shares.load(Relaxed) == 0 {
            return None;
        }
        self.find_share_conflict(now, file, wanted)
    }

    #[cold]
    fn find_share_conflict(
        &self,
        now: Now,
        file: &FileKey,
        (mode, addr): (ShareMode, Option<IpAddr>),
    ) -> Option<ShareConflict> {
        let wanted = (mode, addr.map(|addr| addr.to_canonical()));
        let is_silent = |host| acquire(&self.hosts).is_silent(now, host, &self.limits);
        self.files.with(file, |state| state.shares.in_the_way(wanted, is_silent)).flatten()
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
    let wanted = (request.addr.to_canonical(), request.mode);
    let is_silent = |host| acquire(cx.hosts).is_silent(cx.now, host, cx.limits);
    let reserved = state.shares.reserve(&request.owner, wanted, cx.limits, is_silent);
    if reserved != Reserved::New {
        acquire(cx.hosts).unclaim(request.owner.host, &cx.key, EntryKind::Share);
    }
    match reserved {
        Reserved::New | Reserved::More => Plan::Granted,
        Reserved::Denied(ShareConflict::Held(host)) => Plan::Denied(Conflict::Share(host)),
        Reserved::Denied(ShareConflict::Silent(host)) => Plan::Silent(host),
        Reserved::NoRoom => Plan::NoRoom,
    }
}

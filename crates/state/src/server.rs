//! The lock state of the server: hosts, files, the grace period, and every call on them.
//!
//! Lock order: shard of files, file, then hosts, waits, grace or retries, of which none is taken with another held.
//! Nothing blocks with a lock held; effects are returned and are the caller's to run.

use crate::acquire::acquire;
use crate::client_record::ClientName;
use crate::file::How;
use crate::file::{Cx, FileState, LockRequest, TestAnswer};
use crate::files::Files;
use crate::grace::{Admission, Grace, GraceClient, GraceHost, GraceOutcome, Phase};
use crate::holder::Who;
use crate::hosts::{Caller, Hosts, Refusal};
use crate::key::{FileKey, HostId, Now, Tag};
use crate::limits::Limits;
use crate::plan::{Effect, Effects, KeptFile, LocalAnswer, Plan, Ticket};
use crate::range::{ByteRange, Mode};
use crate::record::{HostName, Record};
use crate::recovery::Recovery;
use crate::release::Cancelled;
use crate::sync::{AtomicU64, AtomicUsize, Mutex};
use crate::waits::Waits;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Shards of the map of files, for each CPU.
const SHARDS_PER_CPU: usize = 8;
/// Shards at the most.
const SHARDS_MAX: usize = 256;

/// Why a caller has no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotIdentified {
    /// There are too many hosts.
    NoRoom,
    /// The host is being removed: ask again.
    BeingRemoved,
}

/// The state.
pub struct State {
    pub(crate) limits: Limits,
    pub(crate) files: Files,
    pub(crate) hosts: Mutex<Hosts>,
    pub(crate) waits: Mutex<Waits>,
    pub(crate) grace: Mutex<Grace>,
    /// A copy of the grace period's phase, written with its mutex held.
    pub(crate) phase: AtomicUsize,
    /// The files with requests that a local program blocks, by the time of the next try.
    pub(crate) retries: Mutex<BTreeSet<(u64, FileKey)>>,
    tickets: AtomicU64,
    /// How many owners have share reservations.
    pub(crate) shares: AtomicUsize,
    /// How many of them, and of the opens of version 4, deny something.
    pub(crate) denials: AtomicUsize,
}

impl State {
    /// The state of the instance that starts after these records, for a machine with so many CPUs. The caller has
    /// stored and synced [`Recovery::start_records`] first.
    pub fn new(recovery: &Recovery, now: Now, limits: Limits, cpus: usize) -> Self {
        let grace = Grace::new(recovery, now, &limits);
        let phase = AtomicUsize::new(grace.phase() as usize);
        let shards = cpus.saturating_mul(SHARDS_PER_CPU).clamp(1, SHARDS_MAX);
        Self {
            limits,
            files: Files::new(shards),
            hosts: Mutex::new(Hosts::new(recovery)),
            waits: Mutex::default(),
            grace: Mutex::new(grace),
            phase,
            retries: Mutex::default(),
            tickets: AtomicU64::new(1),
            shares: AtomicUsize::new(0),
            denials: AtomicUsize::new(0),
        }
    }

    /// The state number that our status monitor sends: odd, and another in each instance (C702, SM_NOTIFY).
    pub fn nsm_state(&self) -> i32 {
        let instance = acquire(&self.grace).instance();
        (instance.wrapping_mul(2).wrapping_add(1) & 0x7fff_ffff).cast_signed()
    }

    /// Which host calls. Needed before each call below; it also notes that the host is alive.
    ///
    /// # Errors
    /// [`NotIdentified`].
    pub fn identify(&self, now: Now, caller: &Caller<'_>) -> Result<HostId, NotIdentified> {
        acquire(&self.hosts).identify(now, caller, &self.limits).map_err(|refusal| match refusal {
            Refusal::NoRoom => NotIdentified::NoRoom,
            Refusal::UnknownHost => NotIdentified::BeingRemoved,
        })
    }

    /// Asks for a lock. [`Plan`] says what to do.
    pub fn lock(&self, now: Now, file: &FileKey, request: &LockRequest<'_>) -> (Plan, Effects) {
        let mut effects = Effects::default();
        let reclaim = request.how == How::Reclaim;
        let host = request.who.host();
        if let Some(plan) = self.refusal(now, host, reclaim, request.monitored) {
            let denied = match plan {
                // a host is not recorded for what it does not get, neither new nor back
                Plan::Record(Record::NsmHost(_)) if !matches!(request.how, How::Wait(_)) => {
                    self.with(now, file, &mut effects, |state, cx| state.denied(cx, request))
                }
                _ => None,
            };
            return (denied.flatten().unwrap_or(plan), effects);
        }
        let plan = self.with_new(now, file, &mut effects, |state, cx| {
            let plan = state.lock(cx, request);
            if state.kept.is_none() && !state.is_empty() {
                state.kept.clone_from(&request.kept);
            }
            plan
        });
        let mut plan = plan.unwrap_or(Plan::NoRoom);
        if matches!((&plan, request.how), (Plan::Blocked(tag), How::Wait(own)) if *tag == own) {
            plan = self.blocked_or_deadlock(now, file, request, &mut effects);
        }
        if reclaim && matches!(plan, Plan::Granted) {
            self.note_reclaim(now, host);
        }
        (plan, effects)
    }

    /// Reports how the kernel took what a plan or an effect asked. The plan is for the client if the ticket came in a
    /// plan; otherwise only the effects matter.
    pub fn settle(&self, now: Now, ticket: &Ticket, answer: LocalAnswer) -> (Plan, Effects) {
        let mut effects = Effects::default();
        let plan = self.with(now, &ticket.file, &mut effects, |state, cx| {
            let pending = state.pending.iter().find(|pending| pending.number == ticket.number);
            let take = pending.and_then(|pending| pending.take.as_ref());
            let reclaimer = take
                .filter(|take| take.origin == crate::file::Origin::Request(How::Reclaim))
                .map(|take| take.holder.host());
            (state.settle(cx, ticket, answer), reclaimer)
        });
        let Some((plan, reclaimer)) = plan else { return (Plan::Gone, effects) };
        if let (Plan::Granted, Some(host)) = (&plan, reclaimer) {
            self.note_reclaim(now, host);
        }
        (plan, effects)
    }

    /// Gives bytes back: [`Plan::Granted`], [`Plan::NoRoom`] where that would cut a range of a file that has too many,
    /// or [`Plan::Again`].
    pub fn unlock(
        &self,
        now: Now,
        file: &FileKey,
        who: &Who<'_>,
        range: ByteRange,
    ) -> (Plan, Effects) {
        let mut effects = Effects::default();
        let plan = self.with(now, file, &mut effects, |state, cx| state.unlock(cx, who, range));
        (plan.unwrap_or(Plan::Granted), effects)
    }

    /// Takes a waiting request back.
    pub fn cancel(
        &self,
        now: Now,
        file: &FileKey,
        who: &Who<'_>,
        range: ByteRange,
        mode: Mode,
    ) -> (Cancelled, Effects) {
        let mut effects = Effects::default();
        let found =
            self.with(now, file, &mut effects, |state, cx| state.cancel(cx, who, range, mode));
        (found.unwrap_or(Cancelled::Unknown), effects)
    }

    /// What is in the way of a lock. Of local programs the caller asks the kernel himself.
    pub fn test(&self, file: &FileKey, who: &Who<'_>, range: ByteRange, mode: Mode) -> TestAnswer {
        let found = self.files.with(file, |state| state.test(who, range, mode));
        found.unwrap_or(TestAnswer::Free)
    }

    /// The client has confirmed a grant.
    pub fn confirm(&self, file: &FileKey, tag: Tag) {
        let _known = self.files.with(file, |state| state.unconfirmed.take(tag));
    }

    /// The client has refused a grant, or could not be told: the lock goes, unless the client has asked for it again,
    /// confirmed it or unlocked it. Says whether it went.
    pub fn withdraw(&self, now: Now, file: &FileKey, tag: Tag) -> (bool, Effects) {
        let mut effects = Effects::default();
        let went = self.with(now, file, &mut effects, |state, cx| state.withdraw(cx, tag));
        (went.unwrap_or(false), effects)
    }

    /// Whether a request waits under this tag.
    pub fn is_waiting(&self, file: &FileKey, tag: Tag) -> bool {
        let waits = |state: &mut FileState| state.waiters.iter().any(|waiter| waiter.tag == tag);
        self.files.with(file, waits).unwrap_or(false)
    }

    /// Whether a grant is neither confirmed, refused nor given back, and if so, whether another request waits for some
    /// of its bytes.
    pub fn open_grant(&self, file: &FileKey, tag: Tag) -> Option<bool> {
        self.files.with(file, |state| state.open_grant(tag)).flatten()
    }

    /// Why the grace period or the records do not allow this host a new lock or share.
    pub(crate) fn refusal(
        &self,
        now: Now,
        host: HostId,
        reclaim: bool,
        monitored: bool,
    ) -> Option<Plan> {
        let found = {
            let hosts = acquire(&self.hosts);
            let host = hosts.find(host).filter(|host| !host.leaving);
            let over = Phase::from_number(self.phase.load(Acquire)) == Phase::Over;
            match host {
                None => return Some(Plan::UnknownHost),
                Some(host) if over && !reclaim && (host.recorded || !monitored) => return None,
                Some(host) => {
                    (host.info.clone(), host.recorded || !monitored, host.client.is_some())
                }
            }
        };
        let (info, recorded, is_client) = found;
        match self.grace(|grace| {
            grace.advance(now, &self.limits);
            match is_client {
                true => grace.admit_client_lock(reclaim),
                false => grace.admit(reclaim, &info.host_name()),
            }
        }) {
            Admission::Grace => Some(Plan::Grace),
            Admission::NoGrace => Some(Plan::NoGrace),
            Admission::Store(record) => Some(Plan::Record(record)),
            Admission::Go if recorded => None,
            Admission::Go => Some(Plan::Record(Record::NsmHost(info))),
        }
    }

    /// Changes the grace period and shows its phase to everybody.
    pub(crate) fn grace<R>(&self, change: impl FnOnce(&mut Grace) -> R) -> R {
        let mut grace = acquire(&self.grace);
        let result = change(&mut grace);
        self.phase.store(grace.phase() as usize, Release);
        result
    }

    pub(crate) fn note_reclaim(&self, now: Now, host: HostId) {
        let name = acquire(&self.hosts).find(host).map(|host| host.info.host_name());
        if let Some(name) = name {
            self.grace(|grace| grace.reclaimed(now, &name));
        }
    }

    /// Runs `change` on a file that has state.
    pub(crate) fn with<R>(
        &self,
        now: Now,
        file: &FileKey,
        effects: &mut Effects,
        change: impl FnOnce(&mut FileState, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let run = |state: &mut FileState| self.run(now, file, state, effects, change);
        let (result, empty) = self.files.with(file, run)?;
        self.remove_if_empty(file, empty, effects);
        Some(result)
    }

    /// Runs `change` on a file, which has no state if that leaves none.
    pub(crate) fn with_new<R>(
        &self,
        now: Now,
        file: &FileKey,
        effects: &mut Effects,
        change: impl FnOnce(&mut FileState, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let run = |state: &mut FileState| self.run(now, file, state, effects, change);
        let (result, empty) = self.files.with_new(file, self.limits.files, run)?;
        self.remove_if_empty(file, empty, effects);
        Some(result)
    }

    fn run<R>(
        &self,
        now: Now,
        file: &FileKey,
        state: &mut FileState,
        effects: &mut Effects,
        change: impl FnOnce(&mut FileState, &mut Cx<'_>) -> R,
    ) -> (R, bool) {
        let (sharing, denying) = (state.shares.owners(), state.shares.denying());
        let mut cx = Cx {
            now,
            key: *file,
            limits: &self.limits,
            hosts: &self.hosts,
            waits: &self.waits,
            tickets: &self.tickets,
            phase: &self.phase,
            effects,
        };
        let result = change(state, &mut cx);
        count_change(&self.shares, sharing, state.shares.owners());
        count_change(&self.denials, denying, state.shares.denying());
        self.index_retry(file, state);
        (result, state.is_empty())
    }

    /// Keeps the index of retries in step with the file, whose mutex is held.
    fn index_retry(&self, file: &FileKey, state: &mut FileState) {
        let next = state.next_retry_ms();
        if next == state.retry_ms {
            return;
        }
        let mut retries = acquire(&self.retries);
        if let Some(before) = state.retry_ms {
            retries.remove(&(before, *file));
        }
        if let Some(next) = next {
            retries.insert((next, *file));
        }
        state.retry_ms = next;
    }

    fn remove_if_empty(&self, file: &FileKey, empty: bool, effects: &mut Effects) {
        if empty && let Some(kept) = self.files.remove_if_empty(file) {
            effects.push(Effect::LetGo(KeptFile(kept)));
        }
    }

    /// What a deadline has come for: requests that a local program's lock blocks are tried again, at most `most` files
    /// a call, and the grace period may end, which is then to be stored.
    pub fn tick(&self, now: Now, most: usize) -> (Option<Record>, Effects) {
        let mut effects = Effects::default();
        let due: Vec<FileKey> = {
            let retries = acquire(&self.retries);
            let due = retries.iter().take_while(|(at_ms, _)| *at_ms <= now.0);
            due.take(most).map(|(_, file)| *file).collect()
        };
        for file in due {
            let _gone = self.with(now, &file, &mut effects, FileState::promote);
        }
        let record = self.grace(|grace| {
            grace.advance(now, &self.limits);
            grace.end_record()
        });
        (record, effects)
    }

    /// Whether only what was held before the restart may be had now.
    pub fn in_grace(&self, now: Now) -> bool {
        let phase = || Phase::from_number(self.phase.load(Acquire));
        if phase() == Phase::Reclaiming {
            self.grace(|grace| grace.advance(now, &self.limits));
        }
        phase() == Phase::Reclaiming
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let retry = acquire(&self.retries).first().map(|(at_ms, _)| *at_ms);
        let phase = Phase::from_number(self.phase.load(Acquire));
        let grace = (phase != Phase::Over).then(|| acquire(&self.grace).ends_ms());
        retry.into_iter().chain(grace).min()
    }

    /// Ends the grace period: the operator's word. The record is to be stored.
    pub fn end_grace(&self) -> Option<Record> {
        self.grace(|grace| {
            grace.end();
            grace.end_record()
        })
    }

    /// Changes how long a grace period lasts at the most; the one that runs is counted from its beginning.
    pub fn set_grace_ms(&self, grace_ms: u64) {
        self.grace(|grace| grace.set_length(grace_ms));
    }

    /// Where the grace period stands, when it ends at the latest, and who may reclaim in it.
    pub fn grace_period(&self, now: Now) -> (Phase, u64, Vec<GraceHost>) {
        self.grace(|grace| {
            grace.advance(now, &self.limits);
            (grace.phase(), grace.ends_ms(), grace.hosts().collect())
        })
    }

    /// Where the grace period stands.
    pub fn grace_phase(&self, now: Now) -> Phase {
        self.grace(|grace| {
            grace.advance(now, &self.limits);
            grace.phase()
        })
    }

    /// The clients of version 4 that may reclaim in the grace period.
    pub fn grace_clients(&self) -> Vec<GraceClient> {
        acquire(&self.grace).clients().cloned().collect()
    }

    /// Who had come back when the grace period ended.
    pub fn grace_outcome(&self) -> GraceOutcome {
        acquire(&self.grace).outcome()
    }

    /// Whether nothing can be reclaimed and everything be had. Costs one load.
    pub fn grace_is_over(&self) -> bool {
        Phase::from_number(self.phase.load(Acquire)) == Phase::Over
    }

    /// Whether a reclaim may still be granted: looked at again with the lock of what is granted held, so that nobody has
    /// been granted anything else of it since the restart.
    pub fn may_reclaim(&self) -> bool {
        Phase::from_number(self.phase.load(Acquire)) == Phase::Reclaiming
    }

    /// Whether the grace period lets a request of a client of version 4 through.
    pub fn admit_client(&self, now: Now, name: &ClientName, reclaim: bool) -> Admission {
        self.grace(|grace| {
            grace.advance(now, &self.limits);
            grace.admit_client(reclaim, name)
        })
    }

    /// A client of version 4 got something back.
    pub fn client_reclaimed(&self, now: Now, name: &ClientName) {
        if !self.grace_is_over() {
            self.grace(|grace| grace.client_reclaimed(now, name));
        }
    }

    /// A client of version 4 has reclaimed all that it wants (RFC 8881 §18.51). Its record is stored.
    pub fn client_done(&self, now: Now, name: &ClientName) {
        if !self.grace_is_over() {
            self.grace(|grace| {
                grace.client_done(name);
                grace.advance(now, &self.limits);
            });
        }
    }

    /// A host of the boot list answered SM_NOTIFY.
    pub fn notify_answered(&self, now: Now, addr: IpAddr, name: &[u8]) {
        self.grace(|grace| grace.answered(now, &HostName::new(addr, name)));
    }
}

/// Counts what a file has more or less than before.
fn count_change(count: &AtomicUsize, before: usize, after: usize) {
    if after != before {
        count.fetch_add(after.wrapping_sub(before), Relaxed);
    }
}

impl Clone for State {
    /// A copy of what there is now, for an explorer of what may happen next.
    fn clone(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            files: self.files.clone(),
            hosts: Mutex::new(acquire(&self.hosts).clone()),
            waits: Mutex::new(acquire(&self.waits).clone()),
            grace: Mutex::new(acquire(&self.grace).clone()),
            phase: AtomicUsize::new(self.phase.load(Acquire)),
            retries: Mutex::new(acquire(&self.retries).clone()),
            tickets: AtomicU64::new(self.tickets.load(Relaxed)),
            shares: AtomicUsize::new(self.shares.load(Relaxed)),
            denials: AtomicUsize::new(self.denials.load(Relaxed)),
        }
    }
}

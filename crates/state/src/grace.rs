//! The grace period after a restart: who held locks before gets them back before anybody else gets any.
//!
//! There is none if nobody can reclaim. It ends when its time is over, or before, when every host of the list has
//! reclaimed something or answered SM_NOTIFY, and nothing of the kind has happened for a while: an NLM host does not
//! say when it is done. Its end is stored before the first new lock is granted.
//!
//! One mutex of [`State`](crate::State) guards it. The phase is mirrored in an atomic that is written under the mutex,
//! so that locks cost no shared mutex once the grace period is over.

use crate::key::Now;
use crate::limits::Limits;
use crate::record::{HostName, MonitoredHost, Record};
use crate::recovery::Recovery;
use std::collections::BTreeMap;

/// Where the grace period stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// There is none, or it is over.
    Over = 0,
    /// Locks may be reclaimed and nothing else.
    Reclaiming = 1,
    /// Nothing may be reclaimed any more; new locks wait until the end is stored.
    Ending = 2,
}

impl Phase {
    pub(crate) const fn from_number(number: usize) -> Self {
        match number {
            0 => Self::Over,
            1 => Self::Reclaiming,
            _ => Self::Ending,
        }
    }
}

/// Whether a request may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    Go,
    Grace,
    NoGrace,
    Store(Record),
}

/// A host that may reclaim in the grace period.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GraceHost {
    /// Who it is.
    pub name: HostName,
    /// It has reclaimed something.
    pub reclaimed: bool,
    /// It has answered SM_NOTIFY.
    pub answered: bool,
}

#[derive(Debug, Clone)]
struct Listed {
    host: MonitoredHost,
    /// It has reclaimed something.
    reclaimed: bool,
    /// It has answered SM_NOTIFY.
    answered: bool,
}

/// The grace period.
#[derive(Debug, Clone)]
pub(crate) struct Grace {
    phase: Phase,
    instance: u32,
    list: BTreeMap<HostName, Listed>,
    began_ms: u64,
    ends_ms: u64,
    /// The last reclaim or the last first answer.
    active_ms: u64,
}

impl Grace {
    /// That of the instance after these records.
    pub fn new(recovery: &Recovery, now: Now, limits: &Limits) -> Self {
        let listed = |host| Listed { host, reclaimed: false, answered: false };
        let list: BTreeMap<_, _> =
            recovery.boot_list().into_iter().map(|(name, host)| (name, listed(host))).collect();
        Self {
            phase: if list.is_empty() { Phase::Over } else { Phase::Reclaiming },
            instance: recovery.instance().wrapping_add(1),
            list,
            began_ms: now.0,
            ends_ms: now.0.saturating_add(limits.grace_ms),
            active_ms: now.0,
        }
    }

    pub const fn phase(&self) -> Phase {
        self.phase
    }

    pub const fn instance(&self) -> u32 {
        self.instance
    }

    /// When it ends at the latest.
    pub const fn ends_ms(&self) -> u64 {
        self.ends_ms
    }

    /// Changes how long it lasts at the most, counted from its beginning.
    pub fn set_length(&mut self, grace_ms: u64) {
        self.ends_ms = self.began_ms.saturating_add(grace_ms);
    }

    /// The hosts of the list, by name: who has reclaimed, and who has answered SM_NOTIFY.
    pub fn hosts(&self) -> impl Iterator<Item = GraceHost> {
        self.list.iter().map(|(name, listed)| GraceHost {
            name: name.clone(),
            reclaimed: listed.reclaimed,
            answered: listed.answered,
        })
    }

    /// Goes to the next phase if it is time.
    pub fn advance(&mut self, now: Now, limits: &Limits) {
        let late = now.0 >= self.ends_ms;
        let quiet = now.since(self.active_ms) >= limits.grace_quiet_ms;
        let done = || self.list.values().all(|listed| listed.reclaimed || listed.answered);
        if self.phase == Phase::Reclaiming && (late || (quiet && done())) {
            self.phase = Phase::Ending;
        }
    }

    /// Ends it now: the operator's word.
    pub fn end(&mut self) {
        if self.phase == Phase::Reclaiming {
            self.phase = Phase::Ending;
        }
    }

    /// What is to be stored so that new locks may be granted.
    pub fn end_record(&self) -> Option<Record> {
        (self.phase == Phase::Ending).then_some(Record::GraceEnded(self.instance))
    }

    /// The end is stored.
    pub fn ended(&mut self, instance: u32) {
        if self.phase == Phase::Ending && instance == self.instance {
            self.phase = Phase::Over;
            self.list.clear();
        }
    }

    /// Whether a request of this host may go on.
    pub fn admit(&self, reclaim: bool, name: &HostName) -> Admission {
        match (self.phase, reclaim) {
            (Phase::Reclaiming, true) if self.list.contains_key(name) => Admission::Go,
            (_, true) => Admission::NoGrace,
            (Phase::Reclaiming, false) => Admission::Grace,
            (Phase::Ending, false) => Admission::Store(Record::GraceEnded(self.instance)),
            (Phase::Over, false) => Admission::Go,
        }
    }

    /// The host got something back.
    pub fn reclaimed(&mut self, now: Now, name: &HostName) {
        if let Some(listed) = self.list.get_mut(name) {
            listed.reclaimed = true;
            self.active_ms = self.active_ms.max(now.0);
        }
    }

    /// The host answered SM_NOTIFY.
    pub fn answered(&mut self, now: Now, name: &HostName) {
        if let Some(listed) = self.list.get_mut(name)
            && !std::mem::replace(&mut listed.answered, true)
        {
            self.active_ms = self.active_ms.max(now.0);
        }
    }

    /// The host may not reclaim any more and is not waited for.
    pub fn unlist(&mut self, name: &HostName) {
        self.list.remove(name);
    }

    /// Who is to be told of the restart and has neither answered nor reclaimed.
    pub fn silent(&self) -> impl Iterator<Item = &MonitoredHost> {
        let silent = self.list.values().filter(|listed| !listed.reclaimed && !listed.answered);
        silent.map(|listed| &listed.host)
    }
}

//! The grace period after a restart: previous lock holders reclaim before anybody gets new locks.
//!
//! There is none if nobody can reclaim. It ends when its time is over, or earlier when every client of version 4.1 has
//! sent RECLAIM_COMPLETE, every NLM host and client of version 4.0 has reclaimed something or (NLM) answered SM_NOTIFY, and
//! no such host or client has reclaimed for a while: they do not signal that they are done. While clients are reclaiming it
//! is extended, to twice its time at most. Its end is stored before the first new lock is granted.
//!
//! One mutex of [`State`](crate::State) guards it. The phase is mirrored in an atomic that is written under the mutex,
//! so that locks cost no shared mutex once the grace period is over.

use crate::client_record::{ClientName, RecordedClient};
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
#[allow(clippy::large_enum_variant, reason = "taken apart at once, never stored")]
pub enum Admission {
    /// It may.
    Go,
    /// The grace period runs, and this is no reclaim.
    Grace,
    /// This is a reclaim, and there is nothing to be reclaimed.
    NoGrace,
    /// Store this, report it to [`State::persisted`](crate::State::persisted), and ask again.
    Store(Record),
}

/// How long the grace period goes on after a reclaim, at the most until twice its time is over.
const RECLAIM_PAUSE_MS: u64 = 2000;

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

/// A client of version 4 that may reclaim in the grace period.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GraceClient {
    /// Who it is.
    pub client: RecordedClient,
    /// It has reclaimed something.
    pub reclaimed: bool,
    /// It has said that it is done.
    pub done: bool,
}

/// Who came back in a grace period: hosts and clients of version 4 together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GraceOutcome {
    /// Who could reclaim until its end.
    pub clients: usize,
    /// Those that reclaimed something.
    pub reclaimed: usize,
    /// Hosts that neither reclaimed nor answered, and clients that did not say that they were done.
    pub silent: usize,
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
    clients: BTreeMap<ClientName, GraceClient>,
    /// How many of the clients are not done.
    clients_left: usize,
    began_ms: u64,
    length_ms: u64,
    /// The last reclaim or the last first answer of a host.
    active_ms: u64,
    /// The last reclaim.
    reclaimed_ms: Option<u64>,
    /// Of one that is over.
    outcome: GraceOutcome,
}

impl Grace {
    /// That of the instance after these records.
    pub fn new(recovery: &Recovery, now: Now, limits: &Limits) -> Self {
        let listed = |host| Listed { host, reclaimed: false, answered: false };
        let list: BTreeMap<_, _> =
            recovery.boot_list().into_iter().map(|(name, host)| (name, listed(host))).collect();
        let known = |client| GraceClient { client, reclaimed: false, done: false };
        let clients: BTreeMap<_, _> =
            recovery.boot_clients().into_iter().map(|(name, c)| (name, known(c))).collect();
        let nobody = list.is_empty() && clients.is_empty();
        Self {
            phase: if nobody { Phase::Over } else { Phase::Reclaiming },
            instance: recovery.instance().wrapping_add(1),
            list,
            clients_left: clients.len(),
            clients,
            began_ms: now.0,
            length_ms: limits.grace_ms,
            active_ms: now.0,
            reclaimed_ms: None,
            outcome: GraceOutcome::default(),
        }
    }

    pub const fn phase(&self) -> Phase {
        self.phase
    }

    pub const fn instance(&self) -> u32 {
        self.instance
    }

    /// When it ends at the latest, if nobody reclaims anything more.
    pub fn ends_ms(&self) -> u64 {
        let end = |times: u64| self.began_ms.saturating_add(self.length_ms.saturating_mul(times));
        let busy = self.reclaimed_ms.map_or(0, |at| at.saturating_add(RECLAIM_PAUSE_MS));
        busy.clamp(end(1), end(2))
    }

    /// Changes how long it lasts at the most, counted from its beginning.
    pub const fn set_length(&mut self, grace_ms: u64) {
        self.length_ms = grace_ms;
    }

    /// The clients of version 4 of the list.
    pub fn clients(&self) -> impl Iterator<Item = &GraceClient> {
        self.clients.values()
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
        if self.phase != Phase::Reclaiming {
            return;
        }
        let quiet = || now.since(self.active_ms) >= limits.grace_quiet_ms;
        let hosts_done = || {
            let mut listed = self.list.values();
            self.list.is_empty() || quiet() && listed.all(|host| host.reclaimed || host.answered)
        };
        if now.0 >= self.ends_ms() || self.clients_left == 0 && hosts_done() {
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
            self.outcome = self.outcome_now();
            self.list.clear();
            self.clients.clear();
            self.clients_left = 0;
        }
    }

    /// Who had come back when it ended.
    pub const fn outcome(&self) -> GraceOutcome {
        self.outcome
    }

    fn outcome_now(&self) -> GraceOutcome {
        let (hosts, clients) = (self.list.values(), self.clients.values());
        let reclaimed = hosts.clone().filter(|host| host.reclaimed).count();
        let silent = hosts.filter(|host| !host.reclaimed && !host.answered).count();
        GraceOutcome {
            clients: self.list.len().saturating_add(self.clients.len()),
            reclaimed: reclaimed.saturating_add(clients.filter(|client| client.reclaimed).count()),
            silent: silent.saturating_add(self.clients_left),
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

    /// Whether a request of a client of version 4 may go on, as far as other clients are concerned. One with sessions may
    /// reclaim until it is done.
    pub fn admit_client(&self, reclaim: bool, name: &ClientName) -> Admission {
        let listed = || self.clients.get(name).is_some_and(|client| !client.done);
        self.admit_v4(reclaim && listed(), reclaim)
    }

    /// Whether a request for a lock of a client of version 4 may go on, which [`admit_client`](Self::admit_client) has
    /// let through a moment ago.
    pub fn admit_client_lock(&self, reclaim: bool) -> Admission {
        self.admit_v4(reclaim, reclaim)
    }

    fn admit_v4(&self, may_reclaim: bool, reclaim: bool) -> Admission {
        match (self.phase, reclaim) {
            (Phase::Reclaiming, true) if may_reclaim => Admission::Go,
            (_, true) => Admission::NoGrace,
            (Phase::Reclaiming, false) => Admission::Grace,
            (Phase::Ending, false) => Admission::Store(Record::GraceEnded(self.instance)),
            (Phase::Over, false) => Admission::Go,
        }
    }

    /// The client of version 4 got something back.
    pub fn client_reclaimed(&mut self, now: Now, name: &ClientName) {
        if let Some(listed) = self.clients.get_mut(name) {
            listed.reclaimed = true;
            self.reclaimed_ms = Some(now.0);
        }
    }

    /// The client of version 4 has reclaimed all that it wants.
    pub fn client_done(&mut self, name: &ClientName) {
        if let Some(listed) = self.clients.get_mut(name)
            && !std::mem::replace(&mut listed.done, true)
        {
            self.clients_left = self.clients_left.saturating_sub(1);
        }
    }

    /// The client of version 4 may not reclaim any more and is not waited for.
    pub fn unlist_client(&mut self, name: &ClientName) {
        if self.clients.remove(name).is_some_and(|client| !client.done) {
            self.clients_left = self.clients_left.saturating_sub(1);
        }
    }

    /// The host got something back.
    pub fn reclaimed(&mut self, now: Now, name: &HostName) {
        if let Some(listed) = self.list.get_mut(name) {
            listed.reclaimed = true;
            self.active_ms = self.active_ms.max(now.0);
            self.reclaimed_ms = Some(now.0);
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

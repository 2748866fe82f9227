//! Removing a host: it rebooted, released everything, was released by the operator, or was silent for too long.
//!
//! A host that rebooted has lost its locks and reclaims none, so they are dropped at once. A host whose locks are taken
//! might reclaim them after the next restart: first the record that forbids it is stored, then the locks are dropped.
//! Until the record is stored the host is *leaving* and gets nothing.

use crate::acquire::acquire;
use crate::file::FileState;
use crate::holder::Who;
use crate::hosts::{Caller, Host};
use crate::key::{FileKey, HostId, Now};
use crate::plan::Effects;
use crate::range::ByteRange;
use crate::record::{HostName, Record};
use crate::server::State;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What removing a host comes to.
#[must_use]
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "taken apart at once, never stored")]
pub enum HostRemoval {
    /// Store this, then report it to [`State::persisted`], which drops the host's state.
    Record(Record),
    /// It is gone, with this many ranges.
    Gone(usize, Effects),
    /// There is no such host, or it is leaving already.
    Unknown,
}

/// What a notification of a client's reboot comes to.
#[must_use]
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "taken apart at once, never stored")]
pub enum Reboot {
    /// The sender is not believed, or has nothing: nothing happened.
    Ignored,
    /// Its state is dropped. The record may be stored at leisure: a host that rebooted reclaims nothing.
    Dropped {
        /// The new state number.
        record: Record,
        /// How many ranges it held.
        ranges: usize,
        /// What is to be done.
        effects: Effects,
    },
}

impl State {
    /// SM_NOTIFY: the host of this name, from whose address the notification came, has rebooted and has this state
    /// number now. It is believed only of a host that is monitored and only if the number is another.
    pub fn client_rebooted(&self, now: Now, from: IpAddr, name: &[u8], nsm_state: i32) -> Reboot {
        let removed = {
            let mut hosts = acquire(&self.hosts);
            let Some(id) = hosts.by_name(from, name) else { return Reboot::Ignored };
            let news = hosts.find(id).is_some_and(|host| {
                (host.recorded || host.leaving) && host.info.nsm_state != nsm_state
            });
            let renew = || hosts.renew(id, Some(nsm_state));
            let Some(host) = news.then(renew).flatten() else {
                return Reboot::Ignored;
            };
            host
        };
        let name = removed.info.host_name();
        self.grace(|grace| grace.unlist(&name));
        let (ranges, effects) = self.purge(now, &removed);
        Reboot::Dropped { record: Record::NsmState(name, nsm_state), ranges, effects }
    }

    /// The host at this address that a status monitor means by a name: the one whose calls carry it, or else the only
    /// one of which one of the two names is the other without its domain. A host that is known by another name is not
    /// meant, even if it is the only one at its address: two machines may share one.
    pub fn host_called(&self, addr: IpAddr, mon_name: &[u8]) -> Option<HostName> {
        let hosts = acquire(&self.hosts);
        if let Some(host) = hosts.by_name(addr, mon_name).and_then(|id| hosts.find(id)) {
            return Some(host.info.host_name());
        }
        let addr = addr.to_canonical();
        let mut alike = hosts
            .iter()
            .filter(|host| host.info.addr == addr && names_agree(&host.info.name, mon_name));
        let only = alike.next()?;
        alike.next().is_none().then(|| only.info.host_name())
    }

    /// The hosts at this address that hold or wait for something.
    pub fn holders_at(&self, addr: IpAddr) -> Vec<HostName> {
        let addr = addr.to_canonical();
        let holds = |host: &&Host| {
            host.info.addr == addr && host.client.is_none() && !host.files.is_empty()
        };
        acquire(&self.hosts).iter().filter(holds).map(|host| host.info.host_name()).collect()
    }

    /// The hosts whose records are stored.
    pub fn recorded_hosts(&self) -> Vec<HostName> {
        let recorded = |host: &&Host| host.recorded && host.client.is_none();
        acquire(&self.hosts).iter().filter(recorded).map(|host| host.info.host_name()).collect()
    }

    /// A client of version 4 that has a lock for the first time is a host from now on.
    pub fn add_client(&self, now: Now, client: u64, caller: &Caller<'_>) -> HostId {
        acquire(&self.hosts).add_client(now, client, caller)
    }

    /// The client of version 4 that this host is.
    pub fn client_of(&self, id: HostId) -> Option<u64> {
        acquire(&self.hosts).find(id)?.client
    }

    /// The clients of version 4 that hold what others wait for.
    pub fn clients_waited_for(&self) -> BTreeSet<u64> {
        let mut clients = BTreeSet::new();
        let files = acquire(&self.waits).files();
        for file in files {
            let _none = self.files.with(&file, |state| state.clients_in_the_way(&mut clients));
        }
        clients
    }

    /// A client of version 4 has ended: it loses everything. Answers how many ranges it held.
    pub fn end_client(&self, now: Now, id: HostId) -> (usize, Effects) {
        let removed = acquire(&self.hosts).remove(id);
        removed.map(|host| self.purge(now, &host)).unwrap_or_default()
    }

    /// Takes everything of a file from an owner, also what he is about to get.
    pub fn release_owner(&self, now: Now, file: &FileKey, who: &Who<'_>) -> Effects {
        let mut effects = Effects::default();
        let _gone = self.with(now, file, &mut effects, |state, cx| {
            state.purge(cx, |holder| holder.who() == *who)
        });
        effects
    }

    /// Whether an owner holds a byte of a file.
    pub fn holds(&self, file: &FileKey, who: &Who<'_>) -> bool {
        self.holds_of(file, who, ByteRange::ALL)
    }

    /// The same of a range.
    pub fn holds_of(&self, file: &FileKey, who: &Who<'_>, range: ByteRange) -> bool {
        let holds = |state: &mut FileState| state.ranges.owner_in(who, range).is_some();
        self.files.with(file, holds).unwrap_or(false)
    }

    /// FREE_ALL: a host gives up everything. Its record stays: it has nothing that it could reclaim.
    pub fn free_all(&self, now: Now, id: HostId) -> HostRemoval {
        let removed = {
            let mut hosts = acquire(&self.hosts);
            let leaving = hosts.find(id).is_none_or(|host| host.leaving || host.client.is_some());
            (!leaving).then(|| hosts.renew(id, None)).flatten()
        };
        let Some(host) = removed else { return HostRemoval::Unknown };
        let (ranges, effects) = self.purge(now, &host);
        HostRemoval::Gone(ranges, effects)
    }

    /// Takes everything from a host: the operator's word, [`Plan::Silent`](crate::Plan::Silent), or a monitored host
    /// that [has been idle](Self::idle_hosts).
    pub fn release_host(&self, now: Now, id: HostId) -> HostRemoval {
        let name = {
            let mut hosts = acquire(&self.hosts);
            let Some(host) = hosts.find_mut(id).filter(|host| !host.leaving) else {
                return HostRemoval::Unknown;
            };
            host.leaving = host.recorded;
            host.recorded.then(|| host.info.host_name())
        };
        match name {
            Some(name) => HostRemoval::Record(Record::NsmGone(name)),
            None => self.free_all(now, id),
        }
    }

    /// A record that a plan or this module asked for is on stable storage.
    pub fn persisted(&self, now: Now, record: &Record) -> Effects {
        match record {
            Record::NsmHost(info) => {
                let mut hosts = acquire(&self.hosts);
                let id = hosts.by_name(info.addr, &info.name);
                if let Some(host) = id.and_then(|id| hosts.find_mut(id)) {
                    host.recorded = !host.leaving;
                }
                Effects::default()
            }
            Record::NsmGone(name) => {
                let removed = {
                    let mut hosts = acquire(&self.hosts);
                    let id = hosts.by_name(name.addr, &name.name);
                    let leaving = |id: &HostId| hosts.find(*id).is_some_and(|host| host.leaving);
                    id.filter(leaving).and_then(|id| hosts.remove(id))
                };
                self.grace(|grace| grace.unlist(name));
                removed.map(|host| self.purge(now, &host).1).unwrap_or_default()
            }
            Record::GraceEnded(instance) => {
                self.grace(|grace| grace.ended(*instance));
                Effects::default()
            }
            Record::ClientGone(name, _) => {
                self.grace(|grace| grace.unlist_client(name));
                Effects::default()
            }
            Record::Instance(_)
            | Record::GraceBegan(_)
            | Record::NsmState(..)
            | Record::Client(_) => Effects::default(),
        }
    }

    /// A record could not be stored: a host that was leaving stays.
    pub fn not_persisted(&self, record: &Record) {
        let Record::NsmGone(name) = record else { return };
        let mut hosts = acquire(&self.hosts);
        let id = hosts.by_name(name.addr, &name.name);
        if let Some(host) = id.and_then(|id| hosts.find_mut(id)) {
            host.leaving = false;
        }
    }

    /// The monitored hosts that hold nothing and have sent no call for a while, at most `most`.
    pub fn idle_hosts(&self, now: Now, most: usize) -> Vec<HostId> {
        let idle = |host: &&Host| {
            host.recorded
                && !host.leaving
                && host.files.is_empty()
                && now.since(host.last_call_ms) >= self.limits.idle_ms
        };
        acquire(&self.hosts).iter().filter(idle).map(|host| host.id).take(most).collect()
    }

    /// Takes all locks of these files from everybody: the operator's word, or an export that is gone. Answers how many
    /// ranges there were.
    pub fn release_files(&self, now: Now, which: impl Fn(&FileKey) -> bool) -> (usize, Effects) {
        let (mut ranges, mut effects) = (0, Effects::default());
        for file in self.files.keys().iter().filter(|file| which(file)) {
            let gone = self.with(now, file, &mut effects, |state, cx| {
                let mut sharers: Vec<HostId> =
                    state.shares.iter().map(|share| share.host).collect();
                sharers.dedup();
                sharers.into_iter().for_each(|host| state.purge_shares(cx, host));
                state.purge(cx, |_| true)
            });
            ranges += gone.unwrap_or_default();
        }
        (ranges, effects)
    }

    /// Takes a host, which is in no table any more, out of all its files.
    fn purge(&self, now: Now, host: &Host) -> (usize, Effects) {
        let (mut ranges, mut effects) = (0, Effects::default());
        for file in host.files.keys() {
            let gone = self.with(now, file, &mut effects, |state, cx| {
                state.purge_shares(cx, host.id);
                state.purge(cx, |holder| holder.host() == host.id)
            });
            ranges += gone.unwrap_or_default();
        }
        (ranges, effects)
    }

    /// The hosts of the boot list that have neither reclaimed nor answered SM_NOTIFY.
    pub fn hosts_to_notify(&self) -> Vec<crate::record::MonitoredHost> {
        acquire(&self.grace).silent().cloned().collect()
    }

    /// The host's name in the records.
    pub fn host_name(&self, id: HostId) -> Option<HostName> {
        acquire(&self.hosts).find(id).map(|host| host.info.host_name())
    }
}

/// Whether one name is the other without its domain. An address in digits has none.
fn names_agree(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let Some((head, rest)) = long.split_at_checked(short.len()) else { return false };
    let is_host = |name: &[u8]| name.iter().any(u8::is_ascii_alphabetic) && !name.contains(&b'.');
    is_host(short)
        && head.eq_ignore_ascii_case(short)
        && (rest.is_empty() || rest.first() == Some(&b'.'))
}

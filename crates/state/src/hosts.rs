//! NLM hosts: who may hold state, how much of it there is, and in which files it lies.
//!
//! A host is a source address and the name that its calls carry: several machines behind one address are several
//! hosts. Each life of a host has a [`HostId`] of its own; a host that is dropped and comes back is another, so that
//! whatever still names the old one finds nothing.
//!
//! One mutex (of [`State`](crate::State)) guards all of it; it is the last in the lock order and held for a few map
//! operations. Invariant: `files` of a host counts, per file, exactly the ranges, waiting requests, tentative
//! requests and share owners that the file's table has of it.

use crate::key::{FileKey, HostId, Now};
use crate::limits::{Limits, NAME_MAX};
use crate::record::{HostName, MonitoredHost, Transport};
use crate::recovery::Recovery;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Who calls, as it can be seen from a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The address that the call came from, without the port.
    pub addr: IpAddr,
    /// The caller's name in the arguments; a label, never resolved.
    pub name: &'a [u8],
    /// The address of ours that it called: SM_NOTIFY must come from there.
    pub local: IpAddr,
    /// The version of NLM.
    pub nlm_version: u8,
    /// What the call came over.
    pub transport: Transport,
    /// The state number of its status monitor, as LOCK carries it; 0 if it is unknown.
    pub nsm_state: i32,
}

impl Caller<'_> {
    /// What is recorded of the caller.
    fn monitored(&self) -> MonitoredHost {
        MonitoredHost {
            addr: self.addr.to_canonical(),
            name: self.name.into(),
            local: self.local.to_canonical(),
            nlm_version: self.nlm_version,
            transport: self.transport,
            nsm_state: self.nsm_state,
        }
    }
}

/// Why state is refused to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The host was dropped, or is being dropped.
    UnknownHost,
    /// A limit was reached.
    NoRoom,
}

/// One host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub id: HostId,
    pub info: MonitoredHost,
    pub last_call_ms: u64,
    /// The record that lets it reclaim after a restart is on stable storage.
    pub recorded: bool,
    /// It is being removed and gets nothing more.
    pub leaving: bool,
    /// The client id, if it is a client of version 4. Such a host is found by its number alone, and lives as long as the
    /// client's record.
    pub client: Option<u64>,
    pub ranges: usize,
    pub waiters: usize,
    pub files: HashMap<FileKey, usize>,
}

/// The address and the name in one string of bytes, so that it can be looked up without an allocation.
type Key = Box<[u8]>;

/// All hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    by_id: HashMap<HostId, Host>,
    by_key: HashMap<Key, HostId>,
    next_id: u64,
    ranges: usize,
    waiters: usize,
    /// The state numbers of the hosts that were known before the restart.
    recovered: BTreeMap<HostName, i32>,
}

/// Writes the key of a host into `buffer`.
fn key_into<'b>(
    addr: IpAddr,
    name: &[u8],
    buffer: &'b mut [u8; 16 + NAME_MAX],
) -> Option<&'b [u8]> {
    let octets = match addr {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let whole = buffer.get_mut(..16 + name.len())?;
    let (first, second) = whole.split_at_mut_checked(16)?;
    first.copy_from_slice(&octets);
    second.copy_from_slice(name);
    Some(whole)
}

impl Hosts {
    /// None yet, after a restart with these records.
    pub fn new(recovery: &Recovery) -> Self {
        let list = recovery.boot_list().into_iter();
        let recovered = list.map(|(name, host)| (name, host.nsm_state)).collect();
        Self { recovered, ..Self::default() }
    }

    /// The host that calls, new if need be.
    pub fn identify(
        &mut self,
        now: Now,
        caller: &Caller<'_>,
        limits: &Limits,
    ) -> Result<HostId, Refusal> {
        let mut buffer = [0; 16 + NAME_MAX];
        let key = key_into(caller.addr, caller.name, &mut buffer).ok_or(Refusal::NoRoom)?;
        if let Some(id) = self.by_key.get(key).copied() {
            let host = self.by_id.get_mut(&id).ok_or(Refusal::UnknownHost)?;
            host.last_call_ms = host.last_call_ms.max(now.0);
            return if host.leaving { Err(Refusal::UnknownHost) } else { Ok(id) };
        }
        if self.by_key.len() >= limits.hosts && !self.evict_silent() {
            return Err(Refusal::NoRoom);
        }
        let mut info = caller.monitored();
        if let Some(state) = self.recovered.get(&info.host_name()) {
            info.nsm_state = *state;
        }
        let id = self.add(info, now.0, false);
        self.by_key.insert(key.into(), id);
        Ok(id)
    }

    /// A host that has nothing yet.
    fn add(&mut self, info: MonitoredHost, last_call_ms: u64, recorded: bool) -> HostId {
        self.next_id += 1;
        let id = HostId(self.next_id);
        let host = Host {
            id,
            info,
            last_call_ms,
            recorded,
            leaving: false,
            client: None,
            ranges: 0,
            waiters: 0,
            files: HashMap::new(),
        };
        self.by_id.insert(id, host);
        id
    }

    /// A client of version 4, which has nothing yet. How many there are the clients' own limit says.
    pub fn add_client(&mut self, now: Now, client: u64, caller: &Caller<'_>) -> HostId {
        let id = self.add(caller.monitored(), now.0, false);
        if let Some(host) = self.by_id.get_mut(&id) {
            host.client = Some(client);
        }
        id
    }

    /// Ends this life of a host and begins the next, which has nothing; its record and what is known of its status
    /// monitor stay, so that a notification that is sent again does nothing. A host that is being removed still is.
    pub fn renew(&mut self, id: HostId, nsm_state: Option<i32>) -> Option<Host> {
        let old = self.remove(id)?;
        let mut info = old.info.clone();
        info.nsm_state = nsm_state.unwrap_or(info.nsm_state);
        let mut buffer = [0; 16 + NAME_MAX];
        let key: Key = key_into(info.addr, &info.name, &mut buffer)?.into();
        let id = self.add(info, old.last_call_ms, old.recorded);
        self.by_key.insert(key, id);
        if let Some(host) = self.by_id.get_mut(&id) {
            host.leaving = old.leaving;
        }
        Some(old)
    }

    /// Forgets the host that has nothing, needs no record taken back, and was silent longest.
    fn evict_silent(&mut self) -> bool {
        let free = |host: &&Host| {
            host.files.is_empty() && !host.recorded && !host.leaving && host.client.is_none()
        };
        let silent =
            self.by_id.values().filter(free).min_by_key(|host| (host.last_call_ms, host.id));
        let id = silent.map(|host| host.id);
        id.is_some_and(|id| self.remove(id).is_some())
    }

    pub fn find(&self, id: HostId) -> Option<&Host> {
        self.by_id.get(&id)
    }

    pub fn find_mut(&mut self, id: HostId) -> Option<&mut Host> {
        self.by_id.get_mut(&id)
    }

    pub fn by_name(&self, addr: IpAddr, name: &[u8]) -> Option<HostId> {
        let mut buffer = [0; 16 + NAME_MAX];
        self.by_key.get(key_into(addr, name, &mut buffer)?).copied()
    }

    /// Whether a host has sent no call for so long that others may have what it holds. Of clients of version 4 their lease says
    /// so, which is not kept here.
    pub fn is_silent(&self, now: Now, id: HostId, limits: &Limits) -> bool {
        let last = self.find(id).filter(|host| host.client.is_none()).map(|host| host.last_call_ms);
        limits.silent_ms > 0 && last.is_some_and(|last| now.since(last) >= limits.silent_ms)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Host> {
        self.by_id.values()
    }

    /// Takes a host out of the tables.
    pub fn remove(&mut self, id: HostId) -> Option<Host> {
        let host = self.by_id.remove(&id)?;
        let mut buffer = [0; 16 + NAME_MAX];
        let key = key_into(host.info.addr, &host.info.name, &mut buffer);
        if let (Some(key), None) = (key, host.client) {
            self.by_key.remove(key);
        }
        // what it holds is removed from the files one by one and counted there
        self.ranges = self.ranges.saturating_sub(host.ranges);
        self.waiters = self.waiters.saturating_sub(host.waiters);
        Some(host)
    }

    /// Counts one more entry of the host in this file, before it is put there. From here on dropping the host looks
    /// into this file.
    pub fn claim(
        &mut self,
        id: HostId,
        file: &FileKey,
        kind: EntryKind,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        // a change may cut one range into three
        let many = self.ranges + 2 > limits.ranges;
        let waiting = self.waiters >= limits.waiters;
        let host =
            self.by_id.get_mut(&id).filter(|host| !host.leaving).ok_or(Refusal::UnknownHost)?;
        let here = host.files.get(file).copied();
        if here.is_none() && host.files.len() >= limits.files_per_host {
            return Err(Refusal::NoRoom);
        }
        let here = here.unwrap_or_default();
        match kind {
            EntryKind::Range if many || !host.has_room(here, 2, limits) => {
                return Err(Refusal::NoRoom);
            }
            EntryKind::Waiter if waiting || host.waiters >= limits.waiters_per_host => {
                return Err(Refusal::NoRoom);
            }
            EntryKind::Waiter => {
                host.waiters += 1;
                self.waiters += 1;
            }
            EntryKind::Range | EntryKind::Share => {}
        }
        *host.files.entry(*file).or_insert(0) += 1;
        Ok(())
    }

    /// Counts a waiting or tentative request off that [`claim`](Self::claim) counted on.
    pub fn unclaim(&mut self, id: HostId, file: &FileKey, kind: EntryKind) {
        let Some(host) = self.by_id.get_mut(&id) else { return };
        if kind == EntryKind::Waiter {
            host.waiters = host.waiters.saturating_sub(1);
            self.waiters = self.waiters.saturating_sub(1);
        }
        host.count(file, -1);
    }

    /// Counts ranges that came or went.
    pub fn ranges_grew(&mut self, id: HostId, file: &FileKey, by: isize) {
        let Some(host) = self.by_id.get_mut(&id) else { return };
        host.ranges = host.ranges.saturating_add_signed(by);
        self.ranges = self.ranges.saturating_add_signed(by);
        host.count(file, by);
    }

    /// Whether UNLOCK may make two ranges of one of the host in this file.
    pub fn may_split(&self, id: HostId, file: &FileKey, limits: &Limits) -> bool {
        let host = self.by_id.get(&id);
        host.is_none_or(|host| {
            let here = host.files.get(file).copied().unwrap_or_default();
            host.has_room(here, 1, limits)
        })
    }

    /// How many ranges and waiting requests there are.
    pub fn totals(&self) -> (usize, usize) {
        (self.ranges, self.waiters)
    }
}

impl Host {
    /// Whether it may have so many more ranges, where it has `here` entries in the file.
    const fn has_room(&self, here: usize, more: usize, limits: &Limits) -> bool {
        self.ranges + more <= limits.ranges_per_host
            && here + more <= limits.entries_per_host_and_file
    }

    fn count(&mut self, file: &FileKey, by: isize) {
        let Some(entries) = self.files.get_mut(file) else {
            if by > 0 {
                self.files.insert(*file, by.unsigned_abs());
            }
            return;
        };
        *entries = entries.saturating_add_signed(by);
        if *entries == 0 {
            self.files.remove(file);
        }
    }
}

/// What an entry of a host in the table of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A range, or a request for one that is being decided.
    Range,
    /// A request that waits.
    Waiter,
    /// A share reservation's owner.
    Share,
}

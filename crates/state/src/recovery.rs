//! The result of the stored records: who may reclaim after a restart.
//!
//! Outside of a grace period each [`Record::NsmHost`] adds a host and each [`Record::Client`] a client. A grace period
//! separates two generations: those of before, and those that came (back) since. When it ends, the old generation is
//! forgotten: who reclaimed nothing has nothing, and must not reclaim after the *next* restart what others may have
//! locked meanwhile (the edge conditions of RFC 8881 §8.4.3). A crash *within* a grace period keeps both.

use crate::client_record::{ClientName, RecordedClient};
use crate::record::{HostName, MonitoredHost, Record};
use std::collections::BTreeMap;

/// Who may reclaim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Generation {
    hosts: BTreeMap<HostName, MonitoredHost>,
    clients: BTreeMap<ClientName, RecordedClient>,
}

impl Generation {
    fn append(&mut self, mut later: Self) {
        self.hosts.append(&mut later.hosts);
        self.clients.append(&mut later.clients);
    }

    fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.clients.is_empty()
    }

    /// Forgets a client, unless it has begun another life since.
    fn forget_client(&mut self, name: &ClientName, life: u64) {
        if self.clients.get(name).is_some_and(|client| client.life <= life) {
            self.clients.remove(name);
        }
    }

    fn records(&self) -> impl Iterator<Item = Record> {
        let hosts = self.hosts.values().cloned().map(Record::NsmHost);
        hosts.chain(self.clients.values().cloned().map(Record::Client))
    }
}

/// The fold of the records, in the order in which they were stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    instance: u32,
    grace: Option<u32>,
    /// Those of before the grace period, or all if there is none.
    old: Generation,
    /// Those that were recorded in the grace period.
    new: Generation,
}

impl Recovery {
    /// The fold of these records.
    pub fn of(records: impl IntoIterator<Item = Record>) -> Self {
        let mut recovery = Self::default();
        records.into_iter().for_each(|record| recovery.apply(&record));
        recovery
    }

    /// Adds the next record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Instance(n) => self.instance = *n,
            Record::GraceBegan(n) => {
                self.old.append(std::mem::take(&mut self.new));
                self.grace = Some(*n);
            }
            Record::GraceEnded(n) if self.grace == Some(*n) => {
                self.old = std::mem::take(&mut self.new);
                self.grace = None;
            }
            Record::GraceEnded(_) => {}
            Record::NsmHost(host) => {
                self.current().hosts.insert(host.host_name(), host.clone());
            }
            Record::NsmState(name, state) => {
                let both = [&mut self.old.hosts, &mut self.new.hosts];
                for host in both.into_iter().filter_map(|list| list.get_mut(name)) {
                    host.nsm_state = *state;
                }
            }
            Record::NsmGone(name) => {
                self.old.hosts.remove(name);
                self.new.hosts.remove(name);
            }
            Record::Client(client) => {
                self.current().clients.insert(client.name.clone(), client.clone());
            }
            Record::ClientGone(name, life) => {
                self.old.forget_client(name, *life);
                self.new.forget_client(name, *life);
            }
        }
    }

    fn current(&mut self) -> &mut Generation {
        if self.grace.is_some() { &mut self.new } else { &mut self.old }
    }

    /// How often the server has started; 0 if never.
    pub const fn instance(&self) -> u32 {
        self.instance
    }

    /// The hosts that may reclaim, should the server start now.
    pub fn boot_list(&self) -> BTreeMap<HostName, MonitoredHost> {
        let mut list = self.old.hosts.clone();
        list.extend(self.new.hosts.clone());
        list
    }

    /// The clients of version 4 that may reclaim, should the server start now.
    pub fn boot_clients(&self) -> BTreeMap<ClientName, RecordedClient> {
        let mut list = self.old.clients.clone();
        list.extend(self.new.clients.clone());
        list
    }

    /// Whether nobody may reclaim.
    pub fn is_empty(&self) -> bool {
        self.old.is_empty() && self.new.is_empty()
    }

    /// The fewest records that come to the same: what a store is rewritten with.
    pub fn records(&self) -> Vec<Record> {
        let mut records = vec![Record::Instance(self.instance)];
        records.extend(self.old.records());
        records.extend(self.grace.map(Record::GraceBegan));
        records.extend(self.new.records());
        records
    }

    /// The records that a new instance stores, and syncs, before it answers its first call.
    pub fn start_records(&self) -> Vec<Record> {
        let instance = self.instance.wrapping_add(1);
        let mut records = vec![Record::Instance(instance)];
        if !self.is_empty() {
            records.push(Record::GraceBegan(instance));
        }
        records
    }
}

//! What the stored records come to: the hosts that may reclaim after a restart.
//!
//! Outside of a grace period each [`Record::NsmHost`] adds a host. A grace period separates two generations: the hosts
//! of before, and those that came (back) since. When it ends, the old generation is forgotten: a host that reclaimed
//! nothing has nothing, and must not reclaim after the *next* restart what others may have locked meanwhile (the edge
//! conditions of RFC 8881 §8.4.3). A crash *within* a grace period keeps both.

use crate::record::{HostName, MonitoredHost, Record};
use std::collections::BTreeMap;

/// The fold of the records, in the order in which they were stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    instance: u32,
    grace: Option<u32>,
    /// The hosts of before the grace period, or all if there is none.
    old: BTreeMap<HostName, MonitoredHost>,
    /// The hosts that were recorded in the grace period.
    new: BTreeMap<HostName, MonitoredHost>,
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
                self.old.append(&mut self.new);
                self.grace = Some(*n);
            }
            Record::GraceEnded(n) if self.grace == Some(*n) => {
                self.old = std::mem::take(&mut self.new);
                self.grace = None;
            }
            Record::GraceEnded(_) => {}
            Record::NsmHost(host) => {
                let list = if self.grace.is_some() { &mut self.new } else { &mut self.old };
                list.insert(host.host_name(), host.clone());
            }
            Record::NsmState(name, state) => {
                let both = [&mut self.old, &mut self.new];
                for host in both.into_iter().filter_map(|list| list.get_mut(name)) {
                    host.nsm_state = *state;
                }
            }
            Record::NsmGone(name) => {
                self.old.remove(name);
                self.new.remove(name);
            }
        }
    }

    /// How often the server has started; 0 if never.
    pub const fn instance(&self) -> u32 {
        self.instance
    }

    /// Who may reclaim, should the server start now.
    pub fn boot_list(&self) -> BTreeMap<HostName, MonitoredHost> {
        let mut list = self.old.clone();
        list.extend(self.new.clone());
        list
    }

    /// Whether somebody may reclaim.
    pub fn is_empty(&self) -> bool {
        self.old.is_empty() && self.new.is_empty()
    }

    /// The fewest records that come to the same: what a store is rewritten with.
    pub fn records(&self) -> Vec<Record> {
        let hosts = |list: &BTreeMap<_, MonitoredHost>| -> Vec<Record> {
            list.values().cloned().map(Record::NsmHost).collect()
        };
        let mut records = vec![Record::Instance(self.instance)];
        records.extend(hosts(&self.old));
        records.extend(self.grace.map(Record::GraceBegan));
        records.extend(hosts(&self.new));
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

//! The records of all clients (RFC 8881 §18.35.4).

use super::client::Client;
use super::host_share::{HostShare, host_of, most_of_one_host};
use super::minor0::{Confirmation, Owners};
use super::rows::{ClientRow, ClientState};
use super::session::Created;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What became of the last CREATE_SESSION of a client.
#[derive(Debug, Clone)]
pub(super) struct CreateSlot {
    /// The number that the next one has.
    pub next: u32,
    /// The reply of the last one, and who has sent it.
    pub last: Option<(Created, Principal)>,
    /// The same of another principal's request of that number.
    pub of_another: Option<(Created, Principal)>,
}

impl CreateSlot {
    /// The reply that this principal got to the request of the last number.
    pub fn reply_to(&self, principal: Principal) -> Option<Created> {
        let replies = self.last.iter().chain(&self.of_another);
        replies.copied().find(|(_, sender)| *sender == principal).map(|(made, _)| made)
    }
}

/// A record with what only the table's lock guards.
pub(super) struct Record {
    pub client: Arc<Client>,
    pub confirmed: bool,
    pub create: CreateSlot,
    /// What is known of a client of version 4.0.
    pub minor0: Option<Confirmation>,
}

/// All records. Of an owner there is one that is confirmed, one that is not, or both.
///
/// Invariants: `by_name` has the ids of exactly the records that there are, by [`name_of`]; `hosts` has exactly the hosts
/// of these records, each with their number.
#[derive(Default)]
pub(super) struct Clients {
    records: BTreeMap<u64, Record>,
    by_name: BTreeMap<Name, Vec<u64>>,
    hosts: BTreeMap<IpAddr, Host>,
    /// When it was last looked for records that have ended by themselves.
    swept_ms: Option<u64>,
}

/// A host with records.
struct Host {
    records: usize,
    share: Arc<HostShare>,
}

/// Whether it is a client of version 4.0, and what it calls itself.
type Name = (bool, Box<[u8]>);

fn name_of(client: &Client) -> Name {
    (client.is_minor0(), client.owner.clone())
}

/// The least time between two looks for records that have ended by themselves, in milliseconds.
const SWEEP_MS: u64 = 1000;

impl Clients {
    pub fn get(&self, id: u64) -> Option<&Record> {
        self.records.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Record> {
        self.records.get_mut(&id)
    }

    pub fn insert(&mut self, client: Client) {
        self.add(client, None);
    }

    /// A client of version 4.0.
    pub fn insert_minor0(&mut self, client: Client, names: Confirmation) {
        self.add(client, Some(names));
    }

    fn add(&mut self, client: Client, minor0: Option<Confirmation>) {
        let create = CreateSlot { next: 1, last: None, of_another: None };
        let record = Record { client: Arc::new(client), confirmed: false, create, minor0 };
        let id = record.client.id;
        self.by_name.entry(name_of(&record.client)).or_default().push(id);
        let share = || Host { records: 0, share: Arc::clone(&record.client.host) };
        self.hosts.entry(host_of(record.client.address)).or_insert_with(share).records += 1;
        self.records.insert(id, record);
    }

    pub fn remove(&mut self, id: u64) -> Option<Record> {
        let record = self.records.remove(&id)?;
        let name = name_of(&record.client);
        if let Some(ids) = self.by_name.get_mut(&name) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_name.remove(&name);
            }
        }
        let host = host_of(record.client.address);
        if let Some(left) = self.hosts.get_mut(&host) {
            left.records -= 1;
            if left.records == 0 {
                self.hosts.remove(&host);
            }
        }
        Some(record)
    }

    fn of<'s>(&'s self, name: &Name) -> impl Iterator<Item = &'s Record> + use<'s> {
        let ids = self.by_name.get(name).into_iter().flatten();
        ids.filter_map(|id| self.records.get(id))
    }

    /// The record of an owner that is confirmed, or the one that is not.
    pub fn of_owner(&self, owner: &[u8], confirmed: bool) -> Option<&Record> {
        self.of(&(false, owner.into())).find(|record| record.confirmed == confirmed)
    }

    /// The same of a client of version 4.0.
    pub fn of_name(&self, name: &[u8], confirmed: bool) -> Option<&Record> {
        self.of(&(true, name.into())).find(|record| record.confirmed == confirmed)
    }

    /// The confirmed client of the same name that is not this one.
    pub fn other_life_of(&self, client: &Client) -> Option<u64> {
        let mut confirmed = self.of(&name_of(client)).filter(|record| record.confirmed);
        let other = confirmed.find(|record| record.client.id != client.id);
        other.map(|record| record.client.id)
    }

    /// What is known of a client of version 4.0.
    pub fn confirmation_mut(&mut self, id: u64) -> Option<&mut Confirmation> {
        self.records.get_mut(&id)?.minor0.as_mut()
    }

    /// What the clients of a host have, for one that makes itself known from this address.
    pub fn share_of(&self, address: IpAddr) -> Arc<HostShare> {
        self.hosts.get(&host_of(address)).map(|host| Arc::clone(&host.share)).unwrap_or_default()
    }

    /// Whether there is room for one more record of a client from this address, of `most` in all; if need be by ending one
    /// that was never confirmed: it holds nothing.
    pub fn make_room(&mut self, now: Now, address: IpAddr, most: usize) -> bool {
        let host = host_of(address);
        if self.hosts.get(&host).is_some_and(|host| host.records >= most_of_one_host(most)) {
            return self.remove_oldest_unconfirmed(now, Some(host)).is_some();
        }
        self.records.len() < most || self.remove_oldest_unconfirmed(now, None).is_some()
    }

    /// Takes out the record, of this host or of any, that waits longest to be confirmed.
    fn remove_oldest_unconfirmed(&mut self, now: Now, host: Option<IpAddr>) -> Option<Record> {
        let is_of_host =
            |record: &Record| host.is_none_or(|host| host_of(record.client.address) == host);
        let waiting =
            self.records.values().filter(|record| !record.confirmed && is_of_host(record));
        let oldest = waiting.max_by_key(|record| record.client.silent_ms(now))?.client.id;
        self.remove(oldest)
    }

    /// Takes out the records that have ended by themselves: those of clients that have nothing. Nothing is looked at if
    /// that was done a moment ago: thousands of clients may come back at once.
    pub fn take_expired(&mut self, now: Now, lease_ms: u64) -> Vec<Arc<Client>> {
        if self.swept_ms.is_some_and(|at_ms| now.since(at_ms) < SWEEP_MS) {
            return Vec::new();
        }
        self.swept_ms = Some(now.0);
        let is_over = |record: &Record| {
            let client = &record.client;
            client.silent_ms(now) > lease_ms && !(record.confirmed && client.has_state())
        };
        let over: Vec<u64> =
            self.records.iter().filter(|(_, record)| is_over(record)).map(|(id, _)| *id).collect();
        over.iter().filter_map(|id| self.remove(*id)).map(|record| record.client).collect()
    }

    /// All clients.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.records.values().map(|record| &record.client)
    }

    pub fn rows(&self, now: Now, lease_ms: u64) -> Vec<ClientRow> {
        let row = |record: &Record| {
            let silent_ms = record.client.silent_ms(now);
            let state = match record.confirmed {
                false => ClientState::Unconfirmed,
                true if silent_ms > lease_ms => ClientState::Courtesy,
                true => ClientState::Active,
            };
            ClientRow {
                id: record.client.id,
                address: record.client.address,
                owner: record.client.owner.clone(),
                state,
                silent_ms,
                sessions: record.client.session_count(),
                opens: record.client.open_count(),
                delegations: record.client.delegation_count(),
                owners: record.client.owners().map_or(0, Owners::count),
                minor0: record.client.is_minor0(),
                callback: record.minor0.as_ref().map(|names| names.callback.path()),
            }
        };
        self.records.values().map(row).collect()
    }
}

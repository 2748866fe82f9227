//! The records of all clients (RFC 8881 §18.35.4).

use super::client::Client;
use super::minor0::Confirmation;
use super::rows::{ClientRow, ClientState};
use super::session::Created;
use crate::key::Now;
use crate::sync::Arc;
use std::collections::BTreeMap;

/// What became of the last CREATE_SESSION of a client.
#[derive(Debug, Clone)]
pub(super) struct CreateSlot {
    /// The number that the next one has.
    pub next: u32,
    /// The reply of the last one.
    pub last: Option<Created>,
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
#[derive(Default)]
pub(super) struct Clients {
    records: BTreeMap<u64, Record>,
}

impl Clients {
    pub fn get(&self, id: u64) -> Option<&Record> {
        self.records.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Record> {
        self.records.get_mut(&id)
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn insert(&mut self, client: Client) {
        self.add(client, None);
    }

    /// A client of version 4.0.
    pub fn insert_minor0(&mut self, client: Client, names: Confirmation) {
        self.add(client, Some(names));
    }

    fn add(&mut self, client: Client, minor0: Option<Confirmation>) {
        let create = CreateSlot { next: 1, last: None };
        let record = Record { client: Arc::new(client), confirmed: false, create, minor0 };
        self.records.insert(record.client.id, record);
    }

    pub fn remove(&mut self, id: u64) -> Option<Record> {
        self.records.remove(&id)
    }

    /// The record of an owner that is confirmed, or the one that is not.
    pub fn of_owner(&self, owner: &[u8], confirmed: bool) -> Option<&Record> {
        let mut records = self.records.values().filter(|record| record.minor0.is_none());
        records.find(|record| record.confirmed == confirmed && *record.client.owner == *owner)
    }

    /// The same of a client of version 4.0.
    pub fn of_name(&self, name: &[u8], confirmed: bool) -> Option<&Record> {
        let mut records = self.records.values().filter(|record| record.minor0.is_some());
        records.find(|record| record.confirmed == confirmed && *record.client.owner == *name)
    }

    /// The confirmed client of version 4.0 of a name that is not this one.
    pub fn other_of_name(&self, name: &[u8], id: u64) -> Option<u64> {
        let records = self.records.values().filter(|record| record.minor0.is_some());
        let mut records = records.filter(|record| record.confirmed && record.client.id != id);
        records.find(|record| *record.client.owner == *name).map(|record| record.client.id)
    }

    /// What is known of a client of version 4.0.
    pub fn confirmation_mut(&mut self, id: u64) -> Option<&mut Confirmation> {
        self.records.get_mut(&id)?.minor0.as_mut()
    }

    /// Takes out the record that waits longest to be confirmed; it holds nothing.
    pub fn remove_oldest_unconfirmed(&mut self, now: Now) -> Option<Record> {
        let waiting = self.records.values().filter(|record| !record.confirmed);
        let oldest = waiting.max_by_key(|record| record.client.silent_ms(now))?.client.id;
        self.records.remove(&oldest)
    }

    /// The confirmed record of an owner that is not this one.
    pub fn others_of(&self, owner: &[u8], id: u64) -> Option<u64> {
        let records = self.records.values().filter(|record| record.minor0.is_none());
        let mut records = records.filter(|record| record.confirmed);
        let found = records.find(|record| record.client.id != id && *record.client.owner == *owner);
        found.map(|record| record.client.id)
    }

    /// Takes out the records that have ended by themselves: those of clients that have nothing.
    pub fn take_expired(&mut self, now: Now, lease_ms: u64) -> Vec<Arc<Client>> {
        let is_over = |record: &Record| {
            let client = &record.client;
            client.silent_ms(now) > lease_ms && !(record.confirmed && client.has_state())
        };
        let over: Vec<u64> =
            self.records.iter().filter(|(_, record)| is_over(record)).map(|(id, _)| *id).collect();
        over.iter().filter_map(|id| self.records.remove(id)).map(|record| record.client).collect()
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
                minor0: record.client.is_minor0(),
            }
        };
        self.records.values().map(row).collect()
    }
}

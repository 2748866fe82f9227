//! The records of all clients (RFC 8881 §18.35.4).

use super::client::Client;
use super::minor0::{Confirmation, Owners};
use super::rows::{ClientRow, ClientState};
use super::session::Created;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;
use std::collections::BTreeMap;

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
/// Invariant: `by_name` has the ids of exactly the records that there are, by [`name_of`].
#[derive(Default)]
pub(super) struct Clients {
    records: BTreeMap<u64, Record>,
    by_name: BTreeMap<Name, Vec<u64>>,
    /// When it was last looked for records that have ended by themselves.
    swept_ms: Option<u64>,
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
        let create = CreateSlot { next: 1, last: None, of_another: None };
        let record = Record { client: Arc::new(client), confirmed: false, create, minor0 };
        let id = record.client.id;
        self.by_name.entry(name_of(&record.client)).or_default().push(id);
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

    /// Takes out the record that waits longest to be confirmed; it holds nothing.
    pub fn remove_oldest_unconfirmed(&mut self, now: Now) -> Option<Record> {
        let waiting = self.records.values().filter(|record| !record.confirmed);
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
            }
        };
        self.records.values().map(row).collect()
    }
}

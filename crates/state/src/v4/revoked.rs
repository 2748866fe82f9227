//! State that was taken from a client that lives: it finds out what, one stateid after the other, and frees each
//! (RFC 8881 §8.3, §18.38, §18.46.3).
//!
//! The stateid of a revoked state stays known until the client frees it, at most [`V4Limits::revoked_per_client`] of
//! them; a revoked state beyond that is unknown at once.
//!
//! [`V4Limits::revoked_per_client`]: super::V4Limits

use super::client::Client;
use super::recording::Expiry;
use super::server::{Entry, Reading, V4State};
use super::session::Session;
use super::stateid::{StateidError, key_of};
use crate::acquire::acquire;
use crate::record::Record;
use crate::sync::Arc;

impl Reading<'_> {
    /// What is wrong with a stateid that names no state.
    pub(super) fn missing(&self, client_id: u64, other: &[u8; 12]) -> StateidError {
        match self.entry(other) {
            Some(Entry::Revoked(client)) if client.id != client_id => StateidError::Bad,
            Some(Entry::Revoked(client)) if client.revoked_delegations.has(other) => {
                StateidError::DelegationRevoked
            }
            Some(Entry::Revoked(_)) => StateidError::Revoked,
            _ => StateidError::Bad,
        }
    }
}

impl V4State {
    /// Begins to take everything from a client: the operator's word. One with sessions keeps them and learns of it.
    pub fn begin_release(&self, client_id: u64) -> Expiry {
        let client = {
            let clients = acquire(&self.clients);
            let Some(record) = clients.get(client_id) else { return Expiry::Ended };
            Arc::clone(&record.client)
        };
        if client.is_minor0() {
            return self.begin_end(client_id, |_| true);
        }
        if client.is_recorded() {
            client.set_leaving(true);
            return Expiry::Store(Record::ClientGone(client.name(), client.life()));
        }
        self.revoke(&client);
        Expiry::Ended
    }

    /// The record of a client that is released has been taken back: it loses everything.
    pub fn finish_release(&self, client_id: u64) {
        let found = acquire(&self.clients).get(client_id).map(|record| Arc::clone(&record.client));
        let Some(client) = found else { return };
        if client.is_minor0() {
            self.finish_expiry(client_id);
            return;
        }
        // it is recorded again with the next state that it gets
        client.set_unrecorded();
        self.revoke(&client);
        client.set_leaving(false);
    }

    fn revoke(&self, client: &Arc<Client>) {
        for delegation in self.take_delegations(client) {
            self.revoke_delegation(&delegation);
        }
        for open in client.opens() {
            let locks: Vec<_> = acquire(&open.locks).iter().map(|lock| lock.other).collect();
            client.forget_open(&open.other);
            if self.remove_open(&open) {
                locks.into_iter().for_each(|other| self.note_revoked(client, other));
                self.note_revoked(client, open.other);
            }
        }
    }

    /// A client of version 4.0, which has no FREE_STATEID, gets NFS4ERR_BAD_STATEID instead (RFC 7530 §10.2.1).
    pub(super) fn note_revoked_delegation(&self, client: &Arc<Client>, other: [u8; 12]) {
        if !client.is_minor0()
            && client.revoked_delegations.add(other, self.limits.revoked_per_client)
        {
            self.entries.pin().insert(key_of(&other), Entry::Revoked(Arc::clone(client)));
        }
    }

    fn note_revoked(&self, client: &Arc<Client>, other: [u8; 12]) {
        if client.revoked.add(other, self.limits.revoked_per_client) {
            self.entries.pin().insert(key_of(&other), Entry::Revoked(Arc::clone(client)));
        }
    }

    /// FREE_STATEID of a stateid that was revoked; false if it was not.
    pub fn free_revoked(&self, session: &Session, other: &[u8; 12]) -> bool {
        let client = &session.client;
        let known = client.revoked.remove(other) || client.revoked_delegations.remove(other);
        if known {
            self.entries.pin().remove(&key_of(other));
        }
        known
    }
}

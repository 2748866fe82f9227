//! Whether a client may get state: its record must be stored first, and no grace period be in the way.
//!
//! A client gets nothing before the record by which it may reclaim after a restart is stored. It is taken back before
//! anything of the client is given to somebody else: a client whose lease is over *leaves* until that is stored, its
//! requests wait, and only then does it end ([`V4State::begin_expiry`]). A client that has nothing is simply forgotten;
//! its record is taken back at leisure ([`V4State::take_forgotten`]).
//!
//! The record of a client that lives and has had nothing for a while is taken back as well ([`V4State::sweep_idle`]), so
//! that no grace period waits for it; it is recorded again before it gets anything. Each record of a client has a higher
//! life number than the one before, and what takes one back says which: a late taking back harms no later record.

use super::client::Client;
use super::requester::Requester;
use super::server::V4State;
use crate::acquire::acquire;
use crate::client_record::RecordedClient;
use crate::key::Now;
use crate::record::Record;
use crate::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// What becomes of a client whose lease may be over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Expiry {
    /// Its lease is good, or was renewed meanwhile.
    Lives,
    /// It has ended.
    Ended,
    /// Store this, then call [`V4State::finish_expiry`], or [`V4State::cancel_expiry`] if that failed.
    Store(Record),
}

impl V4State {
    /// This record of the client is stored.
    pub fn client_recorded(&self, requester: Requester<'_>, record: &RecordedClient) {
        let client = requester.client();
        client.set_recorded(record.life);
        if acquire(&self.clients).get(client.id).is_none() {
            // it has ended meanwhile
            self.forget(client);
        }
    }

    /// Begins to end a client because somebody else wants what it has: its lease must be over.
    pub fn begin_expiry(&self, now: Now, client_id: u64) -> Expiry {
        self.begin_end(client_id, |client| client.silent_ms(now) > self.lease_ms())
    }

    /// Begins to end a client that has had its courtesy time, or to make room.
    pub fn begin_overdue(&self, now: Now, client_id: u64, silent_ms: u64) -> Expiry {
        self.begin_end(client_id, |client| client.silent_ms(now) > silent_ms)
    }

    pub(super) fn begin_end(&self, client_id: u64, ends: impl FnOnce(&Client) -> bool) -> Expiry {
        let ended = {
            let mut clients = acquire(&self.clients);
            let Some(record) = clients.get(client_id) else { return Expiry::Ended };
            let client = &record.client;
            if !client.is_leaving() && !ends(client) {
                return Expiry::Lives;
            }
            if client.is_recorded() {
                client.set_leaving(true);
                return Expiry::Store(Record::ClientGone(client.name(), client.life()));
            }
            clients.remove(client_id)
        };
        if let Some(record) = ended {
            self.end_client(&record.client);
        }
        Expiry::Ended
    }

    /// The record of a client that leaves has been taken back: it ends.
    pub fn finish_expiry(&self, client_id: u64) {
        let removed = acquire(&self.clients).remove(client_id);
        if let Some(record) = removed {
            self.end_client(&record.client);
        }
    }

    /// The record of a client that leaves could not be taken back: it stays.
    pub fn cancel_expiry(&self, client_id: u64) {
        if let Some(record) = acquire(&self.clients).get(client_id) {
            record.client.set_leaving(false);
        }
    }

    /// Clients that have been silent for longer than this, those that are silent longest first, at most `most`.
    pub fn silent_clients(&self, now: Now, silent_ms: u64, most: usize) -> Vec<u64> {
        let mut silent: Vec<(u64, u64)> = acquire(&self.clients)
            .all()
            .map(|client| (client.silent_ms(now), client.id))
            .filter(|(ms, _)| *ms > silent_ms)
            .collect();
        silent.sort_unstable_by(|a, b| b.cmp(a));
        silent.into_iter().take(most).map(|(_, id)| id).collect()
    }

    /// Notes that the record of a client that has nothing is to be taken back.
    pub(super) fn forget(&self, client: &Arc<Client>) {
        if client.is_recorded() {
            self.note_forgotten(client, client.life());
        }
    }

    fn note_forgotten(&self, client: &Client, life: u64) {
        let mut notes = acquire(&self.forgotten);
        notes.push(Record::ClientGone(client.name(), life));
        self.forgotten_count.store(notes.len(), Release);
    }

    /// Notes that the records of clients are to be taken back that have had nothing since the last call. To be called now
    /// and then: often enough that a restart waits for few idle clients, and so seldom that one that opens a file now and
    /// then is not recorded again for each.
    pub fn sweep_idle(&self) {
        let clients: Vec<_> = acquire(&self.clients).all().map(Arc::clone).collect();
        for client in clients {
            if let Some(life) = client.take_idle_record(|| self.next_life()) {
                self.note_forgotten(&client, life);
            }
        }
    }

    /// Whether there are records of clients that had nothing and are no more.
    #[inline]
    pub fn has_forgotten(&self) -> bool {
        self.forgotten_count.load(Acquire) != 0
    }

    /// These, which are to be stored. Costs one load if there are none.
    pub fn take_forgotten(&self) -> Vec<Record> {
        if !self.has_forgotten() {
            return Vec::new();
        }
        let mut notes = acquire(&self.forgotten);
        self.forgotten_count.store(0, Release);
        std::mem::take(&mut *notes)
    }
}

impl Client {
    /// What is stored so that the client may reclaim.
    pub fn record(&self) -> RecordedClient {
        RecordedClient { name: self.name(), life: self.life(), address: self.address }
    }
}

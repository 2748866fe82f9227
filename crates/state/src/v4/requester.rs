//! A client that asks for state: what its record and the grace period say to that.

use super::client::Client;
use crate::grace::Admission;
use crate::key::Now;
use crate::record::Record;
use crate::server::State;
use crate::sync::Arc;

/// A client that asks for state.
#[derive(Clone, Copy)]
pub struct Requester<'c> {
    client: &'c Arc<Client>,
}

impl<'c> Requester<'c> {
    pub(super) const fn new(client: &'c Arc<Client>) -> Self {
        Self { client }
    }

    pub(super) const fn client(&self) -> &'c Arc<Client> {
        self.client
    }

    /// The client's id.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Whether the client may get state, as far as its record and the grace period are concerned. After
    /// [`Admission::Store`] of a [`Record::Client`] the caller calls [`crate::v4::V4State::client_recorded`].
    pub fn admit(&self, now: Now, state: &State, reclaim: bool) -> Admission {
        let client = self.client;
        if !reclaim && self.may_have_new() && client.is_recorded() && state.grace_is_over() {
            return Admission::Go;
        }
        if client.is_minor0() {
            // it never says that it is done: it is recorded with the first thing that it reclaims
            return self.recorded_first(state.admit_client(now, &client.name(), reclaim));
        }
        match (client.has_reclaimed(), reclaim) {
            (true, true) => Admission::NoGrace,
            // nothing new before RECLAIM_COMPLETE (RFC 8881 §18.51.3)
            (false, false) => Admission::Grace,
            // the record of before the restart stands for what is reclaimed
            (false, true) => state.admit_client(now, &client.name(), true),
            (true, false) => self.recorded_first(state.admit_client(now, &client.name(), false)),
        }
    }

    fn may_have_new(&self) -> bool {
        self.client.is_minor0() || self.client.has_reclaimed()
    }

    fn recorded_first(&self, admission: Admission) -> Admission {
        match admission {
            Admission::Go if !self.client.is_recorded() => {
                Admission::Store(Record::Client(self.client.record()))
            }
            admission => admission,
        }
    }

    /// Whether the client has said that it has reclaimed everything.
    pub fn has_reclaimed(&self) -> bool {
        self.client.has_reclaimed()
    }

    /// What is to be stored before RECLAIM_COMPLETE is answered. A client that has nothing is not recorded: it is before
    /// it gets something, and until then no grace period waits for it.
    pub fn completion_record(&self) -> Option<Record> {
        let recorded = self.client.is_recorded() || self.client.set_unrecorded_if_empty();
        (!recorded).then(|| Record::Client(self.client.record()))
    }

    /// The client has reclaimed something.
    pub fn reclaimed(&self, now: Now, state: &State) {
        state.client_reclaimed(now, &self.client.name());
    }

    /// RECLAIM_COMPLETE, whose record is stored: false if the client had sent it before.
    pub fn complete_reclaim(&self, now: Now, state: &State) -> bool {
        let first = self.client.complete_reclaim();
        if first {
            state.client_done(now, &self.client.name());
        }
        first
    }
}

//! Storing the records of version 4's clients: before a client gets its first state, and before its state goes to another.
//!
//! Invariants: nothing is granted to a client whose record is not stored (RFC 8881 §8.4.2.1), and state of a client whose
//! lease has expired is granted to another only after a record is stored that forbids the first to reclaim it (§8.4.3).
//! While the store fails, held state stays held, and a request that needs a record gets NFS4ERR_DELAY.

use super::frame::Frame;
use super::status::Failed;
use crate::Nfs;
use proto::nfs4::Nfsstat4;
use rpc::Blocking;
use state::v4::{Expiry, Requester};
use state::{Admission, Record};

/// How often a request asks again after a record was stored: that of its client, and the end of a grace period.
const STEPS_MAX: u32 = 4;
/// Silent clients that are ended at once to make room, or because their time is over.
const BATCH: usize = 64;

/// Lets a request for state through, once its client's record is stored and no grace period is in the way.
pub(super) fn admit(frame: &Frame<'_>, client: Requester<'_>, reclaim: bool) -> Result<(), Failed> {
    let state = &frame.nfs.state;
    for _ in 0..STEPS_MAX {
        match client.admit(frame.nfs.clock.now(), state, reclaim) {
            Admission::Go => return Ok(()),
            Admission::Grace => return Err(Nfsstat4::Grace.into()),
            Admission::NoGrace => return Err(Nfsstat4::NoGrace.into()),
            Admission::Store(record) => store(frame, client, &record)?,
        }
    }
    Err(Nfsstat4::Delay.into())
}

/// Stores a record that a client waits for.
fn store(frame: &Frame<'_>, client: Requester<'_>, record: &Record) -> Result<(), Failed> {
    let nfs = frame.nfs;
    frame.caller.blocking().will_block();
    nfs.store.append(record).map_err(|_| Nfsstat4::Delay)?;
    // no host has anything by these records that would have to be let go
    let _nothing = nfs.state.persisted(nfs.clock.now(), record);
    if let Record::Client(recorded) = record {
        nfs.v4.state.client_recorded(client, recorded);
    }
    Ok(())
}

/// RECLAIM_COMPLETE of everything (RFC 8881 §18.51).
pub(super) fn complete_reclaim(frame: &Frame<'_>) -> Result<(), Failed> {
    let client = frame.session()?.requester();
    if client.has_reclaimed() {
        return Err(Nfsstat4::CompleteAlready.into());
    }
    if let Some(record) = client.completion_record() {
        store(frame, client, &record)?;
    }
    match client.complete_reclaim(frame.nfs.clock.now(), &frame.nfs.state) {
        true => Ok(()),
        false => Err(Nfsstat4::CompleteAlready.into()),
    }
}

/// How ending clients went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// They are gone.
    All,
    /// The lease of one is good.
    SomeLive,
    /// Their records cannot be taken back now.
    NotStored,
}

impl Nfs {
    /// Ends clients of version 4 whose lease is over, because somebody else wants what they have; their records are
    /// taken back first, in one write.
    pub(crate) fn end_expired(&self, blocking: &dyn Blocking, clients: &[u64]) -> Ended {
        self.end_clients(blocking, clients, |client| {
            self.v4.state.begin_expiry(self.clock.now(), client)
        })
    }

    /// Ends clients that have been silent for longer than this, at most [`BATCH`]; true if one has ended.
    pub(crate) fn end_silent(&self, blocking: &dyn Blocking, silent_ms: u64) -> bool {
        let silent_ms = silent_ms.max(self.v4.state.lease_ms());
        let clients = self.v4.state.silent_clients(self.clock.now(), silent_ms, BATCH);
        let begin = |client| self.v4.state.begin_overdue(self.clock.now(), client, silent_ms);
        !clients.is_empty() && self.end_clients(blocking, &clients, begin) == Ended::All
    }

    /// Takes everything from a client: the operator's word. One with sessions lives on and is told
    /// (NFS4ERR_ADMIN_REVOKED).
    pub(crate) fn release_client(&self, blocking: &dyn Blocking, client: u64) -> Ended {
        self.end_each(
            blocking,
            &[client],
            |client| self.v4.state.begin_release(client),
            |client| {
                self.v4.state.finish_release(client);
            },
        )
    }

    fn end_clients(
        &self,
        blocking: &dyn Blocking,
        clients: &[u64],
        begin: impl FnMut(u64) -> Expiry,
    ) -> Ended {
        self.end_each(blocking, clients, begin, |client| self.v4.state.finish_expiry(client))
    }

    /// Ends each client that `begin` lets end, by `finish`, once its record is taken back.
    fn end_each(
        &self,
        blocking: &dyn Blocking,
        clients: &[u64],
        mut begin: impl FnMut(u64) -> Expiry,
        finish: impl Fn(u64),
    ) -> Ended {
        let (mut leaving, mut records) = (Vec::new(), Vec::new());
        let mut ended = Ended::All;
        for client in clients {
            match begin(*client) {
                Expiry::Lives => ended = Ended::SomeLive,
                Expiry::Ended => {}
                Expiry::Store(record) => {
                    leaving.push(*client);
                    records.push(record);
                }
            }
        }
        if !records.is_empty() {
            blocking.will_block();
            let stored = self.store.append_all(&records).is_ok();
            for (client, record) in leaving.iter().zip(&records) {
                if stored {
                    let _nothing = self.state.persisted(self.clock.now(), record);
                    finish(*client);
                } else {
                    self.v4.state.cancel_expiry(*client);
                    ended = Ended::NotStored;
                }
            }
        }
        self.give_back(blocking);
        ended
    }

    /// Gives back the locks of what has ended, and takes back the records of clients that had nothing. Costs two loads
    /// if there is neither.
    #[inline]
    pub(crate) fn give_back(&self, blocking: &dyn Blocking) {
        if self.v4.state.has_released() || self.v4.state.has_forgotten() {
            self.give_back_ended(blocking);
        }
    }

    #[cold]
    fn give_back_ended(&self, blocking: &dyn Blocking) {
        if self.v4.state.has_released()
            && let Some(manager) = self.lock_manager()
        {
            manager.give_back_released(blocking);
        }
        let forgotten = self.v4.state.take_forgotten();
        if !forgotten.is_empty() {
            blocking.will_block();
            // one that is lost costs a wait in the next grace period: the client has nothing to reclaim
            let _lost = self.store.append_all(&forgotten);
            for record in &forgotten {
                let _nothing = self.state.persisted(self.clock.now(), record);
            }
        }
    }

    /// Ends the clients of version 4 that have had nothing, or been silent, for too long, and takes back the records of
    /// those that have had nothing since the last call.
    pub(crate) fn sweep_clients(&self, blocking: &dyn Blocking) {
        self.v4.state.sweep(self.clock.now());
        self.v4.state.sweep_owners(self.clock.now());
        self.v4.state.sweep_idle();
        self.end_silent(blocking, self.v4.state.limits().courtesy_ms);
        self.give_back(blocking);
    }
}

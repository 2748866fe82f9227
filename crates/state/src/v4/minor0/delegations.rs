//! Delegations of clients of version 4.0 (RFC 7530 §10.2, §10.4): the table is that of all versions ([`super::super::delegation`]);
//! here is what is different without sessions.
//!
//! A stateid comes without a client, so whoever knows it has the delegation, as with opens ([`super::access`]). A client gets
//! delegations once CB_NULL was answered at its callback address ([`super::callback`]), and none while that does not answer.
//! RENEW tells it that it does not (RFC 7530 §16.28).

use super::super::delegation::NamedDelegation;
use super::super::delegation_entry::Delegation;
use super::super::server::{Entry, Reading, V4State};
use super::super::stateid::{Stateid, StateidError, check_version};
use super::callback::{Callback, CallbackPath};
use crate::acquire::acquire;
use crate::key::{FileKey, Now};
use crate::sync::Arc;

impl V4State {
    /// The client and the delegation of this file that a stateid names. The client's lease is renewed.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn delegation_of(
        &self,
        now: Now,
        reading: &Reading<'_>,
        (stateid, file): (Stateid, &FileKey),
    ) -> Result<(u64, NamedDelegation), StateidError> {
        let lives = |found: &&Arc<Delegation>| found.client.is_minor0() && !found.is_ended();
        let found = reading.delegation(&stateid.other).filter(lives);
        let found = found.ok_or_else(|| self.unknown(&stateid.other))?;
        if found.file != *file {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, 1)?;
        found.client.renew(now);
        Ok((found.client.id, NamedDelegation::of(found)))
    }

    /// The callback address of a client, if that does not answer; and whether the client is to be told so
    /// (NFS4ERR_CB_PATH_DOWN), because it has delegations.
    pub fn path_down(&self, client_id: u64) -> Option<(Arc<Callback>, bool)> {
        let clients = acquire(&self.clients);
        let record = clients.get(client_id)?;
        let callback = &record.minor0.as_ref()?.callback;
        let is_down = callback.path() == CallbackPath::Down;
        is_down.then(|| (Arc::clone(callback), record.client.delegation_count() > 0))
    }
}

impl Reading<'_> {
    /// The client of version 4.0 to whom a stateid belongs: only it can send that.
    pub fn client_of(&self, stateid: Stateid) -> Option<u64> {
        let client = match self.entry(&stateid.other)? {
            Entry::Open(open) => &open.client,
            Entry::Lock(lock) => &lock.client,
            Entry::Delegation(delegation) => &delegation.client,
            Entry::Session(_) | Entry::Revoked(_) => return None,
        };
        client.is_minor0().then_some(client.id)
    }
}

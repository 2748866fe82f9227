//! SETCLIENTID_CONFIRM (RFC 7530 §16.34.5) and RENEW (§16.28).

use super::super::client::Client;
use super::super::server::V4State;
use super::callback::Callback;
use super::owner::OwnerError;
use super::set_client_id::ClientIdError;
use crate::acquire::acquire;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;

impl V4State {
    /// Confirms what SETCLIENTID has prepared. Returns where callbacks are sent from now on, if that has just changed.
    ///
    /// # Errors
    /// [`ClientIdError::Stale`], [`ClientIdError::InUse`]; then nothing has changed.
    pub fn confirm_client_id(
        &self,
        now: Now,
        (client_id, confirm): (u64, [u8; 8]),
        principal: Principal,
    ) -> Result<Option<Arc<Callback>>, ClientIdError> {
        let mut before = None;
        let confirmed = {
            let mut clients = acquire(&self.clients);
            let record = clients.get_mut(client_id).ok_or(ClientIdError::Stale)?;
            let names = record.minor0.as_mut().ok_or(ClientIdError::Stale)?;
            let is_update = names.update.as_ref().is_some_and(|(word, _)| *word == confirm);
            if !is_update && names.confirm != confirm {
                return Err(ClientIdError::Stale);
            }
            if record.client.principal != principal {
                return Err(ClientIdError::InUse);
            }
            if is_update && let Some((word, callback)) = names.update.take() {
                names.confirm = word;
                names.callback = callback;
                Some(Arc::clone(&names.callback))
            } else if record.confirmed {
                // a retransmission: the reply was lost
                None
            } else {
                record.confirmed = true;
                let (client, callback) = (Arc::clone(&record.client), Arc::clone(&names.callback));
                // its lease begins
                client.renew(now);
                // an earlier life of the client ends now
                let old = clients.other_life_of(&client);
                before =
                    old.and_then(|id| clients.remove(id)).map(|record| (record.client, client));
                Some(callback)
            }
        };
        if let Some((before, client)) = before {
            self.name_conflicts.replaced(now, &before, &client);
            self.forget(&before);
            self.end_client(&before);
        }
        Ok(confirmed)
    }

    /// Renews a client's lease.
    ///
    /// # Errors
    /// [`OwnerError::StaleClientId`], [`OwnerError::Expired`].
    pub fn renew_client(&self, now: Now, client_id: u64) -> Result<(), OwnerError> {
        self.minor0_client(now, client_id).map(drop)
    }

    /// The confirmed client of an ID; renews its lease.
    pub(super) fn minor0_client(
        &self,
        now: Now,
        client_id: u64,
    ) -> Result<Arc<Client>, OwnerError> {
        let clients = acquire(&self.clients);
        let record = clients.get(client_id);
        let record = record.filter(|record| record.confirmed && record.client.is_minor0());
        match record {
            Some(record) => {
                record.client.renew(now);
                Ok(Arc::clone(&record.client))
            }
            None if self.ended.has_client(client_id) => Err(OwnerError::Expired),
            None => Err(OwnerError::StaleClientId),
        }
    }

    /// Where the callbacks of a client are sent.
    pub fn callback_of(&self, client_id: u64) -> Option<Arc<Callback>> {
        let clients = acquire(&self.clients);
        let names = clients.get(client_id)?.minor0.as_ref()?;
        Some(Arc::clone(&names.callback))
    }
}

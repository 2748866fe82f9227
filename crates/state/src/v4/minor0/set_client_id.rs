//! SETCLIENTID: the cases of RFC 7530 §16.33.5.
//!
//! If a client's name and verifier are known and confirmed, the request changes only where its callbacks are sent, and only
//! once it is confirmed. Any other request makes an unconfirmed record; the client's former one stays until then.

use super::super::client::Client;
use super::super::server::V4State;
use super::callback::{Callback, Confirmation};
use crate::acquire::acquire;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;

/// The arguments of SETCLIENTID.
#[derive(Debug, Clone)]
pub struct SetClientId<'a> {
    /// The client's name (`nfs_client_id4.id`).
    pub name: &'a [u8],
    /// Changes when the client restarts.
    pub verifier: [u8; 8],
    /// The sender of the request.
    pub principal: Principal,
    /// Where its callbacks are sent, and where the request comes from.
    pub callback: Arc<Callback>,
}

/// The result, which SETCLIENTID_CONFIRM repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientNames {
    /// The client's id.
    pub client_id: u64,
    /// The verifier that confirms it (`setclientid_confirm`).
    pub confirm: [u8; 8],
}

/// Why SETCLIENTID or its confirmation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientIdError {
    /// Another principal has a client of this name, with state and a lease.
    InUse,
    /// There is no such client.
    Stale,
    /// There are too many clients.
    NoRoom,
}

impl V4State {
    /// Makes a client known, or prepares a change of its callbacks.
    ///
    /// # Errors
    /// [`ClientIdError::InUse`], [`ClientIdError::NoRoom`].
    pub fn set_client_id(
        &self,
        now: Now,
        who: &SetClientId<'_>,
    ) -> Result<ClientNames, ClientIdError> {
        self.sweep(now);
        let mut clients = acquire(&self.clients);
        let confirm = self.confirm_verifier();
        if let Some(record) = clients.of_name(who.name, true) {
            let client = Arc::clone(&record.client);
            if client.principal != who.principal {
                let lives = client.silent_ms(now) <= self.lease_ms();
                if lives && client.has_state() {
                    self.name_conflicts.refused(now, &client, who.callback.address);
                    return Err(ClientIdError::InUse);
                }
            } else if client.verifier == who.verifier {
                let update = Some((confirm, Arc::clone(&who.callback)));
                if let Some(names) = clients.confirmation_mut(client.id) {
                    names.update = update;
                }
                return Ok(ClientNames { client_id: client.id, confirm });
            }
        }
        if let Some(old) = clients.of_name(who.name, false).map(|record| record.client.id) {
            clients.remove(old);
        }
        let address = who.callback.address;
        if !clients.make_room(now, address, self.limits.clients) {
            return Err(ClientIdError::NoRoom);
        }
        let ids = self.client_id();
        let (name, host) = ((who.name, who.verifier), (address, clients.share_of(address)));
        let client = Client::new(ids, name, who.principal, host, now).of_minor0();
        let callback = Arc::clone(&who.callback);
        clients.insert_minor0(client, Confirmation { confirm, callback, update: None });
        Ok(ClientNames { client_id: ids.0, confirm })
    }

    /// A random verifier, never 0.
    fn confirm_verifier(&self) -> [u8; 8] {
        (self.random)().max(1).to_be_bytes()
    }
}

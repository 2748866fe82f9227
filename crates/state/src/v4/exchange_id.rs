//! EXCHANGE_ID: the nine cases of RFC 8881 §18.35.4.

use super::client::Client;
use super::clients::Record;
use super::machine::MachineCredential;
use super::server::V4State;
use crate::acquire::acquire;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;
use std::net::IpAddr;

/// What a client says of itself.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeId<'a> {
    /// Its name for itself (`co_ownerid`).
    pub owner: &'a [u8],
    /// Changes when it restarts (`co_verifier`).
    pub verifier: [u8; 8],
    /// Who sends the request.
    pub principal: Principal,
    /// The state protection that it asks for.
    pub machine: Option<MachineCredential>,
    /// Whether the request was signed or encrypted with the principal's key.
    pub is_signed: bool,
    /// Where the request comes from.
    pub address: IpAddr,
    /// Whether properties of a confirmed record are to be updated (`EXCHGID4_FLAG_UPD_CONFIRMED_REC_A`).
    pub update: bool,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchanged {
    /// The client's id.
    pub client_id: u64,
    /// The number that its next CREATE_SESSION has.
    pub sequence: u32,
    /// Whether the record is confirmed already.
    pub confirmed: bool,
    /// The state protection that is in force.
    pub machine: Option<MachineCredential>,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeIdError {
    /// Another principal has a client of this name, with state or a lease.
    InUse,
    /// There is nothing to update.
    NoEnt,
    /// An update with another verifier.
    NotSame,
    /// An update by another principal.
    Perm,
    /// There are too many clients, or too many of that host.
    NoRoom,
}

impl V4State {
    /// Makes a client known, or finds it again.
    ///
    /// # Errors
    /// [`ExchangeIdError`].
    pub fn exchange_id(
        &self,
        now: Now,
        who: &ExchangeId<'_>,
    ) -> Result<Exchanged, ExchangeIdError> {
        self.sweep(now);
        let mut ended = None;
        let answer = self.exchange(now, who, &mut ended);
        if let Some(client) = ended {
            self.forget(&client);
            self.end_client(&client);
        }
        answer
    }

    /// The cases, by their numbers in the RFC. What is to be dropped without the lock goes to `ended`.
    fn exchange(
        &self,
        now: Now,
        who: &ExchangeId<'_>,
        ended: &mut Option<Arc<Client>>,
    ) -> Result<Exchanged, ExchangeIdError> {
        let mut clients = acquire(&self.clients);
        let confirmed = clients.of_owner(who.owner, true);
        if who.update {
            // 7, 9, 8, 6
            let record = confirmed.ok_or(ExchangeIdError::NoEnt)?;
            if !is_by_principal(record, who) {
                return Err(ExchangeIdError::Perm);
            }
            if record.client.verifier != who.verifier {
                return Err(ExchangeIdError::NotSame);
            }
            return Ok(found(record));
        }
        if let Some(record) = confirmed {
            if !is_by_principal(record, who) {
                // 3
                let lives = record.client.silent_ms(now) <= self.lease_ms();
                if lives && (record.client.has_state() || record.client.session_count() > 0) {
                    self.name_conflicts.refused(now, &record.client, who.address);
                    return Err(ExchangeIdError::InUse);
                }
                let id = record.client.id;
                *ended = clients.remove(id).map(|record| record.client);
            } else if record.client.verifier == who.verifier {
                // 2
                return Ok(found(record));
            }
            // 5: the old record stays until CREATE_SESSION confirms the new one
        }
        // 4
        if let Some(old) = clients.of_owner(who.owner, false).map(|record| record.client.id) {
            clients.remove(old);
        }
        // 1
        if !clients.make_room(now, who.address, self.limits.clients) {
            return Err(ExchangeIdError::NoRoom);
        }
        let ids = self.client_id();
        let name = (who.owner, who.verifier);
        let host = (who.address, clients.share_of(who.address));
        let client = Client::new(ids, name, who.principal, host, now);
        clients.insert(client.protected_by(who.machine));
        let machine = who.machine;
        Ok(Exchanged { client_id: ids.0, sequence: 1, confirmed: false, machine })
    }

    /// The state protection of a client, and whose credential it is by.
    pub fn machine_of(&self, client_id: u64) -> Option<(Principal, MachineCredential)> {
        let clients = acquire(&self.clients);
        let client = &clients.get(client_id)?.client;
        Some((client.principal, client.machine?))
    }
}

/// Whether a request is by who has made a client known; of a protected one, signed by him as well (RFC 8881 §2.4.3).
fn is_by_principal(record: &Record, who: &ExchangeId<'_>) -> bool {
    let client = &record.client;
    client.principal == who.principal && (who.is_signed || client.machine.is_none())
}

fn found(record: &Record) -> Exchanged {
    Exchanged {
        client_id: record.client.id,
        sequence: record.create.next,
        confirmed: true,
        machine: record.client.machine,
    }
}

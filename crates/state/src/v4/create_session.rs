//! CREATE_SESSION, DESTROY_SESSION and DESTROY_CLIENTID (RFC 8881 §18.36, §18.37, §18.50).

use super::clients::Record;
use super::host_share::most_of_one_host;
use super::server::{Entry, V4State};
use super::session::{ChannelLimits, Created, Session, SessionId};
use super::slots::Slots;
use crate::acquire::acquire;
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;

/// A request for a session.
#[derive(Debug, Clone, Copy)]
pub struct CreateSession {
    /// Of which client.
    pub client_id: u64,
    /// The request's number.
    pub sequence: u32,
    /// Who sends it.
    pub principal: Principal,
    /// What is granted of what the client wants of requests; the number of slots is bounded here.
    pub limits: ChannelLimits,
    /// Whether the connection is to be used for callbacks.
    pub back_channel: bool,
}

/// Why there is no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateSessionError {
    /// There is no such client.
    StaleClientId,
    /// The request's number is neither the last one nor the next.
    Misordered,
    /// Another principal has made the client known.
    InUse,
    /// The client has too many.
    NoRoom,
    /// All clients together, or those of one host, have too many.
    Full,
}

/// Why a session or a client cannot be destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestroyError {
    /// There is none of this name.
    Unknown,
    /// The client has sessions or state.
    Busy,
}

impl V4State {
    /// Makes a session, and confirms the client with the first one; or gives the answer to the same request again.
    ///
    /// # Errors
    /// [`CreateSessionError`]; then nothing has changed.
    pub fn create_session(
        &self,
        now: Now,
        want: &CreateSession,
    ) -> Result<Created, CreateSessionError> {
        self.sweep(now);
        let mut clients = acquire(&self.clients);
        let record = clients.get_mut(want.client_id).ok_or(CreateSessionError::StaleClientId)?;
        let is_last = want.sequence == record.create.next.wrapping_sub(1);
        if is_last && let Some(made) = record.create.reply_to(want.principal) {
            return Ok(made);
        }
        // the reply is for who has sent the request: another principal that has seen it gets a session of its own
        let is_another =
            is_last && record.create.last.is_some() && record.create.of_another.is_none();
        if want.sequence != record.create.next && !is_another {
            return Err(CreateSessionError::Misordered);
        }
        self.check_session_limits(record, want)?;
        // a client that wants no more than it says is not offered more
        let grows = want.limits.slots >= self.limits.slots;
        let (slots, limits) = self.slots_for(&want.limits);
        let id = self.session_id();
        let back_channel = want.back_channel;
        let made = Created { session: id, sequence: want.sequence, limits, back_channel };
        let client = Arc::clone(&record.client);
        client.renew(now);
        client.add_session(id);
        let session = Arc::new(Session::new(id, Arc::clone(&client), limits, (slots, grows)));
        self.entries.pin().insert(id, Entry::Session(session));
        if is_another {
            record.create.of_another = Some((made, want.principal));
        } else {
            record.create.next = record.create.next.wrapping_add(1);
            (record.create.last, record.create.of_another) = (Some((made, want.principal)), None);
        }
        let first = !std::mem::replace(&mut record.confirmed, true);
        // an earlier life of the client ends now (RFC 8881 §18.36.3)
        let mut before = None;
        if first {
            let old = clients.other_life_of(&client);
            before = old.and_then(|id| clients.remove(id));
        }
        drop(clients);
        if let Some(before) = before {
            self.name_conflicts.replaced(now, &before.client, &client);
            self.forget(&before.client);
            self.end_client(&before.client);
        }
        Ok(made)
    }

    /// Whether a client, or somebody who wants to confirm it, may have one more session.
    fn check_session_limits(
        &self,
        record: &Record,
        want: &CreateSession,
    ) -> Result<(), CreateSessionError> {
        if !record.confirmed && record.client.principal != want.principal {
            return Err(CreateSessionError::InUse);
        }
        if record.client.session_count() >= self.limits.sessions_per_client {
            return Err(CreateSessionError::NoRoom);
        }
        let most = self.limits.sessions;
        let of_host = record.client.host.sessions();
        if self.slot_total.sessions() >= most || of_host >= most_of_one_host(most) {
            return Err(CreateSessionError::Full);
        }
        Ok(())
    }

    /// The slots of a new session, and what its client may do of what it asks for.
    fn slots_for(&self, wanted: &ChannelLimits) -> (Slots, ChannelLimits) {
        let kept_bytes = match self.slot_total.is_full() {
            true => self.limits.cached_reply_bytes_when_full,
            false => self.limits.cached_reply_bytes,
        };
        let count = wanted.slots.clamp(1, self.limits.slots) as usize;
        let slots = Slots::new(count, Arc::clone(&self.slot_total));
        let limits = ChannelLimits {
            slots: u32::try_from(slots.count()).unwrap_or(u32::MAX),
            cached_bytes: wanted.cached_bytes.min(kept_bytes),
            ..*wanted
        };
        (slots, limits)
    }

    /// A session id that cannot be guessed: 4 bytes of the instance, 4 of a serial number, 8 random ones.
    fn session_id(&self) -> SessionId {
        let mut id = [0; 16];
        let serial = (self.serial() & 0xffff_ffff) as u32;
        let random = (self.random)();
        // the last word tells a session from a stateid
        let random = if random as u32 == u32::MAX { random ^ 1 } else { random };
        let words = [self.instance, serial, (random >> 32) as u32, random as u32];
        for (place, word) in id.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        id
    }

    /// Ends a session. Requests that run on it go on.
    ///
    /// # Errors
    /// [`DestroyError::Unknown`].
    pub fn destroy_session(&self, id: &SessionId) -> Result<(), DestroyError> {
        let clients = acquire(&self.clients);
        let entries = self.entries.pin();
        let Some(Entry::Session(session)) = entries.get(id) else {
            return Err(DestroyError::Unknown);
        };
        session.client.forget_session(id);
        session.end();
        entries.remove(id);
        drop(clients);
        Ok(())
    }

    /// Ends a client that has nothing.
    ///
    /// # Errors
    /// [`DestroyError`].
    pub fn destroy_client(&self, client_id: u64) -> Result<(), DestroyError> {
        let mut clients = acquire(&self.clients);
        let record = clients.get(client_id).ok_or(DestroyError::Unknown)?;
        if record.client.session_count() > 0 || record.client.has_state() {
            return Err(DestroyError::Busy);
        }
        let removed = clients.remove(client_id);
        drop(clients);
        if let Some(record) = removed {
            self.forget(&record.client);
            self.end_client(&record.client);
        }
        Ok(())
    }
}

//! What a stateid gives the right to in version 4.0, where no session says who uses it (RFC 7530 §9.1.4.4): whoever knows
//! it has the right, and renews the lease of its client.

use super::super::client::Client;
use super::super::lock_entry::LockState;
use super::super::open_entry::Open;
use super::super::requester::Requester;
use super::super::server::{Reading, V4State};
use super::super::stateid::{Stateid, StateidError, check_version};
use super::super::stateid_access::StateidAccess;
use crate::key::{FileKey, HostId, Now};
use crate::share::ShareBits;
use crate::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// A client of version 4.0 that a request is about.
#[derive(Clone)]
pub struct Minor0Client {
    pub(in super::super) client: Arc<Client>,
}

impl Minor0Client {
    /// The client, which asks for state.
    pub const fn requester(&self) -> Requester<'_> {
        Requester::new(&self.client)
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// The client as a host of the table of locks; `make` makes it one. `None`: the client has ended.
    pub fn lock_host(&self, make: impl FnOnce(u64, &[u8]) -> HostId) -> Option<HostId> {
        self.client.lock_host(|| make(self.client.id, &self.client.owner))
    }
}

impl V4State {
    /// The client of an id, whose lease is renewed.
    ///
    /// # Errors
    /// As [`V4State::renew_client`].
    pub fn renewed_client(
        &self,
        now: Now,
        client_id: u64,
    ) -> Result<Minor0Client, super::OwnerError> {
        self.minor0_client(now, client_id).map(|client| Minor0Client { client })
    }

    /// Why a stateid is not known.
    pub(super) fn unknown(&self, other: &[u8; 12]) -> StateidError {
        let is_special = *other == [0; 12] || *other == [0xff; 12];
        let instance = other.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        if is_special {
            StateidError::Bad
        } else if instance != Some(self.instance) {
            StateidError::Stale
        } else if self.ended.has_stateid(other) {
            StateidError::Expired
        } else {
            StateidError::Bad
        }
    }

    /// What a stateid lets whoever sends it do with a file: all that the file is open for, if that includes `access`. The lease
    /// is renewed.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn check_access(
        &self,
        now: Now,
        reading: &Reading<'_>,
        stateid: Stateid,
        file: &FileKey,
        access: ShareBits,
    ) -> Result<StateidAccess, StateidError> {
        let open = match self.usable_open(reading, stateid, file) {
            Ok(open) => open,
            Err(error) => {
                let Some(lock) = reading.lock(&stateid.other) else { return Err(error) };
                self.usable_lock(reading, stateid, lock, file)?
            }
        };
        open.client.renew(now);
        let granted = open.mode().access;
        open.opener.as_ref().ok_or(StateidError::Bad)?;
        if granted.number() & access.number() == access.number() {
            Ok(StateidAccess { access: granted, user: open.sole_user() })
        } else {
            Err(StateidError::OpenMode)
        }
    }

    /// The open of a stateid, if it is of this file and confirmed.
    pub(super) fn usable_open<'r>(
        &self,
        reading: &'r Reading<'_>,
        stateid: Stateid,
        file: &FileKey,
    ) -> Result<&'r Arc<Open>, StateidError> {
        let open = reading.open(&stateid.other).ok_or_else(|| self.unknown(&stateid.other))?;
        let confirmed = open.opener.as_ref().is_some_and(|owner| owner.is_confirmed());
        if !confirmed || open.is_ended() || open.file.file != *file {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, open.seqid.load(Acquire))?;
        Ok(open)
    }

    /// The open that a lock state belongs to, if the state is of this file.
    fn usable_lock<'r>(
        &self,
        reading: &'r Reading<'_>,
        stateid: Stateid,
        lock: &LockState,
        file: &FileKey,
    ) -> Result<&'r Arc<Open>, StateidError> {
        if lock.locker.is_none() || lock.is_ended() || lock.file != *file {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, lock.seqid.load(Acquire))?;
        let open = reading.open(&lock.open).filter(|open| !open.is_ended());
        open.ok_or(StateidError::Bad)
    }
}

//! Opens of version 4.0: OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE and CLOSE as requests of an open owner (RFC 7530 §9.1.11, §9.10,
//! §16.18).

use super::super::client::Client;
use super::super::open::{DowngradeError, OpenError, OpenRequest, Opened};
use super::super::open_entry::Guard;
use super::super::server::{Reading, V4State};
use super::super::stateid::{Stateid, StateidError, check_version, key_of};
use super::owner::{KeptReply, Owner, OwnerError, OwnerKind, Request};
use super::owner_ticket::{Begun, OwnerTicket};
use crate::key::{FileKey, Now};
use crate::share::ShareMode;
use crate::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

impl V4State {
    /// Begins an OPEN of an owner, which is added if it is not known. An unconfirmed OPEN is undone by the next one (RFC 7530
    /// §16.18.5).
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn begin_open(
        &self,
        now: Now,
        (client_id, name): (u64, &[u8]),
        request: Request,
    ) -> Result<Begun, OwnerError> {
        let client = self.minor0_client(now, client_id)?;
        let owners = client.owners().ok_or(OwnerError::StaleClientId)?;
        if let Some(owner) = owners.find(OwnerKind::Open, name) {
            if owner.is_confirmed() || owner.would_replay(request) || owner.is_running() {
                return OwnerTicket::begin(&client, &owner, now, request);
            }
            owners.remove(&owner);
            self.end_owner(&owner);
        }
        let most = (now, self.limits.owners_per_client);
        let owner = owners.find_or_add(OwnerKind::Open, name, most);
        OwnerTicket::begin(&client, &owner.ok_or(OwnerError::NoRoom)?, now, request)
    }

    /// Begins a request that names an open: OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, and LOCK of a new lock owner.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn begin_by_open(
        &self,
        now: Now,
        reading: &Reading<'_>,
        stateid: Stateid,
        request: Request,
    ) -> Result<Begun, OwnerError> {
        let open = reading.open(&stateid.other);
        let owner = open.and_then(|open| Some((&open.client, open.opener.as_ref()?)));
        self.begin_by_stateid(now, stateid, owner, request)
    }

    /// Begins a request of the owner to whom a stateid belongs; renews the lease of the client.
    pub(super) fn begin_by_stateid(
        &self,
        now: Now,
        stateid: Stateid,
        found: Option<(&Arc<Client>, &Arc<Owner>)>,
        request: Request,
    ) -> Result<Begun, OwnerError> {
        let unknown = || OwnerError::Stateid(self.unknown(&stateid.other));
        let (client, owner) = found.ok_or_else(unknown)?;
        client.renew(now);
        OwnerTicket::begin(client, owner, now, request)
    }

    /// Opens a file by a request of its owner, or reclaims it after a restart; as [`V4State::open`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_by_owner(
        &self,
        now: Now,
        ticket: &OwnerTicket,
        (file, mode): (FileKey, ShareMode),
        reclaim: Option<&dyn Fn() -> bool>,
        kept: &mut Option<Guard>,
    ) -> Result<Opened, OpenError> {
        let user = ticket.user();
        let request = OpenRequest { file, owner: &ticket.owner.name, user, mode, reclaim };
        self.open_for(now, (&ticket.client, Some(&ticket.owner)), &request, kept)
    }

    /// Confirms the first OPEN of an owner.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn confirm_open(
        &self,
        reading: &Reading<'_>,
        ticket: &OwnerTicket,
        stateid: Stateid,
        file: &FileKey,
    ) -> Result<Stateid, StateidError> {
        let open = reading.open(&stateid.other).ok_or_else(|| self.unknown(&stateid.other))?;
        if ticket.is_confirmed() || open.is_ended() || open.file.file != *file {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, open.seqid.load(Acquire))?;
        ticket.owner.confirm();
        Ok(open.bump())
    }

    /// Undoes an OPEN whose confirmation had a wrong seqid (RFC 7530 §16.18.4).
    pub fn take_back_unconfirmed(&self, reading: &Reading<'_>, stateid: Stateid) {
        let Some(open) = reading.open(&stateid.other) else { return };
        let Some(owner) = &open.opener else { return };
        if !owner.is_confirmed() && !owner.is_running() {
            if let Some(owners) = open.client.owners() {
                owners.remove(owner);
            }
            self.end_owner(owner);
        }
    }

    /// Removes access or deny bits of an open by a request of its owner.
    ///
    /// # Errors
    /// [`DowngradeError`].
    pub fn downgrade_by_owner(
        &self,
        reading: &Reading<'_>,
        ticket: &OwnerTicket,
        (stateid, file): (Stateid, &FileKey),
        mode: ShareMode,
    ) -> Result<Stateid, DowngradeError> {
        self.usable_open(reading, stateid, file).map_err(DowngradeError::Stateid)?;
        self.downgrade(reading, ticket.client_id(), (stateid, file), mode)
    }

    /// Closes an open by a request of its owner. Its stateid is known until the owner's next request, so that the CLOSE can be
    /// sent again.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn close_by_owner(
        &self,
        reading: &Reading<'_>,
        ticket: &mut OwnerTicket,
        stateid: Stateid,
        file: &FileKey,
    ) -> Result<Stateid, StateidError> {
        let open = Arc::clone(self.usable_open(reading, stateid, file)?);
        open.client.forget_open(&open.other);
        if !self.end_open(&open) {
            return Err(StateidError::Bad);
        }
        ticket.closed = Some(open.other);
        Ok(open.bump())
    }

    /// Undoes an open whose request fails after all.
    pub fn undo_open(&self, reading: &Reading<'_>, opened: &Opened) {
        if let Some(open) = reading.open(&opened.stateid.other) {
            let open = Arc::clone(open);
            open.client.forget_open(&open.other);
            self.remove_open(&open);
        }
    }

    /// Ends a request: its seqid is the owner's last one from now on, with this reply.
    pub fn finish_request(&self, ticket: OwnerTicket, reply: KeptReply) {
        let (client, owner) = (Arc::clone(&ticket.client), Arc::clone(&ticket.owner));
        let mut forgotten = ticket.advance(reply);
        if forgotten.is_none() && client.has_ended() {
            // the client has ended while the request ran: nobody else forgets the stateid
            forgotten = owner.take_closed();
        }
        if let Some(closed) = forgotten {
            self.entries.pin().remove(&key_of(&closed));
        }
    }
}

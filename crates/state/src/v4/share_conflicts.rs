//! Which share reservations exclude each other (RFC 8881 §9.7): the opens of version 4 and what NLM's SHARE reserves, and what
//! either denies to calls without an open.
//!
//! The opens of a file are in its shard here, the reservations of NLM in the core ([`State`](crate::State)). OPEN and SHARE are
//! both decided with the lock of the file's shard held, so that of two that exclude each other one finds the other. The locks of
//! the core are taken after a shard, never before one.
//!
//! Of an open whose client's lease is over, and of a reservation whose host has sent no call for a long time, it is said who is
//! to be ended first; nobody is if somebody else is in the way as well.

use super::file_opens::FileOpens;
use super::open::OpenError;
use super::open_entry::Open;
use super::server::V4State;
use crate::acquire::acquire;
use crate::key::{FileKey, Now};
use crate::plan::{Effects, Plan};
use crate::share::{ShareBits, ShareConflict, ShareMode};
use crate::share_requests::ShareRequest;
use crate::sync::Arc;
use std::net::IpAddr;

impl V4State {
    /// NLM's SHARE: reserves as [`State::share`](crate::State::share) does, unless opens are in the way.
    ///
    /// # Errors
    /// [`OpenError::ShareDenied`], [`OpenError::Expired`].
    pub fn share(
        &self,
        now: Now,
        file: &FileKey,
        request: &ShareRequest<'_>,
    ) -> Result<(Plan, Effects), OpenError> {
        let hashed = self.files.hashed(file);
        let shard = self.files.shard(&hashed).ok_or(OpenError::NoRoom)?;
        let files = acquire(shard);
        self.core.share_unless(now, file, request, || {
            self.check_opens(now, files.get(&hashed), request.mode)
        })
    }

    /// Whether an open or a reservation denies this access to those who have no open: special stateids, and the calls of
    /// versions 2 and 3 from an address, if there is one. Costs one load while nobody denies anything.
    ///
    /// # Errors
    /// [`OpenError::ShareDenied`], [`OpenError::Expired`], [`OpenError::Silent`].
    pub fn check_denied(
        &self,
        now: Now,
        file: &FileKey,
        access: ShareBits,
        addr: Option<IpAddr>,
    ) -> Result<(), OpenError> {
        if !self.core.has_denials() {
            return Ok(());
        }
        let hashed = self.files.hashed(file);
        let Some(shard) = self.files.shard(&hashed) else { return Ok(()) };
        let files = acquire(shard);
        self.check_shares(now, (file, files.get(&hashed)), (ShareMode::access_only(access), addr))
    }

    /// Whether others allow an open of this mode, or an access. With the lock of the file's shard held.
    pub(super) fn check_shares(
        &self,
        now: Now,
        (file, opens): (&FileKey, Option<&FileOpens>),
        (mode, addr): (ShareMode, Option<IpAddr>),
    ) -> Result<(), OpenError> {
        match self.core.share_conflict(now, file, (mode, addr)) {
            None => self.check_opens(now, opens, mode),
            Some(ShareConflict::Held(_)) => Err(OpenError::ShareDenied),
            Some(ShareConflict::Silent(host)) => {
                self.check_opens(now, opens, mode).and(Err(OpenError::Silent(host)))
            }
        }
    }

    /// Whether opens allow one of this mode: they are none if all of their clients' leases are over, once these have been
    /// ended (RFC 8881 §8.4.2.4).
    #[inline]
    fn check_opens(
        &self,
        now: Now,
        opens: Option<&FileOpens>,
        mode: ShareMode,
    ) -> Result<(), OpenError> {
        match opens.filter(|opens| opens.mode().conflicts(mode)) {
            None => Ok(()),
            Some(opens) => self.check_conflicts(now, opens, mode),
        }
    }

    fn check_conflicts(
        &self,
        now: Now,
        opens: &FileOpens,
        mode: ShareMode,
    ) -> Result<(), OpenError> {
        let in_the_way = |open: &&Arc<Open>| open.mode().conflicts(mode);
        let mut over = Vec::new();
        for open in opens.iter().filter(in_the_way) {
            if open.client.silent_ms(now) <= self.lease_ms() {
                return Err(OpenError::ShareDenied);
            }
            over.push(open.client.id);
        }
        over.dedup();
        if over.is_empty() { Ok(()) } else { Err(OpenError::Expired(over)) }
    }
}

//! Delegations as seen by all protocol versions: recalling them before a file is changed or, if it is a write delegation, looked
//! at, and reacting to local programs that access a delegated file.
//!
//! No call waits long for a client: a call that conflicts with delegations waits a moment a few times
//! ([`delegation_progress`](crate::delegation_progress)) and is then answered NFS3ERR_JUKEBOX or NFS4ERR_DELAY.
//!
//! Invariants: while there are no delegations a call pays one relaxed load. No lock is held while a client is called.

use crate::Nfs;
use crate::delegation_progress::DelegationCounts;
use crate::file_key::{export_of, file_key};
use crate::object::Object;
use crate::v4::Ended;
use crate::v4::callback::{CallbackAnswer, Operation};
use export::{ClientAccess, Delegate, Requester};
use rpc::{Blocking, TransportSecurity};
use state::v4::{DelegationConflict, DelegationKind, DelegationRow, Recall};
use state::{FileKey, Now, ShareMode};
use vfs::{Change, Component, Create, Fid, Leases, Name, SetAttr, Status};

/// How often a call waits for returns.
const WAITS: u32 = 4;
/// Time after which a recall that was not delivered is sent again: as long as it has been tried, within these.
const AGAIN_MIN_MS: u64 = 50;
const AGAIN_MAX_MS: u64 = 1000;
/// Interval at which the lock timer checks recalls in progress.
const LOOK_MS: u64 = 1000;

/// Time after which a recall that has been tried for so long is sent again.
fn again_after_ms(waited_ms: u64) -> u64 {
    waited_ms.clamp(AGAIN_MIN_MS, AGAIN_MAX_MS)
}

/// The object of this name in a directory.
fn found_by_name(dir: &Object<'_>, name: &[u8]) -> Option<Fid> {
    let name = Component::Name(Name::new(name).ok()?);
    dir.backend().lookup(&dir.cx(), &dir.fid, name).ok().map(|found| found.node.fid)
}

impl Nfs {
    /// Recalls the delegations of a file that a call is about to change. Costs one load if there are none at all.
    ///
    /// # Errors
    /// [`Status::Jukebox`] if they were not returned in time.
    #[inline]
    pub(crate) fn before_change(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        if !self.v4.state.any_delegations() {
            return Ok(());
        }
        self.end_delegations(file, fid, client)
    }

    /// The same of the file of this name, if there is one.
    ///
    /// # Errors
    /// As [`Nfs::before_change`].
    #[inline]
    pub(crate) fn before_change_of_name(
        &self,
        dir: &Object<'_>,
        name: &[u8],
        client: Option<u64>,
    ) -> vfs::Result<()> {
        if !self.v4.state.any_delegations() {
            return Ok(());
        }
        self.end_delegations_of_name(dir, name, client)
    }

    /// Recalls the write delegation of a file of which a call is about to read data, or attributes that change as it is
    /// written. Costs one load if there is none at all.
    ///
    /// # Errors
    /// As [`Nfs::before_change`].
    #[inline]
    pub(crate) fn before_read(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        if !self.v4.state.any_write_delegations() {
            return Ok(());
        }
        self.end_write_delegation(file, fid, client)
    }

    #[cold]
    fn end_write_delegation(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        self.end_those(file, fid, &|now, key| self.v4.state.recall_for_read(now, key, client))
    }

    /// Recalls the delegations of a file that a share reservation is in the way of, as an OPEN does.
    ///
    /// # Errors
    /// As [`Nfs::before_change`].
    pub(crate) fn before_share(&self, file: &Object<'_>, mode: ShareMode) -> vfs::Result<()> {
        if !self.v4.state.any_delegations() {
            return Ok(());
        }
        let recall = |now, key: &FileKey| self.v4.state.recall_for_open(now, key, mode, None);
        self.end_those(file, &file.fid, &recall)
    }

    /// The same of the file of this name, if there is one.
    ///
    /// # Errors
    /// As [`Nfs::before_change`].
    #[inline]
    pub(crate) fn before_read_of_name(&self, dir: &Object<'_>, name: &[u8]) -> vfs::Result<()> {
        if !self.v4.state.any_write_delegations() {
            return Ok(());
        }
        match found_by_name(dir, name) {
            Some(fid) => self.end_write_delegation(dir, &fid, None),
            None => Ok(()),
        }
    }

    /// Whether a CREATE of versions 2 and 3 sets the size of a file that is there.
    pub(crate) const fn create_cuts(how: &vfs::Result<Create>) -> bool {
        matches!(how, Ok(Create::Unchecked(SetAttr { size: Some(_), .. })))
    }

    /// Recalls delegations of a file of this name, if there is one, that a CREATE of versions 2 and 3 would cut off, or tell the
    /// attributes of.
    ///
    /// # Errors
    /// As [`Nfs::before_change`].
    pub(crate) fn before_create(
        &self,
        dir: &Object<'_>,
        name: &[u8],
        how: &vfs::Result<Create>,
    ) -> vfs::Result<()> {
        match how {
            Ok(Create::Unchecked(SetAttr { size: Some(_), .. })) => {
                self.before_change_of_name(dir, name, None)
            }
            Ok(Create::Unchecked(_)) => self.before_read_of_name(dir, name),
            _ => Ok(()),
        }
    }

    /// Recalls delegations before a client changes a file by an open of its own: as [`Nfs::before_change`], but its own
    /// read delegation as well, whose lease would hold back the server.
    ///
    /// # Errors
    /// As [`Nfs::before_change`].
    #[cold]
    pub(crate) fn before_own_change(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        self.end_those(file, fid, &|now, key| self.v4.state.recall_for_own_change(now, key, client))
    }

    /// Makes a change of a file's attributes. One by the client that has the write delegation of the file does not recall it, as
    /// a change by a program of this machine does.
    #[inline]
    pub(crate) fn change_by_holder(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
        change: impl FnOnce() -> vfs::Result<Change>,
    ) -> vfs::Result<Change> {
        match (client, file.backend().leases()) {
            (Some(client), Some(leases)) if self.v4.state.any_write_delegations() => {
                self.change_untold((file, fid), client, leases, change)
            }
            _ => change(),
        }
    }

    #[cold]
    fn change_untold(
        &self,
        (file, fid): (&Object<'_>, &Fid),
        client: u64,
        leases: &dyn Leases,
        change: impl FnOnce() -> vfs::Result<Change>,
    ) -> vfs::Result<Change> {
        let Some(key) = file_key(file.export_id(), fid) else { return change() };
        let (mut change, mut changed) = (Some(change), Err(Status::ServerFault));
        leases.change_by_holder(fid, &mut || {
            // asked once the lease is watched: if it is this client's, it stays so or ends
            let is_holder = self.v4.state.is_writing(&key, client);
            if let Some(change) = change.take() {
                changed = change();
            }
            changed.as_ref().ok().filter(|_| is_holder)?.after
        });
        changed
    }

    /// To be called after a change of a file's data or size, which passes the lease of a write delegation: one of another client
    /// that was granted since the change was allowed is recalled, and one that is about to be is not granted. A client with
    /// an open may have lost that meanwhile.
    ///
    /// # Errors
    /// [`Status::Jukebox`] if there is one: its client may not have seen the change, which is to be made again.
    #[inline]
    pub(crate) fn after_change(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        if !self.v4.state.any_write_delegations() {
            return Ok(());
        }
        self.end_later_delegation(file, fid, client)
    }

    #[cold]
    fn end_later_delegation(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        self.end_those(file, fid, &|now, key| self.v4.state.recall_after_change(now, key, client))
    }

    /// The same after a part of a copy that goes on by itself: nobody is told to come back.
    pub(crate) fn after_copied(&self, client: u64, file: &FileKey, blocking: &dyn Blocking) {
        if !self.v4.state.any_write_delegations() {
            return;
        }
        match self.v4.state.recall_after_change(self.clock.now(), file, Some(client)) {
            DelegationConflict::Nothing => {}
            DelegationConflict::Recalled(recalls) => self.recall(&recalls),
            DelegationConflict::Expired(clients) => {
                let _ended = self.end_expired(blocking, &clients);
            }
        }
    }

    /// The same after a CREATE of versions 2 and 3, which may have cut a file off that was there. It has made the file, and is
    /// not made again.
    pub(crate) fn after_create(&self, dir: &Object<'_>, cuts: bool, made: Option<&Fid>) {
        if let (true, Some(fid)) = (cuts, made) {
            let _recalled = self.after_change(dir, fid, None);
        }
    }

    /// Whether another client has a write delegation of a file, so that the attributes that the server has may be old.
    /// Costs one load if there is none at all.
    #[inline]
    pub(crate) fn is_written_by_other(
        &self,
        object: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> bool {
        self.v4.state.any_write_delegations()
            && file_key(object.export_id(), fid)
                .is_some_and(|key| self.v4.state.is_written_by_other(&key, client))
    }

    #[cold]
    fn end_delegations_of_name(
        &self,
        dir: &Object<'_>,
        name: &[u8],
        client: Option<u64>,
    ) -> vfs::Result<()> {
        match found_by_name(dir, name) {
            Some(fid) => self.end_delegations(dir, &fid, client),
            // there is none, or the call itself fails so
            None => Ok(()),
        }
    }

    #[cold]
    fn end_delegations(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
    ) -> vfs::Result<()> {
        // the call itself fails so
        if file.check_writable().is_err() {
            return Ok(());
        }
        self.end_those(file, fid, &|now, key| self.v4.state.recall_for_change(now, key, client))
    }

    /// Waits a little for the end of the delegations of a file that `recall` finds in the way.
    pub(crate) fn end_those(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        recall: &dyn Fn(Now, &FileKey) -> DelegationConflict,
    ) -> vfs::Result<()> {
        let Some(key) = file_key(file.export_id(), fid) else { return Ok(()) };
        let blocking = file.blocking();
        for _ in 0..WAITS {
            let seen = self.delegations.returns();
            match recall(self.clock.now(), &key) {
                DelegationConflict::Nothing => return Ok(()),
                DelegationConflict::Expired(clients) => {
                    if self.end_expired(blocking, &clients) != Ended::All {
                        return Err(Status::Jukebox);
                    }
                }
                DelegationConflict::Recalled(recalls) => {
                    self.recall(&recalls);
                    if !self.delegations.wait(blocking, seen) {
                        return Err(Status::Jukebox);
                    }
                }
            }
        }
        Err(Status::Jukebox)
    }

    /// Has clients told to return delegations that an open is in the way of, and waits a little; whether it is to be
    /// tried again now.
    pub(crate) fn recall_for_open(&self, blocking: &dyn Blocking, recalls: &[Recall]) -> bool {
        let seen = self.delegations.returns();
        self.recall(recalls);
        self.delegations.wait(blocking, seen)
    }

    /// Has clients told to return delegations.
    pub(crate) fn recall(&self, recalls: &[Recall]) {
        let now = self.clock.now();
        for recall in recalls {
            let again = Now(now.0.saturating_add(again_after_ms(recall.waited_ms(now))));
            let wake = self.delegations.waker();
            self.delegations.note_recall();
            let operation =
                Operation::Recall { stateid: recall.stateid(), handle: recall.handle().into() };
            let (client, recall) = (recall.client_id(), recall.clone());
            let done = Box::new(move |answer: Result<CallbackAnswer<'_>, _>| {
                // one that the client does not know yet was granted by a reply that it has not read
                if answer.is_ok_and(|answer| answer.status == 0) {
                    return;
                }
                recall.again_at(again);
                wake();
            });
            self.v4.call_client(client, operation, done);
        }
        if !recalls.is_empty() {
            self.delegations.wake();
        }
    }

    /// A local program has disturbed a file.
    pub(crate) fn disturb(&self, file: FileKey) {
        self.delegations.disturbed(file, || {})();
    }

    /// Recalls what local programs have disturbed, sends recalls again, and revokes what was not returned in time; when it
    /// is to be called again. Called by the lock timer.
    pub(crate) fn tick_delegations(&self, blocking: &dyn Blocking) -> Option<u64> {
        let files = self.delegations.take_disturbed();
        let mut expired = Vec::new();
        for file in files {
            match self.v4.state.recall_for_change(self.clock.now(), &file, None) {
                DelegationConflict::Nothing => {}
                DelegationConflict::Recalled(recalls) => self.recall(&recalls),
                DelegationConflict::Expired(clients) => expired.extend(clients),
            }
        }
        self.ask_for_unused();
        let now = self.clock.now();
        let swept = self.v4.state.sweep_delegations(now);
        self.recall(&swept.recalls);
        expired.extend(swept.expired);
        if !expired.is_empty() {
            expired.sort_unstable();
            expired.dedup();
            self.end_expired(blocking, &expired);
        }
        let look_ms = now.0.saturating_add(LOOK_MS);
        let next_ms = swept.again_ms.map_or(look_ms, |again| again.min(look_ms));
        (self.v4.state.recalled_count() > 0).then_some(next_ms)
    }

    /// If there is little room for others, asks the clients that have most to return the half that they use least. Those
    /// that do not, and those of version 4.0, which has no such callback, are left alone: there are just no more for anybody.
    fn ask_for_unused(&self) {
        if !self.delegations.asks_now(self.clock.now()) {
            return;
        }
        for (client, held) in self.v4.state.largest_holders() {
            let keep = u32::try_from(held / 2).unwrap_or(u32::MAX);
            let writing = self.v4.state.any_write_delegations();
            let directories = self.v4.state.any_directory_delegations();
            let operation = Operation::RecallAny { keep, writing, directories };
            self.v4.call_client(client, operation, Box::new(|_| ()));
        }
    }

    /// Changes which delegations are given where the exports do not say it; those that are not given any more are recalled.
    pub fn set_delegations(&self, delegate: Delegate) {
        self.settings.set_delegations(delegate);
        self.recall_unwanted_delegations();
    }

    /// Recalls the delegations that would not be given as the exports and the settings are now. Those in exports that are gone
    /// end at once: their clients could not return them, and programs of this machine would wait for that.
    pub fn recall_unwanted_delegations(&self) {
        if !self.v4.state.any_delegations() {
            return;
        }
        let rows = self.v4.state.delegation_rows(self.clock.now());
        for row in rows.iter().filter(|row| !self.is_wanted(row)) {
            let is_exported = export_of(&row.file)
                .is_some_and(|export| self.exports.load().by_id(export).is_some());
            match is_exported {
                true => self.disturb(row.file),
                false => self.v4.state.revoke_delegations_of(&row.file),
            }
        }
    }

    fn is_wanted(&self, row: &DelegationRow) -> bool {
        let table = self.exports.load();
        let Some(export) = export_of(&row.file).and_then(|id| table.by_id(id)) else {
            return false;
        };
        // nobody knows any more from which port, and by what certificate
        let (certificates, security) = (self.exports.certificates(), TransportSecurity::PLAIN);
        let who = Requester { address: row.address, port: 0, security, certificates };
        match export.access_to_mount(&who) {
            ClientAccess::Allowed(rule) => {
                let given = rule.options.delegations.unwrap_or_else(|| self.settings.delegations());
                match row.kind {
                    DelegationKind::Read | DelegationKind::Directory => given != Delegate::Off,
                    DelegationKind::Write => given == Delegate::Write,
                }
            }
            ClientAccess::Unresolved => true,
            _ => false,
        }
    }

    /// How many delegations there are and were.
    pub fn delegation_counts(&self) -> DelegationCounts {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        DelegationCounts {
            held: number(self.v4.state.delegation_count()),
            writing: number(self.v4.state.write_delegation_count()),
            directories: number(self.v4.state.directory_delegation_count()),
            recalled: number(self.v4.state.recalled_count()),
            revoked: self.v4.state.delegations_revoked(),
            ..self.delegations.counts()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::again_after_ms;

    #[test]
    fn a_recall_is_sent_again_soon_at_first_and_then_ever_later() {
        assert_eq!([0, 60, 400, 9000].map(again_after_ms), [50, 60, 400, 1000]);
    }
}

//! Changes of a directory's entries while clients have delegations of it (RFC 8881 §10.9).
//!
//! Whoever makes, removes or renames an entry has the directory's delegations recalled first, by all versions. A client's own
//! delegation survives its own change: the guard that holds everybody back lets that one pass. Whatever others do
//! meanwhile passes as well, so the client is told that its change was not atomic, upon which it takes nothing for granted that
//! it knew of the directory, and what it asks for afterwards is held back again. If the directory is then found to be
//! otherwise than the client is told, the delegation is recalled. One change passes at a time: a second one has the
//! delegation recalled.
//!
//! Invariant: while there is no delegation of a directory, a change pays one relaxed load; while there are, one look-up in the
//! table of delegations.

use crate::Nfs;
use crate::file_key::file_key;
use crate::object::Object;
use proto::nfs4::ChangeInfo4;
use state::{FileKey, Now};
use vfs::{Change, Component, Kept, Name, Status, Time, Want};

/// A change of a directory's entries that may be made, until this is dropped. One word: most are in nobody's way.
#[must_use = "the change may be made only as long as this lives"]
pub struct EntryChange<'a>(Option<Box<HolderChange<'a>>>);

/// A change of the directory's only holder.
struct HolderChange<'a> {
    nfs: &'a Nfs,
    dir: &'a Object<'a>,
    key: FileKey,
    /// Holds back again when it is dropped.
    passing: Option<Kept>,
    /// The ctime that the directory should have then.
    expected: Option<Time>,
}

impl EntryChange<'_> {
    /// A change that nobody's delegation is in the way of.
    const FREE: Self = Self(None);

    /// What the client is told about a change that was made.
    pub fn made(&mut self, change: &Change, info: ChangeInfo4) -> ChangeInfo4 {
        self.end(change.after.map(|attr| attr.ctime), info)
    }

    /// The same, with the directory's ctime since a change, if there was one and it is known.
    pub fn end(&mut self, ctime: Option<Time>, info: ChangeInfo4) -> ChangeInfo4 {
        let Some(passing) = &mut self.0 else { return info };
        passing.expected = ctime.or(passing.expected);
        ChangeInfo4 { atomic: false, ..info }
    }
}

impl Drop for HolderChange<'_> {
    fn drop(&mut self) {
        drop(self.passing.take());
        let found = self.dir.backend().getattr(&self.dir.cx(), &self.dir.fid, Want::STAT);
        if found.map_or(true, |attr| Some(attr.ctime) != self.expected) {
            self.nfs.disturb(self.key);
        }
    }
}

impl Nfs {
    /// Recalls the delegations of a directory of which a call of versions 2 or 3 is about to change entries. Costs one load if
    /// no directory has any.
    ///
    /// # Errors
    /// [`Status::Jukebox`] if they were not returned in time.
    #[inline]
    pub(crate) fn before_entry_change(&self, dir: &Object<'_>) -> vfs::Result<()> {
        if !self.v4.state.any_directory_delegations() {
            return Ok(());
        }
        self.end_directory_delegations(dir, None)
    }

    /// The same before an entry of this name is made: nothing is changed if there is one.
    ///
    /// # Errors
    /// As [`Nfs::before_entry_change`].
    #[inline]
    pub(crate) fn before_new_entry(&self, dir: &Object<'_>, name: &[u8]) -> vfs::Result<()> {
        if !self.v4.state.any_directory_delegations() {
            return Ok(());
        }
        self.end_directory_delegations(dir, Some(name))
    }

    #[cold]
    fn end_directory_delegations(&self, dir: &Object<'_>, new: Option<&[u8]>) -> vfs::Result<()> {
        let is_delegated = self.delegated_directory(dir).is_some();
        if !is_delegated || new.is_some_and(|name| is_there(dir, name)) {
            return Ok(());
        }
        self.end_all_of(dir)
    }

    /// The same of a client of version 4, whose own delegation stays.
    ///
    /// # Errors
    /// As [`Nfs::before_entry_change`].
    #[inline]
    pub(crate) fn begin_entry_change<'a>(
        &'a self,
        dir: &'a Object<'a>,
        client: Option<u64>,
    ) -> vfs::Result<EntryChange<'a>> {
        if !self.v4.state.any_directory_delegations() {
            return Ok(EntryChange::FREE);
        }
        match self.delegated_directory(dir) {
            Some(key) => self.begin_change_of_delegated(dir, key, client),
            None => Ok(EntryChange::FREE),
        }
    }

    /// The same before an entry of this name is made.
    ///
    /// # Errors
    /// As [`Nfs::before_entry_change`].
    #[inline]
    pub(crate) fn begin_new_entry<'a>(
        &'a self,
        dir: &'a Object<'a>,
        name: &[u8],
        client: Option<u64>,
    ) -> vfs::Result<EntryChange<'a>> {
        if !self.v4.state.any_directory_delegations() {
            return Ok(EntryChange::FREE);
        }
        match self.delegated_directory(dir) {
            Some(key) if !is_there(dir, name) => self.begin_change_of_delegated(dir, key, client),
            Some(_) | None => Ok(EntryChange::FREE),
        }
    }

    /// The directory's name in the state, if it has delegations and may be changed: else the call itself fails.
    #[cold]
    fn delegated_directory(&self, dir: &Object<'_>) -> Option<FileKey> {
        let key = file_key(dir.export_id(), &dir.fid)?;
        (self.v4.state.is_delegated(&key) && dir.check_writable().is_ok()).then_some(key)
    }

    #[cold]
    fn begin_change_of_delegated<'a>(
        &'a self,
        dir: &'a Object<'a>,
        key: FileKey,
        client: Option<u64>,
    ) -> vfs::Result<EntryChange<'a>> {
        let state = &self.v4.state;
        self.end_those(dir, &dir.fid, &|now, key| state.recall_for_entry_change(now, key, client))?;
        if !state.is_delegated(&key) {
            return Ok(EntryChange::FREE);
        }
        // the client's own is left
        let before = dir.backend().getattr(&dir.cx(), &dir.fid, Want::STAT)?;
        let leases = dir.backend().leases().ok_or(Status::Jukebox)?;
        if let Some(passing) = leases.let_change_pass(&dir.cx(), &dir.fid) {
            let (passing, expected) = (Some(passing), Some(before.ctime));
            let passing = HolderChange { nfs: self, dir, key, passing, expected };
            return Ok(EntryChange(Some(Box::new(passing))));
        }
        self.end_all_of(dir)?;
        Ok(EntryChange::FREE)
    }

    fn end_all_of(&self, dir: &Object<'_>) -> vfs::Result<()> {
        let recall = |now: Now, key: &FileKey| self.v4.state.recall_for_change(now, key, None);
        self.end_those(dir, &dir.fid, &recall)
    }
}

fn is_there(dir: &Object<'_>, name: &[u8]) -> bool {
    let Ok(name) = Name::new(name) else { return false };
    dir.backend().lookup(&dir.cx(), &dir.fid, Component::Name(name)).is_ok()
}

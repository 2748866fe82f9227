//! Delegations: granting, recalling, returning and revoking them (RFC 8881 §10.2, §10.4).
//!
//! A client with a read delegation of a file opens it for reading locally, and need not check whether it has changed. So
//! no other client may open it for writing, deny reading it, or change its attributes or names before the delegation is
//! returned. A client with a write delegation opens it for writing as well, and keeps what it has written to itself: no
//! other client may open it, read it or ask for its size and change attribute. Such a request is delayed and the delegation
//! is recalled; one that is not returned within [`V4State::recall_ms`] is revoked, which its client finds out by its
//! stateid.
//!
//! A client with a delegation of a directory need not ask whether its entries or attributes have changed. The client itself
//! may change entries, if the caller sees to it that its guard lets that pass ([`V4State::recall_for_entry_change`]); all
//! other changes have it recalled.
//!
//! Access without an open of version 4 by local programs, and changes by versions 2 and 3, are prevented by the guard that
//! the caller passes with the first delegation of a file: a lease of the kernel. When it is broken,
//! [`V4State::recall_file`] is called.
//!
//! Invariant: a file has one write delegation, or any number of read delegations; a directory has any number of its kind.
//!
//! All delegations end in [`V4State::end_delegation`].

use super::client::Client;
use super::delegation_entry::{
    DelegatedFile, Delegation, DelegationKind, DelegationRequest, PendingWrite, Recall,
};
use super::file_opens::FileOpens;
use super::granted_attrs::DelegatedTimes;
use super::open_entry::{Guard, Open, intersects};
use super::requester::Requester;
use super::server::{Entry, Reading, V4State};
use super::stateid::{Stateid, StateidError, check_version, key_of};
use super::stateid_access::StateidAccess;
use crate::acquire::acquire;
use crate::key::{FileKey, Now};
use crate::share::{ShareBits, ShareMode};
use crate::sync::Arc;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

/// Why a delegation is not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDelegated {
    /// The file is open for writing, reading it is denied, or it was changed or its delegation recalled recently or meanwhile.
    Contention,
    /// There are too many, or the client has just been removed.
    Resource,
}

/// What other clients' delegations mean for a request that changes a file.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum DelegationConflict {
    /// There are none.
    Nothing,
    /// These are to be recalled now, and the caller comes back later.
    Recalled(Vec<Recall>),
    /// Those of these clients are in the way, whose lease is over: end them, then ask again.
    Expired(Vec<u64>),
}

/// A delegation that a client's stateid names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedDelegation {
    /// What for.
    pub kind: DelegationKind,
    /// What the file was opened for, and by whom.
    pub opened: StateidAccess,
    /// The times when it was granted, if the client keeps them itself.
    pub times: Option<DelegatedTimes>,
}

impl NamedDelegation {
    pub(super) const fn of(found: &Delegation) -> Self {
        Self { kind: found.kind, opened: found.opened, times: found.attrs.times }
    }
}

/// A delegation, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationRow {
    /// The client's id.
    pub client: u64,
    /// What for.
    pub kind: DelegationKind,
    /// Where it made itself known from.
    pub address: IpAddr,
    /// The file.
    pub file: FileKey,
    /// How long ago it was granted, in milliseconds.
    pub age_ms: u64,
    /// How long ago it was first recalled, if it was.
    pub recalled_ms: Option<u64>,
}

/// What a look at the delegations that are recalled comes to.
#[derive(Debug, Default)]
pub struct SweptDelegations {
    /// What is to be recalled once more.
    pub recalls: Vec<Recall>,
    /// The clients whose lease is over and whose delegations are recalled: these are to be ended.
    pub expired: Vec<u64>,
    /// When the next recall is to be sent again, in milliseconds of [`Now`].
    pub again_ms: Option<u64>,
}

/// What is to be done with delegations that are in the way, once no lock is held.
#[derive(Default)]
struct SweepStep {
    recalls: Vec<Recall>,
    overdue: Vec<Arc<Delegation>>,
    expired: Vec<u64>,
    /// Some have to be waited for.
    waits: bool,
}

/// Whether two clients cannot have these delegations of a file.
fn excludes(one: DelegationKind, other: DelegationKind) -> bool {
    one == DelegationKind::Write || other == DelegationKind::Write
}

impl Reading<'_> {
    pub(super) fn delegation(&self, other: &[u8; 12]) -> Option<&Arc<Delegation>> {
        match self.entry(other)? {
            Entry::Delegation(delegation) => Some(delegation),
            Entry::Session(_) | Entry::Open(_) | Entry::Lock(_) | Entry::Revoked(_) => None,
        }
    }

    fn find(&self, client_id: u64, stateid: Stateid) -> Result<&Arc<Delegation>, StateidError> {
        let missing = || self.missing(client_id, &stateid.other);
        let found = self.delegation(&stateid.other).ok_or_else(missing)?;
        if found.client.id != client_id || found.is_ended() {
            return Err(StateidError::Bad);
        }
        check_version(stateid.seqid, 1)?;
        Ok(found)
    }

    /// What delegation of this file, or of any, a client's stateid names.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn check_delegation(
        &self,
        client_id: u64,
        stateid: Stateid,
        file: Option<&FileKey>,
    ) -> Result<NamedDelegation, StateidError> {
        let found = self.find(client_id, stateid)?;
        match file {
            Some(file) if found.file != *file => Err(StateidError::Bad),
            _ => Ok(NamedDelegation::of(found)),
        }
    }
}

impl V4State {
    /// Whether there is any delegation. Costs one load.
    #[inline]
    pub fn any_delegations(&self) -> bool {
        self.delegations.count.load(Relaxed) != 0
    }

    /// Whether there is any for writing, or will be soon. Costs one load.
    #[inline]
    pub fn any_write_delegations(&self) -> bool {
        self.delegations.writing.load(Relaxed) != 0
    }

    /// Whether there is any of a directory. Costs one load.
    #[inline]
    pub fn any_directory_delegations(&self) -> bool {
        self.delegations.of_directories.load(Relaxed) != 0
    }

    /// How many delegations of directories there are.
    pub fn directory_delegation_count(&self) -> usize {
        self.delegations.of_directories.load(Relaxed)
    }

    /// How many delegations for writing there are.
    pub fn write_delegation_count(&self) -> usize {
        let all = self.delegations.writing.load(Relaxed);
        all.saturating_sub(self.delegations.pending.load(Relaxed))
    }

    /// To be called before a file is looked at of which a write delegation is to be given: changes without an open that are
    /// made from then on are noticed ([`V4State::recall_after_change`]), and prevent it.
    pub fn await_write_delegation(&self, file: &FileKey) -> PendingWrite<'_> {
        self.delegations.await_write(file)
    }

    /// How many delegations there are.
    pub fn delegation_count(&self) -> usize {
        self.delegations.count.load(Relaxed)
    }

    /// How many of them are recalled now.
    pub fn recalled_count(&self) -> usize {
        self.delegations.recalled.load(Relaxed)
    }

    /// How long a client has to return a delegation: a lease, but less than local programs wait.
    pub fn recall_ms(&self) -> u64 {
        self.lease_ms().min(self.limits.recall_ms)
    }

    /// Whether a client could get a delegation of a file, as far as is known here. Only then a guard is worth while:
    /// `Ok(true)` if the file has none yet.
    ///
    /// # Errors
    /// [`NotDelegated`].
    pub fn may_delegate(
        &self,
        now: Now,
        requester: Requester<'_>,
        kind: DelegationKind,
        file: &FileKey,
    ) -> Result<bool, NotDelegated> {
        let hashed = self.files.hashed(file);
        let files = acquire(self.files.shard(&hashed).ok_or(NotDelegated::Resource)?);
        check_opens(requester.client(), kind, files.get(&hashed))?;
        let delegated = acquire(self.delegations.shard(file).ok_or(NotDelegated::Resource)?);
        let delegated = delegated.get(file);
        self.check_room(now, requester.client(), (kind, file), delegated)?;
        Ok(delegated.is_none())
    }

    fn check_room(
        &self,
        now: Now,
        client: &Client,
        (kind, file): (DelegationKind, &FileKey),
        delegated: Option<&DelegatedFile>,
    ) -> Result<(), NotDelegated> {
        if self.delegations.rests(now, kind, file) {
            return Err(NotDelegated::Contention);
        }
        let delegations = delegated.map_or(&[][..], |file| &file.delegations);
        // also if it takes long: a change of the file waits for this one alone
        if delegations.iter().any(|other| other.recalled_for_ms(now).is_some()) {
            return Err(NotDelegated::Contention);
        }
        // the client has it already
        if delegations.iter().any(|other| other.client.id == client.id) {
            return Err(NotDelegated::Resource);
        }
        if delegations.iter().any(|other| excludes(kind, other.kind)) {
            return Err(NotDelegated::Contention);
        }
        let full = self.delegation_count() >= self.limits.delegations;
        if full { Err(NotDelegated::Resource) } else { Ok(()) }
    }

    /// Gives a client a delegation of a file. `guard` holds local programs back, and is needed if the file has none yet. It
    /// is dropped if it is not used.
    ///
    /// # Errors
    /// [`NotDelegated`].
    pub fn delegate(
        &self,
        now: Now,
        requester: Requester<'_>,
        request: &DelegationRequest<'_>,
        guard: Option<Guard>,
    ) -> Result<Stateid, NotDelegated> {
        let (kind, file) = (request.kind, request.file);
        let mut spare = guard;
        let hashed = self.files.hashed(file);
        let files = acquire(self.files.shard(&hashed).ok_or(NotDelegated::Resource)?);
        check_opens(requester.client(), kind, files.get(&hashed))?;
        let mut delegated = acquire(self.delegations.shard(file).ok_or(NotDelegated::Resource)?);
        self.check_room(now, requester.client(), (kind, file), delegated.get(file))?;
        let is_changed = request.pending.is_some_and(PendingWrite::is_changed);
        if is_changed || spare.is_none() && !delegated.contains_key(file) {
            return Err(NotDelegated::Contention);
        }
        let new = self.add(now, requester.client(), request)?;
        let stateid = Stateid { seqid: 1, other: new.other };
        let entry = delegated.entry(*file).or_default();
        entry.delegations.push(new);
        if entry.guard.is_none() {
            entry.guard = spare.take();
        }
        drop((delegated, files));
        drop(spare);
        Ok(stateid)
    }

    /// A delegation in all tables but that of its file, whose lock is held.
    fn add(
        &self,
        now: Now,
        client: &Arc<Client>,
        request: &DelegationRequest<'_>,
    ) -> Result<Arc<Delegation>, NotDelegated> {
        let new = Arc::new(Delegation::new(self.other(), request, client, now));
        // found by its stateid before it is the client's: ending the client ends it
        self.entries.pin().insert(key_of(&new.other), Entry::Delegation(Arc::clone(&new)));
        let most = self.limits.delegations_per_client;
        // those of directories are not reclaimed
        let is_reclaimable = request.kind != DelegationKind::Directory;
        if client.add_delegation(new.other, is_reclaimable, most).is_err() {
            self.entries.pin().remove(&key_of(&new.other));
            return Err(NotDelegated::Resource);
        }
        self.delegations.count.fetch_add(1, Relaxed);
        if let Some(count) = self.delegations.count_of(request.kind) {
            count.fetch_add(1, Relaxed);
        }
        Ok(new)
    }

    /// Gives a client the delegation again that it had before the server's restart (RFC 8881 §10.2.1). It counts as
    /// recalled already, of which the reply to the reclaim tells the client: what has happened to the file since is not
    /// known, so that nobody is held back from it either.
    ///
    /// # Errors
    /// [`NotDelegated`].
    pub fn reclaim_delegation(
        &self,
        now: Now,
        requester: Requester<'_>,
        request: &DelegationRequest<'_>,
    ) -> Result<Stateid, NotDelegated> {
        let (kind, file) = (request.kind, request.file);
        let hashed = self.files.hashed(file);
        let files = acquire(self.files.shard(&hashed).ok_or(NotDelegated::Resource)?);
        check_opens(requester.client(), kind, files.get(&hashed))?;
        let mut delegated = acquire(self.delegations.shard(file).ok_or(NotDelegated::Resource)?);
        let own = |other: &Arc<Delegation>| other.client.id == requester.client().id;
        let others = delegated.get(file).map_or(&[][..], |file| &file.delegations);
        if others.iter().any(|other| excludes(kind, other.kind)) {
            return Err(NotDelegated::Contention);
        }
        if others.iter().any(own) || self.delegation_count() >= self.limits.delegations {
            return Err(NotDelegated::Resource);
        }
        let new = self.add(now, requester.client(), request)?;
        self.begin_recall(now, &new);
        let stateid = Stateid { seqid: 1, other: new.other };
        delegated.entry(*file).or_default().delegations.push(new);
        drop((delegated, files));
        Ok(stateid)
    }

    /// Begins to recall a delegation, if that has not begun; whether the client is to be told now. With the lock of its
    /// shard held.
    fn begin_recall(&self, now: Now, delegation: &Delegation) -> bool {
        if delegation.recalled_for_ms(now).is_none() {
            self.delegations.recalled.fetch_add(1, Relaxed);
            self.delegations.note_contention(now, &delegation.file);
        }
        delegation.recall(now)
    }

    /// What write delegation of a file is in the way of whoever wants to read it, or those of its attributes that change as
    /// it is written, of another client than `except`. As [`V4State::recall_for_change`].
    pub fn recall_for_read(
        &self,
        now: Now,
        file: &FileKey,
        except: Option<u64>,
    ) -> DelegationConflict {
        if !self.any_write_delegations() {
            return DelegationConflict::Nothing;
        }
        self.recall_from(now, file, |delegation| delegation.is_written_by_other(except))
    }

    /// The same for whoever has changed a file without an open: a write delegation that another client is being given is not
    /// given, as its client would take what it was told of the file before for unchanged.
    pub fn recall_after_change(
        &self,
        now: Now,
        file: &FileKey,
        except: Option<u64>,
    ) -> DelegationConflict {
        self.delegations.note_done_change(file);
        self.recall_for_read(now, file, except)
    }

    /// What delegations are in the way of whoever wants to change a file, of other clients than `except`, or a directory, of
    /// all clients. They are recalled; those that were not returned in time are revoked. None is given until the change has
    /// had time to take place.
    pub fn recall_for_change(
        &self,
        now: Now,
        file: &FileKey,
        except: Option<u64>,
    ) -> DelegationConflict {
        if !self.any_delegations() {
            return DelegationConflict::Nothing;
        }
        self.delegations.note_change(now, file);
        self.recall_from(now, file, |delegation| {
            delegation.kind == DelegationKind::Directory || Some(delegation.client.id) != except
        })
    }

    /// The same for a change of a directory's entries, which the delegation of the client that makes it survives.
    pub fn recall_for_entry_change(
        &self,
        now: Now,
        directory: &FileKey,
        client: Option<u64>,
    ) -> DelegationConflict {
        if !self.any_directory_delegations() {
            return DelegationConflict::Nothing;
        }
        self.delegations.note_change(now, directory);
        self.recall_from(now, directory, |delegation| {
            Some(delegation.client.id) != client || delegation.recalled_for_ms(now).is_some()
        })
    }

    /// Whether a directory has any delegation.
    pub fn is_delegated(&self, directory: &FileKey) -> bool {
        let shard = self.delegations.shard(directory);
        shard.is_some_and(|shard| acquire(shard).contains_key(directory))
    }

    /// The same for whoever opens a file, or reserves it by SHARE: a read delegation is in the way of an open for writing, and of
    /// one that denies reading.
    pub fn recall_for_open(
        &self,
        now: Now,
        file: &FileKey,
        mode: ShareMode,
        except: Option<u64>,
    ) -> DelegationConflict {
        let read_delegation = ShareMode { access: ShareBits::READ, deny: ShareBits::WRITE };
        match mode.conflicts(read_delegation) {
            true => self.recall_for_change(now, file, except),
            false => self.recall_for_read(now, file, except),
        }
    }

    /// The same for a client that changes a file by an open of its own: its read delegation is in the way as well, whose
    /// guard would hold back the server; its write delegation is not.
    pub fn recall_for_own_change(
        &self,
        now: Now,
        file: &FileKey,
        client: Option<u64>,
    ) -> DelegationConflict {
        if !self.any_delegations() {
            return DelegationConflict::Nothing;
        }
        self.delegations.note_change(now, file);
        self.recall_from(now, file, |delegation| {
            delegation.kind != DelegationKind::Write || Some(delegation.client.id) != client
        })
    }

    /// Whether a client other than `except` has a write delegation of a file.
    pub fn is_written_by_other(&self, file: &FileKey, except: Option<u64>) -> bool {
        self.write_holder(file, except).is_some()
    }

    /// Recalls those of a file's delegations that are in the way.
    fn recall_from(
        &self,
        now: Now,
        file: &FileKey,
        in_the_way: impl Fn(&Delegation) -> bool,
    ) -> DelegationConflict {
        let Some(shard) = self.delegations.shard(file) else { return DelegationConflict::Nothing };
        let mut step = SweepStep::default();
        {
            let files = acquire(shard);
            let Some(file) = files.get(file) else { return DelegationConflict::Nothing };
            let all = || file.delegations.iter().filter(|delegation| in_the_way(delegation));
            let silent = all().filter(|delegation| self.is_over(now, &delegation.client));
            let silent: Vec<u64> = silent.map(|delegation| delegation.client.id).collect();
            // the others are recalled when the caller asks again: a recall that begins here would be sent by nobody
            if !silent.is_empty() {
                return DelegationConflict::Expired(silent);
            }
            all().for_each(|delegation| self.step(now, delegation, &mut step));
        }
        step.overdue.iter().for_each(|delegation| self.revoke_delegation(delegation));
        if step.waits {
            DelegationConflict::Recalled(step.recalls)
        } else {
            DelegationConflict::Nothing
        }
    }

    /// Whether a client's lease is over.
    fn is_over(&self, now: Now, client: &Client) -> bool {
        client.silent_ms(now) > self.lease_ms()
    }

    /// What is to be done with a delegation that is in the way. With the lock of its shard held.
    fn step(&self, now: Now, delegation: &Arc<Delegation>, step: &mut SweepStep) {
        if self.is_over(now, &delegation.client) {
            step.expired.push(delegation.client.id);
            return;
        }
        if delegation.recalled_for_ms(now).is_some_and(|ms| ms >= self.recall_ms()) {
            step.overdue.push(Arc::clone(delegation));
            return;
        }
        step.waits = true;
        if self.begin_recall(now, delegation) {
            step.recalls.push(Recall { delegation: Arc::clone(delegation) });
        }
    }

    /// Recalls all delegations of a file: a local program waits for it, or has changed it.
    pub fn recall_file(&self, now: Now, file: &FileKey) -> Vec<Recall> {
        match self.recall_for_change(now, file, None) {
            DelegationConflict::Recalled(recalls) => recalls,
            DelegationConflict::Nothing | DelegationConflict::Expired(_) => Vec::new(),
        }
    }

    /// Revokes what was not returned in time, and gives what is to be recalled once more.
    pub fn sweep_delegations(&self, now: Now) -> SweptDelegations {
        if self.recalled_count() == 0 {
            return SweptDelegations::default();
        }
        let mut step = SweepStep::default();
        let mut again_ms = None;
        for shard in self.delegations.shards() {
            let files = acquire(shard);
            let all = files.values().flat_map(|file| &file.delegations);
            for delegation in all.filter(|delegation| delegation.recalled_for_ms(now).is_some()) {
                self.step(now, delegation, &mut step);
                again_ms = [again_ms, delegation.again_ms()].into_iter().flatten().min();
            }
        }
        step.overdue.iter().for_each(|delegation| self.revoke_delegation(delegation));
        step.expired.sort_unstable();
        step.expired.dedup();
        SweptDelegations { recalls: step.recalls, expired: step.expired, again_ms }
    }

    /// Takes a delegation from its client, which finds it out by its stateid.
    pub(super) fn revoke_delegation(&self, delegation: &Arc<Delegation>) {
        if self.end_delegation(delegation) {
            self.delegations.revoked.fetch_add(1, Relaxed);
            self.note_revoked_delegation(&delegation.client, delegation.other);
        }
    }

    /// Takes all delegations of a file from their clients, which cannot return them: its filehandles are not valid any more.
    pub fn revoke_delegations_of(&self, file: &FileKey) {
        let Some(shard) = self.delegations.shard(file) else { return };
        let all = acquire(shard).get(file).map(|file| file.delegations.clone());
        all.iter().flatten().for_each(|delegation| self.revoke_delegation(delegation));
    }

    /// How many were revoked since the start.
    pub fn delegations_revoked(&self) -> u64 {
        self.delegations.revoked.load(Relaxed)
    }

    /// DELEGRETURN (RFC 8881 §18.6); for how long it had been recalled, if it had.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn return_delegation(
        &self,
        reading: &Reading<'_>,
        now: Now,
        client_id: u64,
        (stateid, file): (Stateid, &FileKey),
    ) -> Result<Option<u64>, StateidError> {
        let found = reading.find(client_id, stateid)?;
        if found.file != *file {
            return Err(StateidError::Bad);
        }
        let recalled_ms = found.recalled_for_ms(now);
        if self.end_delegation(found) { Ok(recalled_ms) } else { Err(StateidError::Bad) }
    }

    /// Takes all delegations from a client; they have not ended yet.
    pub(super) fn take_delegations(&self, client: &Client) -> Vec<Arc<Delegation>> {
        let entries = self.entries.pin();
        let found = |other: [u8; 12]| match entries.get(&key_of(&other))? {
            Entry::Delegation(delegation) => Some(Arc::clone(delegation)),
            Entry::Session(_) | Entry::Open(_) | Entry::Lock(_) | Entry::Revoked(_) => None,
        };
        client.take_delegations().into_iter().filter_map(found).collect()
    }

    /// Takes a delegation out of all tables; false if somebody else has.
    pub(super) fn end_delegation(&self, delegation: &Arc<Delegation>) -> bool {
        if !delegation.end() {
            return false;
        }
        delegation.client.forget_delegation(&delegation.other);
        let guard = self.delegations.remove(delegation);
        self.entries.pin().remove(&key_of(&delegation.other));
        self.delegations.count.fetch_sub(1, Relaxed);
        if let Some(count) = self.delegations.count_of(delegation.kind) {
            count.fetch_sub(1, Relaxed);
        }
        drop(guard);
        true
    }

    /// Whether so many are given that clients should return some: more than three quarters of what there may be.
    pub fn delegations_are_scarce(&self) -> bool {
        self.delegation_count() > self.limits.delegations / 4 * 3
    }

    /// The clients that have at least as many delegations as the average of those that have any, and how many each has.
    pub fn largest_holders(&self) -> Vec<(u64, usize)> {
        let mut held: BTreeMap<u64, usize> = BTreeMap::new();
        for shard in self.delegations.shards() {
            let files = acquire(shard);
            for delegation in files.values().flat_map(|file| &file.delegations) {
                let count = held.entry(delegation.client.id).or_default();
                *count = count.saturating_add(1);
            }
        }
        let average = held.values().sum::<usize>().checked_div(held.len()).unwrap_or(0);
        held.into_iter().filter(|(_, count)| *count >= average).collect()
    }

    /// All delegations, those of a file one after the other.
    pub fn delegation_rows(&self, now: Now) -> Vec<DelegationRow> {
        let mut rows = Vec::new();
        for shard in self.delegations.shards() {
            let files = acquire(shard);
            rows.extend(files.values().flat_map(|file| &file.delegations).map(|delegation| {
                DelegationRow {
                    client: delegation.client.id,
                    kind: delegation.kind,
                    address: delegation.client.address,
                    file: delegation.file,
                    age_ms: delegation.age_ms(now),
                    recalled_ms: delegation.recalled_for_ms(now),
                }
            }));
        }
        rows.sort_unstable_by_key(|row| row.client);
        rows
    }
}

/// Whether opens of a file allow a delegation of the client.
fn check_opens(
    client: &Client,
    kind: DelegationKind,
    opens: Option<&FileOpens>,
) -> Result<(), NotDelegated> {
    let Some(opens) = opens else { return Ok(()) };
    let all = opens.mode();
    let is_others = |open: &&Arc<Open>| open.client_id() != client.id;
    let denies = |open: &Arc<Open>| intersects(open.mode().deny, ShareBits::READ);
    let against = match kind {
        DelegationKind::Read => {
            let may_deny = intersects(all.deny, ShareBits::READ);
            intersects(all.access, ShareBits::WRITE)
                || may_deny && opens.iter().filter(is_others).any(denies)
        }
        DelegationKind::Write => opens.iter().any(|open| is_others(&open)),
        // directories are not opened
        DelegationKind::Directory => false,
    };
    if against { Err(NotDelegated::Contention) } else { Ok(()) }
}

//! Opens with their share reservations (RFC 8881 §9.7, §18.16).
//!
//! An owner has one open of a file; opening it again widens that open, and its stateid gets another seqid. What the
//! open wants and denies is one word, which readers load without a lock; it changes under the lock of the file's shard.

use super::client::{Client, NotAdded};
use super::delegation::DelegationConflict;
use super::delegation_entry::Recall;
use super::file_opens::FileOpens;
use super::host_share::most_opens_of_one_host;
use super::minor0::Owner;
use super::open_access::{OpenRef, of_file};
use super::open_entry::{ENDED, Guard, Open, combination, mode_of, union};
use super::server::{Entry, Reading, V4State};
use super::session::Session;
use super::stateid::{Stateid, StateidError, key_of};
use crate::acquire::acquire;
use crate::key::{FileKey, HostId, Now};
use crate::principal::Principal;
use crate::share::{ShareBits, ShareMode};
use crate::sync::{Arc, AtomicUsize, Mutex};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// An open that is asked for. The caller has checked that its user may open the file so.
pub struct OpenRequest<'a> {
    /// The file.
    pub file: FileKey,
    /// Who opens it, within the client.
    pub owner: &'a [u8],
    /// Who sends the request: only for him the open stands for permissions (RFC 8881 §18.16.3).
    pub user: Principal,
    /// What is wanted and denied.
    pub mode: ShareMode,
    /// A reclaim, and whether it may still be granted: asked with the lock of the file held.
    pub reclaim: Option<&'a dyn Fn() -> bool>,
}

/// An open that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its stateid.
    pub stateid: Stateid,
    /// Whether the owner had the file open before.
    pub again: bool,
}

/// Why a file is not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Another's share reservation conflicts.
    ShareDenied,
    /// Only opens of these clients are in the way, whose lease is over: end them
    /// ([`V4State::begin_expiry`]), then ask again.
    Expired(Vec<u64>),
    /// Only share reservations of NLM hosts are in the way that have sent no call for a long time: release this one
    /// ([`State::release_host`](crate::State::release_host)), then ask again.
    Silent(HostId),
    /// Delegations of other clients are in the way: recall these, and ask again later.
    Delegated(Vec<Recall>),
    /// The grace period has just ended.
    NoGrace,
    /// There are too many in all, or too few left for a client that has many.
    Full,
    /// The client has too many opens, or has just been removed.
    NoRoom,
    /// The client's record has just been taken back, because it had nothing: ask again whether it may have something.
    NotRecorded,
}

/// Why an open is not narrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DowngradeError {
    /// The stateid gives no right.
    Stateid(StateidError),
    /// It was never opened with a combination of opens that comes to this (RFC 8881 §18.18.3).
    Inval,
}

impl V4State {
    /// Opens a file for an owner of the session's client. `kept` is taken if the owner does not have the file open yet, and
    /// held as long as the open lives; dropping it must not wait.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        &self,
        now: Now,
        session: &Session,
        request: &OpenRequest<'_>,
        kept: &mut Option<Guard>,
    ) -> Result<Opened, OpenError> {
        self.open_for(now, (&session.client, None), request, kept)
    }

    /// The same for a client, and for an owner whose requests are numbered, if there is `opener`.
    pub(super) fn open_for(
        &self,
        now: Now,
        (client, opener): (&Arc<Client>, Option<&Arc<Owner>>),
        request: &OpenRequest<'_>,
        kept: &mut Option<Guard>,
    ) -> Result<Opened, OpenError> {
        let file = self.files.hashed(&request.file);
        let shard = self.files.shard(&file).ok_or(OpenError::NoRoom)?;
        let mut files = acquire(shard);
        let opens = files.get_mut(&file);
        if request.reclaim.is_some_and(|may| !may()) {
            return Err(OpenError::NoGrace);
        }
        // the owner's own open is no exception (RFC 8881 §18.16.3)
        self.check_shares(now, (&request.file, opens.as_deref()), (request.mode, None))?;
        self.check_delegations(now, client, request)?;
        if let Some(opens) = opens
            && let Some(open) = opens.find(client, request.owner).map(Arc::clone)
        {
            return Ok(self.open_again(opens, &open, request));
        }
        if self.is_full_for(client) {
            return Err(OpenError::Full);
        }
        let open = Arc::new(Open {
            other: self.other(),
            seqid: AtomicU32::new(1),
            file,
            client: Arc::clone(client),
            owner: request.owner.into(),
            user: request.user,
            several_users: AtomicUsize::new(0),
            opener: opener.map(Arc::clone),
            mode: AtomicUsize::new(combination(request.mode)),
            combinations: AtomicUsize::new(1 << combination(request.mode)),
            locks: Mutex::default(),
            kept: Mutex::new(kept.take()),
        });
        if let Err(why) = client.add_open(&open, self.limits.opens_per_client) {
            *kept = acquire(&open.kept).take();
            return Err(match why {
                NotAdded::NoRoom => OpenError::NoRoom,
                NotAdded::NotRecorded => OpenError::NotRecorded,
            });
        }
        self.opens.fetch_add(1, Relaxed);
        self.count_denial(mode_of(0), request.mode);
        let other = open.other;
        if let Some(opener) = opener {
            opener.add_state(other);
        }
        self.entries.pin().insert(key_of(&other), Entry::Open(Arc::clone(&open)));
        files.entry(file).or_default().add(open);
        Ok(Opened { stateid: Stateid { seqid: 1, other }, again: false })
    }

    /// Widens the open that the owner has, with the lock of the file's shard held.
    fn open_again(&self, opens: &mut FileOpens, open: &Open, request: &OpenRequest<'_>) -> Opened {
        let before = open.mode();
        let mode = union(before, request.mode);
        self.count_denial(before, mode);
        opens.set_mode(open, mode);
        open.note_user(request.user);
        open.combinations.fetch_or(1 << combination(request.mode), Relaxed);
        Opened { stateid: open.bump(), again: true }
    }

    /// Whether there are too many opens for this client to have one more.
    fn is_full_for(&self, client: &Client) -> bool {
        let (opens, most) = (self.opens.load(Relaxed), self.limits.opens);
        let scarce = || client.open_count() >= self.limits.opens_when_scarce;
        let is_full = || client.host.opens() >= most_opens_of_one_host(most);
        opens >= most || opens >= most - most / 8 && (scarce() || is_full())
    }

    /// What other clients' delegations say to an open.
    fn check_delegations(
        &self,
        now: Now,
        client: &Client,
        request: &OpenRequest<'_>,
    ) -> Result<(), OpenError> {
        if !self.any_delegations() {
            return Ok(());
        }
        match self.recall_for_open(now, &request.file, request.mode, Some(client.id)) {
            DelegationConflict::Nothing => Ok(()),
            DelegationConflict::Recalled(recalls) => Err(OpenError::Delegated(recalls)),
            DelegationConflict::Expired(clients) => Err(OpenError::Expired(clients)),
        }
    }

    /// A state's name: the instance, and what nobody can guess.
    pub(super) fn other(&self) -> [u8; 12] {
        let serial = (self.serial() & 0xffff_ffff) as u32;
        let words = [self.instance, serial, (self.random)() as u32];
        let mut other = [0; 12];
        for (place, word) in other.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        other
    }

    /// A stateid for a copy that goes on after its COPY is answered (RFC 7862 §4.8); its version never changes.
    pub fn copy_stateid(&self) -> Stateid {
        Stateid { seqid: 1, other: self.other() }
    }

    fn count_denial(&self, before: ShareMode, after: ShareMode) {
        match (before.deny == ShareBits::NONE, after.deny == ShareBits::NONE) {
            (true, false) => drop(self.core.denials.fetch_add(1, Relaxed)),
            (false, true) => drop(self.core.denials.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// Narrows an open.
    ///
    /// # Errors
    /// [`DowngradeError`].
    pub fn downgrade(
        &self,
        reading: &Reading<'_>,
        client_id: u64,
        (stateid, file): (Stateid, &FileKey),
        mode: ShareMode,
    ) -> Result<Stateid, DowngradeError> {
        let OpenRef { open } = of_file(reading.find_open(client_id, stateid), file)
            .map_err(DowngradeError::Stateid)?;
        let gone = DowngradeError::Stateid(StateidError::Bad);
        let shard = self.files.shard(&open.file).ok_or(gone)?;
        let mut files = acquire(shard);
        let opens = files.get_mut(&open.file).filter(|_| !open.is_ended()).ok_or(gone)?;
        let before = open.mode();
        let combinations = open.combinations.load(Relaxed);
        // what the opens come to that are within the wanted mode
        let within = (0..16)
            .filter(|at| combinations & 1 << at != 0 && (at & !combination(mode)) == 0)
            .fold(0, |all, at| all | at);
        if within != combination(mode) || mode.access == ShareBits::NONE {
            return Err(DowngradeError::Inval);
        }
        let left =
            (0..16).filter(|at| combinations & 1 << at != 0 && (at & !combination(mode)) == 0);
        open.combinations.store(left.fold(0, |all, at| all | 1 << at), Relaxed);
        self.count_denial(before, mode);
        opens.set_mode(open, mode);
        Ok(open.bump())
    }

    /// Closes an open.
    ///
    /// # Errors
    /// [`StateidError`].
    pub fn close(
        &self,
        reading: &Reading<'_>,
        client_id: u64,
        stateid: Stateid,
        file: &FileKey,
    ) -> Result<(), StateidError> {
        let OpenRef { open } = of_file(reading.find_open(client_id, stateid), file)?;
        open.client.forget_open(&open.other);
        if self.remove_open(open) { Ok(()) } else { Err(StateidError::Bad) }
    }

    /// Takes an open out of all tables but its client's; false if somebody else has.
    pub(super) fn remove_open(&self, open: &Arc<Open>) -> bool {
        let ended = self.end_open(open);
        self.entries.pin().remove(&key_of(&open.other));
        ended
    }

    /// The same, but its stateid is found as long as nobody removes it.
    pub(super) fn end_open(&self, open: &Arc<Open>) -> bool {
        let Some(shard) = self.files.shard(&open.file) else { return false };
        let mut files = acquire(shard);
        let before = open.mode.fetch_or(ENDED, Relaxed);
        if before & ENDED != 0 {
            return false;
        }
        let mode = mode_of(before);
        self.count_denial(mode, mode_of(0));
        if let Some(opens) = files.get_mut(&open.file) {
            opens.remove(open, mode);
            self.end_locks_of(open, opens);
            if opens.is_empty() {
                files.remove(&open.file);
            }
        }
        drop(files);
        self.opens.fetch_sub(1, Relaxed);
        if let Some(opener) = &open.opener {
            opener.forget_state(&open.other);
        }
        let kept = acquire(&open.kept).take();
        drop(kept);
        true
    }

    /// How many opens there are.
    pub fn open_count(&self) -> usize {
        self.opens.load(Relaxed)
    }
}

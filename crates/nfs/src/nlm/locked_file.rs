//! The files that are locked or being asked about: what keeps each reachable, and its locks in the kernel.
//!
//! There is one [`LockedFile`] for a file at a time, however many owners have locks in it, and so one description of
//! the kernel's: two would conflict as strangers do. It lives while the core keeps it for the file's state, or a call
//! has it in hand; the table finds it again without keeping it. After the last lock it stays open for a moment
//! ([`IdleFiles`]): who locks and unlocks a file again and again does not have it opened each time, which may block, so
//! that another thread must be woken to serve other calls.
//!
//! Locks: the table's mutex and that of the idle files are held for a map or list operation. Each file's mutex is held while the kernel sets its locks,
//! which does not wait for a lock, and while the file is opened, which may wait for a disk; who finds it taken
//! announces that he may block.

use crate::object::{Object, OwnedObject};
use rpc::Blocking;
use state::{ByteRange, FileKey, KeptFile, LocalAnswer, LocalConflict, LocalOp, Mode, Piece};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use vfs::{FileLocks, LockChange, LockMode, LockOutcome, LockRange, Status};

/// How often a change is tried whose conflict was gone when the kernel was asked about it.
const TRIES: usize = 3;

type Table = Mutex<HashMap<FileKey, Weak<LockedFile>>>;

/// The table.
#[derive(Default)]
pub(super) struct LockedFiles(Arc<Table>);

fn acquire<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // each critical section leaves the table consistent, also if it panics
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a file without locks stays open, in milliseconds.
const IDLE_MS: u64 = 1000;
/// Files that stay open without locks at a time: others are closed with their last lock.
const IDLE_FILES_MAX: usize = 256;

/// Files whose last lock has gone a moment ago, each with that time in milliseconds. One that is locked again stays in
/// the list until its time is over, which closes nothing then.
#[derive(Default)]
pub(super) struct IdleFiles(Mutex<Vec<(u64, Arc<LockedFile>)>>);

impl IdleFiles {
    /// A file's last lock has gone. Whether there was none before: then somebody has to come back.
    pub fn add(&self, now_ms: u64, file: Arc<LockedFile>) -> bool {
        let mut idle = acquire(&self.0);
        let is_first = idle.is_empty();
        let has_room = idle.len() < IDLE_FILES_MAX;
        match idle.iter_mut().find(|(_, known)| Arc::ptr_eq(known, &file)) {
            Some((since_ms, _)) => *since_ms = now_ms,
            None if has_room => idle.push((now_ms, file)),
            None => {}
        }
        is_first
    }

    /// Closes those whose time is over, and says when to come back.
    pub fn close_expired(&self, now_ms: u64) -> Option<u64> {
        let mut idle = acquire(&self.0);
        let is_over = |(since_ms, _): &mut (u64, _)| since_ms.saturating_add(IDLE_MS) <= now_ms;
        let over: Vec<_> = idle.extract_if(.., is_over).collect();
        let next = idle.iter().map(|(since_ms, _)| since_ms.saturating_add(IDLE_MS)).min();
        drop(idle);
        // closing may block
        drop(over);
        next
    }

    /// Closes all of them.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *acquire(&self.0));
        drop(all);
    }
}

impl LockedFiles {
    /// The file of a key, if anybody has it.
    pub fn find(&self, key: &FileKey) -> Option<Arc<LockedFile>> {
        acquire(&self.0).get(key)?.upgrade()
    }

    /// The file of this key, which is `object`, kept from now on.
    ///
    /// # Errors
    /// Those of [`vfs::Backend::keep`], but that the backend cannot.
    pub fn keep(&self, key: FileKey, object: Object<'_>) -> vfs::Result<Arc<LockedFile>> {
        if let Some(file) = self.find(&key) {
            return Ok(file);
        }
        let kept = match object.backend().keep(&object.cx(), &object.fid) {
            Ok(kept) => Some(kept),
            Err(Status::NotSupp) => None,
            Err(status) => return Err(status),
        };
        let (table, locks) = (Arc::downgrade(&self.0), Mutex::default());
        let object = object.into_owned();
        let file = Arc::new(LockedFile { key, object, locks, _kept: kept, table });
        let mut files = acquire(&self.0);
        match files.entry(key) {
            // another call was faster
            Entry::Occupied(mut known) => match known.get().upgrade() {
                Some(known) => {
                    drop(files);
                    Ok(known)
                }
                None => {
                    known.insert(Arc::downgrade(&file));
                    Ok(file)
                }
            },
            Entry::Vacant(free) => {
                free.insert(Arc::downgrade(&file));
                Ok(file)
            }
        }
    }
}

/// One file.
pub(super) struct LockedFile {
    pub key: FileKey,
    pub object: OwnedObject,
    /// Opened for the first lock that the kernel is shown.
    locks: Mutex<Option<Box<dyn FileLocks>>>,
    _kept: Option<vfs::Kept>,
    table: Weak<Table>,
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut files = acquire(&table);
        // a call may have made another one for this file since nobody had this one
        if files.get(&self.key).is_some_and(|file| file.strong_count() == 0) {
            files.remove(&self.key);
        }
    }
}

/// How the kernel took an operation: the answer for the core, and the cause of a failure for the client.
pub(super) struct LocalResult {
    pub answer: LocalAnswer,
    pub cause: Option<Status>,
}

impl From<LocalAnswer> for LocalResult {
    fn from(answer: LocalAnswer) -> Self {
        Self { answer, cause: None }
    }
}

impl LockedFile {
    /// What the core keeps for the file's state.
    pub fn for_core(self: &Arc<Self>) -> state::Kept {
        Arc::clone(self) as state::Kept
    }

    /// Whether there are local programs that could be excluded.
    pub fn has_local_locks(&self) -> bool {
        self.object.backend().locks().is_some()
    }

    /// The description of the kernel's, open; `None` if the backend has no locks.
    ///
    /// # Errors
    /// [`Status::Jukebox`] if this would block and must not; those of [`vfs::Locks::open`].
    fn with_locks<T>(
        &self,
        blocking: &dyn Blocking,
        work: impl FnOnce(&mut dyn FileLocks, &vfs::Cx<'_>) -> vfs::Result<T>,
    ) -> vfs::Result<Option<T>> {
        let object = self.object.as_object(blocking);
        let Some(locks) = object.backend().locks() else { return Ok(None) };
        let cx = object.cx();
        let mut held = self.acquire(&cx)?;
        let open = match held.take() {
            Some(open) => open,
            None => locks.open(&cx, &object.fid)?,
        };
        let open = held.insert(open);
        work(open.as_mut(), &cx).map(Some)
    }

    fn acquire(&self, cx: &vfs::Cx<'_>) -> vfs::Result<MutexGuard<'_, Option<Box<dyn FileLocks>>>> {
        match self.locks.try_lock() {
            Ok(held) => Ok(held),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                cx.blocking.will_block()?;
                Ok(acquire(&self.locks))
            }
        }
    }

    /// Has the kernel show what the core asks for.
    pub fn set(&self, blocking: &dyn Blocking, op: &LocalOp) -> LocalResult {
        if op.last {
            self.unlock_all(blocking);
            return LocalAnswer::Done.into();
        }
        let changes: Vec<LockChange> = op.pieces.iter().map(change).collect();
        let apply = |locks: &mut dyn FileLocks, cx: &vfs::Cx<'_>| {
            let mut tries = std::iter::repeat_with(|| locks.apply(cx, &changes)).take(TRIES);
            let mut last = Err(Status::Jukebox);
            while let (Err(Status::Jukebox), Some(next)) = (&last, tries.next()) {
                last = next;
            }
            last
        };
        match self.with_locks(blocking, apply) {
            Ok(None | Some(LockOutcome::Done)) => LocalAnswer::Done.into(),
            Ok(Some(LockOutcome::Conflict(found))) => {
                LocalAnswer::Conflict(local_conflict(&found)).into()
            }
            // The server may not write to the file: it runs, or it is another user's and the server an ordinary
            // one. Local programs cannot be excluded then, and clients still are.
            Err(Status::Acces | Status::Perm) => LocalAnswer::NotShown.into(),
            Err(status) => LocalResult { answer: LocalAnswer::Failed, cause: Some(status) },
        }
    }

    /// Takes back all that the kernel shows. The description stays open for the next lock.
    fn unlock_all(&self, blocking: &dyn Blocking) {
        let all = LockChange { range: LockRange::ALL, mode: None };
        let object = self.object.as_object(blocking);
        let mut held = acquire(&self.locks);
        let kept = held.as_mut().is_none_or(|open| open.apply(&object.cx(), &[all]).is_ok());
        // closing it unlocks whatever is left
        let closed = if kept { None } else { held.take() };
        drop(held);
        drop(closed);
    }

    /// What a local program holds that is in the way.
    ///
    /// # Errors
    /// As of the backend; where the kernel cannot be asked there is nothing in the way.
    pub fn local_conflict(
        &self,
        blocking: &dyn Blocking,
        range: ByteRange,
        mode: Mode,
    ) -> vfs::Result<Option<LocalConflict>> {
        let test = |locks: &mut dyn FileLocks, _: &vfs::Cx<'_>| {
            lock_range(range).map_or(Ok(None), |range| locks.test(range, lock_mode(mode)))
        };
        match self.with_locks(blocking, test) {
            Ok(found) => Ok(found.flatten().map(|found| local_conflict(&found))),
            Err(Status::Acces | Status::Perm | Status::NotSupp) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

/// The file that the core let go; dropping it closes and lets go of what was kept for it.
pub(super) fn let_go(kept: KeptFile) {
    drop(kept);
}

const fn lock_mode(mode: Mode) -> LockMode {
    match mode {
        Mode::Read => LockMode::Read,
        Mode::Write => LockMode::Write,
    }
}

fn lock_range(range: ByteRange) -> Option<LockRange> {
    LockRange::from_bounds(range.start(), range.end())
}

fn change(piece: &Piece) -> LockChange {
    let range = lock_range(piece.range).unwrap_or(LockRange::ALL);
    LockChange { range, mode: piece.to.map(lock_mode) }
}

fn local_conflict(found: &vfs::LockConflict) -> LocalConflict {
    LocalConflict {
        range: ByteRange::new(found.range.start(), found.range.last()).unwrap_or(ByteRange::ALL),
        mode: match found.mode {
            LockMode::Read => Mode::Read,
            LockMode::Write => Mode::Write,
        },
        pid: found.pid.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0),
    }
}

//! The files that have a name in an [`UnlinkedDir`] because they are kept and have lost their others, or are losing one:
//! which they are, in which directory, and when they are removed from there.
//!
//! A file is known by device and id, so that it may be kept by one export and lose its name by another of the same file
//! system. What a client sees of it is its attributes without the name that it has here: an entry of the cache of open
//! files knows whether that is to be taken off ([`OpenFile::set_hidden_link`]).
//!
//! # Protocol
//!
//! Whoever adds a file to its directory or removes it from there *claims* it first, for the time of the system calls. A call
//! that removes a name of a kept file claims it, adds it to the directory, removes the name, and looks at the links that are
//! left: with another name, the file is removed from the directory again. When its last guard goes, or there is none when
//! the claim ends, it is removed by the thread that closes its file system's descriptors. So a file that nobody keeps is
//! removed from the directory by whoever is the last to look, and a file that is kept and has no name is in the directory
//! at each moment.
//!
//! Locks: [`UnlinkedFiles::places`] guards which directories and backends there are; [`UnlinkedFiles::files`] the files. Both
//! are held for a moment, the second never while the first is taken.

use crate::cache::closers::CloseQueue;
use crate::cache::key::Key;
use crate::cache::open_file::OpenFile;
use crate::cache::open_files::OpenFiles;
use crate::naming::unlinked_dir::UnlinkedDir;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use vfs::Fid;

/// A file: its device and its id.
pub type FileId = (u64, Fid);

/// A backend, and the directory that it has made.
struct BackendDir {
    backend: u32,
    /// Device and inode number of its root.
    root: (u64, u64),
    /// Clients do not see a directory of that name in its root, from before it is made.
    hides: bool,
    dir: Option<Arc<UnlinkedDir>>,
    queue: Arc<CloseQueue>,
}

/// A file that is claimed, or has a name in a directory.
struct Entry {
    dir: Arc<UnlinkedDir>,
    /// Removes it.
    queue: Arc<CloseQueue>,
    claimed: bool,
    /// It has its name there.
    named: bool,
}

/// How many files there are and were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnlinkedCounts {
    /// Files that have no name but that of the server.
    pub held: u64,
    /// Those that were given one.
    pub added: u64,
    /// Those that could not be given one: they last as long as the server.
    pub failed: u64,
}

/// The files, and the directories that they are in.
#[derive(Default)]
pub struct UnlinkedFiles {
    places: RwLock<Vec<BackendDir>>,
    /// How many backends have a directory, or are making it.
    dirs: AtomicUsize,
    files: Mutex<HashMap<FileId, Entry>>,
    /// How many files there are.
    len: AtomicUsize,
    added: AtomicU64,
    failed: AtomicU64,
}

impl UnlinkedFiles {
    fn places(&self) -> RwLockReadGuard<'_, Vec<BackendDir>> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_places(&self) -> RwLockWriteGuard<'_, Vec<BackendDir>> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<FileId, Entry>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any backend has a directory, or is making it.
    #[inline]
    pub fn has_dirs(&self) -> bool {
        self.dirs.load(Acquire) > 0
    }

    /// Whether there are files.
    #[inline]
    pub fn has_files(&self) -> bool {
        self.len.load(SeqCst) > 0
    }

    /// Whether a directory with this device and inode number is one with a directory of ours in it. Costs one load if there
    /// is none.
    #[inline]
    pub fn is_in(&self, id: (u64, u64)) -> bool {
        self.has_dirs() && self.is_in_any(id)
    }

    #[cold]
    fn is_in_any(&self, id: (u64, u64)) -> bool {
        self.places().iter().any(|place| place.hides && place.root == id)
    }

    /// Whether a file has a name in a directory.
    pub fn has(&self, file: &FileId) -> bool {
        self.has_files() && self.files().get(file).is_some_and(|entry| entry.named)
    }

    /// Adds a backend.
    pub fn add_backend(&self, backend: u32, root: (u64, u64), queue: &Arc<CloseQueue>) {
        let queue = Arc::clone(queue);
        let place = BackendDir { backend, root, hides: false, dir: None, queue };
        self.change_places().push(place);
    }

    /// Has a backend hide the directory that it is about to make, or that it could not make.
    pub fn set_hides(&self, backend: u32, hides: bool) {
        let mut places = self.change_places();
        if let Some(place) = places.iter_mut().find(|place| place.backend == backend) {
            self.note_hides(place, hides);
        }
    }

    fn note_hides(&self, place: &mut BackendDir, hides: bool) {
        match (std::mem::replace(&mut place.hides, hides), hides) {
            (false, true) => drop(self.dirs.fetch_add(1, AcqRel)),
            (true, false) => drop(self.dirs.fetch_sub(1, AcqRel)),
            (_, _) => {}
        }
    }

    /// Gives a backend its directory, unless it has one.
    pub fn set_dir(&self, backend: u32, dir: &Arc<UnlinkedDir>) {
        let mut places = self.change_places();
        let place = places.iter_mut().find(|place| place.backend == backend);
        if let Some(place) = place.filter(|place| place.dir.is_none()) {
            place.dir = Some(Arc::clone(dir));
            self.note_hides(place, true);
        }
    }

    /// The directory that a backend of this process has in a directory with this device and inode number.
    pub fn dir_in(&self, id: (u64, u64)) -> Option<Arc<UnlinkedDir>> {
        let places = self.places();
        let mut dirs = places.iter().filter_map(|place| place.dir.as_ref());
        dirs.find(|dir| dir.parent() == id).map(Arc::clone)
    }

    /// The directory for a file of this device: a backend's own, else another's of the file system.
    fn dir_for(&self, backend: u32, dev: u64) -> Option<(Arc<UnlinkedDir>, Arc<CloseQueue>)> {
        let places = self.places();
        let of_dev = || places.iter().filter(|place| place.root.0 == dev && place.dir.is_some());
        let own = of_dev().find(|place| place.backend == backend);
        let place = own.or_else(|| of_dev().next())?;
        Some((Arc::clone(place.dir.as_ref()?), Arc::clone(&place.queue)))
    }

    /// The device of a backend's root.
    fn dev_of(&self, backend: u32) -> Option<u64> {
        self.places().iter().find(|place| place.backend == backend).map(|place| place.root.0)
    }

    /// Whether some backend's key of a file satisfies `condition`, which is asked under the lock; of a backend whose root is
    /// on this device, if one is named.
    fn any_key(&self, dev: Option<u64>, fid: &Fid, condition: impl Fn(&Key) -> bool) -> bool {
        let places = self.places();
        let mut of_dev = places.iter().filter(|place| dev.is_none_or(|dev| place.root.0 == dev));
        of_dev.any(|place| condition(&Key { backend: place.backend, fid: *fid }))
    }

    /// The keys of a file in the backends of its file system.
    fn keys(&self, (dev, fid): &FileId) -> Vec<Key> {
        let places = self.places();
        let of_dev = places.iter().filter(|place| place.root.0 == *dev);
        of_dev.map(|place| Key { backend: place.backend, fid: *fid }).collect()
    }

    /// Notes that a file could not be added.
    pub fn note_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// Claims a file for being added; false: another thread has it.
    fn claim_new(&self, file: FileId, dir: &Arc<UnlinkedDir>, queue: &Arc<CloseQueue>) -> bool {
        let mut files = self.files();
        let entry = files.entry(file).or_insert_with(|| Entry {
            dir: Arc::clone(dir),
            queue: Arc::clone(queue),
            claimed: false,
            named: false,
        });
        let is_free = !std::mem::replace(&mut entry.claimed, true);
        self.len.store(files.len(), SeqCst);
        is_free
    }

    /// Claims a file that is there, for being removed; its directory.
    fn claim(&self, file: &FileId) -> Option<Arc<UnlinkedDir>> {
        let mut files = self.files();
        let entry = files.get_mut(file).filter(|entry| !entry.claimed)?;
        entry.claimed = true;
        Some(Arc::clone(&entry.dir))
    }

    /// Notes whether a claimed file has its name.
    fn set_named(&self, file: &FileId, named: bool) {
        if let Some(entry) = self.files().get_mut(file) {
            entry.named = named;
        }
    }

    /// Ends a claim; a file without a name is there no more.
    fn end_claim(&self, file: &FileId) {
        let mut files = self.files();
        if let Some(entry) = files.get_mut(file) {
            entry.claimed = false;
            if !entry.named {
                files.remove(file);
            }
        }
        self.len.store(files.len(), SeqCst);
    }
}

impl OpenFiles {
    /// How many files there are and were that have a name of the server only.
    pub fn unlinked_counts(&self) -> UnlinkedCounts {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        UnlinkedCounts {
            held: number(self.unlinked.len.load(Relaxed)),
            added: self.unlinked.added.load(Relaxed),
            failed: self.unlinked.failed.load(Relaxed),
        }
    }

    /// Whether a file with this id is kept by some backend. Asks nobody.
    pub(crate) fn may_be_kept(&self, fid: &Fid) -> bool {
        self.unlinked.any_key(None, fid, |key| self.kept.has(key))
    }

    /// Whether a file is kept by a backend of its file system.
    pub(crate) fn is_kept(&self, (dev, fid): &FileId) -> bool {
        self.unlinked.any_key(Some(*dev), fid, |key| self.kept.has(key))
    }

    /// Claims a file that is about to lose a name by this backend.
    pub(crate) fn claim_unlinked(&self, backend: u32, file: FileId) -> Claim<'_> {
        match self.unlinked.dir_for(backend, file.0) {
            None => Claim::NoDirectory,
            Some((dir, queue)) => match self.unlinked.claim_new(file, &dir, &queue) {
                true => Claim::Claimed(ClaimedFile { files: self, file, dir }),
                false => Claim::Busy,
            },
        }
    }

    /// Whether the attributes of a file count the name that it has in a directory; for an entry that was just put into the
    /// cache.
    pub(super) fn note_hidden_link(&self, fid: &Fid, file: &OpenFile) {
        if self.unlinked.has_files() && self.unlinked.has(&(file.id().0, *fid)) {
            file.set_hidden_link(true);
        }
    }

    /// Has all entries of a file in the cache count its name in the directory, or not.
    fn set_hidden_link(&self, file: &FileId, is_hidden: bool) {
        for key in self.unlinked.keys(file) {
            self.with(&key, |file| file.set_hidden_link(is_hidden));
        }
    }

    /// Adds the files that are in a backend's directory already, which it gets with this.
    pub(crate) fn add_left_over(
        &self,
        backend: u32,
        dir: &Arc<UnlinkedDir>,
        dev: u64,
        fids: &[Fid],
    ) {
        self.unlinked.set_dir(backend, dir);
        let Some((dir, queue)) = self.unlinked.dir_for(backend, dev) else { return };
        for fid in fids {
            let file = (dev, *fid);
            let mut files = self.unlinked.files();
            files.entry(file).or_insert_with(|| Entry {
                dir: Arc::clone(&dir),
                queue: Arc::clone(&queue),
                claimed: false,
                named: true,
            });
            self.unlinked.len.store(files.len(), SeqCst);
            drop(files);
            self.set_hidden_link(&file, true);
            self.note_links_changed(&file);
        }
    }

    /// After a link of a file was made or removed: copies of its attributes from before that do not count any more, nor from
    /// the moment in which the link was there and not yet hidden.
    fn note_links_changed(&self, file: &FileId) {
        let Some(copies) = self.attrs.in_use() else { return };
        let id = |key: &Key| self.with(key, |file| file.id());
        match self.unlinked.keys(file).iter().find_map(id) {
            Some(id) => copies.changed(id),
            None => copies.changed_unknown(),
        }
    }

    /// Has the files in a backend's directory removed that nobody keeps.
    pub(crate) fn discard_left_over(self: &Arc<Self>, dir: &Arc<UnlinkedDir>) {
        let files: Vec<FileId> = {
            let files = self.unlinked.files();
            let in_dir = files.iter().filter(|(_, entry)| Arc::ptr_eq(&entry.dir, dir));
            in_dir.map(|(file, _)| *file).collect()
        };
        for file in files {
            self.discard_unkept(file);
        }
    }

    /// The same of a file whose last guard has gone, by one of its keys.
    pub(super) fn discard_unlinked(self: &Arc<Self>, key: &Key) {
        if self.unlinked.has_files()
            && let Some(dev) = self.unlinked.dev_of(key.backend)
        {
            self.discard_unkept((dev, key.fid));
        }
    }

    /// Has a file removed by the thread that closes its file system's descriptors, if nobody keeps it now or then.
    pub(crate) fn discard_unkept(self: &Arc<Self>, file: FileId) {
        let queue = self.unlinked.files().get(&file).map(|entry| Arc::clone(&entry.queue));
        if let Some(queue) = queue.filter(|_| !self.is_kept(&file)) {
            let files = Arc::downgrade(self);
            queue.remove(move || {
                if let Some(files) = files.upgrade() {
                    files.discard(&file);
                }
            });
        }
    }

    /// Removes a file from its directory, unless it is kept or claimed.
    fn discard(&self, file: &FileId) {
        let Some(dir) = self.unlinked.claim(file) else { return };
        let claimed = ClaimedFile { files: self, file: *file, dir };
        if self.is_kept(file) {
            return;
        }
        claimed.remove();
        drop(claimed);
        // the descriptors hold its space
        for key in self.unlinked.keys(file) {
            if self.with(&key, |_| ()).is_some() {
                self.close_later(key);
            }
        }
    }

    /// Forgets a backend that is being removed, and its directory, unless another has it too: the next one finds it again. A
    /// backend with kept files stays known as their keeper.
    pub(crate) fn remove_place(&self, backend: u32) {
        let mut places = self.unlinked.change_places();
        let its_place = places.iter_mut().find(|place| place.backend == backend);
        let dir = its_place.and_then(|place| {
            self.unlinked.note_hides(place, false);
            place.dir.take()
        });
        places.retain(|place| place.backend != backend || self.kept.has_any_of(backend));
        let Some(dir) = dir else { return };
        let is_its = |other: &Arc<UnlinkedDir>| Arc::ptr_eq(other, &dir);
        let stays = places.iter().any(|place| place.dir.as_ref().is_some_and(is_its));
        drop(places);
        if !stays {
            let mut files = self.unlinked.files();
            files.retain(|_, entry| entry.claimed || !is_its(&entry.dir));
            self.unlinked.len.store(files.len(), SeqCst);
        }
    }
}

/// The result of claiming a file that is about to lose a name.
pub enum Claim<'f> {
    /// It is claimed.
    Claimed(ClaimedFile<'f>),
    /// Another thread has it.
    Busy,
    /// Its file system has no directory for it.
    NoDirectory,
}

/// A file that this thread may add to its directory or remove from there, as the server.
pub struct ClaimedFile<'f> {
    files: &'f OpenFiles,
    file: FileId,
    dir: Arc<UnlinkedDir>,
}

impl ClaimedFile<'_> {
    /// The directory.
    pub fn dir(&self) -> &UnlinkedDir {
        &self.dir
    }

    /// The file.
    pub const fn file(&self) -> FileId {
        self.file
    }

    /// Notes that it has its name in the directory.
    pub fn added(&self) {
        self.files.unlinked.set_named(&self.file, true);
        self.files.set_hidden_link(&self.file, true);
        self.files.note_links_changed(&self.file);
        self.files.unlinked.added.fetch_add(1, Relaxed);
    }

    /// Removes it from the directory; if that fails, it stays there.
    pub fn remove(&self) {
        let Self { files, file, dir } = self;
        files.unlinked.set_named(file, false);
        files.set_hidden_link(file, false);
        if let Err(error) = dir.remove(&file.1) {
            files.unlinked.set_named(file, true);
            files.set_hidden_link(file, true);
            tracing::warn!(%error, "an open file without a name cannot be removed from .bowline-open");
        }
        files.note_links_changed(file);
    }
}

impl Drop for ClaimedFile<'_> {
    fn drop(&mut self) {
        self.files.unlinked.end_claim(&self.file);
    }
}

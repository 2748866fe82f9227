//! The entries of kept files in the cache of open files: pinning them, and what eviction may take of them all the same. For
//! what a kept file is see [`vfs::Backend::keep`]; which files are kept, and how often, is in [`crate::cache::kept_files`].
//!
//! Invariant: a kept file without a name has an open descriptor at each moment, for there is no other way back to it. So a new
//! descriptor is made before such an entry is replaced. If there is none to be had, the new entry shares one for data with
//! the old one, which closes the others; an entry that has but one stays.

use crate::cache::key::Key;
use crate::cache::open_file::OpenFile;
use crate::cache::open_files::OpenFiles;
use papaya::Guard;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use sys::open::{How, reopen};
use vfs::{Kept, Result, Status};

/// How often an entry is looked for that is not being closed at this moment.
const TRIES: u32 = 100;

impl OpenFiles {
    /// Keeps a file, whose entry in the cache `pin` finds or makes, and pins; it says whether it could
    /// ([`OpenFile::try_pin`]), and what it has found.
    ///
    /// # Errors
    /// Those of `pin`; [`Status::Jukebox`] if too many files are kept.
    pub fn keep<T>(
        self: &Arc<Self>,
        key: Key,
        pin: impl Fn() -> Result<(bool, T)>,
    ) -> Result<(Kept, T)> {
        if !self.kept.add(key) {
            return Err(Status::Jukebox);
        }
        let kept = Kept::new(KeptFile { files: Arc::clone(self), key });
        for _ in 0..TRIES {
            let (is_pinned, found) = pin()?;
            if is_pinned {
                return Ok((kept, found));
            }
            std::thread::yield_now();
        }
        Err(Status::Jukebox)
    }

    /// Makes sure that a kept file whose last name has just been removed is open, and that the end of its last guard closes
    /// it: `file` is the same object.
    pub fn pin_removed(&self, key: Key, file: &OpenFile) {
        file.note_removed();
        if self.must_open_removed(&key) {
            let path = self.open_with_retry(|| reopen(file.path(), How::Path));
            self.insert_again(key, file, path);
        }
    }

    /// The same for an object that is in the cache only if another thread has put it there; `file` makes an entry for it.
    pub fn pin_removed_with(&self, key: Key, file: impl FnOnce() -> OpenFile) {
        if self.must_open_removed(&key) {
            let file = file();
            file.note_removed();
            self.insert(key, Arc::new(file));
        }
    }

    /// Whether a file that has just lost its last name is kept, and has no entry that is pinned. An entry learns of the loss.
    fn must_open_removed(&self, key: &Key) -> bool {
        let note = |file: &Arc<OpenFile>| {
            file.note_removed();
            file.is_pinned()
        };
        self.kept.has(key) && !self.with(key, note).unwrap_or(false)
    }

    /// Puts a new entry in the place of one that was taken out, with the path descriptor alone.
    fn insert_again(&self, key: Key, file: &OpenFile, path: io::Result<OwnedFd>) {
        match path {
            Ok(path) => drop(self.insert(key, Arc::new(file.again(path)))),
            Err(error) => {
                tracing::warn!(%error, "a file that a client has open may be lost: it cannot be opened again");
            }
        }
    }

    /// Puts an entry with one descriptor in the place of a pinned one, which stays if it has no more than that and no other
    /// can be made: without one its file, if it has no name, would be lost. What was taken out.
    pub(super) fn reduce_to_path(
        &self,
        key: &Key,
        file: &Arc<OpenFile>,
        guard: &impl Guard,
    ) -> Option<Weak<OpenFile>> {
        let again = match reopen(file.path(), How::Path) {
            Ok(path) => file.again(path),
            Err(_) => file.again_by_data()?,
        };
        file.retire();
        self.take_out(key, file, guard);
        self.insert(*key, Arc::new(again));
        Some(Arc::downgrade(file))
    }

    /// Reduces the pinned entries that `condition` selects to their paths.
    fn reduce_if(&self, condition: impl Fn(&OpenFile) -> bool) {
        if self.kept.len() == 0 {
            return;
        }
        let guard = self.map.guard();
        let mut gone = Vec::new();
        for (key, file) in self.map.iter(&guard) {
            let Some(file) = file.as_ref().filter(|file| file.is_pinned() && condition(file))
            else {
                continue;
            };
            gone.extend(self.reduce_to_path(key, file, &guard));
        }
        drop(guard);
        self.flush_garbage(&gone);
    }

    /// Closes descriptors for writing of pinned entries that nobody has written through for a while: a program that
    /// was written may be run.
    pub(super) fn close_idle_writers(&self, now_s: u32) {
        self.reduce_if(|file| file.has_idle_writer(now_s));
    }

    /// Closes descriptors for data of pinned entries without a name, which cannot be closed altogether: those that
    /// were not used in this second, and have no writes to sync.
    pub(super) fn close_data_of_removed(&self) {
        let now_s = self.now_s();
        self.reduce_if(|file| {
            file.has_data_descriptors()
                && file.idle_s(now_s) > 0
                && !file.unsynced().has_unsynced()
                && answers(file)
                && file.is_removed()
        });
    }

    /// Closes up to `most` pinned entries of files that still have a name: they are found by their id again. How many.
    pub(super) fn close_named(&self, most: usize) -> usize {
        let guard = self.map.guard();
        let mut gone = Vec::new();
        self.take_in_turn(most, &guard, |key, file| {
            if !file.is_pinned() || !answers(file) || file.is_removed() {
                return false;
            }
            file.retire();
            self.take_out(key, file, &guard);
            // it may have lost its name in this moment
            if file.is_removed() {
                self.insert_again(*key, file, reopen(file.path(), How::Path));
            } else {
                gone.push(Arc::downgrade(file));
            }
            true
        });
        drop(guard);
        self.flush_garbage(&gone);
        gone.len()
    }

    /// Releases all entries of a backend that is being removed, with its files.
    pub(super) fn unpin_backend(&self, backend: u32) {
        if self.kept.len() > 0 {
            let guard = self.map.guard();
            for (key, file) in self.map.iter(&guard) {
                if let Some(file) = file.as_ref().filter(|_| key.backend == backend) {
                    file.unpin();
                }
            }
        }
    }

    /// Removes one guard of a file. Without the last one a file that was removed is closed: the file system is not asked
    /// whether it was, because whoever removes it here notes that, and [`OpenFiles::sweep`] finds what local programs remove.
    fn let_go(self: &Arc<Self>, key: &Key) {
        let unpin = |file: &Arc<OpenFile>| {
            file.unpin();
            file.was_removed()
        };
        let Some(was_removed) = self.kept.remove(key, || self.with(key, unpin)) else { return };
        self.discard_unlinked(key);
        if was_removed == Some(true) {
            self.close_later(*key);
        }
    }
}

/// Whether the file system of a file answers, as far as is known.
fn answers(file: &OpenFile) -> bool {
    !file.queue().is_some_and(|queue| queue.hangs())
}

/// A guard.
struct KeptFile {
    files: Arc<OpenFiles>,
    key: Key,
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.files.let_go(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use crate::cache::key::Key;
    use crate::cache::open_file::OpenFile;
    use crate::cache::open_files::OpenFiles;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::sync::Arc;
    use vfs::{Fid, Kept};

    fn key(n: u64) -> Key {
        Key { backend: 0, fid: Fid::from_u64(n) }
    }

    fn keep(files: &Arc<OpenFiles>, n: u64, path: &Path) -> Kept {
        let pin = || {
            let known = files.with(&key(n), Arc::clone);
            let file = known.unwrap_or_else(|| {
                let file = File::open(path).unwrap();
                let stat = sys::stat::of_fd(file.as_fd()).unwrap();
                files.insert(key(n), Arc::new(OpenFile::new(file.into(), &stat)))
            });
            Ok((file.try_pin(), ()))
        };
        files.keep(key(n), pin).unwrap().0
    }

    /// Removes a file's last name as a client's REMOVE does.
    fn remove(files: &OpenFiles, n: u64, path: &Path) {
        std::fs::remove_file(path).unwrap();
        let file = files.with(&key(n), Arc::clone).unwrap();
        files.pin_removed(key(n), &file);
    }

    fn is_open(files: &OpenFiles, n: u64) -> bool {
        files.with(&key(n), |_| ()).is_some()
    }

    #[test]
    fn an_unlinked_kept_file_is_never_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        File::create(&path).unwrap();
        let files = Arc::new(OpenFiles::new(100).with_entries_max(16));
        let (first, second) = (keep(&files, 0, &path), keep(&files, 0, &path));
        remove(&files, 0, &path);
        let other = dir.path().join("other");
        File::create(&other).unwrap();
        let others: Vec<_> = (1..200).map(|n| keep(&files, n, &other)).collect();
        assert!(files.len() <= files.limit() + 1, "those with a name go");
        files.remove(&key(0));
        files.evict_some();
        files.sweep(1000);
        drop(others);
        drop(first);
        files.sweep(2000);
        assert!(is_open(&files, 0));
        drop(second);
        files.close_removed_now();
        assert!(!is_open(&files, 0));
    }

    #[test]
    fn only_the_idle_writer_of_a_kept_file_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        File::create(&path).unwrap();
        let files = Arc::new(OpenFiles::new(3000));
        let kept = keep(&files, 0, &path);
        let open = || Ok(File::options().write(true).open(&path)?.into());
        files.with(&key(0), |file| {
            file.writer_or(open).unwrap();
            file.note_written(1);
        });
        remove(&files, 0, &path);
        files.sweep(3);
        let has_writer = || files.with(&key(0), |file| file.writer().is_some());
        assert_eq!(has_writer(), Some(true));
        files.sweep(4);
        assert_eq!(has_writer(), Some(false));
        drop(kept);
        files.close_removed_now();
        assert!(files.is_empty());
    }

    #[test]
    fn without_descriptors_an_unlinked_kept_file_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        let files = Arc::new(OpenFiles::new(100).with_entries_max(16));
        let kept: Vec<_> = (0..40)
            .map(|n| {
                File::create(&path).unwrap();
                let kept = keep(&files, n, &path);
                let read = || Ok(File::open(&path)?.into());
                files.with(&key(n), |file| file.reader_or(read).map(|_| ()).unwrap());
                remove(&files, n, &path);
                kept
            })
            .collect();
        let readers = || {
            let has = |n| files.with(&key(n), |file| file.reader().is_some());
            (0..40).filter(|n| has(*n).expect("it is open")).count()
        };
        assert_eq!(readers(), 40, "used in this second");
        files.sweep(2);
        assert_eq!(readers(), 0);
        drop(kept);
        files.close_removed_now();
        assert!(files.is_empty());
    }

    #[test]
    fn a_kept_file_that_a_local_program_removed_is_closed_by_the_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        File::create(&path).unwrap();
        let files = Arc::new(OpenFiles::new(3000));
        files.sweep(10);
        let kept = keep(&files, 0, &path);
        std::fs::remove_file(&path).unwrap();
        files.sweep(11);
        assert!(is_open(&files, 0));
        drop(kept);
        files.sweep(12);
        assert!(!is_open(&files, 0));
        // after the sweep has found it, its last guard closes it
        File::create(&path).unwrap();
        let kept = keep(&files, 1, &path);
        std::fs::remove_file(&path).unwrap();
        files.sweep(13);
        drop(kept);
        files.close_removed_now();
        assert!(files.is_empty());
    }

    #[test]
    fn removing_a_backend_closes_its_kept_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        File::create(&path).unwrap();
        let files = Arc::new(OpenFiles::new(3000));
        let kept = keep(&files, 0, &path);
        files.remove_backend(0);
        assert!(files.is_empty());
        drop(kept);
    }
}

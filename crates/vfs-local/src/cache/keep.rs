//! Keeping a file: see [`vfs::Backend::keep`] and [`crate::cache::kept_files`].

use crate::cache::key::Key;
use crate::cache::open_file::OpenFile;
use crate::cache::open_files::OpenFiles;
use std::sync::Arc;
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

    /// Makes sure that a kept file whose last name has just been removed is open: `file` is the same object.
    pub fn pin_removed(&self, key: Key, file: &OpenFile) {
        if self.kept.has(&key) && !self.with(&key, |file| file.is_pinned()).unwrap_or(false) {
            self.reopen_pinned(key, file);
        }
    }

    /// Puts a new entry in the place of one that was taken out, with the path descriptor alone.
    pub(super) fn reopen_pinned(&self, key: Key, file: &OpenFile) {
        match reopen(file.path(), How::Path) {
            Ok(path) => drop(self.insert(key, Arc::new(file.again(path)))),
            Err(error) => {
                tracing::warn!(%error, "a file that a client has open may be lost: it cannot be opened again");
            }
        }
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

    /// Removes one guard of a file.
    fn let_go(&self, key: &Key) {
        let unpin = |file: &Arc<OpenFile>| {
            file.unpin();
            Arc::clone(file)
        };
        let last = self.kept.remove(key, || self.with(key, unpin)).flatten();
        // without the map's guard: the file system may block
        if last.is_some_and(|file| file.is_removed()) {
            self.close_later(*key);
        }
    }
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
        std::fs::remove_file(&path).unwrap();
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
        std::fs::remove_file(&path).unwrap();
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

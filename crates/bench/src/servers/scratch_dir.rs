//! Directories for one run: exports, state, sockets. Removed when dropped; those of a killed run are
//! removed by the next one.
//!
//! A directory's name carries the pid of its run; one whose process no longer exists is stale.

use super::ServerError;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Prefix of the names; the pid and a number follow.
const PREFIX: &str = "bowline-bench-";

/// Directory of files in memory.
const MEMORY: &str = "/dev/shm";

/// How often [`remove_own`] retries, and how long it waits in between: a second in all.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// This process is about to exit: nothing is created any more. Set once.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// A directory of this run.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// A new one where temporary files belong (`TMPDIR`, else `/tmp`).
    ///
    /// # Errors
    /// [`ServerError::Io`]: no room, no permission.
    pub fn new() -> Result<Self, ServerError> {
        Self::below(&std::env::temp_dir())
    }

    /// A new one in memory, so that no disk is measured; where temporary files belong if the machine
    /// has no `/dev/shm`.
    ///
    /// # Errors
    /// As [`ScratchDir::new`].
    pub fn in_memory() -> Result<Self, ServerError> {
        Self::below(Path::new(MEMORY)).or_else(|_| Self::new())
    }

    /// A new one below `base`.
    ///
    /// # Errors
    /// As [`ScratchDir::new`].
    pub fn below(base: &Path) -> Result<Self, ServerError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if CLOSED.load(Relaxed) {
            let ends = std::io::ErrorKind::Interrupted.into();
            return Err(ServerError::io("this run is over", &ends));
        }
        remove_stale(base);
        let number = NEXT.fetch_add(1, Relaxed);
        let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        // Readable for all: a server may act as any user, and nothing here is secret.
        let made = std::fs::DirBuilder::new().mode(0o755).create(&path);
        made.map_err(|e| ServerError::io(&format!("cannot make {}", path.display()), &e))?;
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// As [`ScratchDir::new`].
    pub fn dir(&self, name: &str) -> Result<PathBuf, ServerError> {
        let path = self.0.join(name);
        let made = std::fs::create_dir_all(&path);
        made.map_err(|e| ServerError::io(&format!("cannot make {}", path.display()), &e))?;
        Ok(path)
    }

    /// Writes a file in it.
    ///
    /// # Errors
    /// As [`ScratchDir::new`].
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf, ServerError> {
        let path = self.0.join(name);
        let done = std::fs::write(&path, text);
        done.map_err(|e| ServerError::io(&format!("cannot write {}", path.display()), &e))?;
        Ok(path)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes what this user's dead runs left in `base`.
fn remove_stale(base: &Path) {
    remove(base, |pid| !sys::child::exists(pid));
}

/// Removes all directories of this run, for a process that is about to exit without unwinding. Its other
/// threads and its servers may remove files at the same time: a file that disappears during the removal
/// ends a try, and so it is retried until nothing is left.
pub fn remove_own() {
    CLOSED.store(true, Relaxed);
    for _ in 0..LOOKS {
        let temporary = std::env::temp_dir();
        let bases = [temporary.as_path(), Path::new(MEMORY)];
        if bases.map(|base| remove(base, |pid| pid == std::process::id())) == [0, 0] {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Removes this user's directories in `base` whose pid `is_meant`; how many there were.
fn remove(base: &Path, is_meant: impl Fn(u32) -> bool) -> u32 {
    let own_uid = std::fs::metadata("/proc/self").map(|own| own.uid()).ok();
    let Ok(entries) = std::fs::read_dir(base) else { return 0 };
    let mut found = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next());
        let Some(Ok(pid)) = pid.map(str::parse) else { continue };
        let own = entry.metadata().is_ok_and(|m| m.is_dir() && Some(m.uid()) == own_uid);
        if own && is_meant(pid) {
            found += 1;
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::ScratchDir;

    #[test]
    fn own_directory_and_those_of_dead_runs_are_removed() {
        let base = ScratchDir::new().unwrap();
        // no process has a number this large
        let stale = base.dir("bowline-bench-1073741823-0/deep").unwrap();
        let other = base.dir("bowline-bench-x").unwrap();
        let own = base.path().join(format!("bowline-bench-{}-77", std::process::id()));
        std::fs::create_dir(&own).unwrap();
        let inner = ScratchDir::below(base.path()).unwrap();
        let file = inner.file("f", "text").unwrap();
        assert!(!stale.exists() && other.exists() && own.exists() && file.exists());
        let path = inner.path().to_path_buf();
        drop(inner);
        assert!(!path.exists());
        assert!(ScratchDir::below(&path).is_err());
    }
}

//! The file of the recovery store: the few things that are done with it, each on stable storage when it returns. Workers
//! that store something may act as the user of an earlier call, so each of them begins by acting as the server again.

use super::NotStored;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file in the state directory.
const NAME: &str = "recovery";
/// What it is replaced by, until that is renamed.
const NEW_NAME: &str = "recovery.new";
/// A longer file is none of ours: 4,096 hosts with the longest names take 9 MiB.
const LEN_MAX: u64 = 64 << 20;

/// What the store does with its file.
pub(super) trait Disk: Send + Sync {
    /// All of it; empty if there is none, which is then made.
    fn read(&self) -> Result<Vec<u8>, NotStored>;
    /// Appends.
    fn append(&self, bytes: &[u8]) -> Result<(), NotStored>;
    /// Cuts it to this length.
    fn truncate(&self, len: u64) -> Result<(), NotStored>;
    /// Has it hold this and nothing else, or what it held before.
    fn replace(&self, bytes: &[u8]) -> Result<(), NotStored>;
}

/// A real directory.
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        options.mode(0o600).open(self.file())
    }

    /// A rename or a new file is on stable storage when its directory is.
    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn error<'a>(&'a self, what: &'a str) -> impl FnOnce(io::Error) -> NotStored + 'a {
        move |error| {
            let path = self.file();
            let hint = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free disk space",
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "let the server write there, or name another directory with --state-dir"
                }
                _ => "check the disk for errors",
            };
            NotStored(format!("cannot {what} {}: {error}; {hint}", path.display()))
        }
    }
}

impl Disk for Directory {
    fn read(&self) -> Result<Vec<u8>, NotStored> {
        let read = || {
            sys::identity::act_as_process()?;
            let mut file = self.open(OpenOptions::new().read(true).append(true).create(true))?;
            if file.metadata()?.len() > LEN_MAX {
                return Err(io::Error::other("too long for a file of this server"));
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            self.sync_directory()?;
            Ok(bytes)
        };
        read().map_err(self.error("read the lock recovery file"))
    }

    fn append(&self, bytes: &[u8]) -> Result<(), NotStored> {
        let append = || {
            sys::identity::act_as_process()?;
            let mut file = self.open(OpenOptions::new().append(true))?;
            file.write_all(bytes)?;
            sys::io::sync_data(file.as_fd())
        };
        append().map_err(self.error("write the lock recovery file"))
    }

    fn truncate(&self, len: u64) -> Result<(), NotStored> {
        let truncate = || {
            sys::identity::act_as_process()?;
            let file = self.open(OpenOptions::new().write(true))?;
            file.set_len(len)?;
            sys::io::sync(file.as_fd())
        };
        truncate().map_err(self.error("truncate the lock recovery file"))
    }

    fn replace(&self, bytes: &[u8]) -> Result<(), NotStored> {
        let new = self.path.join(NEW_NAME);
        let replace = || {
            sys::identity::act_as_process()?;
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(bytes)?;
            sys::io::sync(file.as_fd())?;
            std::fs::rename(&new, self.file())?;
            self.sync_directory()
        };
        replace().map_err(self.error("replace"))
    }
}

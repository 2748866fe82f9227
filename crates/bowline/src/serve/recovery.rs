//! The recovery store: the file that says who held locks, so that they may be reclaimed after a restart.
//!
//! `recovery` in the state directory is a sequence of [`state::Record`]s that only grows. A record is stored when it is
//! on stable storage; what was appended meanwhile shares one sync. When the file is four times as long as what it comes
//! to, it is replaced by that: written aside, synced, renamed, the directory synced.
//!
//! A crash can cut the end off: reading stops at the first record that is not whole or has another checksum, the rest is
//! cut off and said. After an error of the disk nothing that it holds is trusted: the file is replaced from memory, and
//! until that works every record is refused, so that no host gets its first lock. What was granted before goes on.
//!
//! Lock: [`Inner`], for list operations; no I/O happens under it. The thread whose record comes when nobody writes, the
//! *writer*, writes for all that come until it is done; the others wait. What is stored is the writer's while it writes, so
//! that a record costs the same however many hosts there are.

mod disk;
#[cfg(test)]
mod tests;

use disk::{Directory, Disk};
use state::{Record, Records, Recovery};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A shorter file is not replaced.
const REPLACE_MIN_BYTES: u64 = 64 << 10;
/// The file is replaced when it is so many times as long as what it comes to.
const REPLACE_FACTOR: u64 = 4;
/// After a failure, the disk is asked again no more often than this.
const RETRY: Duration = Duration::from_secs(1);

/// A record is not on stable storage; whoever needed it gets no lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotStored(pub String);

/// The store.
pub struct RecoveryStore {
    inner: Mutex<Inner>,
    /// Told whenever the writer has finished something.
    written: Condvar,
    /// The file was there and could not be read: it is not touched.
    unreadable: bool,
    disk: Box<dyn Disk>,
}

/// Records that were given together, and where their outcome goes.
struct Given {
    records: Vec<Record>,
    outcome: Arc<OnceLock<Result<(), NotStored>>>,
}

/// What is stored, and what waits to be.
struct Inner {
    /// What the stored records come to; empty while a thread writes, which has it in hand.
    stored: Recovery,
    /// What waits, in order.
    waiting: Vec<Given>,
    /// Whether a thread writes.
    writing: bool,
    /// The records of this instance's start, as long as they are not stored: they come before all others.
    start: Vec<Record>,
    file: FileState,
    /// Why records are refused, and when that was found.
    failure: Option<(NotStored, Instant)>,
}

/// What is known of the file.
#[derive(Debug, Clone, Copy)]
struct FileState {
    /// Its length.
    len: u64,
    /// It holds what is stored and nothing else; if not, it has to be replaced.
    intact: bool,
    /// The length beyond which it is looked whether it is to be replaced.
    replace_at: u64,
}

impl RecoveryStore {
    /// Opens the store in the state directory and stores that this instance begins. The recovery is what the records of
    /// before come to. A store that cannot be used refuses every record.
    pub fn open(state_dir: &Path) -> (Self, Recovery) {
        Self::open_on(Box::new(Directory::new(state_dir)))
    }

    fn open_on(disk: Box<dyn Disk>) -> (Self, Recovery) {
        let mut file = FileState { len: 0, intact: false, replace_at: REPLACE_MIN_BYTES };
        let (recovery, failure) = match read(&*disk) {
            Ok((recovery, len)) => {
                (file.len, file.intact) = (len, true);
                (recovery, None)
            }
            Err(why) => (Recovery::default(), Some(why)),
        };
        let unreadable = failure.is_some();
        let failure = failure.map(|why| (why, Instant::now()));
        let stored = recovery.clone();
        let start = recovery.start_records();
        let inner = Inner { stored, waiting: Vec::new(), writing: false, start, file, failure };
        let store = Self { inner: Mutex::new(inner), written: Condvar::new(), unreadable, disk };
        // a failure is kept, and shown with the warnings of the start
        let _refused = store.append_all(&[]);
        (store, recovery)
    }

    /// Stores records; when it returns, a crash does not lose them. Blocks for one or two syncs.
    ///
    /// # Errors
    /// [`NotStored`]: they may come back after a restart or not.
    pub fn store(&self, records: &[Record]) -> Result<(), NotStored> {
        self.append_all(records)
    }

    /// Stores one record.
    #[cfg(test)]
    fn append(&self, record: &Record) -> Result<(), NotStored> {
        self.store(std::slice::from_ref(record))
    }

    /// Why records are refused; `None`: they are not.
    pub fn failure(&self) -> Option<NotStored> {
        self.lock().failure.as_ref().map(|(why, _)| why.clone())
    }

    /// What the stored records come to.
    #[cfg(test)]
    fn stored(&self) -> Recovery {
        self.lock().stored.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_all(&self, records: &[Record]) -> Result<(), NotStored> {
        let outcome = Arc::new(OnceLock::new());
        let given = Given { records: records.to_vec(), outcome: Arc::clone(&outcome) };
        let mut inner = self.lock();
        inner.waiting.push(given);
        loop {
            if let Some(outcome) = outcome.get() {
                return outcome.clone();
            }
            if inner.writing {
                inner = self.written.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            inner.writing = true;
            let batch = std::mem::take(&mut inner.waiting);
            let start = inner.start.clone();
            let (before, file) = (std::mem::take(&mut inner.stored), inner.file);
            let failure = inner.failure.clone();
            drop(inner);
            let (stored, file, written) =
                self.write((&start, &batch), before, file, failure.as_ref());
            inner = self.lock();
            inner.writing = false;
            (inner.stored, inner.file) = (stored, file);
            let outcome = inner.note(written);
            for given in batch {
                let _first = given.outcome.set(outcome.clone());
            }
            self.written.notify_all();
        }
    }

    /// Writes records behind those `before`. What is stored then, the state of the file, and whether the records are.
    fn write(
        &self,
        (start, batch): (&[Record], &[Given]),
        mut before: Recovery,
        file: FileState,
        failure: Option<&(NotStored, Instant)>,
    ) -> (Recovery, FileState, Result<(), NotStored>) {
        match failure {
            Some((why, _)) if self.unreadable => return (before, file, Err(why.clone())),
            Some((why, since)) if since.elapsed() < RETRY => {
                return (before, file, Err(why.clone()));
            }
            Some(_) | None => {}
        }
        let records = || start.iter().chain(batch.iter().flat_map(|given| &given.records));
        if file.intact {
            match self.extend(records(), file.len) {
                Ok(len) => {
                    records().for_each(|record| before.apply(record));
                    let file = self.replace_if_long(&before, FileState { len, ..file });
                    (before, file, Ok(()))
                }
                // without these records it is as it was; if not even that can be said, memory has to replace it
                Err(why) => {
                    let intact = self.disk.truncate(file.len).is_ok();
                    (before, FileState { intact, ..file }, Err(why))
                }
            }
        } else {
            let mut after = before.clone();
            records().for_each(|record| after.apply(record));
            match self.replace(&after) {
                Ok(len) => (after, FileState { len, intact: true, ..file }, Ok(())),
                Err(why) => (before, file, Err(why)),
            }
        }
    }

    /// Appends records to the file, which has this length; its new length.
    fn extend<'r>(
        &self,
        records: impl Iterator<Item = &'r Record>,
        len: u64,
    ) -> Result<u64, NotStored> {
        let mut bytes = Vec::new();
        records.for_each(|record| record.encode(&mut bytes));
        self.disk.append(&bytes)?;
        Ok(len.saturating_add(bytes.len() as u64))
    }

    /// Replaces the file by what the records come to; its new length.
    fn replace(&self, recovery: &Recovery) -> Result<u64, NotStored> {
        let bytes = encoded(recovery);
        self.disk.replace(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Replaces the file if it is much longer than what it comes to.
    fn replace_if_long(&self, stored: &Recovery, mut file: FileState) -> FileState {
        if file.len <= file.replace_at {
            return file;
        }
        let live = encoded(stored).len() as u64;
        file.replace_at = live.saturating_mul(REPLACE_FACTOR).max(REPLACE_MIN_BYTES);
        if file.len > file.replace_at {
            match self.replace(stored) {
                Ok(len) => file.len = len,
                // it is as good as before, only longer
                Err(why) => {
                    tracing::warn!("cannot compact the lock recovery file: {why}");
                    file.replace_at = file.len.saturating_mul(2);
                }
            }
        }
        file
    }
}

impl Inner {
    /// Notes whether a write's records are stored, which is their outcome.
    fn note(&mut self, written: Result<(), NotStored>) -> Result<(), NotStored> {
        match written {
            Ok(()) => {
                self.start.clear();
                if self.failure.take().is_some() {
                    tracing::info!("the lock recovery file can be written again");
                }
                Ok(())
            }
            Err(why) => {
                match &self.failure {
                    // only what was tried anew moves the next try
                    Some((_, since)) if since.elapsed() < RETRY => {}
                    before => {
                        if before.is_none() {
                            tracing::error!(
                                "{why}: clients without locks cannot get any, and NFSv4 clients cannot open files"
                            );
                        }
                        self.failure = Some((why.clone(), Instant::now()));
                    }
                }
                Err(why)
            }
        }
    }
}

/// The records of the file, and its length without a torn end, which is cut off.
fn read(disk: &dyn Disk) -> Result<(Recovery, u64), NotStored> {
    let bytes = disk.read()?;
    let mut records = Records::new(&bytes);
    let recovery = Recovery::of(records.by_ref());
    if records.unknown() > 0 {
        tracing::warn!(
            "{} records of the lock recovery file have an unknown type",
            records.unknown()
        );
    }
    let good = records.good_len();
    if let Some(torn) = records.torn() {
        let cut = bytes.len().saturating_sub(good);
        tracing::warn!("truncated the last {cut} bytes of the lock recovery file: {torn}");
        disk.truncate(good as u64)?;
    }
    Ok((recovery, good as u64))
}

fn encoded(recovery: &Recovery) -> Vec<u8> {
    let mut bytes = Vec::new();
    recovery.records().iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

//! The record of removes, renames and changed attributes (`audit`): from the calls to the file.
//!
//! A call puts its record into a bounded queue, or drops it when the queue is full; one thread, which is started when the
//! record is first switched on, writes lines. Drops are counted, said in the file where they happened, in the log and in
//! `bowline status`.
//!
//! Lock: `target`, held for a copy by the thread and by who changes settings; calls take none.

mod file;
mod line;

use crate::settings::{AuditFile, Values};
use file::RotatedFile;
use nfs::Nfs;
use nfs::audit::{AuditRecord, AuditSink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Records that wait for the disk; about 4 MiB with long paths.
const QUEUE_MAX: usize = 8192;
/// Records that are written with one system call.
const BATCH_MAX: usize = 256;
/// How often the thread looks for another target while no record comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two lines of the log about lost records.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    path: PathBuf,
    size_max: u64,
    full_files: u32,
}

#[derive(Debug, Default)]
struct Wanted {
    target: Option<Target>,
    /// Grows when the file is to be opened again.
    generation: u64,
    /// The queue's end, once the thread runs.
    queue: Option<SyncSender<Box<AuditRecord>>>,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    /// Records in the queue or about to be written.
    waiting: AtomicU64,
    /// Records that found the queue full.
    dropped: AtomicU64,
    /// Records that could not be written.
    failed: AtomicU64,
    /// Why, the last time; empty when the last write succeeded.
    problem: Mutex<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The record, on or off.
pub struct AuditLog {
    nfs: Arc<Nfs>,
    shared: Arc<Shared>,
}

impl AuditLog {
    /// The record as the settings want it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(nfs: &Arc<Nfs>, values: &Values) -> Result<Self, String> {
        let log = Self { nfs: Arc::clone(nfs), shared: Arc::default() };
        log.apply(values)?;
        Ok(log)
    }

    /// Takes new settings.
    ///
    /// # Errors
    /// The file cannot be opened, or there can be no thread: what was in force stays.
    pub fn apply(&self, values: &Values) -> Result<(), String> {
        let target = match &values.audit {
            AuditFile::Off => None,
            AuditFile::File(path) => Some(Target {
                path: path.clone(),
                size_max: values.audit_size.0.0,
                full_files: values.audit_files.0,
            }),
        };
        if let Some(target) = &target {
            // the thread opens it itself: here it is only learnt whether it can be
            RotatedFile::open(&target.path).map_err(|error| {
                format!("audit: {} cannot be written: {error}", target.path.display())
            })?;
            self.start_thread().map_err(|error| format!("cannot start a thread: {error}"))?;
        }
        let on = target.is_some();
        let mut wanted = lock(&self.shared.wanted);
        if wanted.target != target {
            wanted.target = target;
            wanted.generation += 1;
        }
        drop(wanted);
        self.nfs.audit.switch(on);
        Ok(())
    }

    /// Has the file opened again, after something else has renamed it.
    pub fn reopen(&self) {
        lock(&self.shared.wanted).generation += 1;
    }

    /// Waits until everything is written that calls have recorded, for a second at the most.
    pub fn finish(&self) {
        /// How often is looked.
        const STEP: Duration = Duration::from_millis(5);
        let until = Instant::now() + LOOK_EVERY;
        while self.shared.waiting.load(Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(STEP);
        }
    }

    /// Records that were lost since the start: the queue was full, or the file could not be written.
    pub fn lost(&self) -> u64 {
        self.shared.dropped.load(Relaxed) + self.shared.failed.load(Relaxed)
    }

    /// What is wrong with the record.
    pub fn warnings(&self) -> Option<String> {
        let (dropped, failed) =
            (self.shared.dropped.load(Relaxed), self.shared.failed.load(Relaxed));
        if dropped + failed == 0 {
            return None;
        }
        let problem = lock(&self.shared.problem).clone();
        let now = if problem.is_empty() { String::new() } else { format!("; now: {problem}") };
        Some(format!(
            "audit: {dropped} records were dropped because the disk was too slow, {failed} could not be written{now}"
        ))
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let mut wanted = lock(&self.shared.wanted);
        if wanted.queue.is_some() {
            return Ok(());
        }
        let (queue, records) = sync_channel(QUEUE_MAX);
        let shared = Arc::clone(&self.shared);
        let writer = Writer { shared, records, file: None, generation: 0, told: None, said: 0 };
        std::thread::Builder::new().name("audit".into()).spawn(move || writer.run())?;
        wanted.queue = Some(queue.clone());
        let shared = Arc::clone(&self.shared);
        self.nfs.audit.set_sink(Box::new(Queue { queue, shared }));
        Ok(())
    }
}

/// The end of the queue that calls have.
struct Queue {
    queue: SyncSender<Box<AuditRecord>>,
    shared: Arc<Shared>,
}

impl AuditSink for Queue {
    fn record(&self, record: AuditRecord) {
        self.shared.waiting.fetch_add(1, Relaxed);
        if self.queue.try_send(Box::new(record)).is_err() {
            self.shared.waiting.fetch_sub(1, Relaxed);
            self.shared.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    records: Receiver<Box<AuditRecord>>,
    file: Option<(Target, RotatedFile)>,
    /// The generation of the target that `file` is of.
    generation: u64,
    /// When the log was last told of lost records, and of how many.
    told: Option<(Instant, u64)>,
    /// Dropped records that a line of the file tells of.
    said: u64,
}

impl Writer {
    fn run(mut self) {
        loop {
            let first = match self.records.recv_timeout(LOOK_EVERY) {
                Ok(record) => Some(record),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.look();
            let mut batch: Vec<_> = first.into_iter().collect();
            batch.extend(self.records.try_iter().take(BATCH_MAX - 1));
            self.write(&batch);
            self.shared.waiting.fetch_sub(batch.len() as u64, Relaxed);
            self.tell();
        }
    }

    /// Opens the file that is wanted now, if that is another one.
    fn look(&mut self) {
        let wanted = lock(&self.shared.wanted);
        let open = self.file.is_some() || wanted.target.is_none();
        if wanted.generation == self.generation && open {
            return;
        }
        let (target, generation) = (wanted.target.clone(), wanted.generation);
        drop(wanted);
        self.file = None;
        self.generation = generation;
        let Some(target) = target else { return };
        match RotatedFile::open(&target.path) {
            Ok(file) => self.file = Some((target, file)),
            Err(error) => self.failed(0, &target.path, &error),
        }
    }

    fn failed(&self, records: usize, path: &std::path::Path, error: &std::io::Error) {
        self.shared.failed.fetch_add(records as u64, Relaxed);
        *lock(&self.shared.problem) = format!("{}: {error}", path.display());
    }

    fn write(&mut self, batch: &[Box<AuditRecord>]) {
        let dropped = self.shared.dropped.load(Relaxed);
        if batch.is_empty() && dropped == self.said {
            return;
        }
        let Some((target, file)) = &mut self.file else {
            // switched off, or the file cannot be opened
            if lock(&self.shared.wanted).target.is_some() {
                self.shared.failed.fetch_add(batch.len() as u64, Relaxed);
            }
            return;
        };
        let mut lines = Vec::new();
        for record in batch {
            line::put(&mut lines, record);
        }
        if dropped > self.said {
            line::put_dropped(&mut lines, dropped - self.said);
        }
        let path = target.path.clone();
        match file.append(&lines, target.size_max, target.full_files) {
            Ok(()) => {
                self.said = dropped;
                lock(&self.shared.problem).clear();
            }
            Err(error) => {
                self.failed(batch.len(), &path, &error);
                // the next batch begins with a file that is opened again
                self.file = None;
            }
        }
    }

    /// Says in the log that records were lost, once a minute at the most.
    fn tell(&mut self) {
        let lost = self.shared.dropped.load(Relaxed) + self.shared.failed.load(Relaxed);
        let (when, told) = self.told.map_or((None, 0), |(when, told)| (Some(when), told));
        if lost == told || when.is_some_and(|when| when.elapsed() < LOG_EVERY) {
            return;
        }
        self.told = Some((Instant::now(), lost));
        let problem = lock(&self.shared.problem).clone();
        let why = if problem.is_empty() { "the disk is too slow" } else { &problem };
        tracing::warn!("audit: {} records were lost: {why}", lost - told);
    }
}

#[cfg(test)]
mod tests;

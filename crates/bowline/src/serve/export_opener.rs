//! Opens the back ends of exports, each in bounded time: a file system that hangs delays nobody.
//!
//! Owns the threads in which exports are opened. One thread takes job after job; when one takes longer than
//! [`STALL`], another thread goes on with the rest. A job that has no result after [`PATIENCE`] stays with its
//! thread, and whoever asked goes on without it; asked again, it is not begun a second time. So a hung file system
//! costs one thread for each of its exports, and a request that finds it hung already does not wait for it.
//!
//! The lock guards the lists and is held for a few instructions; file systems are only used by the threads.

use crate::export_specs;
use crate::output::error_text;
use export::{ExportSpec, Opened, Source, WaitReason};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfs::Backend;
use vfs_mem::{MemFs, MemOptions};

/// How long an export may take to be opened, before it counts as one that does not answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// A job that takes longer than this has the next one begun beside it.
const STALL: Duration = Duration::from_millis(20);

/// Opens the back end of an export.
pub type OpenBackend = Box<dyn Fn(&ExportSpec) -> anyhow::Result<Arc<dyn Backend>> + Send + Sync>;

/// What makes two jobs the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct JobKey {
    uuid: [u8; 16],
    source: Source,
    mount_point: Option<PathBuf>,
    check_only: bool,
}

/// An export that is to be opened.
#[derive(Clone)]
pub struct OpenJob {
    /// What it is.
    pub spec: ExportSpec,
    /// Its persistent identity.
    pub uuid: [u8; 16],
    /// The back end that serves it now, which stays if its directory is still the same.
    pub known: Option<Arc<dyn Backend>>,
    /// It is not to be served, only to be checked: the result is `known` or an empty file system.
    pub check_only: bool,
}

impl OpenJob {
    fn key(&self) -> JobKey {
        JobKey {
            uuid: self.uuid,
            source: self.spec.source.clone(),
            mount_point: self.spec.mount_point.clone(),
            check_only: self.check_only,
        }
    }
}

type Done = Result<Arc<dyn Backend>, String>;

#[derive(Default)]
struct State {
    queue: VecDeque<OpenJob>,
    /// Jobs that threads are at, and since when.
    running: HashMap<JobKey, Instant>,
    /// Results that nobody has taken.
    done: HashMap<JobKey, Done>,
}

struct Shared {
    open: OpenBackend,
    state: Mutex<State>,
    /// A job has ended.
    ended: Condvar,
}

/// Opens exports.
pub struct ExportOpener(Arc<Shared>);

impl ExportOpener {
    /// Opens back ends by this function.
    pub fn new(open: OpenBackend) -> Self {
        let (state, ended) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { open, state, ended }))
    }

    /// Opens these; one result for each. Waits for [`PATIENCE`] for those that are begun now, and not at all for those
    /// that were given up before. One caller at a time.
    pub fn open_all(&self, jobs: &[OpenJob]) -> Vec<Opened> {
        let keys: Vec<JobKey> = jobs.iter().map(OpenJob::key).collect();
        let mut state = self.lock();
        for (job, key) in jobs.iter().zip(&keys) {
            // what was opened too late is taken now; what failed then is tried again
            if state.done.get(key).is_some_and(Result::is_err) {
                state.done.remove(key);
            }
            if !state.done.contains_key(key) && !state.running.contains_key(key) {
                state.queue.push_back(job.clone());
            }
        }
        let mut failed_to_start = false;
        while let Some(wait) = state.next_wait(&keys) {
            if state.needs_thread() {
                failed_to_start |= !self.start_thread();
                if failed_to_start && state.running.is_empty() {
                    break;
                }
            }
            let waited = self.0.ended.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.queue.clear();
        let results = keys.iter().map(|key| state.result(key)).collect();
        drop(state);
        results
    }

    /// Forgets the results of jobs that are not among these.
    pub fn retain(&self, jobs: &[OpenJob]) {
        let wanted: HashSet<JobKey> = jobs.iter().map(OpenJob::key).collect();
        let mut state = self.lock();
        let all = std::mem::take(&mut state.done);
        let (kept, gone): (HashMap<_, _>, HashMap<_, _>) =
            all.into_iter().partition(|(key, _)| wanted.contains(key));
        state.done = kept;
        drop(state);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn start_thread(&self) -> bool {
        let shared = Arc::clone(&self.0);
        let started =
            std::thread::Builder::new().name("export-opener".into()).spawn(move || shared.work());
        if let Err(error) = &started {
            tracing::warn!(%error, "cannot start a thread that opens exports");
        }
        started.is_ok()
    }
}

impl State {
    /// How long to wait for the next change; `None`: there is nothing to wait for.
    fn next_wait(&self, keys: &[JobKey]) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(STALL);
        }
        let since = keys.iter().filter_map(|key| self.running.get(key));
        since.filter_map(|since| PATIENCE.checked_sub(since.elapsed())).max()
    }

    /// Whether all threads have been at their jobs for long, and there are more.
    fn needs_thread(&self) -> bool {
        !self.queue.is_empty() && self.running.values().all(|since| since.elapsed() >= STALL)
    }

    fn result(&mut self, key: &JobKey) -> Opened {
        match self.done.remove(key) {
            Some(Ok(backend)) => Opened::Backend(backend),
            Some(Err(text)) => Opened::Waiting(WaitReason::Failed(text)),
            None => Opened::Waiting(WaitReason::NoAnswer),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread: job after job, until there are none.
    fn work(&self) {
        loop {
            let mut state = self.lock();
            let Some(job) = state.queue.pop_front() else { return };
            let key = job.key();
            state.running.insert(key.clone(), Instant::now());
            drop(state);
            let done = self.open(job).map_err(|error| error_text(&error));
            let mut state = self.lock();
            state.running.remove(&key);
            state.done.insert(key, done);
            drop(state);
            self.ended.notify_all();
        }
    }

    fn open(&self, job: OpenJob) -> anyhow::Result<Arc<dyn Backend>> {
        export_specs::check_directory(&job.spec)?;
        match job.known.filter(|known| known.is_still_there()) {
            Some(known) => Ok(known),
            None if job.check_only => Ok(Arc::new(MemFs::new(MemOptions::default()))),
            None => (self.open)(&job.spec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ExportOpener, OpenJob, PATIENCE};
    use export::{ExportSpec, Opened, Source, WaitReason};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::Instant;
    use vfs_mem::{MemFs, MemOptions};

    /// Named `hung…`, an export is not opened before the gate is.
    struct Gate {
        is_open: Mutex<bool>,
        opened: Condvar,
        begun: AtomicU32,
    }

    fn job(name: &str) -> OpenJob {
        let spec = ExportSpec {
            path: format!("/{name}").into_bytes(),
            source: Source::scheme("mem", name),
            fsid: None,
            mount_point: None,
            locations: None,
            crossed: false,
            rules: Vec::new(),
        };
        OpenJob { spec, uuid: [0; 16], known: None, check_only: false }
    }

    fn opener() -> (ExportOpener, Arc<Gate>) {
        let gate = Arc::new(Gate {
            is_open: Mutex::new(false),
            opened: Condvar::new(),
            begun: AtomicU32::new(0),
        });
        let theirs = Arc::clone(&gate);
        let open = move |spec: &ExportSpec| {
            let name = String::from_utf8_lossy(&spec.path).into_owned();
            if name.starts_with("/hung") {
                theirs.begun.fetch_add(1, SeqCst);
                let is_open = theirs.is_open.lock().unwrap();
                drop(theirs.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
            }
            anyhow::ensure!(!name.starts_with("/bad"), "no such disk");
            let backend: Arc<dyn vfs::Backend> = Arc::new(MemFs::new(MemOptions::default()));
            Ok(backend)
        };
        (ExportOpener::new(Box::new(open)), gate)
    }

    fn kinds(results: &[Opened]) -> String {
        let kind = |opened: &Opened| match opened {
            Opened::Backend(_) => '+',
            Opened::Waiting(WaitReason::NoAnswer) => '?',
            Opened::Waiting(WaitReason::Failed(_)) => '-',
        };
        results.iter().map(kind).collect()
    }

    #[test]
    fn hung_exports_delay_no_others_and_are_opened_once() {
        let (opener, gate) = opener();
        let jobs = ["a", "hung1", "b", "hung2", "bad", "hung3", "c"].map(job);
        assert_eq!(kinds(&opener.open_all(&jobs)), "+?+?-?+");
        let again = Instant::now();
        for _ in 0..34 {
            assert_eq!(kinds(&opener.open_all(&jobs)), "+?+?-?+");
        }
        assert!(again.elapsed() < PATIENCE, "nobody waits for what is known to hang");
        assert_eq!(gate.begun.load(SeqCst), 3, "one thread for each");
        *gate.is_open.lock().unwrap() = true;
        gate.opened.notify_all();
        while kinds(&opener.open_all(&jobs)) != "++++-++" {
            std::thread::yield_now();
        }
    }
}

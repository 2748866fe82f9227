//! Opens the back ends of exports, and owns the cache of open files that they share.

use super::export_opener::OpenBackend;
use super::periodic_task::PeriodicTask;
use crate::backend_schemes;
use crate::export_specs::ServerUser;
use crate::memory_shares::MemoryShares;
use anyhow::Context;
use export::{Exports, Identity, Source};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use sys::descriptors::DescriptorBudget;
use vfs::Backend;
use vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};

/// How long the closer waits for removed files before it checks whether the server has ended.
const CLOSER_WAIT: Duration = Duration::from_secs(1);

/// The open files of all exports, with the threads that close idle and removed ones and free removed exports
/// after their last call. Dropping it ends the threads.
pub struct Backends {
    open: Arc<OpenFiles>,
    descriptors: Arc<DescriptorBudget>,
    exports: Arc<OnceLock<Weak<Exports>>>,
    _idle_closer: PeriodicTask,
}

impl Backends {
    /// An empty cache, limited by the descriptors and the memory of the process.
    ///
    /// # Errors
    /// The kernel refuses another thread.
    pub fn start() -> anyhow::Result<Self> {
        let descriptors = Arc::new(DescriptorBudget::of_this_process());
        let open = Arc::new(
            OpenFiles::with_descriptors_of(Arc::clone(&descriptors))
                .with_entries_max(MemoryShares::of_this_process().open_files()),
        );
        let exports: Arc<OnceLock<Weak<Exports>>> = Arc::default();
        let (files, current) = (Arc::clone(&open), Arc::clone(&exports));
        let close_idle = move |now_s| {
            files.sweep(now_s);
            if let Some(exports) = current.get().and_then(Weak::upgrade) {
                exports.collect();
            }
        };
        let idle_closer = PeriodicTask::start("idle-closer", close_idle)
            .context("cannot start a thread: check the limits on processes")?;
        let leaving = Arc::downgrade(&open);
        let close = move || {
            while let Some(files) = leaving.upgrade() {
                files.close_removed(CLOSER_WAIT);
            }
        };
        std::thread::Builder::new()
            .name("closer".into())
            .spawn(close)
            .context("cannot start a thread: check the limits on processes")?;
        Ok(Self { open, descriptors, exports, _idle_closer: idle_closer })
    }

    /// Closes all open files, which takes as long as their file systems do.
    pub fn close(self) {
        self.open.close_all();
    }

    /// The cache of open files.
    pub fn open_files(&self) -> Arc<OpenFiles> {
        Arc::clone(&self.open)
    }

    /// The descriptors that open files share with connections.
    pub fn descriptors(&self) -> Arc<DescriptorBudget> {
        Arc::clone(&self.descriptors)
    }

    /// Frees exports that a reload removes from these, after their last call. Called once.
    pub fn collect_retired_from(&self, exports: &Arc<Exports>) {
        self.exports.get_or_init(|| Arc::downgrade(exports));
    }

    /// A function that opens an export's back end. A name table, if one is needed, is a file in `state_dir`
    /// named after the export's UUID.
    pub fn opener(
        &self,
        state_dir: PathBuf,
        identity: Arc<Identity>,
        squash_to: Option<ServerUser>,
    ) -> OpenBackend {
        let open = Arc::clone(&self.open);
        let owner = squash_to.map_or((0, 0), |user| (user.uid, user.gid));
        Box::new(move |spec| -> anyhow::Result<Arc<dyn Backend>> {
            match &spec.source {
                Source::Directory(path) => {
                    let uuid = export::uuid_text(&spec.uuid(&identity)?);
                    let options = LocalOptions {
                        table: Some(state_dir.join(format!("names-{uuid}"))),
                        ..LocalOptions::default()
                    };
                    let local = LocalFs::open(path, &options, Arc::clone(&open))?;
                    if local.naming() == Naming::Table {
                        tracing::info!(
                            "{} is served with a name table in the state directory, because the \
                             kernel opens no file handles for this process or file system",
                            path.display()
                        );
                    }
                    Ok(Arc::new(local))
                }
                Source::Scheme { scheme, text } => {
                    let factory = backend_schemes::find(scheme)
                        .with_context(|| format!("there is no back end {scheme}:"))?;
                    factory.open(text, owner).map_err(anyhow::Error::msg)
                }
            }
        })
    }
}

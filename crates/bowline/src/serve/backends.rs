//! Opens the backends of exports, and keeps the descriptors that all of them share.

use super::control::OpenBackend;
use super::sweeper::Sweeper;
use crate::export_specs::ServerUser;
use crate::memory_shares::MemoryShares;
use anyhow::Context;
use export::{Exports, Identity, SHARE_OF, Source};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;
use vfs::Backend;
use vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use vfs_mem::{Fault, FaultyFs, MemFs, MemOptions};

/// How long the closer waits for removed files before it looks whether the server is still there.
const CLOSER_WAIT: Duration = Duration::from_secs(1);
/// Mode of a file system in memory: for everybody, as `/tmp`.
const MEMORY_MODE: u32 = 0o1777;
/// The open files of all exports; dropping it ends the thread that closes idle ones, and lets go of
/// exports that were taken away once their last call has ended.
pub struct Backends {
    open: Arc<OpenFiles>,
    exports: Arc<OnceLock<Weak<Exports>>>,
    _sweeper: Sweeper,
}

impl Backends {
    /// An empty cache, as large as the limit of descriptors and the memory allow.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn start() -> anyhow::Result<Self> {
        let open = Arc::new(
            OpenFiles::new(sys::limits::open_files())
                .with_entries_max(MemoryShares::of_this_process().open_files()),
        );
        let exports: Arc<OnceLock<Weak<Exports>>> = Arc::default();
        let (swept, theirs) = (Arc::clone(&open), Arc::clone(&exports));
        let sweep = move |now_s| {
            swept.sweep(now_s);
            if let Some(exports) = theirs.get().and_then(Weak::upgrade) {
                exports.collect();
            }
        };
        let sweeper = Sweeper::start(sweep)
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
        Ok(Self { open, exports, _sweeper: sweeper })
    }

    /// Has these exports looked after, from now on; once.
    pub fn collect_retired_from(&self, exports: &Arc<Exports>) {
        self.exports.get_or_init(|| Arc::downgrade(exports));
    }

    /// Opens the files of an export; a table of names, where one is needed, is kept in
    /// `state_dir` under the export's UUID.
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
                            "{} is served by a table of names in the state directory: the kernel \
                             opens no handles for this process or file system",
                            path.display()
                        );
                    }
                    Ok(Arc::new(local))
                }
                Source::Memory => Ok(Arc::new(memory(owner))),
                Source::SlowMemory(slow) => {
                    let disk = FaultyFs::new(memory(owner));
                    let (delay, delay_max) = slow.range();
                    let share = f64::from(slow.share()) / f64::from(SHARE_OF);
                    let fault = Fault {
                        delay,
                        delay_max,
                        share,
                        calls_will_block: true,
                        ..Fault::default()
                    };
                    *disk.fault().lock().unwrap_or_else(PoisonError::into_inner) = fault;
                    Ok(Arc::new(disk))
                }
            }
        })
    }
}

/// An empty file system in memory whose root belongs to `owner`.
fn memory(owner: (u32, u32)) -> MemFs {
    MemFs::new(MemOptions { owner, mode: MEMORY_MODE, ..MemOptions::default() })
}

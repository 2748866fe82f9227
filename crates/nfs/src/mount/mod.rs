//! MOUNT (program 100005): versions 1 and 2 (RFC 1094, appendix A) and 3 (RFC 1813 §5).
//!
//! Owns: the mount list, behind one mutex that is never held over anything that blocks. MNT looks a
//! path up in the export's backend component by component, without following symbolic links.
//!
//! Version 2's PATHCONF (not in any RFC) is not served: PROC_UNAVAIL.

mod dump;
mod export;
mod mnt;
mod mount_list;
pub(crate) mod path;
mod procedures;
mod refusal;
mod umnt;
mod walk;

use crate::Nfs;
use ::export::Exports;
use mount_list::MountList;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub use mount_list::{MOUNT_ENTRIES_MAX, MountEntry};
pub use path::{components, normalise};
pub use procedures::mount_program;
pub use refusal::{RefusalReason, RefusedMount};

/// Called with each refused mount, by the worker: must not block.
pub type OnRefused = Box<dyn Fn(&RefusedMount<'_>) + Send + Sync>;

/// The state of the program.
pub struct Mount {
    exports: Arc<Exports>,
    /// For the aliases of version 2, whose handles may be too short for a file id.
    nfs: Option<Arc<Nfs>>,
    mounted: Mutex<MountList>,
    on_refused: Option<OnRefused>,
    /// Seconds since 1970.
    clock: fn() -> u64,
}

fn system_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Mount {
    /// Serves these exports.
    pub fn new(exports: Arc<Exports>) -> Self {
        let mounted = Mutex::default();
        Self { exports, nfs: None, mounted, on_refused: None, clock: system_clock }
    }

    /// The same, with version 2's aliases for handles that do not fit its 32 bytes; without them,
    /// versions 1 and 2 of MNT refuse such an object with EOPNOTSUPP.
    #[must_use]
    pub fn with_nfs(mut self, nfs: Arc<Nfs>) -> Self {
        self.nfs = Some(nfs);
        self
    }

    /// The same, with a function that is called with each refused mount.
    #[must_use]
    pub fn with_on_refused(mut self, tell: OnRefused) -> Self {
        self.on_refused = Some(tell);
        self
    }

    /// The same with another clock (seconds since 1970).
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = clock;
        self
    }

    /// The mount list, oldest entry first.
    pub fn mounted(&self) -> Vec<MountEntry> {
        self.lock().rows()
    }

    /// A panic of another thread leaves the list consistent: each change is one operation.
    fn lock(&self) -> MutexGuard<'_, MountList> {
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

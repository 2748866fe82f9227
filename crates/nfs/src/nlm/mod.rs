//! NLM, the network lock manager (program 100021): versions 1 and 3 beside NFS version 2, version 4 beside version 3.
//!
//! Owns: what a call of NLM means. Which lock excludes which, who waits and what a restart leaves is decided by the
//! state core ([`state::State`]), which is shared with version 4. Here a call is decoded and its caller and file are
//! found ([`request`]), what the core asks for is done (`act`: the kernel's locks, the recovery store), and the
//! outcome is put in the version's words (`status`). One file per procedure; the versions differ in the width of
//! offsets and in the numbers of the answers only, which [`proto::nlm`] takes care of.
//!
//! NLM is described in X/Open's C702, which was not at hand, and for version 4 in RFC 1813 §6.3; what no description
//! says follows what clients in the field rely on.
//!
//! Invariants: no lock of the core is held while the kernel or the store is asked. A lock is granted to a host only
//! after the record by which it may reclaim is stored. Every procedure decodes its arguments to the last byte before
//! anything is done.

mod act;
mod cancel;
mod free_all;
mod granted;
mod lock;
mod locked_file;
mod procedures;
mod request;
mod share;
mod status;
mod test;
mod unlock;

pub use procedures::nlm_program;

use crate::Nfs;
use locked_file::LockedFiles;
use state::{Now, Record, State};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Where the core's records go.
pub trait Store: Send + Sync {
    /// Appends a record; on return it is on stable storage. May block, which the caller has announced.
    ///
    /// # Errors
    /// It is not stored. Saying so to the operator is the store's own task.
    fn append(&self, record: &Record) -> io::Result<()>;
}

/// What an administrator can change while the server runs.
#[derive(Debug)]
pub struct NlmSettings {
    /// Whether local programs are excluded as well (`local-locks`). A file that has locks keeps what held for the
    /// first of them.
    pub local_locks: AtomicBool,
}

impl Default for NlmSettings {
    fn default() -> Self {
        Self { local_locks: AtomicBool::new(true) }
    }
}

/// The state of the program.
pub struct Nlm {
    nfs: Arc<Nfs>,
    store: Arc<dyn Store>,
    /// What can be changed while the server runs.
    pub settings: NlmSettings,
    files: LockedFiles,
    begun: Instant,
}

impl Nlm {
    /// The lock manager for the exports and the state of `nfs`, whose clock has just begun.
    pub fn new(nfs: Arc<Nfs>, store: Arc<dyn Store>) -> Self {
        Self {
            nfs,
            store,
            settings: NlmSettings::default(),
            files: LockedFiles::default(),
            begun: Instant::now(),
        }
    }

    /// The state core's time.
    pub fn now(&self) -> Now {
        Now(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn state(&self) -> &State {
        &self.nfs.state
    }
}

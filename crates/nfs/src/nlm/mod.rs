//! NLM, the network lock manager (program 100021): versions 1 and 3 beside NFS version 2, version 4 beside version 3.
//!
//! Owns: what a call of NLM means. Which lock excludes which, who waits and what a restart leaves is decided by the
//! state core ([`state::State`]), which is shared with version 4. Here a call is decoded and its caller and file are
//! found ([`request`]), what the core asks for is done (`act`: the kernel's locks, the recovery store), and the
//! outcome is put in the version's words (`status`). A client whose request waited is called back (`granted`), and what
//! is due by time is done by one thread (`deadlines`). One file per procedure; the versions differ in the width of
//! offsets and in the numbers of the answers only, which [`proto::nlm`] takes care of.
//!
//! NLM is described in X/Open's C702, which was not at hand, and for version 4 in RFC 1813 §6.3; what no description
//! says follows what clients in the field rely on.
//!
//! Locks of version 4 are decided by the same code (`version4`), so that one table holds the locks of all protocols.
//!
//! Invariants: no lock of the core is held while the kernel or the store is asked. A lock is granted to a host only
//! after the record by which it may reclaim is stored. Every procedure decodes its arguments to the last byte before
//! anything is done.

mod act;
mod answers;
mod cancel;
mod deadlines;
mod free_all;
mod granted;
mod lock;
mod locked_file;
mod message;
mod procedures;
mod request;
mod settings;
mod share;
mod sm_notify;
mod status;
mod test;
mod unlock;
mod version4;
mod view;
mod waiting;
mod waiting_v4;

pub use procedures::nlm_program;

use crate::Nfs;
use crate::nsm::MachineMonitor;
use answers::Answers;
use locked_file::{IdleFiles, LockedFiles};
use rpc::Outbound;
use state::{Now, State};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use waiting::Waiting;
use waiting_v4::WaitsV4;

pub use answers::Waker;
pub use settings::NlmSettings;
pub use view::{HeldKind, HeldRow, Taken};

/// The state of the program.
pub struct Nlm {
    nfs: Arc<Nfs>,
    /// What can be changed while the server runs.
    pub settings: NlmSettings,
    /// Who calls clients.
    calls: Arc<dyn Outbound>,
    /// What this machine calls itself in calls to clients.
    own_name: Box<[u8]>,
    files: LockedFiles,
    idle_files: IdleFiles,
    waiting: Waiting,
    waits_v4: WaitsV4,
    answers: Arc<Answers>,
    /// Has rpc.statd watch the hosts, if that is asked for.
    pub machine_monitor: Arc<MachineMonitor>,
    next_xid: AtomicU32,
    next_sweep_ms: Mutex<u64>,
}

impl Nlm {
    /// The lock manager for the exports and the state of `nfs`, whose clock has just begun, on a machine of this name
    /// (cut to [`proto::nlm::NAME_MAX`] bytes).
    pub fn new(nfs: Arc<Nfs>, calls: Arc<dyn Outbound>, own_name: &[u8]) -> Self {
        nfs.v4.callbacks.set_outbound(Arc::clone(&calls));
        let own_name = own_name.iter().take(proto::nlm::NAME_MAX).copied().collect();
        let answers: Arc<Answers> = Arc::default();
        let woken = Arc::clone(&answers);
        let wake = Box::new(move || woken.wake());
        let machine_monitor = Arc::new(MachineMonitor::new(Arc::clone(&calls), wake));
        Self {
            nfs,
            settings: NlmSettings::default(),
            calls,
            own_name,
            files: LockedFiles::default(),
            idle_files: IdleFiles::default(),
            waiting: Waiting::default(),
            waits_v4: WaitsV4::default(),
            answers,
            machine_monitor,
            next_xid: AtomicU32::new(1),
            next_sweep_ms: Mutex::default(),
        }
    }

    /// The state core's time.
    pub fn now(&self) -> Now {
        self.nfs.clock.now()
    }

    fn state(&self) -> &State {
        &self.nfs.state
    }
}

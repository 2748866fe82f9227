//! What an administrator can change of the lock manager while the server runs.

use crate::on_off::OnOff;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The live settings.
#[derive(Debug)]
pub struct NlmSettings {
    /// Whether locks of clients and of local programs exclude each other (`local-locks`).
    local_locks: AtomicBool,
}

impl Default for NlmSettings {
    fn default() -> Self {
        Self { local_locks: AtomicBool::new(true) }
    }
}

impl NlmSettings {
    /// Whether local programs are excluded from files that get their first lock.
    pub fn local_locks(&self) -> bool {
        self.local_locks.load(Relaxed)
    }

    /// Sets it; files that are locked keep what held for their first lock.
    pub fn set_local_locks(&self, choice: OnOff) {
        self.local_locks.store(choice == OnOff::On, Relaxed);
    }
}

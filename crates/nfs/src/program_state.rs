//! What all versions of the NFS program share.

use crate::audit::Audit;
use crate::byte_range_locks::ByteRangeLocks;
use crate::clock::Clock;
use crate::delegation_progress::Delegations;
use crate::settings::NfsSettings;
use crate::store::{Store, Volatile};
use crate::v2;
use crate::v4::V4;
use export::Exports;
use state::State;
use state::v4::V4Limits;
use std::sync::{Arc, OnceLock, Weak};

/// What the procedures of NFS work on.
pub struct Nfs {
    /// The exports and their clients.
    pub exports: Arc<Exports>,
    /// What can be changed while the server runs.
    pub settings: NfsSettings,
    /// Full handles and cookies for the short ones of version 2.
    pub v2: v2::State,
    /// What clients hold: locks and shares. That of version 4 is on top of it.
    pub state: Arc<State>,
    /// Clients, sessions and opens of version 4.
    pub v4: V4,
    /// What is kept about delegations besides their state.
    pub(crate) delegations: Delegations,
    /// The time as all state is told it.
    pub clock: Clock,
    /// Where it is stored who may reclaim after a restart.
    pub store: Arc<dyn Store>,
    /// The record of changes, if it is asked for.
    pub audit: Audit,
    /// Who takes and gives back byte-range locks for version 4.
    lock_manager: OnceLock<Weak<dyn ByteRangeLocks>>,
}

impl Nfs {
    /// The state of the program for these exports; nobody holds anything, nor did before.
    pub fn new(exports: Arc<Exports>, settings: NfsSettings) -> Self {
        let limits = state::Limits::default();
        let state = Arc::new(State::new(&state::Recovery::default(), state::Now(0), limits, 1));
        Self {
            exports,
            settings,
            v2: v2::State::default(),
            v4: V4::new(Arc::clone(&state), V4Limits::default()),
            state,
            delegations: Delegations::default(),
            clock: Clock::default(),
            store: Arc::new(Volatile),
            audit: Audit::default(),
            lock_manager: OnceLock::new(),
        }
    }

    /// Has byte-range locks of version 4 taken and given back by `manager`; the first one stays.
    pub fn set_lock_manager(&self, manager: Weak<dyn ByteRangeLocks>) {
        let _first = self.lock_manager.set(manager);
    }

    /// Who takes and gives back byte-range locks for version 4, if there is anybody.
    pub fn lock_manager(&self) -> Option<Arc<dyn ByteRangeLocks>> {
        self.lock_manager.get()?.upgrade()
    }

    /// The same with this store, from whose records the state was made.
    #[must_use]
    pub fn with_store(self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self }
    }

    /// The same with this state of version 4, and what it is on top of, which other programs share.
    #[must_use]
    pub fn with_version_4(self, v4: V4) -> Self {
        Self { state: Arc::clone(v4.state.core()), v4, ..self }
    }
}

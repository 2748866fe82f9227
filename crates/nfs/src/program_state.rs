//! What all versions of the NFS program share.

use crate::settings::NfsSettings;
use crate::v2;
use crate::v4::V4;
use export::Exports;
use state::State;
use std::sync::Arc;

/// What the procedures of NFS work on.
pub struct Nfs {
    /// The exports and their clients.
    pub exports: Arc<Exports>,
    /// What can be changed while the server runs.
    pub settings: NfsSettings,
    /// Full handles and cookies for the short ones of version 2.
    pub v2: v2::State,
    /// What clients hold: locks and shares.
    pub state: Arc<State>,
    /// Clients, sessions and opens of version 4.
    pub v4: V4,
}

impl Nfs {
    /// The state of the program for these exports; nobody holds anything, nor did before.
    pub fn new(exports: Arc<Exports>, settings: NfsSettings) -> Self {
        let limits = state::Limits::default();
        let state = Arc::new(State::new(&state::Recovery::default(), state::Now(0), limits, 1));
        Self { exports, settings, v2: v2::State::default(), state, v4: V4::default() }
    }

    /// The same with what clients hold, which other programs share.
    #[must_use]
    pub fn with_state(self, state: Arc<State>) -> Self {
        Self { state, ..self }
    }
}

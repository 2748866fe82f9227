//! The NFS programs: version-neutral verbs, and the versions that translate to them.
//!
//! Owns: what an NFS call means. `object` turns a filehandle into an object that the caller may use;
//! `verbs` work on such objects and know no wire type; `v3` and `v2` know wire types and call verbs;
//! `acl` is beside them, `mount`, `nlm`, `portmap` and `rquota` are programs of their own.
//!
//! Invariant: GETATTR, LOOKUP, ACCESS, READ and WRITE allocate nothing here and take no lock.

pub mod acl;
pub mod mount;
pub mod nlm;
pub mod object;
pub mod portmap;
pub mod rquota;
mod settings;
pub mod v2;
pub mod v3;
pub mod verbs;

use export::Exports;
use rpc::{Service, Version};
use state::State;
use std::sync::Arc;

pub use settings::{NfsSettings, TransferSize, TransferSizeError};

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
}

impl Nfs {
    /// The state of the program for these exports; nobody holds anything, nor did before.
    pub fn new(exports: Arc<Exports>, settings: NfsSettings) -> Self {
        let limits = state::Limits::default();
        let state = Arc::new(State::new(&state::Recovery::default(), state::Now(0), limits, 1));
        Self { exports, settings, v2: v2::State::default(), state }
    }

    /// The same with what clients hold, which other programs share.
    #[must_use]
    pub fn with_state(self, state: Arc<State>) -> Self {
        Self { state, ..self }
    }
}

static VERSIONS: [Version<Nfs>; 2] =
    [Version::new(proto::nfs2::VERSION, &v2::ROWS), Version::new(proto::nfs3::VERSION, &v3::ROWS)];

/// NFS, versions 2 and 3, for the dispatcher.
pub fn nfs_program(state: Arc<Nfs>) -> Service<Nfs> {
    Service { number: proto::nfs3::PROGRAM, name: "nfs", versions: &VERSIONS, state }
}

//! The NFS programs: version-neutral verbs, and the versions that translate to them.
//!
//! Owns: what an NFS call means. `object` turns a filehandle into an object that the caller may use;
//! `verbs` work on such objects and know no wire type; `v4`, `v3` and `v2` know wire types and call verbs;
//! `acl` is beside them, `mount`, `nlm`, `nsm`, `portmap` and `rquota` are programs of their own.
//!
//! Invariant: GETATTR, LOOKUP, ACCESS, READ and WRITE allocate nothing here and take no lock.

pub mod acl;
pub mod audit;
pub mod audited_call;
mod byte_range_locks;
mod clock;
mod delegated_attrs;
mod delegation_progress;
mod delegations;
mod entry_change;
mod file_key;
pub mod junction;
pub mod mount;
pub mod nlm;
pub mod nsm;
pub mod object;
mod on_off;
pub mod portmap;
mod program_state;
pub mod rquota;
mod settings;
mod share_denial;
mod store;
mod unlinked;
pub mod v2;
pub mod v3;
pub mod v4;
pub mod verbs;

use rpc::{Service, Version};
use std::sync::Arc;

pub use byte_range_locks::{ByteRangeLocks, LockAnswer, LockWanted};
pub use delegation_progress::{DelegationCounts, RETURN_BOUNDS_MS};
pub use on_off::{OnOff, OnOffError};
pub use program_state::Nfs;
pub use settings::{
    CopyMode, CopyModeError, NfsSettings, NfsVersions, NfsVersionsError, TransferSize,
    TransferSizeError,
};
pub use store::{Store, Volatile};
pub use v4::{CopyCounts, CopyView, DelegationView, OpenView};

static VERSIONS: [Version<Nfs>; 3] = [
    Version::new(proto::nfs2::VERSION, &v2::ROWS),
    Version::new(proto::nfs3::VERSION, &v3::ROWS),
    Version { number: proto::nfs4::VERSION, rows: &v4::ROWS, operations: &v4::OPERATIONS },
];

/// NFS, all versions, for the dispatcher; [`NfsSettings::served`] says which of them are served.
pub fn nfs_program(state: Arc<Nfs>) -> Service<Nfs> {
    Service { number: proto::nfs3::PROGRAM, name: "nfs", versions: &VERSIONS, state }
}

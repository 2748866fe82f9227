//! The exports and their clients: the export table, client matching, squashing, and the envelope
//! that turns a backend's file id into a handle that cannot be forged.
//!
//! A [`Table`] is an immutable snapshot; [`Exports`] holds the current one and replaces it as a
//! whole. Workers read it without a lock and write no shared memory. Rules by host name, wildcard
//! or netgroup are resolved by threads of their own (`resolver`); the results are cached per
//! export, and a worker waits for them only if the caller calls [`Export::resolve_blocking`].

mod answer_cache;
mod ask_limit;
mod buffer_options;
mod client_rules;
mod clients;
mod delegate;
mod export;
pub mod exports_file;
mod flavors;
mod fs_locations;
mod groups;
mod handle;
mod identity;
mod junctions;
mod options;
mod owner_names;
mod pseudo;
mod resolver;
mod squash;
mod table;
mod table_changes;
mod xprtsec;

pub use buffer_options::{BUFFER_MAX, BUFFER_MIN, BufferSize, BufferSizeError, BufferSizes};
pub use client_rules::{ClientRules, ResolvedRule, Rule};
pub use clients::{Client, ClientError, Network, Pattern};
pub use delegate::{Delegate, DelegateError};
pub use export::{
    ClientAccess, Export, ExportId, ExportSpec, Fsid, NotMounted, Requester, Source, uuid_text,
};
pub use flavors::{Flavor, FlavorList};
pub use fs_locations::{FsLocation, FsLocations, LocationKind};
pub use groups::{GroupList, GroupService, UserGroups, UserLookup};
pub use handle::{Handle, Key, OVERHEAD};
pub use identity::{Identity, IdentityError, parse_uuid};
pub use junctions::{CoveredDir, JunctionNames, JunctionSearch};
pub use options::{ANONYMOUS_ID, Options, Squash};
pub use owner_names::{
    IdmapDomain, IdmapDomainError, OwnerKind, OwnerLookup, OwnerNames, OwnerService,
};
pub use pseudo::{Pseudo, Root};
pub use resolver::{NameService, SystemNameService};
pub use squash::SquashedCred;
pub use table::{
    BuildError, EXPORTS_MAX, Exports, HeldTable, NotServed, Opened, RefusalObserver, RefusedCall,
    Table, WaitReason, WaitingExport,
};
pub use table_changes::table_changes;
pub use xprtsec::{CertificatePattern, XprtsecModes};

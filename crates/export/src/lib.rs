//! What is exported to whom: the export table, client matching, squashing, and the envelope that
//! turns a backend's file id into a handle that cannot be forged.
//!
//! A [`Table`] is an immutable snapshot; [`Exports`] holds the one in force and swaps it whole.
//! Workers read it without a lock. Name-based client rules are resolved off the workers' path.

mod clients;
pub mod exports_file;
mod handle;
mod identity;
mod names;
mod options;
mod table;

pub use clients::{Client, Pattern};
pub use handle::{Handle, Key, OVERHEAD};
pub use identity::{Identity, IdentityError};
pub use options::{ANONYMOUS_ID, Options, Squash};
pub use table::{
    BuildError, Export, ExportId, ExportSpec, Exports, Fsid, Rule, SpecBackend, Table,
};

//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862): one procedure, COMPOUND, whose operations are one file each.
//!
//! [`compound`] decodes, checks, runs and encodes one operation after the other, with no list of decoded operations and
//! none of results; [`ops`] has a row for each operation; [`frame`] is what an operation works on: the current and the
//! saved filehandle as opened objects, and the session. Operations call the same verbs as version 3.
//!
//! Clients are called back by [`callback`].
//!
//! Invariant: GETATTR, LOOKUP, ACCESS, READ and WRITE inside a COMPOUND take no lock and allocate nothing.

mod absent;
mod access;
mod acl;
mod arrived_write;
mod async_copy;
mod attr;
mod attr_sets;
mod cached_locks;
pub mod callback;
mod close;
mod commit;
mod compound;
mod copies;
mod copy;
mod create;
mod delegation;
mod exchange_id;
mod filehandles;
mod frame;
mod fs_locations;
mod get_dir_delegation;
mod getattr;
mod link;
mod lock;
mod lookup;
mod minor0;
mod name;
mod offload;
mod op_errors;
mod open;
mod open_arguments;
mod open_create;
mod ops;
mod owner;
mod procedures;
mod quota_attrs;
mod read;
mod read_plus;
mod readdir;
mod readlink;
mod recording;
mod remove;
mod rename;
mod secinfo;
mod sequence;
mod server_state;
mod session_ops;
mod setattr;
mod settable_attrs;
mod space;
mod stateids;
mod status;
mod usual_attrs;
mod usual_entries;
mod verify;
mod view;
mod write;
mod write_ahead;
mod xattrs;

pub use copies::{CopyCounts, CopyView};
pub use ops::OPERATIONS;
pub use procedures::ROWS;
pub(crate) use recording::Ended;
pub use server_state::{NameConflictSink, V4};
pub use status::nfsstat4;
pub use view::{DelegationView, OpenView};

//! A Linux directory as a backend.
//!
//! Objects are named by the kernel's own handles ([`naming`]): opened by handle where the process
//! may do that, else found again through a persistent table of names. Open descriptors are kept in
//! a cache that all exports share ([`OpenFiles`]). Reading is checked in user space; what changes
//! the name space or attributes is left to the kernel, on a thread that acts as the caller
//! ([`actor`]).
//!
//! One file per verb. Every system call that may wait for a disk comes after
//! [`Local::may_sleep`].

mod access;
mod acl_cell;
mod actor;
mod attr;
mod changes;
mod commit;
mod create;
mod durable;
mod errno;
mod getattr;
mod inode_table;
mod lending;
mod link;
mod local;
mod lookup;
mod made;
mod maker;
mod mkdir;
mod mknod;
mod names;
mod naming;
mod open_files;
mod read;
mod read_range;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rounds;
mod setattr;
mod statfs;
mod symlink;
mod unsynced;
mod verifier;
mod write;

pub use actor::acts_as_callers;
pub use durable::{is_overlay, lacks_journal};
pub use local::{Local, LocalOptions, Naming, OpenError};
pub use open_files::OpenFiles;

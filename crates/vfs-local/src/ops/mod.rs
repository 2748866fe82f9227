//! The operations of the backend trait, one file each, and below them what several share:
//!
//! - [`permission`]: may the caller do this; [`entry`]: the entry that a name leads to; [`lister`] and
//!   [`kept_listing`]: entries of a directory, by the kernel and from those kept;
//! - [`dir_change`]: a directory that is being changed, with [`expected_object`] (is what the name leads
//!   to what was just made) and [`victim`] (what a name led to before it was removed or replaced) and
//!   [`unlinked`] (what a kept file lives by without a name);
//! - [`durability`]: what has to be synced; [`temporary_mode`]: writing a file whose mode forbids it to
//!   its owner.
//!
//! An operation may use another file of this folder, never the reverse of an arrow that exists.

pub mod access;
pub mod acls;
pub mod commit;
pub mod create;
pub mod dir_change;
pub mod durability;
pub mod entry;
pub mod expected_object;
pub mod getattr;
pub mod kept_listing;
pub mod leases;
pub mod link;
pub mod lister;
pub mod locks;
pub mod lookup;
pub mod mkdir;
pub mod mknod;
pub mod open;
pub mod permission;
pub mod quota;
pub mod read;
pub mod read_range;
pub mod readdir;
pub mod readlink;
pub mod remove;
pub mod rename;
pub mod setattr;
pub mod space;
pub mod statfs;
pub mod symlink;
pub mod temporary_mode;
pub mod unlinked;
pub mod victim;
pub mod write;
pub mod xattrs;

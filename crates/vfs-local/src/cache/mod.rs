//! What is kept from call to call: open objects and what is known of them, and what names led to.
//!
//! Layers, lowest first: [`key`], what an [`open_file`] consists of ([`change_counter`],
//! [`change_attr`], [`group_sync`], [`unsynced_writes`], [`acl_cache`], its [`descriptors`] and who [closes](closers)
//! them), the table of [`open_files`] with its
//! [`name_cache`], [`attr_cache`], [`kept_listings`], [`kept_files`], [`unlinked_files`] and [`leases`], and [`ongoing_change`].

pub mod acl_cache;
pub mod attr_cache;
pub mod change_attr;
pub mod change_counter;
pub mod closers;
pub mod descriptors;
pub mod group_sync;
pub mod keep;
pub mod kept_files;
pub mod kept_listings;
pub mod key;
pub mod leases;
pub mod name_cache;
pub mod ongoing_change;
pub mod open_file;
pub mod open_files;
pub mod unlinked_files;
pub mod unsynced_writes;

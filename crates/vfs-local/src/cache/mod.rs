//! What is kept from call to call: open objects and what is known of them, and what names led to.
//!
//! Layers, lowest first: [`key`], what an [`open_file`] consists of ([`change_counter`],
//! [`group_sync`], [`unsynced_writes`], [`acl_cache`]), the table of [`open_files`] with its
//! [`name_cache`], and [`ongoing_change`].

pub mod acl_cache;
pub mod change_counter;
pub mod group_sync;
pub mod key;
pub mod name_cache;
pub mod ongoing_change;
pub mod open_file;
pub mod open_files;
pub mod unsynced_writes;

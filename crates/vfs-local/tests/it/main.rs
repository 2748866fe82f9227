//! A Linux directory as a back end: by file handle and by the inode table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod allocation;
mod attr_cache;
mod commit;
mod conformance;
mod descriptors;
mod devices;
mod escape;
mod full_disk;
mod hints;
mod journal;
mod kept_listing;
mod killed;
mod lease;
mod listing;
mod oracle;
mod permissions;
mod quota;
mod races;
mod refused;
mod restart;
mod sleep;
mod support;
mod unlinked;
mod wcc;

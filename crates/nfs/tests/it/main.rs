//! NFS versions 2 and 3, MOUNT and the port mapper, called as the dispatcher calls them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

// the fuzz targets are also built without the workspace, where the crate has its full name
extern crate rpc as bowline_rpc;

#[path = "../support/mod.rs"]
mod support;

mod acl;
mod arriving;
mod audit;
mod clients;
#[allow(clippy::duplicate_mod, reason = "two fuzz targets use one toy program")]
mod corpus;
mod faults;
mod groups;
mod local_allocation;
mod mount;
mod nlm;
mod object;
mod portmap;
mod rquota;
mod same_xid;
mod sec;
mod system_calls;
mod v2_files;
mod v2_wire;
mod v3_allocation;
mod v3_files;
mod v3_wire;
mod v4;
mod v4_acl;
mod v4_data;
mod v4_write_ahead;
mod v4_xattrs;
mod wire_oracle;
mod write_ahead;

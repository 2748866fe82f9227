//! The NFS programs: version-neutral verbs, and the versions that translate to them.

pub mod mount;
pub mod portmap;
pub mod v2;
pub mod v3;
pub mod verbs;

//! Wire types, one module per RFC. No I/O, no state: only layouts and their limits.

pub mod layout;
pub mod list;
pub mod mount;
pub mod nfs2;
pub mod nfs3;
pub mod nfs4;
pub mod nfsacl;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rpc;
pub mod rpcsec_gss;
pub mod rquota;

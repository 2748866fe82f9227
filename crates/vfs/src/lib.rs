//! The backend trait: what a file system must offer to be exported, independent of the protocol.
//!
//! Owns: the neutral types (attributes, names, status, file ids) and the trait. Independent of wire
//! types, sockets and exports. Every backend passes the same `conformance` suite.

pub mod access;
pub mod acl;
pub mod acl4;
mod attr;
mod backend;
mod call;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod factory;
mod fid;
mod leases;
mod locks;
mod name;
mod quota;
mod space;
mod status;
mod unlinked;
mod xattr;

pub use attr::{
    Attr, ChangeKind, FileType, MaybeTime, SetAttr, SetTime, Time, WccAttr, permission_bits,
};
pub use backend::Backend;
pub use call::{
    AccessMask, Blocking, Change, ChangeNumber, CopyReason, Create, Created, Cred, Cx, DirEntry,
    Durability, Found, IgnoreBlocking, Kept, Limits, ListArgs, Listing, NO_ID, Node, NodeKind,
    OpenAccess, ReadDone, ReadRange, Right, Stability, StatFs, Verifier, Want, WriteDone,
    need_regular,
};
pub use factory::BackendFactory;
pub use fid::Fid;
pub use leases::{LeaseBreakCallback, Leases};
pub use locks::{FileLocks, LockChange, LockConflict, LockMode, LockOutcome, LockRange, Locks};
pub use name::{Component, NAME_MAX, Name};
pub use quota::{Quota, QuotaKind, QuotaUsage, Quotas};
pub use space::{Advice, Content, FileAt, Space};
pub use status::{Result, Status};
pub use unlinked::Unlinked;
pub use xattr::{SetXattr, XATTR_NAME_MAX, XATTR_VALUE_MAX, XattrName, Xattrs};

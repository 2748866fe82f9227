//! Operations on files, independent of the version of NFS: one file per verb.
//!
//! A verb receives the opened [`Object`](crate::object::Object) that it works on, refuses changes of a read-only export and
//! names that cannot exist, and calls the backend for the rest. It returns file ids, not filehandles, and for a failure
//! only the status: versions 2 and 3 fetch the attributes that they send with it.

mod access;
mod acl;
mod commit;
mod copy;
mod create;
mod fsinfo;
mod fsstat;
mod getattr;
mod link;
mod lookup;
mod mkdir;
mod mknod;
mod name;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rmdir;
mod setattr;
mod space;
mod symlink;
mod write;
mod xattr;

pub use access::{access, access_by};
pub use acl::{ObjectAcls, acls, set_acls};
pub use commit::{Committed, commit};
pub use copy::{CopyRange, CopySteps, STEP as COPY_STEP, clone, copy_rest};
pub use create::{create, create_open};
pub use fsinfo::{FileSystemInfo, fsinfo};
pub use fsstat::fsstat;
pub use getattr::{getattr, getattr_with};
pub use link::{Linked, link};
pub use lookup::{lookup, lookup_crossing, lookup_root};
pub use mkdir::mkdir;
pub use mknod::mknod;
pub use read::{Read, ReadData, ReadRequest, read};
pub use readdir::readdir;
pub use readlink::readlink;
pub use remove::remove;
pub use rename::{Renamed, rename};
pub use rmdir::rmdir;
pub use setattr::setattr;
pub use space::{advise, allocate, deallocate, seek};
pub use symlink::symlink;
pub use write::{Written, whole_pages, write, write_piped};
pub use xattr::{remove_xattr, set_xattr, xattr, xattr_names};

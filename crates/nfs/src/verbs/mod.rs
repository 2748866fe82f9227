//! What clients want, in no version's words: one file per verb.
//!
//! Every verb begins in the same way: [`Door::open`] turns the wire handle into an object of an
//! export, finds what this client may do there, maps the caller's identity and refuses changes
//! of a read-only export. The backend does the rest; the verb seals handles of what it found.
//!
//! Every failure ends in the same way: a [`Failed`] with the attributes that version 3 wants to
//! see in failures, fetched only then.

mod access;
mod commit;
mod create;
mod door;
mod fsinfo;
mod fsstat;
mod getattr;
mod link;
mod lookup;
mod mkdir;
mod mknod;
mod name;
mod pathconf;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rmdir;
mod setattr;
mod symlink;
mod write;

pub use access::access;
pub use commit::{Committed, commit};
pub use create::create;
pub use door::{Door, Failed, Intent, Target};
pub use fsinfo::{Facts, fsinfo};
pub use fsstat::fsstat;
pub use getattr::getattr;
pub use link::{Linked, link};
pub use lookup::{Seen, lookup};
pub use mkdir::mkdir;
pub use mknod::mknod;
pub use pathconf::pathconf;
pub use read::{Read, Wanted, read};
pub use readdir::{Entry, readdir};
pub use readlink::readlink;
pub use remove::remove;
pub use rename::{Renamed, rename};
pub use rmdir::rmdir;
pub use setattr::setattr;
pub use symlink::symlink;
pub use write::{Written, write, write_piped};

use export::Handle;
use vfs::{Attr, Change};

/// What CREATE, MKDIR, SYMLINK and MKNOD made.
pub struct New {
    /// The new object's wire handle and attributes, if it is still to be found.
    pub object: Option<(Handle, Attr)>,
    /// The directory around the change.
    pub dir: Change,
}

/// What a verb gives.
pub type Answer<T> = Result<T, Failed>;

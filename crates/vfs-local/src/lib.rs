//! A Linux directory as a backend.
//!
//! Layers, lowest first; a file uses those of its own layer and of lower ones only, and `cargo xtask`
//! checks that there are no import cycles:
//!
//! 1. [`errno`], [`attr`]: the kernel's words in the trait's; [`identity`], [`medium`], [`mount_state`],
//!    [`write_verifier`]: one part each of what a served directory consists of.
//! 2. `naming`: file ids, and finding an object by its id: opened by handle where the process may do
//!    that, else found again through a persistent table of names.
//! 3. `cache`: open objects, shared by all exports ([`OpenFiles`]), and what names led to.
//! 4. [`fs`], [`object`]: [`LocalFs`], and how an operation reaches an object.
//! 5. `ops`: one file for each operation.
//! 6. [`backend`]: the trait's calls, each of which is one function of `ops`.
//!
//! Reading is checked in user space; changes of the name space or attributes are checked by the
//! kernel, on a thread that acts as the caller. Every system call that may wait for a disk comes
//! after [`LocalFs::will_block`].

mod attr;
mod backend;
mod cache;
mod errno;
mod fs;
mod identity;
mod medium;
mod mount_state;
mod naming;
mod object;
mod ops;
mod write_verifier;

pub use cache::attr_cache::AttrCacheCounts;
pub use cache::open_files::OpenFiles;
pub use cache::unlinked_files::UnlinkedCounts;
pub use fs::{LocalFs, LocalOptions, Naming, OpenError};
pub use identity::acts_as_callers;
pub use medium::{is_overlay, lacks_journal};

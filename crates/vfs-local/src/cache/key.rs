//! The key of an object in the caches that all exports share.

use vfs::Fid;

/// Which object of which export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The backend's own number.
    pub backend: u32,
    /// The object.
    pub fid: Fid,
}

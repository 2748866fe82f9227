//! The descriptors of one open object.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};

/// Up to three of a file: a path, one for reading, one for writing; a directory has one for listing.
pub struct Descriptors {
    pub path: PathDescriptor,
    /// Shared with replies that send the file's pages.
    pub reader: OnceLock<Arc<OwnedFd>>,
    pub writer: OnceLock<Arc<OwnedFd>>,
    /// A directory, open for listing, while no call uses it. Locked to take it or to put it back.
    pub listing: Mutex<Option<OwnedFd>>,
}

/// The descriptor for attributes and look-ups.
pub enum PathDescriptor {
    Own(OwnedFd),
    /// One for data, which another [`Descriptors`] of the same file has as well, as long as that lives: what a file without a
    /// name is left with when no descriptor could be made for its path.
    OfData(Arc<OwnedFd>),
}

impl From<OwnedFd> for PathDescriptor {
    fn from(path: OwnedFd) -> Self {
        Self::Own(path)
    }
}

impl AsFd for PathDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(path) => path.as_fd(),
            Self::OfData(data) => data.as_fd(),
        }
    }
}

impl Descriptors {
    pub fn new(path: impl Into<PathDescriptor>) -> Self {
        let path = path.into();
        Self { path, reader: OnceLock::new(), writer: OnceLock::new(), listing: Mutex::new(None) }
    }
}

//! The descriptors of one open object.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};

/// Up to three of a file: a path, one for reading, one for writing; a directory has one for listing.
pub struct Descriptors {
    pub path: OwnedFd,
    /// Shared with replies that send the file's pages.
    pub reader: OnceLock<Arc<OwnedFd>>,
    pub writer: OnceLock<OwnedFd>,
    /// A directory, open for listing, while no call uses it. Locked to take it or to put it back.
    pub listing: Mutex<Option<OwnedFd>>,
}

impl Descriptors {
    pub const fn new(path: OwnedFd) -> Self {
        Self { path, reader: OnceLock::new(), writer: OnceLock::new(), listing: Mutex::new(None) }
    }
}

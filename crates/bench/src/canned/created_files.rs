//! CREATE and REMOVE of the canned server: the part that no server can avoid, creating a file in
//! memory and removing it.
//!
//! A connection has a directory of its own, as the clients of the load have. Files are named by number,
//! since only the procedure of the call is read; the oldest is removed first.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The files that one connection has made.
pub(super) struct CreatedFiles {
    dir: OwnedFd,
    made: u64,
    removed: u64,
}

impl CreatedFiles {
    /// In a new directory below `place`, for the connection of this token.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(place: &Path, token: u64) -> io::Result<Self> {
        let own = place.join(format!("made-{}-{token}", std::process::id()));
        std::fs::create_dir(&own)?;
        Ok(Self { dir: sys::open::open_path(&own)?, made: 0, removed: 0 })
    }

    /// Creates the next file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make(&mut self) -> io::Result<()> {
        sys::open::create_new(self.dir.as_fd(), self.made.to_string().as_bytes(), 0o644)?;
        self.made += 1;
        Ok(())
    }

    /// Removes the oldest file, if there is one: calls in flight arrive in any order.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove(&mut self) -> io::Result<()> {
        if self.removed < self.made {
            sys::namespace::remove(self.dir.as_fd(), self.removed.to_string().as_bytes())?;
            self.removed += 1;
        }
        Ok(())
    }
}

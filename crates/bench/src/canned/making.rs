//! What the bound does of a CREATE and a REMOVE: what no server is spared, making a file in memory and
//! removing it.
//!
//! A connection has a directory of its own, as the clients of the load have. Its files have numbers for
//! names, since nothing is read of the call but its procedure; the oldest goes first.

use std::io;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The files that one connection has made.
pub(super) struct Making {
    dir: OwnedFd,
    made: u64,
    removed: u64,
}

/// A number as a name.
struct Digits {
    bytes: [u8; 20],
    len: usize,
}

impl Digits {
    fn of(number: u64) -> Self {
        let mut bytes = [0; 20];
        let mut left = bytes.as_mut_slice();
        // twenty digits are as many as there can be
        let _ = write!(left, "{number}");
        let len = 20 - left.len();
        Self { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Making {
    /// In a new directory below `place`, for the connection of this token.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(place: &Path, token: u64) -> io::Result<Self> {
        let own = place.join(format!("made-{}-{token}", std::process::id()));
        std::fs::create_dir(&own)?;
        Ok(Self { dir: sys::open::open_path(&own)?, made: 0, removed: 0 })
    }

    /// Makes the next file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn make(&mut self) -> io::Result<()> {
        sys::open::create_new(self.dir.as_fd(), Digits::of(self.made).bytes(), 0o644)?;
        self.made += 1;
        Ok(())
    }

    /// Removes the oldest file, if there is one: calls in flight come in any order.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&mut self) -> io::Result<()> {
        if self.removed < self.made {
            sys::namespace::remove(self.dir.as_fd(), Digits::of(self.removed).bytes())?;
            self.removed += 1;
        }
        Ok(())
    }
}

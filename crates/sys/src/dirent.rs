//! Entries of a directory in batches, each with the kernel's own position behind it.

use rustix::fs::{RawDir, SeekFrom};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

/// Bytes of entries that one system call fetches: 32 KiB; more makes nothing faster.
pub const BATCH: usize = 32 * 1024;

/// An entry.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a CStr,
    /// Its inode number; for a mount point that of the directory below.
    pub ino: u64,
    /// Where the directory goes on behind it (`d_off`).
    pub next: u64,
}

/// Moves a directory's descriptor to a position that an entry gave; 0 is the start.
///
/// # Errors
/// The kernel's error.
pub fn seek(dir: BorrowedFd<'_>, position: u64) -> io::Result<()> {
    rustix::fs::seek(dir, SeekFrom::Start(position))?;
    Ok(())
}

/// Room for one batch; meant to live on the stack.
pub struct Room([MaybeUninit<u8>; BATCH]);

impl Default for Room {
    fn default() -> Self {
        Self([MaybeUninit::uninit(); BATCH])
    }
}

impl Room {
    /// The first bytes of it, for listings that will not take a whole batch.
    fn part(&mut self, bytes: usize) -> &mut [MaybeUninit<u8>] {
        self.0.get_mut(..bytes.min(BATCH)).unwrap_or_default()
    }
}

/// Gives the entries from the descriptor's position on, fetched `batch` bytes at a time, until `sink`
/// breaks. `Continue` means that the end was reached. The descriptor's position is then behind the last batch, not behind the
/// last entry given.
///
/// # Errors
/// The kernel's error.
pub fn list(
    dir: BorrowedFd<'_>,
    room: &mut Room,
    batch: usize,
    sink: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let mut entries = RawDir::new(dir, room.part(batch));
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let entry =
            Entry { name: entry.file_name(), ino: entry.ino(), next: entry.next_entry_cookie() };
        if sink(entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

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
/// What the kernel says.
pub fn seek(dir: BorrowedFd<'_>, position: u64) -> io::Result<()> {
    rustix::fs::seek(dir, SeekFrom::Start(position))?;
    Ok(())
}

/// Room for one batch.
pub struct Room(Box<[MaybeUninit<u8>]>);

impl Default for Room {
    fn default() -> Self {
        Self(vec![MaybeUninit::uninit(); BATCH].into_boxed_slice())
    }
}

/// Gives the entries from the descriptor's position on, until `sink` breaks. `Continue` means that
/// the end was reached. The descriptor's position is then behind the last batch, not behind the
/// last entry given.
///
/// # Errors
/// What the kernel says.
pub fn list(
    dir: BorrowedFd<'_>,
    room: &mut Room,
    sink: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let mut entries = RawDir::new(dir, &mut room.0);
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

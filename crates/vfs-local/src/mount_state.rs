//! The cached state of the mount of an export: read-only, `noexec`, nearly full.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vfs::{AccessMask, FileType};

/// The state of the mount, queried at most once a second: (second + 1) << 3, read-only, no-exec,
/// nearly full.
#[derive(Debug, Default)]
pub struct MountState(AtomicU64);

const READ_ONLY: u64 = 4;
const NO_EXEC: u64 = 2;
const NEARLY_FULL: u64 = 1;

/// Free bytes below which blocks reserved for root must be protected: more than all clients write in
/// the second until the next query.
const NEARLY_FULL_BYTES: u64 = 4 << 30;

impl MountState {
    /// The rights that the mount does not deny to everyone: no change on one that is read-only, no
    /// execution of files on one that is `noexec`.
    pub fn allows(&self, root: BorrowedFd<'_>, now_s: u32, ftype: FileType) -> AccessMask {
        let state = self.flags(root, now_s);
        let mut allows = AccessMask::READ | AccessMask::LOOKUP;
        if state & READ_ONLY == 0 {
            allows = allows | AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE;
        }
        if state & NO_EXEC == 0 || ftype != FileType::Regular {
            allows = allows | AccessMask::EXECUTE;
        }
        allows
    }

    /// Whether so little is free that a write as root would soon use the blocks reserved for root.
    pub fn is_nearly_full(&self, root: BorrowedFd<'_>, now_s: u32) -> bool {
        self.flags(root, now_s) & NEARLY_FULL != 0
    }

    fn flags(&self, root: BorrowedFd<'_>, now_s: u32) -> u64 {
        let second = u64::from(now_s) + 1;
        let state = self.0.load(Relaxed);
        if state >> 3 == second {
            return state;
        }
        let Ok(figures) = sys::stat::figures(root) else { return state };
        let [_, free, available] = figures.bytes;
        let nearly_full = free > available && available < NEARLY_FULL_BYTES;
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(figures.read_only, READ_ONLY)
            | flag(figures.no_exec, NO_EXEC)
            | flag(nearly_full, NEARLY_FULL);
        self.0.store(second << 3 | flags, Relaxed);
        second << 3 | flags
    }
}

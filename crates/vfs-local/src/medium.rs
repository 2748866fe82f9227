//! The medium of a file system, as far as it determines what must be synced: see
//! [`crate::ops::durability`].

use std::os::fd::BorrowedFd;

/// The magic number (statfs(2)) of overlayfs.
const OVERLAY: u64 = 0x794c_7630;
/// The magic numbers (statfs(2)) of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// That of xfs.
const XFS: u64 = 0x5846_5342;
/// That of btrfs.
const BTRFS: u64 = 0x9123_683e;
/// That of ext2, ext3 and ext4.
const EXT: u64 = 0xef53;

/// The magic numbers of file systems that query another machine or another process, even for attributes of an
/// open file: FUSE, NFS, SMB, 9P, Ceph, AFS, Lustre, GPFS, OCFS2, GFS2, vboxsf, OrangeFS.
const ASKS_OTHERS: [u64; 16] = [
    0x6573_5546,
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x6b41_4653,
    0x0bd0_0bd0,
    0x4750_4653,
    0x7461_636f,
    0x0116_1970,
    0x786f_4256,
    0x2003_0528,
    0x7375_7245,
];

/// Whether every request to a file system with this magic number may block.
pub fn requests_may_block(kind: u64) -> bool {
    ASKS_OTHERS.contains(&kind)
}

/// The objects that must be synced on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// None: it is in memory. It does not support `RWF_NOWAIT`, and its reads block only for
    /// swapped-out pages.
    Memory,
    /// A new object, or the directories in which names have changed.
    Journaled,
    /// The directories, and an object with a new name or another one.
    Other,
}

impl Medium {
    /// That of a file system with this magic number, on this device.
    pub fn of(kind: u64, dev: u64) -> Self {
        match kind {
            kind if MEMORY.contains(&kind) => Self::Memory,
            XFS => Self::Journaled,
            EXT if sys::stat::has_journal(dev).unwrap_or(false) => Self::Journaled,
            _ => Self::Other,
        }
    }
}

/// Whether a file system with this magic number has multigrain times where the kernel has them, for
/// files and directories.
pub fn has_multigrain_times(kind: u64) -> bool {
    [EXT, XFS, BTRFS].contains(&kind)
}

/// Whether files of a file system with this magic number can share data, as far as that is known without a try.
pub fn may_clone(kind: u64) -> bool {
    kind != EXT && !MEMORY.contains(&kind)
}

/// Whether a directory is on overlayfs, as the own files of a container are.
pub fn is_overlay(dir: BorrowedFd<'_>) -> bool {
    sys::stat::figures(dir).is_ok_and(|figures| figures.kind == OVERLAY)
}

/// Whether a directory is on ext3 or ext4 that is known to have no journal.
pub fn lacks_journal(dir: BorrowedFd<'_>) -> bool {
    let figures = sys::stat::figures(dir);
    let device = || Ok(sys::stat::of_fd(dir)?.dev);
    figures.is_ok_and(|figures| figures.kind == EXT)
        && device().and_then(sys::stat::has_journal).is_ok_and(|has| !has)
}

#[cfg(test)]
mod tests {
    use super::Medium;

    #[test]
    fn an_unknown_file_system_gets_every_sync() {
        for (kind, medium) in [
            (0x9123_683e, Medium::Other),
            (0, Medium::Other),
            // on an unknown device it may have no journal
            (0xef53, Medium::Other),
            (0x5846_5342, Medium::Journaled),
            (0x0102_1994, Medium::Memory),
        ] {
            assert_eq!(Medium::of(kind, u64::MAX), medium, "{kind:x}");
        }
    }
}

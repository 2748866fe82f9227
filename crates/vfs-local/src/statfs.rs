//! FSSTAT, FSINFO and PATHCONF: the file system's figures and what it can do.

use crate::errno;
use crate::local::Local;
use std::io;
use std::os::fd::BorrowedFd;
use vfs::{Cx, Fid, Limits, Result, StatFs};

/// See [`vfs::Backend::statfs`].
pub fn statfs(local: &Local, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
    let (file, attr) = local.hold(cx, fid)?;
    let figures = sys::stat::figures(file.path()).map_err(errno::from)?;
    let [total_bytes, free_bytes, avail_bytes] = figures.bytes;
    let [total_files, free_files, avail_files] = figures.files;
    Ok(StatFs { total_bytes, free_bytes, avail_bytes, total_files, free_files, avail_files, attr })
}

/// What the file system of a directory can do.
///
/// # Errors
/// What the kernel says.
pub fn limits(root: BorrowedFd<'_>) -> io::Result<Limits> {
    let figures = sys::stat::figures(root)?;
    Ok(Limits {
        name_max: u32::try_from(figures.name_max).unwrap_or(255),
        link_max: link_max(figures.kind),
        file_size_max: i64::MAX.cast_unsigned(),
        time_delta_ns: 1,
        hard_links: true,
        symlinks: true,
        case_insensitive: false,
        chown_restricted: true,
    })
}

/// Hard links to a file, by the file system's magic number (linux/magic.h).
const fn link_max(kind: u64) -> u32 {
    match kind {
        0xEF53 => 65_000,               // ext4
        0x5846_5342 => i32::MAX as u32, // XFS
        0x9123_683E => 65_535,          // btrfs
        0x2FC1_2FC1 => u32::MAX,        // ZFS
        _ => 32_000,
    }
}

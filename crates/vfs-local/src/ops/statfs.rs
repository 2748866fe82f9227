//! FSSTAT: space and inodes of the file system.

use crate::errno;
use crate::fs::LocalFs;
use vfs::{Cx, Fid, Result, StatFs};

/// See [`vfs::Backend::statfs`].
pub fn statfs(local: &LocalFs, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
    let (file, attr) = local.hold(cx, fid)?;
    let figures = sys::stat::figures(file.path()).map_err(errno::from)?;
    let [total_bytes, free_bytes, avail_bytes] = figures.bytes;
    let [total_files, free_files, avail_files] = figures.files;
    Ok(StatFs { total_bytes, free_bytes, avail_bytes, total_files, free_files, avail_files, attr })
}

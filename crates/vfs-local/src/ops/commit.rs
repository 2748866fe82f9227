//! COMMIT: syncs the requested range, and nothing if every write through this server is on disk
//! already.
//!
//! A range is synced as one where the kernel can ([`sys::io::sync_data_range`]), so that a client that commits
//! piece by piece does not wait for data that others have written elsewhere in the file. The file is not known
//! to be clean after that; the next COMMIT of the whole file syncs. The Linux client commits whole files.

use crate::cache::group_sync::Extent;
use crate::errno;
use crate::fs::LocalFs;
use vfs::{Change, Cx, Durability, Fid, Result, Status, need_regular};

/// See [`vfs::Backend::commit`].
pub fn commit(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change> {
    let (file, since, before) = local.watch(cx, fid)?;
    need_regular(before.ftype)?;
    if cx.durability == Durability::Sync
        && let Some(until) = file.unsynced().begin()
    {
        local.will_block(cx)?;
        local.identity.act_as_server().map_err(errno::from)?;
        // the descriptor that was written through if it is still there, else any will do
        let fd = match file.writer().or_else(|| file.reader()) {
            Some(fd) => Ok(fd),
            None => local.reader(&file, fid).or_else(|_| local.writer(&file, fid)),
        };
        let part = part_of(before.size, offset, count);
        let extent = part.map_or(Extent::Data, |(offset, len)| Extent::Range(offset, len));
        let done = match fd {
            // it may be neither readable nor writable for an unprivileged server
            Err(Status::Acces) => local.sync_everything().map(|()| Extent::File)?,
            fd => local.sync_file(&file, fd?, extent)?,
        };
        if done >= Extent::Data {
            file.unsynced().done(until);
        }
    }
    Ok(local.wcc_data_since(&file, &before, &since))
}

/// Where the range of a COMMIT (RFC 1813 §3.3.21: `count` 0 goes to the end) begins and how long it is, if it is
/// less than a file of `size` bytes.
fn part_of(size: u64, offset: u64, count: u64) -> Option<(u64, u64)> {
    let end = if count == 0 { size } else { offset.saturating_add(count) };
    let len = end.checked_sub(offset).filter(|len| *len > 0)?;
    (offset > 0 || end < size).then_some((offset, len))
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn only_a_part_of_the_file_is_a_range() {
        for whole in [(0, 0), (0, 100), (0, u64::MAX), (100, 0), (200, 0)] {
            assert_eq!(part_of(100, whole.0, whole.1), None, "{whole:?}");
        }
        assert_eq!(part_of(100, 0, 99), Some((0, 99)));
        assert_eq!(part_of(100, 40, 0), Some((40, 60)));
        assert_eq!(part_of(100, 40, 10), Some((40, 10)));
        // another program may have extended it meanwhile
        assert_eq!(part_of(100, 200, 10), Some((200, 10)));
    }
}

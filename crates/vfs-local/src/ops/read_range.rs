//! READ without copying: checks whether a range is in memory, and returns the file itself.
//!
//! The sender of the range holds a connection's transmit lock and leads a pool; it must not wait for
//! the disk. So the page cache is queried first ([`sys::io::is_cached`]). A page may still be evicted
//! between query and send; the kernel then waits for it, which the watchdog detects.
//!
//! The attributes are fetched before the data is sent. So READ is consistent at one moment: the
//! size in the attributes determines how much there is to be read and whether it is the end. If the
//! file changes before its pages are sent, the reply contains newer data, and zeros for truncated
//! data, as with the kernel's own server.

use crate::cache::open_file::OpenFile;
use crate::fs::LocalFs;
use crate::medium::Medium;
use crate::ops::permission::check_data;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vfs::{CopyReason, Cx, Fid, ReadDone, ReadRange, Result, Status, need_regular};

/// See [`vfs::Backend::read_range`].
pub fn read_range(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    (offset, count): (u64, usize),
    shortest: usize,
) -> Result<ReadRange> {
    let blind = local.blind_reads.load(Relaxed) && local.medium != Medium::Memory;
    if i64::try_from(offset).is_err() || blind {
        return Ok(ReadRange::Copy(CopyReason::NoFile));
    }
    let key = local.key(fid);
    let cached = local.files.with(&local.warm_key(fid), |file| {
        let fd = file.shared_reader()?;
        Some(find_range(local, cx, file, fd, (offset, count), shortest))
    });
    let ranged = match cached.flatten() {
        Some(ranged) => ranged,
        None => {
            let (file, attr) = local.hold(cx, fid)?;
            need_regular(attr.ftype)?;
            check_data(local, cx, &file, &attr, false)?;
            local.reader(&file, fid)?;
            match file.shared_reader() {
                Some(fd) => find_range(local, cx, &file, fd, (offset, count), shortest),
                None => Ok(ReadRange::Copy(CopyReason::NoFile)),
            }
        }
    };
    if matches!(ranged, Err(Status::Stale)) {
        local.files.remove(&key);
    }
    ranged
}

/// Permission, how much there is, and whether it is in memory.
fn find_range(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    fd: &Arc<OwnedFd>,
    (offset, count): (u64, usize),
    shortest: usize,
) -> Result<ReadRange> {
    let attr = local.stat(file)?;
    need_regular(attr.ftype)?;
    check_data(local, cx, file, &attr, false)?;
    let left = attr.size.saturating_sub(offset);
    let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
    if count < shortest.max(1) {
        return Ok(ReadRange::Copy(CopyReason::Short));
    }
    if !in_memory(local, fd.as_fd(), offset, count) {
        return Ok(ReadRange::Copy(CopyReason::Cold));
    }
    let eof = count as u64 == left;
    Ok(ReadRange::File { file: Arc::clone(fd), done: ReadDone { count, eof, attr } })
}

/// Whether all of a range within the file is in the page cache.
fn in_memory(local: &LocalFs, fd: BorrowedFd<'_>, offset: u64, count: usize) -> bool {
    if local.medium == Medium::Memory {
        // missing pages are holes or were swapped out; a present one is filled
        let start = offset - offset % sys::io::PAGE;
        let len = offset.saturating_add(count as u64).saturating_sub(start);
        let pages = len.next_multiple_of(sys::io::PAGE);
        return sys::io::cached(fd, start, len).map_or(true, |cached| cached >= pages);
    }
    match sys::io::is_cached(fd, offset, count, true) {
        Ok(cached) => cached,
        Err(e) => {
            if e.kind() == ErrorKind::Unsupported {
                local.blind_reads.store(true, Relaxed);
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read_range;
    use crate::cache::open_files::OpenFiles;
    use crate::fs::{LocalFs, LocalOptions};
    use std::io::{Read, Seek};
    use std::sync::Arc;
    use vfs::{
        Backend, Component, CopyReason, Cred, Cx, Durability, IgnoreBlocking, Name, ReadRange,
        Right, Status,
    };

    const ROOT: Cx<'_> = Cx {
        cred: Cred { uid: 0, gid: 0, groups: &[] },
        blocking: &IgnoreBlocking,
        durability: Durability::Async,
        right: Right::Check,
        attr_cache_ms: 0,
    };

    #[test]
    fn cached_data_is_returned_as_a_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        let local =
            LocalFs::open(dir.path(), &LocalOptions::default(), Arc::new(OpenFiles::new(3000)));
        let local = local.unwrap();
        let name = Component::Name(Name::new(b"file").unwrap());
        let fid = local.lookup(&ROOT, &local.root(), name).unwrap().node.fid;
        let range = |offset, count, shortest| match read_range(
            &local,
            &ROOT,
            &fid,
            (offset, count),
            shortest,
        ) {
            Ok(ReadRange::File { file, done }) => {
                let mut file = std::fs::File::from(file.try_clone().unwrap());
                file.seek(std::io::SeekFrom::Start(offset)).unwrap();
                let mut got = vec![0; done.count];
                file.read_exact(&mut got).unwrap();
                assert!(bytes[usize::try_from(offset).unwrap()..].starts_with(&got));
                Ok((done.count, done.eof))
            }
            Ok(ReadRange::Copy(why)) => Err(why),
            Err(status) => panic!("{status}"),
        };
        assert_eq!(range(0, 4096, 4096), Ok((4096, false)));
        assert_eq!(range(5, 1 << 20, 4096), Ok((1 << 20, false)));
        assert_eq!(range(0, 4 << 20, 4096), Ok((bytes.len(), true)));
        assert_eq!(range(1_190_000, 65_536, 4096), Ok((10_000, true)));
        assert_eq!(range(1_199_000, 65_536, 4096), Err(CopyReason::Short));
        assert_eq!(range(1_200_000, 65_536, 0), Err(CopyReason::Short), "nothing is no range");
        assert_eq!(range(u64::MAX, 65_536, 0), Err(CopyReason::NoFile));
        let others = Cx { cred: Cred { uid: 4711, gid: 4711, groups: &[] }, ..ROOT };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        if local.acts_as_callers() {
            let refused = read_range(&local, &others, &fid, (0, 8192), 4096);
            assert!(matches!(refused, Err(Status::Acces)));
        }
        std::fs::remove_file(&path).unwrap();
        let gone = read_range(&local, &ROOT, &fid, (0, 8192), 4096);
        assert!(matches!(gone, Err(Status::Stale)));
    }
}

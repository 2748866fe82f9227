//! READ: from the page cache on the calling worker; from the disk only after other calls can
//! continue.
//!
//! One `fstat` after the read provides the end-of-file flag, the attributes of the reply and the
//! permission check: no data leaves the server before the check has passed.
//!
//! A file may grow between the two, beyond the end that the read found. The data is then returned without the flag,
//! and the client requests the rest; but a reply without data has the flag set, as in the kernel's server: clients
//! take a reply without data and flag for a broken disk (Linux: EIO).

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::medium::Medium;
use crate::ops::permission::check_data;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use vfs::{Cx, Fid, ReadDone, Result, Status, need_regular};

/// See [`vfs::Backend::read`].
pub fn read(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    data: &mut [u8],
) -> Result<ReadDone> {
    // beyond the kernel's largest offset is the end of every file
    let room = usize::try_from(i64::MAX.cast_unsigned().saturating_sub(offset));
    let room = room.map_or(data.len(), |room| room.min(data.len()));
    let data = data.get_mut(..room).unwrap_or_default();
    if let Some(done) = warm(local, cx, fid, offset, data)? {
        return Ok(done);
    }
    let (file, attr) = local.hold(cx, fid)?;
    need_regular(attr.ftype)?;
    check_data(local, cx, &file, &attr, false)?;
    let fd = local.reader(&file, fid)?;
    let count = match no_wait(local, fd, offset, data) {
        Some(count) if count == data.len() => count,
        // a short count of a nonblocking read may be the end of the file or of the cached data
        Some(_) | None => {
            local.will_block(cx)?;
            fill(fd, offset, data)?
        }
    };
    let mut done = done(local, cx, &file, offset, count)?;
    done.eof |= count == 0 && !data.is_empty();
    Ok(done)
}

/// The whole read without blocking, without a reference count; `None` if it must block.
fn warm(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    offset: u64,
    data: &mut [u8],
) -> Result<Option<ReadDone>> {
    let read = local.files.with(&local.warm_key(fid), |file| {
        let Some(fd) = file.reader() else { return Ok(None) };
        let Some(count) = no_wait(local, fd, offset, data) else { return Ok(None) };
        let done = done(local, cx, file, offset, count)?;
        Ok((count == data.len() || done.eof).then_some(done))
    });
    match read {
        Some(Err(Status::Stale)) => {
            local.files.remove(&local.key(fid));
            Err(Status::Stale)
        }
        Some(result) => result,
        None => Ok(None),
    }
}

fn no_wait(local: &LocalFs, fd: BorrowedFd<'_>, offset: u64, data: &mut [u8]) -> Option<usize> {
    if local.medium == Medium::Memory {
        return sys::io::read(fd, data, offset).ok();
    }
    if local.blind_reads.load(Relaxed) {
        return None;
    }
    match sys::io::read_nowait(fd, data, offset) {
        Ok(count) => Some(count),
        Err(e) => {
            if e.kind() == ErrorKind::Unsupported {
                local.blind_reads.store(true, Relaxed);
            }
            None
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(fd: BorrowedFd<'_>, offset: u64, data: &mut [u8]) -> Result<usize> {
    let mut count = 0;
    while let Some(rest) = data.get_mut(count..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(count as u64);
        match sys::io::read(fd, rest, at).map_err(errno::from)? {
            0 => break,
            got => count += got,
        }
    }
    Ok(count)
}

fn done(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    offset: u64,
    count: usize,
) -> Result<ReadDone> {
    let attr = local.stat(file)?;
    need_regular(attr.ftype)?;
    check_data(local, cx, file, &attr, false)?;
    let eof = offset.saturating_add(count as u64) >= attr.size;
    Ok(ReadDone { count, eof, attr })
}

#[cfg(test)]
mod tests {
    use crate::cache::open_files::OpenFiles;
    use crate::fs::{LocalFs, LocalOptions};
    use std::sync::Arc;
    use vfs::{Backend, Component, Cred, Cx, Durability, IgnoreBlocking, Name, Right};

    #[test]
    fn a_read_of_no_bytes_is_the_end_of_file() {
        // files of a page, whatever is in them: as one that grows after each read
        let (dir, name) = ("/sys/kernel", "fscaps");
        let size = std::fs::metadata(format!("{dir}/{name}")).map_or(0, |found| found.len());
        let open = || {
            let files = Arc::new(OpenFiles::new(3000));
            LocalFs::open(dir.as_ref(), &LocalOptions::default(), files)
        };
        let (Ok(local), 1000..) = (open(), size) else {
            testing::skip(testing::Missing::Kernel, format_args!("{dir}/{name}"));
            return;
        };
        let cred = Cred { uid: 0, gid: 0, groups: &[] };
        let cx = Cx {
            cred,
            blocking: &IgnoreBlocking,
            durability: Durability::Async,
            right: Right::Check,
            attr_cache_ms: 0,
        };
        let name = Component::Name(Name::new(name.as_bytes()).unwrap());
        let file = local.lookup(&cx, &local.root(), name).unwrap().node.fid;
        let mut data = [0; 512];
        let mut read = |offset, len: usize| {
            let done = local.read(&cx, &file, offset, &mut data[..len]).unwrap();
            (done.count, done.eof)
        };
        let (all, _) = read(0, 512);
        assert!((1..512).contains(&all));
        for _ in 0..2 {
            assert_eq!(read(0, 512), (all, false), "the rest is to be asked for");
            assert_eq!(read(all as u64, 512), (0, true));
            assert_eq!(read(all as u64, 0), (0, false), "nothing was asked for");
            assert_eq!(read(size, 512), (0, true));
        }
    }
}

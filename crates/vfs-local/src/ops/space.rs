//! The space of files: reserved, freed, found, shared and copied by the kernel.
//!
//! A change of the space alone is synced before it is answered, as an attribute is: nobody can commit it. A copy is as
//! stable as an unstable write, and noted as one, so that COMMIT syncs it.
//!
//! A hole is reported only if the file is the same before and after the kernel was asked for it.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::permission::check_data;
use crate::ops::write::{act_as_writer, make_stable};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vfs::{
    Advice, Attr, Change, Content, Cx, Durability, Fid, FileAt, Result, Space, Stability, Status,
    need_regular,
};

/// The most that one call prefetches.
const PREFETCH_MAX: u64 = 16 << 20;

/// Refuses a range that no file can have.
fn check_range(offset: u64, len: u64) -> Result<()> {
    let end = offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok());
    end.map(drop).ok_or(Status::FBig)
}

/// Runs a system call that needs space, again if files that were removed could be freed.
fn with_space<T>(local: &LocalFs, mut call: impl FnMut() -> io::Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(e) if errno::out_of_space(&e) && local.files.free_removed() => {}
            done => return done.map_err(errno::from),
        }
    }
}

/// Changes the space of a file by a system call, durably.
fn change(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    call: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
) -> Result<Change> {
    local.will_block(cx)?;
    let (file, before) = local.begin_change(cx, fid)?;
    let fd = to_write(local, cx, &file, fid, &before)?;
    let mut call = call;
    with_space(local, || call(fd))?;
    let change = local.wcc_data(&file, &before);
    if local.has_to_sync(cx) {
        local.sync_leased(cx, fid, &file)?;
    }
    Ok(change)
}

/// The descriptor of a file that the caller may write, ready to be written.
fn to_write<'f>(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &'f OpenFile,
    fid: &Fid,
    before: &Attr,
) -> Result<BorrowedFd<'f>> {
    need_regular(before.ftype)?;
    check_data(local, cx, file, before, true)?;
    let fd = local.writer_after_check(cx, file, fid)?;
    act_as_writer(local, cx, before)?;
    file.note_written(local.files.now_s());
    Ok(fd)
}

/// A file that the caller may read, with its attributes.
fn to_read(local: &LocalFs, cx: &Cx<'_>, fid: &Fid) -> Result<(Arc<OpenFile>, Attr)> {
    let (file, attr) = local.hold(cx, fid)?;
    need_regular(attr.ftype)?;
    check_data(local, cx, &file, &attr, false)?;
    Ok((file, attr))
}

impl Space for LocalFs {
    fn allocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change> {
        check_range(offset, len)?;
        self.will_block(cx)?;
        // ext4 takes all that there is before it fails, and keeps it
        let (file, attr) = self.hold(cx, fid)?;
        let figures = sys::stat::figures(file.path()).map_err(errno::from)?;
        let [_, free, _] = figures.bytes;
        if len > free.saturating_add(attr.used) {
            need_regular(attr.ftype)?;
            check_data(self, cx, &file, &attr, true)?;
            return Err(Status::NoSpc);
        }
        change(self, cx, fid, |fd| sys::space::allocate(fd, offset, len))
    }

    fn deallocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change> {
        check_range(offset, len)?;
        change(self, cx, fid, |fd| sys::io::punch_hole(fd, offset, len))
    }

    fn seek(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, what: Content) -> Result<Option<u64>> {
        self.will_block(cx)?;
        let (file, attr) = to_read(self, cx, fid)?;
        if offset >= attr.size {
            return Err(Status::NxIo);
        }
        let fd = self.reader(&file, fid)?;
        let found = match what {
            Content::Data => sys::space::next_data(fd, offset),
            Content::Hole => sys::space::next_hole(fd, offset),
        };
        found.map_err(errno::from)
    }

    fn hole_at(&self, cx: &Cx<'_>, fid: &Fid, offset: u64) -> Result<Option<u64>> {
        self.will_block(cx)?;
        let (file, before) = to_read(self, cx, fid)?;
        if offset >= before.size {
            return Ok(None);
        }
        let fd = self.reader(&file, fid)?;
        let data = sys::space::next_data(fd, offset).map_err(errno::from)?;
        let end = data.unwrap_or(before.size).min(before.size);
        let after = self.stat(&file)?;
        let is_same = (before.change, before.size) == (after.change, after.size);
        Ok(Some(end).filter(|end| *end > offset && is_same))
    }

    fn clone_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<Change> {
        check_range(from.offset, len)?;
        check_range(to.offset, len)?;
        self.will_block(&to.cx)?;
        let (source, source_attr) = to_read(self, &from.cx, from.fid)?;
        if from.offset.saturating_add(len) > source_attr.size {
            return Err(Status::Inval);
        }
        let reader = self.reader(&source, from.fid)?;
        change(self, &to.cx, to.fid, |fd| {
            sys::space::clone_range((reader, from.offset), (fd, to.offset), len)
        })
    }

    fn copy_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<u64> {
        self.will_block(&to.cx)?;
        let (source, _) = to_read(self, &from.cx, from.fid)?;
        let reader = self.reader(&source, from.fid)?;
        let (file, before) = self.begin_change(&to.cx, to.fid)?;
        let fd = to_write(self, &to.cx, &file, to.fid, &before)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let copied =
            with_space(self, || sys::space::copy((reader, from.offset), (fd, to.offset), len));
        let count = match copied {
            // of two file systems, or of one that cannot
            Err(Status::XDev) => Err(Status::NotSupp),
            copied => copied,
        }?;
        if to.cx.durability == Durability::Sync {
            file.unsynced().note_write();
        }
        // it was read
        if let Some(copies) = self.files.attrs.in_use() {
            copies.changed(source.id());
        }
        make_stable(self, &to.cx, &file, fd, Stability::Unstable)?;
        Ok(count as u64)
    }

    fn advise(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> Result<Advice> {
        self.will_block(cx)?;
        let (file, attr) = to_read(self, cx, fid)?;
        let fd = self.reader(&file, fid)?;
        let left = attr.size.saturating_sub(offset);
        let len = if len == 0 { left } else { len.min(left) };
        if len == 0 {
            return Ok(Advice::default());
        }
        // of two that contradict each other the one that costs nothing later
        if advice.has(Advice::WILL_NEED) {
            sys::space::will_need(fd, offset, len.min(PREFETCH_MAX)).map_err(errno::from)?;
            return Ok(Advice::WILL_NEED);
        }
        if advice.has(Advice::DONT_NEED) {
            sys::space::dont_need(fd, offset, len).map_err(errno::from)?;
            return Ok(Advice::DONT_NEED);
        }
        Ok(Advice::default())
    }
}

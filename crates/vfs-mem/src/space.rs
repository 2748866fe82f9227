//! The space of files: pages that exist or do not. Nothing is shared, so a clone is a copy that no other call sees in part.

use crate::data::{Data, PAGE};
use crate::inode::Kind;
use crate::mem::{MemFs, State, without_set_id};
use vfs::access::{data_access, is_open_for};
use vfs::{Advice, Attr, Change, Content, Cx, Fid, FileAt, Result, Space, Status, need_regular};

impl State {
    /// The data of a file, if the caller may read it.
    fn data_to_read(&self, cx: &Cx<'_>, fid: &Fid) -> Result<&Data> {
        let inode = self.get(fid)?;
        need_regular(inode.ftype())?;
        if !is_open_for(cx.right, false) && !data_access(&inode.attr(), None, &cx.cred, false) {
            return Err(Status::Acces);
        }
        match &inode.kind {
            Kind::Regular(data) => Ok(data),
            Kind::Directory(_) | Kind::Symlink(_) | Kind::Special(..) => Err(Status::WrongType),
        }
    }

    /// The attributes of a file, if the caller may write it.
    fn attr_to_write(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Attr> {
        let attr = self.get(fid)?.attr();
        need_regular(attr.ftype)?;
        let may = is_open_for(cx.right, true) || data_access(&attr, None, &cx.cred, true);
        if may { Ok(attr) } else { Err(Status::Acces) }
    }

    /// Changes the data of a file, if the caller may write it and there is room for `growth`.
    fn change_data(
        &mut self,
        cx: &Cx<'_>,
        fid: &Fid,
        growth: impl FnOnce(&Data) -> u64,
        change: impl FnOnce(&mut Data),
    ) -> Result<Change> {
        let now = self.now();
        let room = self.options.bytes_max.saturating_sub(self.used);
        let attr = self.attr_to_write(cx, fid)?;
        let inode = self.get_mut(fid)?;
        let Kind::Regular(data) = &mut inode.kind else { return Err(Status::WrongType) };
        if growth(data) > room {
            return Err(Status::NoSpc);
        }
        let before = data.used();
        change(data);
        let after = data.used();
        inode.mtime = now;
        if cx.cred.uid != 0 {
            inode.mode = without_set_id(inode.mode);
        }
        inode.touch(now);
        self.used = self.used.saturating_sub(before).saturating_add(after);
        Ok(self.change(fid, attr.wcc()))
    }
}

/// Refuses a range that no file can have.
fn check_range(offset: u64, len: u64) -> Result<()> {
    let end = offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok());
    end.map(drop).ok_or(Status::FBig)
}

impl Space for MemFs {
    fn allocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change> {
        check_range(offset, len)?;
        let mut state = self.lock();
        // before the pages are counted one by one
        if len > state.options.bytes_max {
            need_regular(state.get(fid)?.ftype())?;
            return Err(Status::NoSpc);
        }
        let growth = |data: &Data| data.growth(offset, len);
        state.change_data(cx, fid, growth, |data| data.allocate(offset, len))
    }

    fn deallocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change> {
        check_range(offset, len)?;
        self.lock().change_data(cx, fid, |_| 0, |data| data.deallocate(offset, len))
    }

    fn seek(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, what: Content) -> Result<Option<u64>> {
        let state = self.lock();
        let data = state.data_to_read(cx, fid)?;
        if offset >= data.size() {
            return Err(Status::NxIo);
        }
        Ok(data.seek(offset, what == Content::Data))
    }

    fn hole_at(&self, cx: &Cx<'_>, fid: &Fid, offset: u64) -> Result<Option<u64>> {
        let state = self.lock();
        let data = state.data_to_read(cx, fid)?;
        let end = data.seek(offset, true).unwrap_or_else(|| data.size());
        Ok((offset < end).then_some(end))
    }

    fn clone_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<Change> {
        let mut state = self.lock();
        state.attr_to_write(&to.cx, to.fid)?;
        let source = state.data_to_read(&from.cx, from.fid)?;
        let left = source.size().checked_sub(from.offset).ok_or(Status::Inval)?;
        let len = if len == 0 { left } else { len };
        check_range(to.offset, len)?;
        let aligned = from.offset.is_multiple_of(PAGE) && to.offset.is_multiple_of(PAGE);
        let overlaps = from.fid == to.fid && from.offset.abs_diff(to.offset) < len;
        if len > left || !aligned || overlaps || !len.is_multiple_of(PAGE) && len != left {
            return Err(Status::Inval);
        }
        let bytes = read(source, from.offset, len)?;
        let growth = |data: &Data| data.growth(to.offset, len);
        state.change_data(&to.cx, to.fid, growth, |data| data.write(to.offset, &bytes))
    }

    fn copy_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<u64> {
        let mut state = self.lock();
        state.attr_to_write(&to.cx, to.fid)?;
        let source = state.data_to_read(&from.cx, from.fid)?;
        let len = len.min(source.size().saturating_sub(from.offset));
        check_range(to.offset, len)?;
        if len == 0 {
            return Ok(0);
        }
        let bytes = read(source, from.offset, len)?;
        let growth = |data: &Data| data.growth(to.offset, len);
        state.change_data(&to.cx, to.fid, growth, |data| data.write(to.offset, &bytes))?;
        Ok(len)
    }

    fn advise(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        _offset: u64,
        _len: u64,
        advice: Advice,
    ) -> Result<Advice> {
        let state = self.lock();
        state.data_to_read(cx, fid)?;
        // it is in memory already
        Ok(Advice::from_bits(advice.bits() & Advice::WILL_NEED.bits()))
    }
}

/// A copy of a range of a file.
fn read(data: &Data, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| Status::FBig)?];
    data.read(offset, &mut bytes);
    Ok(bytes)
}

//! The space of a backend with faults: copies can be slow and fail, the rest is the backend's.

use super::{FaultyFs, Operation};
use vfs::{Advice, Backend, Change, Content, Cx, Fid, FileAt, Result, Space, Status};

impl<B: Backend> FaultyFs<B> {
    fn inner_space(&self) -> Result<&dyn Space> {
        self.inner.space().ok_or(Status::NotSupp)
    }
}

impl<B: Backend> Space for FaultyFs<B> {
    fn allocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change> {
        self.inner_space()?.allocate(cx, fid, offset, len)
    }

    fn deallocate(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, len: u64) -> Result<Change> {
        self.inner_space()?.deallocate(cx, fid, offset, len)
    }

    fn seek(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, what: Content) -> Result<Option<u64>> {
        self.inner_space()?.seek(cx, fid, offset, what)
    }

    fn hole_at(&self, cx: &Cx<'_>, fid: &Fid, offset: u64) -> Result<Option<u64>> {
        self.inner_space()?.hole_at(cx, fid, offset)
    }

    fn clone_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<Change> {
        self.inner_space()?.clone_range(from, to, len)
    }

    fn copy_range(&self, from: FileAt<'_>, to: FileAt<'_>, len: u64) -> Result<u64> {
        self.at(&to.cx, Operation::CopyRange)?;
        self.inner_space()?.copy_range(from, to, len)
    }

    fn advise(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> Result<Advice> {
        self.inner_space()?.advise(cx, fid, offset, len, advice)
    }
}

//! Leases of files that no local program uses: nobody has to be held back. Directories are held as the back end below does.

use super::FaultyFs;
use vfs::{Attr, Backend, Cx, Fid, Kept, LeaseBreakCallback, Leases, Result};

impl<B: Backend> Leases for FaultyFs<B> {
    fn hold_back_writers(
        &self,
        _: &Cx<'_>,
        _: &Fid,
        _: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        Ok(Some(Kept::new(())))
    }

    fn hold_back_everybody(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        callback: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        self.hold_back_writers(cx, fid, callback)
    }

    fn change_by_holder(&self, _: &Fid, change: &mut dyn FnMut() -> Option<Attr>) {
        change();
    }

    fn holds_directories(&self) -> bool {
        self.inner.leases().is_some_and(Leases::holds_directories)
    }

    fn hold_back_changes(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        let leases = self.inner.leases().ok_or(vfs::Status::NotSupp)?;
        leases.hold_back_changes(cx, fid, on_break)
    }

    fn let_change_pass(&self, cx: &Cx<'_>, fid: &Fid) -> Option<Kept> {
        self.inner.leases()?.let_change_pass(cx, fid)
    }
}

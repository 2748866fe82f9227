//! Leases of files that no local program uses: nobody has to be held back.

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
        _: &Cx<'_>,
        _: &Fid,
        _: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        Ok(Some(Kept::new(())))
    }

    fn change_by_holder(&self, _: &Fid, change: &mut dyn FnMut() -> Option<Attr>) {
        change();
    }
}

//! From a directory of an export into another export: what is exported inside of it, and file systems below it that
//! `crossmnt` makes part of it.
//!
//! A name leads into the inner export by what the table of exports found out ([`export::Table::junction`]), before the
//! outer file system is asked, which has another object there: the directory that is covered. Clients of version 4 cross
//! into every export that they may use; those of versions 2 and 3 see the covered directory unless the outer export has
//! `crossmnt` or the inner one `nohide`, as with the kernel's server.

use crate::object::{Caller, Object};
use export::{ClientAccess, Export, JunctionNames};
use std::sync::Arc;
use vfs::{AccessMask, Status};

/// Which exports a client crosses into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// All that it may use: version 4.
    All,
    /// Those that are marked: versions 2 and 3.
    Marked,
}

impl<'c> Caller<'c> {
    /// The export that a name of a directory leads to for this client; `None` if the name is the directory's own.
    ///
    /// # Errors
    /// [`Status::Acces`] if the caller may not search the directory.
    #[inline]
    pub fn junction<'t>(
        &'t self,
        dir: &Object<'_>,
        name: &[u8],
        crossing: Crossing,
    ) -> vfs::Result<Option<&'t Arc<Export>>> {
        match self.table().junction(dir.export_id(), &dir.fid, name) {
            None => Ok(None),
            Some(inner) => self.checked(dir, inner, crossing),
        }
    }

    #[cold]
    fn checked<'t>(
        &self,
        dir: &Object<'_>,
        inner: &'t Arc<Export>,
        crossing: Crossing,
    ) -> vfs::Result<Option<&'t Arc<Export>>> {
        if !self.crosses(dir, inner, crossing) {
            return Ok(None);
        }
        let (granted, _) = dir.backend().access(&dir.cx(), &dir.fid, AccessMask::LOOKUP)?;
        if granted == AccessMask::LOOKUP { Ok(Some(inner)) } else { Err(Status::Acces) }
    }

    /// The junctions in a directory, for a listing.
    #[inline]
    pub fn junctions_in(&self, dir: &Object<'_>) -> Option<&JunctionNames> {
        self.table().junctions_in(dir.export_id(), &dir.fid)
    }

    /// The export that a listed name leads to.
    #[inline]
    pub fn listed_junction<'t>(
        &'t self,
        dir: &Object<'_>,
        names: Option<&JunctionNames>,
        name: &[u8],
        crossing: Crossing,
    ) -> Option<&'t Arc<Export>> {
        self.listed(dir, names?, name, crossing)
    }

    #[cold]
    fn listed<'t>(
        &'t self,
        dir: &Object<'_>,
        names: &JunctionNames,
        name: &[u8],
        crossing: Crossing,
    ) -> Option<&'t Arc<Export>> {
        let inner = self.table().at(*names.get(name)?)?;
        self.crosses(dir, inner, crossing).then_some(inner)
    }

    fn crosses(&self, dir: &Object<'_>, inner: &Export, crossing: Crossing) -> bool {
        let is_marked = crossing == Crossing::All || dir.crosses_mounts();
        match inner.access_for(&self.requester()) {
            ClientAccess::Allowed(rule) => is_marked || rule.options.nohide,
            // the call that follows is refused for its transport security
            ClientAccess::Unresolved | ClientAccess::TransportSecurityTooWeak => is_marked,
            ClientAccess::NoRule | ClientAccess::PortNotReserved => false,
        }
    }
}

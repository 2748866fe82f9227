//! LOOKUP (RFC 1813 §3.3.3).

use crate::junction::Crossing;
use crate::object::{Caller, Object};
use export::{Export, Handle};
use std::sync::Arc;
use vfs::{Component, Found};

/// Finds a name in a directory.
///
/// # Errors
/// [`vfs::Status::NoEnt`], and those of the name.
pub fn lookup(dir: &Object<'_>, name: &[u8]) -> vfs::Result<Found> {
    dir.backend().lookup(&dir.cx(), &dir.fid, Component::new(name)?)
}

/// The same for versions 2 and 3, which cross into exports inside of this one; also the handle.
///
/// # Errors
/// As [`lookup`].
pub fn lookup_crossing(
    caller: &Caller<'_>,
    dir: &Object<'_>,
    name: &[u8],
) -> vfs::Result<(Handle, Found)> {
    if let Some(inner) = caller.junction(dir, name, Crossing::Marked)? {
        return lookup_root(caller, dir, inner);
    }
    let found = lookup(dir, name)?;
    Ok((dir.seal(&found.node.fid), found))
}

/// The root of an export inside of this one, as what a name leads to.
///
/// # Errors
/// As [`lookup`], and those of an export that the caller may not use.
#[cold]
pub fn lookup_root(
    caller: &Caller<'_>,
    dir: &Object<'_>,
    inner: &Arc<Export>,
) -> vfs::Result<(Handle, Found)> {
    let mut found = dir.backend().lookup(&dir.cx(), &dir.fid, Component::Dot)?;
    let root = caller.enter_root(inner)?;
    found.node = vfs::Node { fid: root.fid, attr: super::getattr(&root)? };
    Ok((root.seal(&root.fid), found))
}

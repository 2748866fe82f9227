//! LOOKUP (RFC 1813 §3.3.3).

use crate::junction::Crossing;
use crate::object::{Caller, Object};
use export::Handle;
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
    let Some(inner) = caller.junction(dir, name, Crossing::Marked)? else {
        let found = lookup(dir, name)?;
        return Ok((dir.seal(&found.node.fid), found));
    };
    let mut found = dir.backend().lookup(&dir.cx(), &dir.fid, Component::Dot)?;
    let root = caller.enter_root(inner)?;
    found.node = vfs::Node { fid: root.fid, attr: super::getattr(&root)? };
    Ok((root.seal(&root.fid), found))
}

//! LOOKUP (RFC 1813 §3.3.3).

use crate::object::Object;
use vfs::{Component, Found};

/// Finds a name in a directory.
///
/// # Errors
/// [`vfs::Status::NoEnt`], and those of the name.
pub fn lookup(dir: &Object<'_>, name: &[u8]) -> vfs::Result<Found> {
    dir.backend().lookup(&dir.cx(), &dir.fid, Component::new(name)?)
}

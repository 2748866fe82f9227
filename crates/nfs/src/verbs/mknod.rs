//! MKNOD (RFC 1813 §3.3.11).

use super::name;
use crate::object::Object;
use vfs::{Created, NodeKind, SetAttr};

/// Makes a device node, a named pipe or a socket. `what` is the outcome of reading the wire's
/// type and attributes.
///
/// # Errors
/// [`vfs::Status::RoFs`], and those of the name.
pub fn mknod(
    dir: &Object<'_>,
    name: &[u8],
    what: vfs::Result<(NodeKind, SetAttr)>,
) -> vfs::Result<Created> {
    dir.check_writable()?;
    let (name, (kind, set)) = (name::to_make(name)?, what?);
    dir.backend().mknod(&dir.cx(), &dir.fid, name, kind, &set)
}

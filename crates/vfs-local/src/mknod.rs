//! MKNOD: devices, pipes and sockets; the server only makes them, it never opens them.

use crate::local::Local;
use crate::made::Place;
use sys::namespace::{NodeType, make_node};
use vfs::{Cx, Fid, Made, Name, NodeKind, Result, SetAttr};

/// The mode of a node until its owner says otherwise.
const MODE_DEFAULT: u32 = 0o600;

/// See [`vfs::Backend::mknod`].
pub fn mknod(
    local: &Local,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    kind: NodeKind,
    set: &SetAttr,
) -> Result<Made> {
    let place = Place::new(local, cx, dir)?;
    let mode = set.mode.unwrap_or(MODE_DEFAULT);
    let node = match kind {
        NodeKind::Block(major, minor) => NodeType::Block(major, minor),
        NodeKind::Char(major, minor) => NodeType::Char(major, minor),
        NodeKind::Fifo => NodeType::Fifo,
        NodeKind::Socket => NodeType::Socket,
    };
    place.as_caller(|| make_node(place.file.path(), name.bytes(), node, mode))?;
    place.finish(name, set)
}

//! MKNOD: devices, pipes and sockets; the server only makes them, it never opens them.

use crate::local::Local;
use crate::made::Place;
use crate::maker::Maker;
use sys::namespace::{NodeType, make_node};
use vfs::{Cx, Fid, FileType, Made, Name, NodeKind, Result, SetAttr};

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
    let device = |ftype, rdev| Maker::of_device(&place, ftype, rdev);
    let (node, maker) = match kind {
        NodeKind::Block(major, minor) => {
            (NodeType::Block(major, minor), device(FileType::Block, (major, minor)))
        }
        NodeKind::Char(major, minor) => {
            (NodeType::Char(major, minor), device(FileType::Char, (major, minor)))
        }
        NodeKind::Fifo => (NodeType::Fifo, Maker::of(&place, FileType::Fifo)),
        NodeKind::Socket => (NodeType::Socket, Maker::of(&place, FileType::Socket)),
    };
    place.as_caller(|| make_node(place.file.path(), name.bytes(), node, mode))?;
    place.finish(name, &maker, set)
}

//! MKNOD: devices, pipes and sockets; the server only creates them and never opens them. A device
//! number that Linux would truncate would be that of another device.

use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use crate::ops::expected_object::ExpectedObject;
use sys::namespace::{NodeType, make_node};
use vfs::{Created, Cx, Fid, FileType, Name, NodeKind, Result, SetAttr, Status};

/// The mode of a node until its owner sets another.
const MODE_DEFAULT: u32 = 0o600;
/// Bits of a device's major and minor number (linux/kdev_t.h).
const MAJOR_BITS: u32 = 12;
const MINOR_BITS: u32 = 20;

/// See [`vfs::Backend::mknod`].
pub fn mknod(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    kind: NodeKind,
    set: &SetAttr,
) -> Result<Created> {
    if let NodeKind::Block(major, minor) | NodeKind::Char(major, minor) = kind
        && (major >> MAJOR_BITS != 0 || minor >> MINOR_BITS != 0)
    {
        return Err(Status::Inval);
    }
    let dir_change = DirChange::new(local, cx, dir)?;
    let mode = set.mode.unwrap_or(MODE_DEFAULT);
    let device = |ftype, rdev| ExpectedObject::device(dir_change.caller_uid(), ftype, rdev);
    let (node, expected) = match kind {
        NodeKind::Block(major, minor) => {
            (NodeType::Block(major, minor), device(FileType::Block, (major, minor)))
        }
        NodeKind::Char(major, minor) => {
            (NodeType::Char(major, minor), device(FileType::Char, (major, minor)))
        }
        NodeKind::Fifo => {
            (NodeType::Fifo, ExpectedObject::new(dir_change.caller_uid(), FileType::Fifo))
        }
        NodeKind::Socket => {
            (NodeType::Socket, ExpectedObject::new(dir_change.caller_uid(), FileType::Socket))
        }
    };
    dir_change.as_caller(|| make_node(dir_change.file.path(), name.bytes(), node, mode))?;
    dir_change.finish(name, &expected, set)
}

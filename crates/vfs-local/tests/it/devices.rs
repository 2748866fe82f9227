//! Device nodes: the requested one, or none.

use crate::support::{ROOT, each, has_root, name, of};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use vfs::{Backend, NodeKind, SetAttr, Status};

#[test]
fn an_unrepresentable_device_number_is_refused() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let make = |file, kind| {
            local.mknod(&cx, &local.root(), name(file), kind, &SetAttr::default()).map(drop)
        };
        assert_eq!(make("last", NodeKind::Char(0xfff, 0xf_ffff)), Ok(()));
        let last = fs::metadata(stage.tree.join("last")).unwrap();
        assert!(last.file_type().is_char_device() && last.rdev() == 0xffff_ffff);
        // 0x1001 would be truncated to 1, the memory device; likewise the minor's lowest bits
        for kind in [
            NodeKind::Char(0x1001, 3),
            NodeKind::Block(0x1008, 0),
            NodeKind::Char(1, 0x10_0003),
            NodeKind::Block(u32::MAX, u32::MAX),
        ] {
            assert_eq!(make("other", kind), Err(Status::Inval), "{kind:?}");
            assert!(!stage.tree.join("other").exists(), "{kind:?}");
        }
    });
}

//! Quotas of a file system that supports them.

use crate::support::{ANN, BOB, Mounted, ROOT, Stage, make, of, put};
use std::fs::File;
use std::process::Command;
use testing::{Missing, is_root, skip};
use vfs::{Backend, Quota, QuotaKind, QuotaUsage};

#[test]
#[ignore = "runs inside a guest, whose kernel has quotas"]
fn quota_usage_counts_written_data() {
    if !is_root() {
        return skip(Missing::Root, "to mount a file system with quotas");
    }
    let stage = Stage::new(bowline_vfs_local::Naming::Handles);
    let image = stage.tree.with_extension("ext4");
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F", "-O", "quota"]).arg(&image).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip(Missing::Program, "mkfs.ext4");
    }
    let Some(_mounted) = Mounted::image(&image, &stage.tree) else {
        return skip(Missing::Kernel, "an ext4 with quotas cannot be mounted");
    };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&stage.tree, mode).unwrap();
    let local = stage.serve();
    let (cx, root) = (of(ANN), local.root());
    let used = |kind, id| -> Option<Quota> {
        local.quotas().unwrap().quota(&of(ROOT), &root, kind, id).unwrap()
    };
    let Some(before) = used(QuotaKind::User, ANN.uid) else {
        return skip(Missing::Kernel, "quotas of ext4");
    };
    assert_eq!(before, Quota::default());
    let file = make(&local, &cx, &root, "file", 0o600).unwrap().node.unwrap().fid;
    put(&local, &cx, &file, &[7; 100_000]).unwrap();
    local.commit(&cx, &file, 0, 0).unwrap();
    for (kind, id) in [(QuotaKind::User, ANN.uid), (QuotaKind::Group, ANN.gid)] {
        let Quota { bytes, files } = used(kind, id).unwrap();
        assert!((100_000..200_000).contains(&bytes.used), "{bytes:?}");
        assert_eq!((bytes.hard, bytes.soft, bytes.grace_ends_s), (None, None, None));
        assert_eq!(files, QuotaUsage { used: 1, ..QuotaUsage::default() });
    }
    assert_eq!(used(QuotaKind::User, BOB.uid), Some(Quota::default()));
}

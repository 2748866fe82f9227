//! File systems that refuse writes: full, out of inodes, read-only, unmounted.

use crate::support::{ANN, Mounted, ROOT, each, find, has_root, make, name, of, put, soon, take};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testing::{Missing, skip};
use vfs::{AccessMask, Backend, Create, SetAttr, Stability, Status};

/// One test at a time: a command that another one starts has copies of all descriptors until its
/// exec, and keeps the space of removed files until then.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_full_disk_gives_a_short_write_then_enospc() {
    if !has_root() {
        return;
    }
    let _lock = alone();
    each(|stage| {
        let _mounted = Mounted::tmpfs(&stage.tree, "size=256k,nr_inodes=8,mode=777");
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        let fid = make(&local, &cx, &root, "f", 0o644).unwrap().node.unwrap().fid;
        let data = vec![7; 1 << 20];
        let done = local.write(&cx, &fid, 0, &data, Stability::FileSync).unwrap();
        assert!(done.count > 0 && done.count < data.len(), "{}", done.count);
        let mut back = vec![0; done.count];
        assert_eq!(local.read(&cx, &fid, 0, &mut back).unwrap().count, done.count);
        assert_eq!(back, data[..done.count]);
        let end = done.count as u64;
        let more = local.write(&cx, &fid, end, &data, Stability::Unstable);
        assert_eq!(more, Err(Status::NoSpc));
        let figures = local.statfs(&cx, &fid).unwrap();
        assert_eq!((figures.total_bytes, figures.avail_bytes), (256 << 10, 0));
        // out of inodes
        let refused = (0..10).find_map(|n| make(&local, &cx, &root, &n.to_string(), 0o644).err());
        assert_eq!(refused, Some(Status::NoSpc));
        // a removed file frees its space although it was open here
        local.remove(&cx, &root, name("f")).unwrap();
        // at once for a call that needs it, and soon in any case
        let (other, _) = find(&local, &cx, &root, "0").unwrap();
        let done = local.write(&cx, &other, 0, &data[..100 << 10], Stability::Unstable).unwrap();
        assert_eq!(done.count, 100 << 10);
        local.remove(&cx, &root, name("0")).unwrap();
        stage.files.close_removed(std::time::Duration::from_secs(1));
        soon("the space to be free", || local.statfs(&cx, &root).unwrap().avail_bytes == 256 << 10);
    });
}

#[test]
fn blocks_reserved_for_root_are_not_used_by_clients() {
    if !has_root() {
        return;
    }
    let _lock = alone();
    sys::identity::drop_resource_capability().unwrap();
    each(|stage| {
        let image = stage.tree.with_extension("ext4");
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        // a twentieth is reserved
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
        if !made.is_ok_and(|status| status.success()) {
            return skip(Missing::Program, "mkfs.ext4");
        }
        let Some(_mounted) = Mounted::image(&image, &stage.tree) else {
            return skip(Missing::LoopDevices, "to mount an image");
        };
        fs::set_permissions(&stage.tree, fs::Permissions::from_mode(0o777)).unwrap();
        let (local, ann) = (stage.serve(), of(ANN));
        let file = make(&local, &ann, &local.root(), "f", 0o644).unwrap().node.unwrap().fid;
        let mut end = 0;
        let refused = loop {
            match local.write(&ann, &file, end, &[7; 1 << 16], Stability::FileSync) {
                Ok(done) => end += done.count as u64,
                Err(status) => break status,
            }
        };
        assert_eq!(refused, Status::NoSpc);
        let figures = local.statfs(&ann, &file).unwrap();
        assert!(end > 10 << 20 && figures.avail_bytes < 1 << 16);
        assert!(figures.free_bytes > 1 << 20, "{figures:?}");
    });
}

#[test]
fn a_read_only_mount_denies_write_access_and_changes() {
    if !has_root() {
        return;
    }
    let _lock = alone();
    each(|stage| {
        let mounted = Mounted::tmpfs(&stage.tree, "size=256k,mode=777");
        fs::write(stage.tree.join("f"), "data").unwrap();
        mounted.remount("ro");
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        let (fid, _) = find(&local, &cx, &root, "f").unwrap();
        let (granted, _) = local.access(&cx, &fid, AccessMask(0x3f)).unwrap();
        assert_eq!(granted, AccessMask::READ);
        let (granted, _) = local.access(&cx, &root, AccessMask(0x3f)).unwrap();
        assert_eq!(granted, AccessMask::READ | AccessMask::LOOKUP);
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
        let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        assert_eq!(put(&local, &cx, &fid, b"x"), Err(Status::RoFs));
        assert_eq!(local.setattr(&cx, &fid, &set, None), Err(Status::RoFs));
        let how = Create::Guarded(set);
        assert_eq!(local.create(&cx, &root, name("n"), how).map(drop), Err(Status::RoFs));
        assert_eq!(local.mkdir(&cx, &root, name("n"), &set).map(drop), Err(Status::RoFs));
        assert_eq!(local.remove(&cx, &root, name("f")), Err(Status::RoFs));
        let renamed = local.rename(&cx, (&root, name("f")), (&root, name("g")));
        assert_eq!(renamed, Err(Status::RoFs));
        assert_eq!(local.link(&cx, &fid, &root, name("g")), Err(Status::RoFs));
        // writable again, which is detected within a second
        mounted.remount("rw");
        stage.files.sweep(2);
        let (granted, _) = local.access(&cx, &fid, AccessMask(0x3f)).unwrap();
        assert!(granted.has(AccessMask::MODIFY));
        assert_eq!(put(&local, &cx, &fid, b"x"), Ok(1));
    });
}

#[test]
fn a_dropped_export_does_not_keep_its_file_system_busy() {
    if !has_root() {
        return;
    }
    let _lock = alone();
    each(|stage| {
        let mounted = Mounted::tmpfs(&stage.tree, "size=256k");
        let local = stage.serve();
        let fid = make(&local, &of(ROOT), &local.root(), "f", 0o644).unwrap().node.unwrap().fid;
        put(&local, &of(ROOT), &fid, b"x").unwrap();
        drop(local);
        // not lazily: this fails while a descriptor is open
        let umount = || Command::new("umount").arg(&stage.tree).status().unwrap().success();
        soon("the file system to be unmounted", umount);
        std::mem::forget(mounted);
    });
}

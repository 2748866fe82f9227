//! COMMIT leaves no dirty page of an answered write, and does nothing if there is none. Dirty pages
//! are counted by the kernel (cachestat), if it supports that and the file system has a disk.

use crate::support::{AS_NOBODY, ROOT, Stage, each, in_child, make, of, put};
use bowline_vfs_local::{LocalFs, Naming};
use std::fs::{File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use testing::{Missing, skip};
use vfs::{Backend, Fid, Stability};

/// Bytes of a file that are not on disk.
fn dirty(path: &Path) -> u64 {
    dirty_in(path, 0, 1 << 30)
}

/// Bytes of a part of a file that are not on disk.
fn dirty_in(path: &Path, offset: u64, len: u64) -> u64 {
    let file = File::options().read(true).write(true).open(path).unwrap();
    sys::io::dirty(file.as_fd(), offset, len).unwrap()
}

/// Whether dirty pages are visible here: not on tmpfs, nor on old kernels.
fn shows(stage: &Stage) -> bool {
    let path = stage.tree.join("probe");
    std::fs::write(&path, "something").unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let waits = sys::io::dirty(file.as_fd(), 0, 4096).is_ok_and(|bytes| bytes > 0);
    file.sync_all().unwrap();
    let seen = waits && sys::io::dirty(file.as_fd(), 0, 4096).is_ok_and(|bytes| bytes == 0);
    if !seen {
        let tree = stage.tree.display();
        skip(Missing::FileSystem, format_args!("dirty pages cannot be counted in {tree}"));
    }
    seen
}

/// Whether COMMIT leaves pages written by another process dirty. The kernel may write them back by
/// itself at any moment, so one success in several tries is enough.
fn is_left_alone(local: &LocalFs, fid: &Fid, path: &Path) -> bool {
    (0..20).any(|_| {
        // not by truncating it: ext4 would start writeback at once
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"by somebody else", 0).unwrap();
        local.commit(&of(ROOT), fid, 0, 0).unwrap();
        dirty(path) > 0
    })
}

#[test]
fn commit_writes_dirty_files_and_skips_clean_ones() {
    each(|stage| {
        if !shows(stage) {
            return;
        }
        let (local, cx, path) = (stage.serve(), of(ROOT), stage.tree.join("f"));
        let fid = make(&local, &cx, &local.root(), "f", 0o644).unwrap().node.unwrap().fid;
        for _ in 0..3 {
            put(&local, &cx, &fid, &[7; 100_000]).unwrap();
            local.commit(&cx, &fid, 0, 0).unwrap();
            assert_eq!(dirty(&path), 0);
        }
        // another process's writes are its own to sync: nothing of ours is left
        assert!(is_left_alone(&local, &fid, &path), "a clean file was synced");
        // a stable write syncs all of it and leaves nothing for COMMIT
        local.write(&cx, &fid, 0, b"stable", Stability::DataSync).unwrap();
        assert_eq!(dirty(&path), 0);
        assert!(is_left_alone(&local, &fid, &path), "a clean file was synced");
    });
}

#[test]
fn commit_covers_writes_by_other_descriptors() {
    each(|stage| {
        if !shows(stage) {
            return;
        }
        let (local, cx, path) = (stage.serve(), of(ROOT), stage.tree.join("f"));
        let fid = make(&local, &cx, &local.root(), "f", 0o644).unwrap().node.unwrap().fid;
        put(&local, &cx, &fid, b"first").unwrap();
        local.commit(&cx, &fid, 0, 0).unwrap();
        put(&local, &cx, &fid, b"second").unwrap();
        // the cache closes it: the next open does not know of the write
        stage.files.sweep(stage.files.now_s() + 100);
        local.commit(&cx, &fid, 0, 0).unwrap();
        assert_eq!(dirty(&path), 0);
        // the same after a restart
        put(&local, &cx, &fid, b"third").unwrap();
        drop(local);
        stage.serve().commit(&cx, &fid, 0, 0).unwrap();
        assert_eq!(dirty(&path), 0);
    });
}

#[test]
fn commit_of_a_range_syncs_only_the_range() {
    const MIB: u64 = 1 << 20;
    each(|stage| {
        if !shows(stage) {
            return;
        }
        let (local, cx, path) = (stage.serve(), of(ROOT), stage.tree.join("f"));
        let made = make(&local, &cx, &local.root(), "f", 0o644).unwrap().node.unwrap().fid;
        // open for writing from its creation, and from a later open
        for closed in [false, true] {
            if closed {
                stage.files.sweep(stage.files.now_s() + 100);
            }
            let left = (0..20).any(|_| {
                put(&local, &cx, &made, &vec![7; 8 << 20]).unwrap();
                local.commit(&cx, &made, 2 * MIB + 1, MIB).unwrap();
                assert_eq!(dirty_in(&path, 2 * MIB, MIB + 4096), 0, "it was asked for");
                // the kernel may have written it back by itself
                let left = dirty_in(&path, 0, 2 * MIB) > 0 && dirty_in(&path, 4 * MIB, 4 * MIB) > 0;
                local.commit(&cx, &made, 3 * MIB, 0).unwrap();
                assert_eq!(dirty_in(&path, 2 * MIB, 6 * MIB), 0, "to the end");
                left
            });
            assert!(left, "all of it was synced");
            local.commit(&cx, &made, 0, 0).unwrap();
            assert_eq!(dirty(&path), 0, "the rest was not forgotten");
        }
    });
}

#[test]
fn commit_of_an_unreadable_file_syncs_all_of_it() {
    let name = "commit::commit_of_an_unreadable_file_syncs_all_of_it";
    if crate::support::is_root() && !in_child(name, &AS_NOBODY) {
        return;
    }
    let stage = Stage::new(Naming::Table);
    if !shows(&stage) {
        return;
    }
    let (local, cx, path) = (stage.serve(), of(ROOT), stage.tree.join("f"));
    let fid = make(&local, &cx, &local.root(), "f", 0o200).unwrap().node.unwrap().fid;
    // the descriptor of its creation was readable
    stage.files.sweep(stage.files.now_s() + 100);
    assert_eq!(put(&local, &cx, &fid, &[7; 100_000]), Ok(100_000));
    local.commit(&cx, &fid, 4096, 4096).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(dirty(&path), 0);
}

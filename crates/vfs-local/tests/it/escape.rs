//! Nothing outside the export is accessible, and removed objects are stale.

use crate::support::{
    Mounted, ROOT, Stage, assert_is_covered, each, find, has_root, make, name, names, of, put,
    soon, take,
};
use bowline_vfs_local::Naming;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use vfs::{Backend, Cred, Fid, Name, SetAttr, Status};

#[test]
fn symbolic_links_are_never_followed() {
    each(|stage| {
        symlink("/etc", stage.tree.join("etc")).unwrap();
        symlink("../..", stage.tree.join("up")).unwrap();
        let local = stage.serve();
        let cx = of(ROOT);
        for link in ["etc", "up"] {
            let (fid, attr) = find(&local, &cx, &local.root(), link).unwrap();
            assert_eq!(attr.ftype, vfs::FileType::Symlink);
            assert_eq!(find(&local, &cx, &fid, "passwd"), Err(Status::NotDir));
            assert_eq!(make(&local, &cx, &fid, "x", 0o644).map(drop), Err(Status::NotDir));
            assert_eq!(take(&local, &cx, &fid), Err(Status::Symlink));
            assert_eq!(put(&local, &cx, &fid, b"x"), Err(Status::Symlink));
        }
        let mut target = Vec::new();
        let (fid, _) = find(&local, &cx, &local.root(), "etc").unwrap();
        local.readlink(&cx, &fid, &mut target).unwrap();
        assert_eq!(target, b"/etc");
    });
}

#[test]
fn dot_dot_ends_at_the_root() {
    each(|stage| {
        fs::create_dir_all(stage.tree.join("a/b")).unwrap();
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        assert_eq!(find(&local, &cx, &root, "..").unwrap().0, root);
        let (a, _) = find(&local, &cx, &root, "a").unwrap();
        let (b, _) = find(&local, &cx, &a, "b").unwrap();
        assert_eq!(find(&local, &cx, &b, "..").unwrap().0, a);
        assert_eq!(find(&local, &cx, &a, "..").unwrap().0, root);
        // moved out of the export: nothing above it is accessible, nor, once closed, anything of it
        fs::rename(stage.tree.join("a"), stage.tree.join("../outside")).unwrap();
        assert!(find(&local, &cx, &a, "..").is_err());
        stage.files.sweep(100);
        assert_eq!(find(&local, &cx, &a, "b"), Err(Status::Stale));
        assert_eq!(local.getattr(&cx, &a, vfs::Want::STAT), Err(Status::Stale));
    });
}

#[test]
fn the_root_lists_itself_as_its_parent() {
    each(|stage| {
        let local = stage.serve();
        let cx = of(ROOT);
        let fileid = local.getattr(&cx, &local.root(), vfs::Want::STAT).unwrap().fileid;
        let mut seen = 0;
        local
            .readdir(&cx, &local.root(), vfs::ListArgs::all(0, true), &mut |entry| {
                assert_eq!(entry.fileid, fileid, "{:?}", entry.name);
                assert!(entry.name != b".." || entry.node.is_none());
                seen += 1;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, 2);
    });
}

#[test]
fn invalid_file_ids_are_refused() {
    each(|stage| {
        let local = stage.serve();
        let cx = of(ROOT);
        let (real, _) = {
            make(&local, &cx, &local.root(), "file", 0o644).unwrap();
            find(&local, &cx, &local.root(), "file").unwrap()
        };
        for len in 0..=Fid::MAX {
            for byte in [0, 1, 2, 0x81, 0xfe, 0xff] {
                let fid = Fid::new(&vec![byte; len]).unwrap();
                let answer = local.getattr(&cx, &fid, vfs::Want::STAT);
                let refused = matches!(answer, Err(Status::Stale | Status::BadHandle));
                assert!(refused, "{fid:?}: {answer:?}");
            }
        }
        // a real id with another generation
        let mut bytes = real.bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 0x40;
        let answer = local.getattr(&cx, &Fid::new(&bytes).unwrap(), vfs::Want::STAT);
        assert!(matches!(answer, Err(Status::Stale | Status::BadHandle)), "{answer:?}");
    });
}

#[test]
fn deleted_files_are_stale_and_their_space_is_freed() {
    each(|stage| {
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        for (file, ours) in [("ours", true), ("theirs", false)] {
            let fid = make(&local, &cx, &root, file, 0o644).unwrap().node.unwrap().fid;
            put(&local, &cx, &fid, b"data").unwrap();
            assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
            if ours {
                local.remove(&cx, &root, name(file)).unwrap();
                // stale at once, closed a few milliseconds later
                assert_eq!(take(&local, &cx, &fid), Err(Status::Stale));
                stage.files.close_removed(std::time::Duration::from_secs(1));
            } else {
                fs::remove_file(stage.tree.join(file)).unwrap();
                assert_eq!(take(&local, &cx, &fid), Err(Status::Stale));
            }
            // closed by another thread, for which a call waits a moment only
            let part = stage.tree.join(file);
            soon(file, || crate::support::deleted_open(part.to_str().unwrap()) == 0);
            assert_eq!(take(&local, &cx, &fid), Err(Status::Stale));
            assert_eq!(put(&local, &cx, &fid, b"x"), Err(Status::Stale));
            let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
            assert_eq!(local.setattr(&cx, &fid, &set, None), Err(Status::Stale));
        }
        // replaced by a rename
        let old = make(&local, &cx, &root, "old", 0o644).unwrap().node.unwrap().fid;
        let new = make(&local, &cx, &root, "new", 0o644).unwrap().node.unwrap().fid;
        local.rename(&cx, (&root, name("new")), (&root, name("old"))).unwrap();
        assert_eq!(local.getattr(&cx, &old, vfs::Want::STAT), Err(Status::Stale));
        assert_eq!(find(&local, &cx, &root, "old").unwrap().0, new);
        // a directory
        let dir =
            local.mkdir(&cx, &root, name("dir"), &SetAttr::default()).unwrap().node.unwrap().fid;
        local.rmdir(&cx, &root, name("dir")).unwrap();
        assert_eq!(make(&local, &cx, &dir, "x", 0o644).map(drop), Err(Status::Stale));
    });
}

#[test]
fn mounts_below_an_export_are_not_entered() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let below = stage.tree.join("below");
        fs::create_dir(&below).unwrap();
        fs::write(stage.tree.join("beside"), "").unwrap();
        let _mounted = Mounted::tmpfs(&below, "size=64k");
        fs::write(below.join("secret"), "s").unwrap();
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        assert_is_covered(&local, &cx, "below");
        assert_eq!(local.rmdir(&cx, &root, name("below")).map(drop), Err(Status::Acces));
        local
            .readdir(&cx, &root, vfs::ListArgs::all(0, true), &mut |entry| {
                let has_node = entry.name == b"." || entry.name == b"beside";
                // with handles, the directory that is covered
                if entry.name != b"below" {
                    assert_eq!(entry.node.is_some(), has_node, "{:?}", entry.name);
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(names(&local, &cx, &root, 9, true).len(), 4);
    });
}

#[test]
fn pipes_and_devices_are_never_opened() {
    each(|stage| {
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        let set = SetAttr { mode: Some(0o666), ..SetAttr::default() };
        let made = local.mknod(&cx, &root, name("pipe"), vfs::NodeKind::Fifo, &set).unwrap();
        // an open of it would wait for the other end for ever
        assert_eq!(take(&local, &cx, &made.node.unwrap().fid), Err(Status::WrongType));
        assert_eq!(put(&local, &cx, &made.node.unwrap().fid, b"x"), Err(Status::WrongType));
        let how = vfs::Create::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
        let pipe = Name::new(b"pipe").unwrap();
        assert_eq!(local.create(&cx, &root, pipe, how).map(drop), Err(Status::Exist));
        local.setattr(&cx, &made.node.unwrap().fid, &set, None).unwrap();
    });
}

#[test]
fn an_unusable_directory_gives_advice() {
    let stage = Stage::new(Naming::Table);
    let open = |path: &std::path::Path| {
        let options = bowline_vfs_local::LocalOptions::default();
        let opened = bowline_vfs_local::LocalFs::open(path, &options, stage.files.clone());
        opened.map(drop).unwrap_err().to_string()
    };
    assert!(open(&stage.tree.join("none")).contains("create it first"));
    fs::write(stage.tree.join("file"), "").unwrap();
    assert!(open(&stage.tree.join("file")).contains("name the directory"));
}

/// An id that means "leave unchanged" to the system calls must not leave a thread with the server's
/// identity for a client's work.
#[test]
fn a_caller_with_an_invalid_id_never_acts_as_the_server() {
    if !has_root() {
        return;
    }
    each(|stage| {
        fs::write(stage.tree.join("file"), "data").unwrap();
        let local = stage.serve();
        let root = local.root();
        let mode = || fs::metadata(stage.tree.join("file")).unwrap().mode();
        let before = mode();
        let (file, _) = find(&local, &of(ROOT), &root, "file").unwrap();
        let none = Cred { uid: u32::MAX, gid: u32::MAX, groups: &[100] };
        let cx = of(none);
        let take = SetAttr { mode: Some(0o4777), uid: Some(0), ..SetAttr::default() };
        for _ in 0..3 {
            local.setattr(&cx, &file, &take, None).unwrap_err();
            local.remove(&cx, &root, name("file")).unwrap_err();
            let how = vfs::Create::Guarded(SetAttr::default());
            local.create(&cx, &root, name("made"), how).unwrap_err();
        }
        assert_eq!(mode(), before);
        assert_eq!(fs::read_dir(&stage.tree).unwrap().count(), 1);
    });
}

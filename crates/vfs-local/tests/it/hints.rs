//! The earlier object of a name never determines its current one.

use crate::support::{
    ANN, BOB, Mounted, ROOT, assert_is_covered, deleted_open, each, each_in_memory, find, has_root,
    make, name, of, put, take,
};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{Backend, Cx, Fid, FileType, OpenAccess, SetAttr, Status, Want};

#[test]
fn lookup_finds_the_current_object_of_a_name() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let (root, path) = (local.root(), |file: &str| stage.tree.join(file));
        let step = |want: &str| {
            let (fid, attr) = find(&local, &cx, &root, "name").unwrap();
            assert_eq!(attr.fileid, fs::symlink_metadata(path("name")).unwrap().ino(), "{want}");
            assert_eq!(local.getattr(&cx, &fid, Want::BIRTH).unwrap(), attr, "{want}");
            (fid, attr)
        };
        fs::write(path("name"), "1").unwrap();
        let (first, _) = step("new");
        assert_eq!(step("again").0, first);
        fs::write(path("other"), "22").unwrap();
        fs::rename(path("other"), path("name")).unwrap();
        let (second, attr) = step("replaced");
        assert_ne!(second, first);
        assert_eq!((attr.size, step("again").0), (2, second));
        // removed and created again: most file systems reuse the inode number once it is free
        for _ in 0..20 {
            let (before, _) = step("before");
            fs::remove_file(path("name")).unwrap();
            assert_eq!(find(&local, &cx, &root, "name"), Err(Status::NoEnt));
            stage.files.sweep(stage.files.now_s() + 1);
            fs::write(path("name"), "333").unwrap();
            assert_ne!(step("made again").0, before);
        }
        fs::remove_file(path("name")).unwrap();
        symlink("/etc", path("name")).unwrap();
        assert_eq!(step("a link").1.ftype, FileType::Symlink);
        fs::remove_file(path("name")).unwrap();
        fs::create_dir(path("name")).unwrap();
        assert_eq!(step("a directory").1.ftype, FileType::Directory);
        fs::remove_dir(path("name")).unwrap();
        assert_eq!(find(&local, &cx, &root, "name"), Err(Status::NoEnt));
        assert_eq!(find(&local, &cx, &root, "name"), Err(Status::NoEnt));
        fs::write(path("name"), "").unwrap();
        step("there after it was not");
    });
}

#[test]
fn lookup_attributes_are_never_stale() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        fs::write(stage.tree.join("f"), "").unwrap();
        for size in 0..50 {
            fs::File::options()
                .write(true)
                .open(stage.tree.join("f"))
                .unwrap()
                .set_len(size)
                .unwrap();
            assert_eq!(find(&local, &cx, &local.root(), "f").unwrap().1.size, size);
        }
    });
}

#[test]
fn search_permission_is_checked_on_each_lookup() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let local = stage.serve();
        let set = SetAttr { mode: Some(0o711), ..SetAttr::default() };
        let dir = local.mkdir(&of(ANN), &local.root(), name("d"), &set).unwrap().node.unwrap().fid;
        make(&local, &of(ANN), &dir, "f", 0o644).unwrap();
        for _ in 0..3 {
            find(&local, &of(BOB), &dir, "f").unwrap();
            assert_eq!(find(&local, &of(BOB), &dir, "none"), Err(Status::NoEnt));
        }
        let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        local.setattr(&of(ANN), &dir, &set, None).unwrap();
        for file in ["f", "none"] {
            assert_eq!(find(&local, &of(BOB), &dir, file), Err(Status::Acces));
        }
        find(&local, &of(ANN), &dir, "f").unwrap();
    });
}

#[test]
fn a_mount_over_a_cached_name_is_not_entered() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let root = local.root();
        for dir in ["below", "beside"] {
            fs::create_dir(stage.tree.join(dir)).unwrap();
            for _ in 0..2 {
                find(&local, &cx, &root, dir).unwrap();
            }
        }
        {
            let _mounted = Mounted::tmpfs(&stage.tree.join("below"), "size=64k");
            fs::write(stage.tree.join("below/secret"), "").unwrap();
            assert_is_covered(&local, &cx, "below");
        }
        find(&local, &cx, &root, "below").unwrap();
        // a directory of the same file system over another, and over itself
        for source in ["beside", "below"] {
            let at = stage.tree.join("below");
            let _mounted = Mounted::bind(&stage.tree.join(source), &at);
            assert_is_covered(&local, &cx, "below");
        }
        find(&local, &cx, &root, "below").unwrap();
    });
}

/// One thread exchanges and replaces files, another looks the name up: id, attributes and data must
/// always be one file's.
#[test]
fn lookup_of_a_changing_name_is_consistent() {
    each_in_memory(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let root = local.root();
        let path = |file: &str| stage.tree.join(file);
        fs::write(path("name"), "x").unwrap();
        find(&local, &cx, &root, "name").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // each file's size is its mark, and set before it gets the name
                for round in 1..3000u64 {
                    let file = fs::File::create(path("next")).unwrap();
                    file.set_len(round).unwrap();
                    if round % 3 == 0 {
                        fs::remove_file(path("name")).unwrap();
                    }
                    fs::rename(path("next"), path("name")).unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            });
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                match find(&local, &cx, &root, "name") {
                    Err(Status::NoEnt) => {}
                    Err(status) => panic!("{status}"),
                    Ok((fid, attr)) => {
                        assert!(attr.size >= last, "{} after {last}", attr.size);
                        last = attr.size;
                        match local.getattr(&cx, &fid, vfs::Want::STAT) {
                            Ok(now) => {
                                assert_eq!((now.fileid, now.size), (attr.fileid, attr.size));
                            }
                            Err(status) => assert_eq!(status, Status::Stale),
                        }
                    }
                }
            }
            assert!(last > 1, "the two met");
        });
    });
}

#[test]
fn a_hard_link_is_the_same_object_under_each_name() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let root = local.root();
        let fid = make(&local, &cx, &root, "a", 0o644).unwrap().node.unwrap().fid;
        put(&local, &cx, &fid, b"data").unwrap();
        local.link(&cx, &fid, &root, name("b")).unwrap();
        for _ in 0..3 {
            for file in ["a", "b"] {
                assert_eq!(find(&local, &cx, &root, file).unwrap().0, fid);
            }
        }
        local.remove(&cx, &root, name("a")).unwrap();
        assert_eq!(find(&local, &cx, &root, "a"), Err(Status::NoEnt));
        assert_eq!(find(&local, &cx, &root, "b").unwrap().0, fid);
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
    });
}

/// The removed name referred to another object before, which a local program renamed.
#[test]
fn a_removed_object_is_not_confused_with_an_earlier_one_of_its_name() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let (root, path) = (local.root(), |file: &str| stage.tree.join(file));
        for step in ["remove", "rename"] {
            let fid = make(&local, &cx, &root, "a", 0o644).unwrap().node.unwrap().fid;
            put(&local, &cx, &fid, b"data").unwrap();
            fs::rename(path("a"), path("b")).unwrap();
            fs::write(path("a"), "another").unwrap();
            if step == "remove" {
                local.remove(&cx, &root, name("a")).unwrap();
                assert_eq!(find(&local, &cx, &root, "a"), Err(Status::NoEnt));
            } else {
                fs::write(path("c"), "a third").unwrap();
                local.rename(&cx, (&root, name("c")), (&root, name("a"))).unwrap();
                assert_eq!(find(&local, &cx, &root, "a").unwrap().1.size, 7);
            }
            assert_eq!(take(&local, &cx, &fid).unwrap(), b"data", "{step}");
            assert_eq!(find(&local, &cx, &root, "b").unwrap().0, fid, "{step}");
            local.remove(&cx, &root, name("b")).unwrap();
            assert_eq!(local.getattr(&cx, &fid, Want::STAT), Err(Status::Stale), "{step}");
        }
        let now_s = stage.files.now_s();
        (1..=32).for_each(|more_s| stage.files.sweep(now_s + more_s));
        let part = stage.tree.display().to_string();
        assert_eq!(deleted_open(&part), 0, "nothing that was removed stays open");
    });
}

/// The ids and sizes of a listing by name.
fn listed(local: &bowline_vfs_local::LocalFs) -> BTreeMap<Vec<u8>, (Fid, u64)> {
    let mut all = BTreeMap::new();
    let listing =
        local.readdir(&of(ROOT), &local.root(), vfs::ListArgs::all(0, true), &mut |entry| {
            if let Some(node) = entry.node
                && !entry.name.starts_with(b".")
            {
                all.insert(entry.name.to_vec(), (node.fid, node.attr.size));
            }
            ControlFlow::Continue(())
        });
    assert!(listing.is_ok_and(|listing| listing.eof));
    all
}

#[test]
fn a_listing_shows_current_objects() {
    each(|stage| {
        let (local, path) = (stage.serve(), |file: &str| stage.tree.join(file));
        let there = || {
            let local = stage.serve();
            let fresh = |name: &[u8]| {
                let (fid, attr) =
                    find(&local, &of(ROOT), &local.root(), str::from_utf8(name).unwrap()).unwrap();
                (name.to_vec(), (fid, attr.size))
            };
            let names = fs::read_dir(&stage.tree).unwrap();
            names
                .map(|entry| fresh(entry.unwrap().file_name().as_bytes()))
                .collect::<BTreeMap<_, _>>()
        };
        for n in 0..40 {
            fs::write(path(&format!("f{n}")), vec![0; n]).unwrap();
        }
        assert_eq!(listed(&local), there(), "new");
        // from now on the inodes are old enough to be recognised by their time of creation
        std::thread::sleep(std::time::Duration::from_millis(3100));
        for _ in 0..3 {
            assert_eq!(listed(&local), there(), "old");
        }
        for n in 0..40 {
            match n % 4 {
                0 => fs::write(path(&format!("f{n}")), vec![0; 1000 + n]).unwrap(),
                1 => fs::remove_file(path(&format!("f{n}"))).unwrap(),
                2 => fs::rename(path(&format!("f{n}")), path(&format!("f{}", n + 1))).unwrap(),
                _ => {}
            }
        }
        stage.files.sweep(stage.files.now_s() + 100);
        for n in (1..40).step_by(4) {
            fs::write(path(&format!("f{n}")), "another, perhaps with the number of one that went")
                .unwrap();
        }
        for _ in 0..2 {
            assert_eq!(listed(&local), there(), "changed");
        }
    });
}

/// What opens a remembered name in one step says what a look-up and an open say, and nothing of a name that now leads to
/// another file.
#[test]
fn a_remembered_name_opens_the_file_that_it_leads_to() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let (root, path) = (local.root(), |file: &str| stage.tree.join(file));
        let open =
            |cx: &Cx<'_>, file| local.open_remembered(cx, &root, name(file), OpenAccess::READ);
        make(&local, &of(ANN), &root, "f", 0o600).unwrap();
        let (fid, attr) = find(&local, &cx, &root, "f").unwrap();
        let (found, kept) = open(&of(ANN), "f").unwrap();
        assert_eq!((found.node.fid, found.node.attr), (fid, attr));
        assert_eq!(found.dir.fileid, fs::metadata(&stage.tree).unwrap().ino());
        assert!(open(&of(BOB), "f").is_none(), "its mode does not allow it");
        assert!(open(&cx, "none").is_none());
        find(&local, &cx, &root, "none").unwrap_err();
        assert!(open(&cx, "none").is_none(), "it is remembered that there is none");
        fs::create_dir(path("d")).unwrap();
        find(&local, &cx, &root, "d").unwrap();
        assert!(open(&cx, "d").is_none(), "it is no file");
        fs::write(path("other"), "22").unwrap();
        fs::rename(path("other"), path("f")).unwrap();
        assert!(open(&cx, "f").is_none(), "it leads to another file");
        assert!(local.getattr(&cx, &fid, Want::STAT).is_ok(), "the first one is kept");
        drop(kept);
        assert_eq!(local.getattr(&cx, &fid, Want::STAT), Err(Status::Stale));
        let (second, _) = find(&local, &cx, &root, "f").unwrap();
        assert_eq!(open(&cx, "f").unwrap().0.node.fid, second);
    });
}

//! Attributes that were read before (`attr-cache`): calls see each other's changes at once, changes by other programs
//! once the copy is too old, and nothing hides one for ever. That all calls are seen, whatever their order, is
//! also compared in `oracle` and `conformance`, which run with kept attributes.

use crate::support::{ROOT, Stage, each_in_memory, find, has_root, make, name, of, put};
use bowline_vfs_local::{LocalFs, LocalOptions, OpenFiles};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use vfs::acl::{Acl, AclKind};
use vfs::{
    AccessMask, Attr, Backend, Create, Cx, Fid, FileAt, ListArgs, Result, SetAttr, SetTime,
    SetXattr, Stability, Status, Time, Want, XattrName,
};

/// Longer than any test takes.
const LONG_MS: u32 = 60_000;

/// Root's context with attributes of this age.
fn old(attr_cache_ms: u32) -> Cx<'static> {
    Cx { attr_cache_ms, ..of(ROOT) }
}

fn getattr(local: &LocalFs, age_ms: u32, fid: &Fid) -> Result<Attr> {
    local.getattr(&old(age_ms), fid, Want::STAT)
}

/// What the kernel says: links, mode, owner, size, storage, mtime and ctime.
type Seen = (u64, u32, u32, u64, u64, (i64, i64), (i64, i64));

fn seen(attr: &Attr) -> Seen {
    let time = |time: Time| (time.sec, i64::from(time.nsec));
    let (mode, links) = (u32::from(attr.mode), u64::from(attr.nlink));
    (links, mode, attr.uid, attr.size, attr.used, time(attr.mtime), time(attr.ctime))
}

fn seen_by_kernel(path: &Path) -> Seen {
    let m = fs::symlink_metadata(path).unwrap();
    let times = ((m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec()));
    (m.nlink(), m.mode() & 0o7777, m.uid(), m.size(), m.blocks() * 512, times.0, times.1)
}

/// Every object of a directory, by each of the calls that may be answered from copies.
fn listed(local: &LocalFs, dir: &Fid) -> BTreeMap<String, (Fid, Attr)> {
    let mut listed = BTreeMap::new();
    let args = ListArgs { want: Want::STAT | Want::CHANGE, ..ListArgs::all(0, true) };
    local
        .readdir(&old(LONG_MS), dir, args, &mut |entry| {
            let name = String::from_utf8_lossy(entry.name).into_owned();
            if let (Some(node), false) = (entry.node, name.starts_with('.')) {
                listed.insert(name, (node.fid, node.attr));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    listed
}

/// Compares all answers about a directory with what the kernel says.
fn check(local: &LocalFs, dir: &Fid, path: &Path, after: &str) {
    for _ in 0..2 {
        let names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let entries = listed(local, dir);
        assert_eq!(entries.len(), names.len(), "{after}: {names:?}");
        for name in &names {
            let wanted = seen_by_kernel(&path.join(name));
            let (fid, attr) = &entries[name];
            assert_eq!(seen(attr), wanted, "{after}: {name} as an entry");
            let (found, attr) = find(local, &old(LONG_MS), dir, name).unwrap();
            assert_eq!((found, seen(&attr)), (*fid, wanted), "{after}: LOOKUP of {name}");
            let attr = getattr(local, LONG_MS, fid).unwrap();
            assert_eq!(seen(&attr), wanted, "{after}: GETATTR of {name}");
            let (_, attr) = local.access(&old(LONG_MS), fid, AccessMask::READ).unwrap();
            assert_eq!(seen(&attr), wanted, "{after}: ACCESS of {name}");
        }
        let wanted = seen_by_kernel(path);
        assert_eq!(seen(&getattr(local, LONG_MS, dir).unwrap()), wanted, "{after}: the directory");
    }
}

/// Runs calls one after the other; after each every answer is right.
fn run(local: &LocalFs, tree: &Path, steps: &[(&str, &dyn Fn())]) {
    for (what, step) in steps {
        // the files have the time of another tick each
        std::thread::sleep(Duration::from_millis(5));
        step();
        check(local, &local.root(), tree, what);
    }
}

#[test]
fn each_change_of_a_file_is_in_the_next_answer() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let (cx, root) = (old(LONG_MS), local.root());
        let file = |text: &str| find(&local, &cx, &root, text).unwrap().0;
        let set = |text: &str, set: SetAttr| {
            local.setattr(&cx, &file(text), &set, None).unwrap();
        };
        let own = sys::identity::own().unwrap();
        let attr = XattrName::new(b"kept").unwrap();
        let steps: [(&str, &dyn Fn()); 14] = [
            ("CREATE", &|| {
                make(&local, &cx, &root, "a", 0o600).unwrap();
            }),
            ("CREATE of another", &|| {
                make(&local, &cx, &root, "b", 0o600).unwrap();
            }),
            ("WRITE", &|| {
                put(&local, &cx, &file("a"), b"data").unwrap();
            }),
            ("WRITE of more", &|| {
                put(&local, &cx, &file("a"), &[1; 9000]).unwrap();
            }),
            ("SETATTR of the size", &|| set("a", SetAttr { size: Some(5), ..SetAttr::default() })),
            ("SETATTR of the mode", &|| {
                set("a", SetAttr { mode: Some(0o640), ..SetAttr::default() })
            }),
            ("SETATTR of the owner", &|| {
                set("a", SetAttr { uid: Some(own.uid), ..SetAttr::default() })
            }),
            ("SETATTR of times", &|| {
                let mtime = SetTime::To(Time { sec: 5, nsec: 7 });
                set("a", SetAttr { mtime, ..SetAttr::default() });
            }),
            ("CREATE that cuts", &|| {
                let cut = SetAttr { size: Some(0), ..SetAttr::default() };
                local.create(&cx, &root, name("a"), Create::Unchecked(cut)).unwrap();
            }),
            ("ALLOCATE", &|| {
                local.space().unwrap().allocate(&cx, &file("b"), 0, 100_000).unwrap();
            }),
            ("DEALLOCATE", &|| {
                local.space().unwrap().deallocate(&cx, &file("b"), 0, 50_000).unwrap();
            }),
            ("COPY", &|| {
                put(&local, &cx, &file("a"), b"to be copied").unwrap();
                let (from, to) = (file("a"), file("b"));
                let at = |fid| FileAt { cx, fid, offset: 0 };
                local.space().unwrap().copy_range(at(&from), at(&to), 12).unwrap();
            }),
            ("SETXATTR", &|| {
                let set = |fid: &Fid| {
                    local.xattrs().unwrap().set_xattr(&cx, fid, attr, b"value", SetXattr::Any)
                };
                match set(&file("b")) {
                    // a tmpfs before Linux 6.6
                    Ok(_) | Err(Status::NotSupp) => {}
                    Err(status) => panic!("{status}"),
                }
            }),
            ("SETACL", &|| {
                let acl = Acl::parse(&acl_of_a_user()).unwrap();
                let acls = local.acls().unwrap();
                acls.set_acl(&cx, &file("b"), AclKind::Access, Some(&acl)).unwrap();
            }),
        ];
        run(&local, &stage.tree, &steps);
        let counts = stage.files.attr_cache_counts();
        assert!(counts.hits > 100 && counts.misses > 20, "{counts:?}");
    });
}

#[test]
fn each_change_of_names_is_in_the_next_answer() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let (cx, root) = (old(LONG_MS), local.root());
        let file = |text: &str| find(&local, &cx, &root, text).unwrap().0;
        let steps: [(&str, &dyn Fn()); 11] = [
            ("CREATE", &|| {
                make(&local, &cx, &root, "a", 0o600).unwrap();
            }),
            ("CREATE of another", &|| {
                make(&local, &cx, &root, "b", 0o600).unwrap();
            }),
            ("LINK", &|| {
                local.link(&cx, &file("a"), &root, name("l")).unwrap();
            }),
            ("REMOVE of one of two names", &|| {
                local.remove(&cx, &root, name("l")).unwrap();
            }),
            ("RENAME", &|| {
                local.rename(&cx, (&root, name("a")), (&root, name("c"))).unwrap();
            }),
            ("LINK again", &|| {
                local.link(&cx, &file("b"), &root, name("k")).unwrap();
            }),
            ("RENAME onto one of two names", &|| {
                local.rename(&cx, (&root, name("c")), (&root, name("k"))).unwrap();
            }),
            ("MKDIR", &|| {
                local.mkdir(&cx, &root, name("d"), &SetAttr::default()).unwrap();
            }),
            ("SYMLINK", &|| {
                local.symlink(&cx, &root, name("s"), b"x", &SetAttr::default()).unwrap();
            }),
            ("RENAME into a directory", &|| {
                local.rename(&cx, (&root, name("s")), (&file("d"), name("s"))).unwrap();
            }),
            ("REMOVE", &|| {
                local.remove(&cx, &root, name("k")).unwrap();
            }),
        ];
        run(&local, &stage.tree, &steps);
        let moved = file("d");
        local.remove(&cx, &moved, name("s")).unwrap();
        run(
            &local,
            &stage.tree,
            &[("RMDIR", &|| {
                local.rmdir(&cx, &root, name("d")).unwrap();
            })],
        );
        assert_eq!(getattr(&local, LONG_MS, &moved), Err(Status::Stale));
    });
}

/// Of the owner, a user, the group, the mask and others.
fn acl_of_a_user() -> Vec<u8> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 4, 4001),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

#[test]
fn a_change_by_another_program_is_seen_when_the_copy_is_too_old() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let (root, path) = (local.root(), stage.tree.join("f"));
        fs::write(&path, "1").unwrap();
        let (fid, _) = find(&local, &old(LONG_MS), &root, "f").unwrap();
        let size = |age_ms| getattr(&local, age_ms, &fid).unwrap().size;
        assert_eq!(size(LONG_MS), 1);
        fs::write(&path, "22").unwrap();
        assert_eq!(size(LONG_MS), 1, "it was read again");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(size(20), 2);
        assert_eq!(size(LONG_MS), 2);
        // a client whose rule has no such option sees it at once, and nobody goes back behind that
        fs::write(&path, "333").unwrap();
        assert_eq!((size(LONG_MS), size(0), size(LONG_MS)), (2, 3, 3));
        fs::write(&path, "4444").unwrap();
        let mut data = [0; 8];
        let read = local.read(&old(LONG_MS), &fid, 0, &mut data).unwrap();
        assert_eq!((read.count, read.attr.size, size(LONG_MS)), (4, 4, 4), "what was read says it");
        // names
        let lookup = |age_ms| find(&local, &old(age_ms), &root, "f").map(|(fid, _)| fid);
        assert_eq!((lookup(LONG_MS), lookup(LONG_MS)), (Ok(fid), Ok(fid)));
        fs::rename(&path, stage.tree.join("g")).unwrap();
        assert_eq!(lookup(LONG_MS), Ok(fid), "it was looked up again");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(lookup(20), Err(Status::NoEnt));
        fs::remove_file(stage.tree.join("g")).unwrap();
        assert_eq!(getattr(&local, LONG_MS, &fid).map(|attr| attr.size), Ok(4));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(getattr(&local, 20, &fid), Err(Status::Stale));
    });
}

#[test]
fn attributes_before_a_change_are_those_of_the_moment() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let (cx, root, path) = (old(LONG_MS), local.root(), stage.tree.join("f"));
        fs::write(&path, "1").unwrap();
        let (fid, _) = find(&local, &cx, &root, "f").unwrap();
        let before = getattr(&local, LONG_MS, &fid).unwrap();
        fs::write(&path, "22").unwrap();
        assert_eq!(getattr(&local, LONG_MS, &fid).unwrap(), before);
        // a client that knows the attributes of before must not take both changes for its own
        let written = local.write(&cx, &fid, 0, b"4444", Stability::Unstable).unwrap().file;
        assert_eq!(written.before.unwrap().size, 2);
        assert_eq!(written.after.unwrap().size, 4);
        fs::write(&path, "55555").unwrap();
        assert_eq!(getattr(&local, LONG_MS, &fid).unwrap().size, 5);
        fs::write(&path, "666666").unwrap();
        let set = SetAttr { size: Some(7), ..SetAttr::default() };
        assert_eq!(local.setattr(&cx, &fid, &set, None).unwrap().before.unwrap().size, 6);
        fs::write(&path, "88888888").unwrap();
        assert_eq!(getattr(&local, LONG_MS, &fid).unwrap().size, 8);
        fs::write(&path, "999999999").unwrap();
        assert_eq!(local.commit(&cx, &fid, 0, 0).unwrap().before.unwrap().size, 9);
        let dir = getattr(&local, LONG_MS, &root).unwrap();
        std::thread::sleep(Duration::from_millis(12));
        fs::write(stage.tree.join("new"), "").unwrap();
        assert_eq!(getattr(&local, LONG_MS, &root).unwrap(), dir);
        let made = make(&local, &cx, &root, "made", 0o600).unwrap();
        assert_ne!(made.dir.before.unwrap().mtime, dir.mtime);
    });
}

/// The change attribute stands for what is in the copy, and not for a change in the same tick of the clock that it does not
/// show.
#[test]
fn a_copy_does_not_claim_a_change_that_it_does_not_show() {
    let stage = Stage::new(bowline_vfs_local::Naming::Table);
    let options =
        LocalOptions { force_table: true, count_changes: true, ..LocalOptions::default() };
    let local = LocalFs::open(&stage.tree, &options, Arc::new(OpenFiles::new(4096))).unwrap();
    let path = stage.tree.join("f");
    for size in 1..200_u64 {
        fs::write(&path, "").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
        let (fid, _) = find(&local, &old(0), &local.root(), "f").unwrap();
        let copied = getattr(&local, LONG_MS, &fid).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(size + 1).unwrap();
        let in_one_tick = fs::metadata(&path).unwrap().ctime_nsec() == i64::from(copied.ctime.nsec);
        std::thread::sleep(Duration::from_millis(25));
        let later = getattr(&local, LONG_MS, &fid).unwrap();
        let now = getattr(&local, 1, &fid).unwrap();
        assert_eq!((copied.size, later.size, now.size), (size, size, size + 1));
        assert_ne!(later.change, now.change, "the same for two sizes");
        if in_one_tick {
            return;
        }
    }
    println!("no two changes were in one tick: the kernel's times are finer");
}

#[test]
fn a_lease_is_taken_of_what_is_there_now() {
    if !has_root() {
        return;
    }
    each_in_memory(|stage| {
        let local = stage.serve();
        let path = stage.tree.join("f");
        fs::write(&path, "1").unwrap();
        let cx = old(LONG_MS);
        let lookup = || find(&local, &cx, &local.root(), "f").unwrap();
        let (fid, _) = (lookup(), lookup()).1;
        fs::write(&path, "22").unwrap();
        assert_eq!(getattr(&local, LONG_MS, &fid).unwrap().size, 1);
        let lease = local.leases().unwrap().hold_back_writers(&cx, &fid, Box::new(|| ()));
        assert!(lease.unwrap().is_some());
        assert_eq!(getattr(&local, LONG_MS, &fid).unwrap().size, 2);
    });
}

/// Names are changed by several calls at once, so that none can be certain which object its name is of, while others
/// ask for the objects. When all is done, every answer is right.
#[test]
fn changes_of_one_name_at_once_leave_nothing_old() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let (cx, root) = (old(LONG_MS), local.root());
        for round in 0..50 {
            let made =
                |text: &str| make(&local, &cx, &root, text, 0o600).unwrap().node.unwrap().fid;
            let files = [made("m"), made("n")];
            local.link(&cx, &files[0], &root, name("spare")).unwrap();
            local.link(&cx, &files[1], &root, name("other")).unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let remove = || local.remove(&old(LONG_MS), &root, name("n")).is_ok();
                let rename =
                    || local.rename(&old(LONG_MS), (&root, name("m")), (&root, name("n"))).is_ok();
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        for file in &files {
                            let _done = getattr(&local, LONG_MS, file);
                        }
                    }
                });
                let changes = [scope.spawn(remove), scope.spawn(rename), scope.spawn(remove)];
                changes.into_iter().for_each(|change| {
                    let _some_fail = change.join().unwrap();
                });
                stop.store(true, SeqCst);
            });
            check(&local, &root, &stage.tree, &format!("round {round}"));
            for text in ["m", "n", "spare", "other"] {
                let _done = local.remove(&cx, &root, name(text));
            }
            for file in &files {
                assert_eq!(getattr(&local, LONG_MS, file), Err(Status::Stale), "round {round}");
            }
        }
    });
}

/// Two exports of one file system answer from the same copies, and change them for each other.
#[test]
fn a_change_by_way_of_one_export_is_seen_in_the_other() {
    each_in_memory(|stage| {
        fs::create_dir(stage.tree.join("d")).unwrap();
        fs::write(stage.tree.join("d/f"), "1").unwrap();
        fs::set_permissions(stage.tree.join("d"), PermissionsExt::from_mode(0o777)).unwrap();
        let outer = stage.serve();
        let options = LocalOptions {
            table: Some(stage.table.with_extension("inner")),
            force_table: stage.naming == bowline_vfs_local::Naming::Table,
            ..LocalOptions::default()
        };
        let inner =
            LocalFs::open(&stage.tree.join("d"), &options, Arc::clone(&stage.files)).unwrap();
        let cx = old(LONG_MS);
        let (dir, _) = find(&outer, &cx, &outer.root(), "d").unwrap();
        let outside = || find(&outer, &cx, &dir, "f").unwrap();
        let inside = || find(&inner, &cx, &inner.root(), "f").unwrap();
        for size in 2..20 {
            assert_eq!((outside().1.size, inside().1.size), (size - 1, size - 1));
            put(&inner, &cx, &inside().0, &vec![1; size as usize]).unwrap();
            assert_eq!(getattr(&outer, LONG_MS, &outside().0).unwrap().size, size);
        }
        inner.remove(&cx, &inner.root(), name("f")).unwrap();
        assert_eq!(find(&outer, &cx, &dir, "f"), Err(Status::NoEnt));
    });
}

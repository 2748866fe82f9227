//! Kept files that lose their last name: they outlive the server in a hidden directory, and are removed from it when nobody
//! keeps them.

use crate::support::{
    ANN, BOB, Mounted, ROOT, Stage, each, each_in_memory, find, has_root, make, name, names, of,
    put, soon, take,
};
use bowline_vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use sys::testing::kill_at::kill_at;
use sys::testing::single_step::{be_traced, mark};
use testing::is_root;
use vfs::{Backend, Component, Create, Cx, Fid, Kept, ListArgs, Name, SetAttr, Status, Want};

const HIDDEN: &str = ".bowline-open";

/// A file with data that is open, as by a client of version 4.
fn open_file(local: &LocalFs, dir: &Fid, file: &str) -> (Fid, Kept) {
    let cx = of(ROOT);
    let fid = make(local, &cx, dir, file, 0o644).unwrap().node.unwrap().fid;
    put(local, &cx, &fid, b"data").unwrap();
    let kept = local.keep(&cx, &fid).unwrap();
    assert!(local.unlinked().unwrap().preserves(&cx, &fid));
    (fid, kept)
}

/// The server ends without closing anything, and another one serves the directory.
fn restart(stage: &mut Stage, local: LocalFs, kept: Kept) -> LocalFs {
    std::mem::forget(kept);
    drop(local);
    stage.files = Arc::new(OpenFiles::new(4096));
    stage.serve()
}

/// The names in the hidden directory.
fn hidden(root: &Path) -> Vec<String> {
    let listed = fs::read_dir(root.join(HIDDEN)).map(|dir| dir.flatten().collect::<Vec<_>>());
    let names = listed.unwrap_or_default().into_iter();
    names.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn nlink(local: &LocalFs, fid: &Fid) -> vfs::Result<u32> {
    local.getattr(&of(ROOT), fid, Want::STAT).map(|attr| attr.nlink)
}

/// Waits until a file is gone, that nobody keeps.
fn gone(stage: &Stage, local: &LocalFs, root: &Path, fid: &Fid) {
    soon("the file to be gone", || {
        stage.files.close_removed_now();
        hidden(root).is_empty() && nlink(local, fid) == Err(Status::Stale)
    });
}

/// The same with a stage that can be served again.
fn each_again(run: impl Fn(&mut Stage)) {
    if is_root() {
        run(&mut Stage::new(Naming::Handles));
        sys::identity::act_as_process().unwrap();
    }
    run(&mut Stage::new(Naming::Table));
}

#[test]
fn an_open_file_outlives_its_name_and_the_server_until_it_is_closed() {
    each_again(|stage| {
        let (cx, tree) = (of(ROOT), stage.tree.clone());
        let local = stage.serve();
        let root = local.root();
        let (fid, kept) = open_file(&local, &root, "f");
        let mode = fs::metadata(tree.join(HIDDEN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        local.remove(&cx, &root, name("f")).unwrap();
        assert_eq!(hidden(&tree).len(), 1);
        assert_eq!(nlink(&local, &fid), Ok(0));
        assert_eq!(find(&local, &cx, &root, "f").map(drop), Err(Status::NoEnt));
        put(&local, &cx, &fid, b"more").unwrap();
        let local = restart(stage, local, kept);
        assert_eq!(nlink(&local, &fid), Ok(0));
        let kept = local.keep(&cx, &fid).unwrap();
        // the grace period is over
        local.unlinked().unwrap().discard_left_over();
        stage.files.close_removed(Duration::from_millis(50));
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"more");
        put(&local, &cx, &fid, b"then").unwrap();
        assert_eq!(
            (take(&local, &cx, &fid).unwrap(), nlink(&local, &fid)),
            (b"then".to_vec(), Ok(0))
        );
        assert_eq!(stage.files.unlinked_counts().held, 1);
        drop(kept);
        gone(stage, &local, &tree, &fid);
        assert_eq!(stage.files.unlinked_counts().held, 0);
        // an empty one is not left behind
        drop(local);
        let _local = stage.serve();
        assert!(!tree.join(HIDDEN).exists());
    });
}

#[test]
fn a_file_that_nobody_reclaims_is_removed_when_nobody_may_any_more() {
    each_again(|stage| {
        let (cx, tree) = (of(ROOT), stage.tree.clone());
        let local = stage.serve();
        let (fid, kept) = open_file(&local, &local.root(), "f");
        local.remove(&cx, &local.root(), name("f")).unwrap();
        let local = restart(stage, local, kept);
        stage.files.close_removed(Duration::from_millis(50));
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
        local.unlinked().unwrap().discard_left_over();
        gone(stage, &local, &tree, &fid);
    });
}

#[test]
fn a_file_that_another_replaces_outlives_the_server() {
    each_again(|stage| {
        let (cx, tree) = (of(ROOT), stage.tree.clone());
        let local = stage.serve();
        let root = local.root();
        let (fid, kept) = open_file(&local, &root, "f");
        let new = make(&local, &cx, &root, "new", 0o644).unwrap().node.unwrap().fid;
        local.rename(&cx, (&root, name("new")), (&root, name("f"))).unwrap();
        assert_eq!(find(&local, &cx, &root, "f").unwrap().0, new);
        assert_eq!((nlink(&local, &fid), nlink(&local, &new)), (Ok(0), Ok(1)));
        let local = restart(stage, local, kept);
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
        assert_eq!(find(&local, &cx, &local.root(), "f").unwrap().0, new);
        local.unlinked().unwrap().discard_left_over();
        gone(stage, &local, &tree, &fid);
    });
}

#[test]
fn only_the_last_name_is_replaced_by_a_hidden_one() {
    each(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let root = local.root();
        let (fid, kept) = open_file(&local, &root, "f");
        local.link(&cx, &fid, &root, name("g")).unwrap();
        local.rename(&cx, (&root, name("f")), (&root, name("g"))).unwrap();
        assert_eq!((hidden(&stage.tree).len(), nlink(&local, &fid)), (0, Ok(2)), "two of one file");
        local.remove(&cx, &root, name("f")).unwrap();
        assert_eq!((hidden(&stage.tree).len(), nlink(&local, &fid)), (0, Ok(1)));
        local.remove(&cx, &root, name("g")).unwrap();
        assert_eq!((hidden(&stage.tree).len(), nlink(&local, &fid)), (1, Ok(0)));
        // and has another one again
        local.link(&cx, &fid, &root, name("h")).unwrap();
        let listed = |wanted| {
            let mut links = None;
            let args = vfs::ListArgs { want: wanted, ..vfs::ListArgs::all(0, true) };
            local
                .readdir(&cx, &root, args, &mut |entry| {
                    if entry.name == b"h" {
                        links = entry.node.map(|node| node.attr.nlink);
                    }
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
            links
        };
        assert_eq!((nlink(&local, &fid), listed(Want::STAT)), (Ok(1), Some(1)));
        assert_eq!(listed(Want::CHANGE), Some(1));
        drop(kept);
        soon("the hidden name to be gone", || hidden(&stage.tree).is_empty());
        assert_eq!(fs::metadata(stage.tree.join("h")).unwrap().nlink(), 1);
        assert_eq!(
            (nlink(&local, &fid), take(&local, &cx, &fid).unwrap()),
            (Ok(1), b"data".to_vec())
        );
    });
}

#[test]
fn files_that_nobody_keeps_and_names_that_cannot_be_removed_get_no_hidden_one() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let root = local.root();
        let sticky = SetAttr { mode: Some(0o1777), ..SetAttr::default() };
        let dir = local.mkdir(&cx, &root, name("d"), &sticky).unwrap().node.unwrap().fid;
        let (fid, kept) = open_file(&local, &dir, "f");
        for cred in [ANN, BOB] {
            let removed = local.remove(&of(cred), &dir, name("f"));
            assert!(matches!(removed, Err(Status::Acces | Status::Perm)), "{removed:?}");
            make(&local, &of(cred), &dir, "mine", 0o644).unwrap();
            let renamed = local.rename(&of(cred), (&dir, name("mine")), (&dir, name("f")));
            assert!(matches!(renamed, Err(Status::Acces | Status::Perm)), "{renamed:?}");
            local.remove(&of(cred), &dir, name("mine")).unwrap();
        }
        assert_eq!((hidden(&stage.tree).len(), nlink(&local, &fid)), (0, Ok(1)));
        make(&local, &cx, &root, "other", 0o644).unwrap();
        local.remove(&cx, &root, name("other")).unwrap();
        assert_eq!(hidden(&stage.tree).len(), 0);
        drop(kept);
        local.remove(&cx, &dir, name("f")).unwrap();
        assert_eq!(hidden(&stage.tree).len(), 0);
        assert_eq!(nlink(&local, &fid), Err(Status::Stale));
    });
}

#[test]
fn clients_neither_see_the_directory_nor_use_its_name() {
    each(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let root = local.root();
        let (_, _kept) = open_file(&local, &root, "f");
        let hid = || name(HIDDEN);
        assert_eq!(find(&local, &cx, &root, HIDDEN).map(drop), Err(Status::NoEnt));
        for nodes in [false, true] {
            let listed = names(&local, &cx, &root, 100, nodes);
            assert!(!listed.iter().any(|name| name == HIDDEN), "{listed:?}");
            assert!(listed.iter().any(|name| name == "f"), "{listed:?}");
        }
        let set = SetAttr::default();
        let (fid, _) = find(&local, &cx, &root, "f").unwrap();
        assert_eq!(local.remove(&cx, &root, hid()).err(), Some(Status::NoEnt));
        assert_eq!(local.rmdir(&cx, &root, hid()).err(), Some(Status::NoEnt));
        let renamed = |from: Name<'_>, to: Name<'_>| local.rename(&cx, (&root, from), (&root, to));
        assert_eq!(renamed(hid(), name("x")).err(), Some(Status::NoEnt));
        assert_eq!(renamed(name("f"), hid()).err(), Some(Status::Acces));
        let made = local.create(&cx, &root, hid(), Create::Unchecked(set));
        assert_eq!(made.err(), Some(Status::Acces));
        let made = local.create_open(&cx, &root, hid(), Create::Guarded(set));
        assert_eq!(made.err(), Some(Status::Acces));
        assert_eq!(local.mkdir(&cx, &root, hid(), &set).err(), Some(Status::Acces));
        assert_eq!(local.symlink(&cx, &root, hid(), b"t", &set).err(), Some(Status::Acces));
        let node = local.mknod(&cx, &root, hid(), vfs::NodeKind::Fifo, &set);
        assert_eq!(node.err(), Some(Status::Acces));
        assert_eq!(local.link(&cx, &fid, &root, hid()).err(), Some(Status::Acces));
        // elsewhere it is a name like others
        let dir = local.mkdir(&cx, &root, name("d"), &set).unwrap().node.unwrap().fid;
        let made = local.mkdir(&cx, &dir, hid(), &set).unwrap().node.unwrap().fid;
        assert_eq!(find(&local, &cx, &dir, HIDDEN).unwrap().0, made);
        assert!(names(&local, &cx, &dir, 100, true).iter().any(|name| name == HIDDEN));
    });
}

/// Longer than any test takes.
const LONG_MS: u32 = 60_000;

/// Names and links of a directory's entries, by so many at a time, by attributes that may be old or not.
fn listed(
    local: &LocalFs,
    (attr_cache_ms, most): (u32, usize),
    wanted: Want,
) -> Vec<(String, Option<u32>)> {
    let cx = Cx { attr_cache_ms, ..of(ROOT) };
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let (mut left, from) = (most, cookie);
        let args = ListArgs { want: wanted, ..ListArgs::all(from, true) };
        let listing = local.readdir(&cx, &local.root(), args, &mut |entry| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            (left, cookie) = (left - 1, entry.cookie);
            let links = entry.node.map(|node| node.attr.nlink);
            all.push((String::from_utf8_lossy(entry.name).into_owned(), links));
            ControlFlow::Continue(())
        });
        if listing == Err(Status::Jukebox) {
            (all, cookie) = (Vec::new(), 0);
        } else if listing.unwrap().eof {
            all.sort();
            return all;
        }
    }
}

#[test]
fn a_listing_that_is_kept_hides_the_directory_and_its_link() {
    each_in_memory(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let root = local.root();
        let (fid, kept) = open_file(&local, &root, "f");
        let links = |file: &str, expected: u32| {
            let old = Cx { attr_cache_ms: LONG_MS, ..cx };
            let begun = stage.files.attr_cache_counts().listings;
            for round in 0..3 {
                for (age, most) in [(LONG_MS, 100), (LONG_MS, 1), (0, 100), (0, 1)] {
                    for wanted in [Want::STAT, Want::CHANGE] {
                        let all = listed(&local, (age, most), wanted);
                        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
                        assert_eq!(names, [".", "..", file, "other"], "{round} {age} {most}");
                        assert_eq!(all[2].1, Some(expected), "{round} {age} {most} {wanted:?}");
                    }
                }
                for age in [&old, &cx] {
                    let found = local.lookup(age, &root, Component::Name(name(file))).unwrap();
                    let attr = local.getattr(age, &fid, Want::STAT).unwrap();
                    assert_eq!(
                        (found.node.attr.nlink, attr.nlink),
                        (expected, expected),
                        "{round}"
                    );
                }
            }
            assert!(stage.files.attr_cache_counts().listings >= begun + 10, "none was kept");
        };
        // what is kept was listed when the directory was there
        make(&local, &cx, &root, "other", 0o644).unwrap();
        assert_eq!(fs::read_dir(&stage.tree).unwrap().count(), 3);
        links("f", 1);
        local.link(&cx, &fid, &root, name("g")).unwrap();
        local.remove(&cx, &root, name("f")).unwrap();
        assert_eq!(hidden(&stage.tree).len(), 0);
        links("g", 1);
        local.remove(&cx, &root, name("g")).unwrap();
        local.link(&cx, &fid, &root, name("h")).unwrap();
        assert_eq!(fs::metadata(stage.tree.join("h")).unwrap().nlink(), 2);
        links("h", 1);
        // a name that is not known, of an object that can be told from later ones
        fs::rename(stage.tree.join("h"), stage.tree.join("i")).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        local.getattr(&cx, &root, Want::STAT).unwrap();
        for _ in 0..2 {
            put(&local, &cx, &fid, b"more").unwrap();
            links("i", 1);
        }
        drop(kept);
        soon("the hidden name to be gone", || hidden(&stage.tree).is_empty());
        links("i", 1);
    });
}

#[test]
fn the_directory_is_not_listed_while_it_is_made() {
    let stage = Stage::new_in("/dev/shm".as_ref(), Naming::Table);
    for round in 0..100 {
        let local = stage.serve();
        let made = make(&local, &of(ROOT), &local.root(), &round.to_string(), 0o600).unwrap();
        let fid = made.node.unwrap().fid;
        let (both, stop) = (Barrier::new(2), AtomicBool::new(false));
        let preserves = std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                while !stop.load(SeqCst) {
                    let seen = listed(&local, (0, 100), Want::STAT);
                    assert!(!seen.iter().any(|(name, _)| name == HIDDEN), "{round}: {seen:?}");
                }
                sys::identity::act_as_process().unwrap();
            });
            let kept = local.keep(&of(ROOT), &fid);
            both.wait();
            let preserves = local.unlinked().is_some_and(|u| u.preserves(&of(ROOT), &fid));
            stop.store(true, SeqCst);
            kept.is_ok() && preserves
        });
        assert!(preserves, "{round}");
        drop(local);
        sys::identity::act_as_process().unwrap();
        fs::remove_dir(stage.tree.join(HIDDEN)).unwrap();
    }
}

#[test]
fn attributes_from_while_a_name_could_not_be_removed_are_not_kept() {
    if !has_root() {
        return;
    }
    each_in_memory(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let old = || Cx { attr_cache_ms: LONG_MS, ..of(ROOT) };
        let sticky = SetAttr { mode: Some(0o1777), ..SetAttr::default() };
        let dir = local.mkdir(&cx, &local.root(), name("d"), &sticky).unwrap();
        let dir = dir.node.unwrap().fid;
        let (fid, _kept) = open_file(&local, &dir, "f");
        for round in 0..500 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    put(&local, &of(ROOT), &fid, b"more").unwrap();
                    local.getattr(&old(), &fid, Want::STAT).unwrap();
                    sys::identity::act_as_process().unwrap();
                });
                local.remove(&of(ANN), &dir, name("f")).unwrap_err();
            });
            let attr = local.getattr(&old(), &fid, Want::STAT).unwrap();
            assert_eq!(attr.nlink, 1, "{round}");
        }
    });
}

#[test]
fn an_export_inside_another_shares_files_and_hides_its_directory_there() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(Naming::Handles);
    let cx = of(ROOT);
    fs::create_dir(stage.tree.join("inner")).unwrap();
    let (outer, inner) = (stage.serve(), stage.serve_at(&stage.tree.join("inner")));
    let (fid, kept) = open_file(&inner, &inner.root(), "f");
    let (dir, _) = find(&outer, &cx, &outer.root(), "inner").unwrap();
    assert_eq!(find(&outer, &cx, &dir, HIDDEN).map(drop), Err(Status::NoEnt));
    assert!(!names(&outer, &cx, &dir, 100, true).iter().any(|name| name == HIDDEN));
    // removed by the other export, which has no directory of its own
    outer.remove(&cx, &dir, name("f")).unwrap();
    assert_eq!(hidden(&stage.tree.join("inner")).len(), 1);
    assert_eq!((nlink(&inner, &fid), nlink(&outer, &fid)), (Ok(0), Ok(0)));
    drop(kept);
    gone(&stage, &inner, &stage.tree.join("inner"), &fid);
    assert_eq!(nlink(&outer, &fid), Err(Status::Stale));
    // an export is served again while a file is open
    let (fid, kept) = open_file(&inner, &inner.root(), "g");
    inner.remove(&cx, &inner.root(), name("g")).unwrap();
    drop(inner);
    let inner = stage.serve_at(&stage.tree.join("inner"));
    inner.unlinked().unwrap().discard_left_over();
    stage.files.close_removed(Duration::from_millis(50));
    assert_eq!((take(&inner, &cx, &fid).unwrap(), nlink(&inner, &fid)), (b"data".to_vec(), Ok(0)));
    drop(kept);
    gone(&stage, &inner, &stage.tree.join("inner"), &fid);
    sys::identity::act_as_process().unwrap();
}

#[test]
fn a_directory_that_is_not_the_servers_own_is_not_used() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let cx = of(ROOT);
        let at = stage.tree.join(HIDDEN);
        let elsewhere = stage.tree.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
        let make_dir = |mode| {
            fs::create_dir(&at).unwrap();
            fs::write(at.join("file"), "").unwrap();
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
        };
        let obstacles: [&dyn Fn(); 4] = [
            &|| make_dir(0o750),
            &|| {
                make_dir(0o700);
                chown(&at, Some(4001), None).unwrap();
            },
            &|| symlink(&elsewhere, &at).unwrap(),
            &|| fs::write(&at, "").unwrap(),
        ];
        for put_there in obstacles {
            put_there();
            let local = stage.serve();
            let root = local.root();
            let fid = make(&local, &cx, &root, "f", 0o644).unwrap().node.unwrap().fid;
            let kept = local.keep(&cx, &fid).unwrap();
            assert!(!local.unlinked().unwrap().preserves(&cx, &fid));
            // it is somebody's, and seen
            assert!(find(&local, &cx, &root, HIDDEN).is_ok());
            local.remove(&cx, &root, name("f")).unwrap();
            assert_eq!(nlink(&local, &fid), Ok(0), "as long as the server");
            drop(kept);
            assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
            drop(local);
            sys::identity::act_as_process().unwrap();
            fs::remove_file(&at).or_else(|_| fs::remove_dir_all(&at)).unwrap();
        }
        fs::remove_dir(&elsewhere).unwrap();
    });
}

#[test]
fn two_servers_of_one_directory_leave_each_other_their_files() {
    each(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let (fid, _kept) = open_file(&local, &local.root(), "f");
        local.remove(&cx, &local.root(), name("f")).unwrap();
        // of another process: it shares nothing
        let other = LocalFs::open(
            &stage.tree,
            &LocalOptions { force_table: stage.naming == Naming::Table, ..LocalOptions::default() },
            Arc::new(OpenFiles::new(4096)),
        );
        let other = other.unwrap();
        other.unlinked().unwrap().discard_left_over();
        let made = make(&other, &cx, &other.root(), "g", 0o644).unwrap().node.unwrap().fid;
        let _other_kept = other.keep(&cx, &made).unwrap();
        assert!(!other.unlinked().unwrap().preserves(&cx, &made));
        drop(other);
        assert_eq!((hidden(&stage.tree).len(), nlink(&local, &fid)), (1, Ok(0)));
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
        // two of one process share it
        let again = stage.serve();
        assert_eq!(nlink(&again, &fid), Ok(0));
        let (second, _kept) = open_file(&again, &again.root(), "h");
        drop(local);
        again.remove(&cx, &again.root(), name("h")).unwrap();
        assert_eq!((hidden(&stage.tree).len(), nlink(&again, &second)), (2, Ok(0)));
    });
}

#[test]
fn what_is_not_the_servers_stays_in_the_directory() {
    if !has_root() {
        return;
    }
    let mut stage = Stage::new(Naming::Handles);
    let (cx, tree) = (of(ROOT), stage.tree.clone());
    let local = stage.serve();
    let (fid, kept) = open_file(&local, &local.root(), "f");
    let (named, kept_named) = open_file(&local, &local.root(), "named");
    local.remove(&cx, &local.root(), name("f")).unwrap();
    let own = hidden(&tree).remove(0);
    // as a server that was killed between the link and the removal of the name leaves it
    let hex: String = named.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    fs::hard_link(tree.join("named"), tree.join(HIDDEN).join(&hex)).unwrap();
    std::mem::forget(kept_named);
    let at = |name: &str| tree.join(HIDDEN).join(name);
    let other = format!("{}ff", &own[..own.len() - 2]);
    fs::write(at(&other), "the name of another id").unwrap();
    fs::write(at("README"), "").unwrap();
    symlink(tree.join("named"), at("00")).unwrap();
    fs::create_dir(at("01")).unwrap();
    let local = restart(&mut stage, local, kept);
    assert_eq!(nlink(&local, &named), Ok(1), "the hidden one is not counted");
    local.unlinked().unwrap().discard_left_over();
    soon("the files to be gone", || !at(&own).exists() && !at(&hex).exists());
    stage.files.close_removed_now();
    soon("the file to be closed", || nlink(&local, &fid) == Err(Status::Stale));
    let mut left = hidden(&tree);
    left.sort();
    let mut expected = [other, "README".into(), "00".into(), "01".into()];
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(
        (nlink(&local, &named), fs::metadata(tree.join("named")).unwrap().nlink()),
        (Ok(1), 1)
    );
    sys::identity::act_as_process().unwrap();
}

#[test]
fn without_room_or_right_for_the_directory_nothing_is_promised() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let mounted = Mounted::tmpfs(&stage.tree, "size=256k,nr_inodes=4,mode=777");
        let cx = of(ROOT);
        let local = stage.serve();
        let root = local.root();
        // the root, its directory, two files: no link more
        let (fid, kept) = open_file(&local, &root, "f");
        make(&local, &cx, &root, "g", 0o644).unwrap();
        local.remove(&cx, &root, name("f")).unwrap();
        assert_eq!((hidden(&stage.tree).len(), nlink(&local, &fid)), (0, Ok(0)));
        assert_eq!(stage.files.unlinked_counts().failed, 1);
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"data", "as long as the server");
        drop(kept);
        drop(local);
        stage.files.close_removed_now();
        sys::identity::act_as_process().unwrap();
        let local = stage.serve();
        let (fid, _) = find(&local, &cx, &root, "g").unwrap();
        mounted.remount("ro");
        let kept = local.keep(&cx, &fid).unwrap();
        assert!(!local.unlinked().unwrap().preserves(&cx, &fid));
        drop(kept);
    });
}

#[test]
fn a_file_that_loses_two_names_at_once_stays() {
    each_in_memory(|stage| {
        let (cx, local) = (of(ROOT), stage.serve());
        let root = local.root();
        for round in 0..100 {
            let (fid, kept) = open_file(&local, &root, "f");
            local.link(&cx, &fid, &root, name("g")).unwrap();
            std::thread::scope(|scope| {
                for one in ["f", "g"] {
                    scope.spawn(|| {
                        while local.remove(&of(ROOT), &root, name(one)) == Err(Status::Jukebox) {}
                        sys::identity::act_as_process().unwrap();
                    });
                }
            });
            assert_eq!((nlink(&local, &fid), hidden(&stage.tree).len()), (Ok(0), 1), "{round}");
            drop(kept);
            gone(stage, &local, &stage.tree, &fid);
        }
    });
}

/// The directory in which a child removes its file.
const DIR: &str = "BOWLINE_TEST_UNLINKED_IN";
/// Replaces it instead.
const RENAMES: &str = "BOWLINE_TEST_UNLINKED_RENAMES";
/// The test that the children run.
const CHILD: &str = "unlinked::loses_a_name_while_it_is_traced";
/// System calls of one removal, at most; each stops at its beginning and its end.
const STOPS_MAX: u32 = 400;

fn remove_as(local: &LocalFs, renames: bool) {
    // as root, the call of an unprivileged caller
    let (cx, root) = (of(if is_root() { ANN } else { ROOT }), local.root());
    match renames {
        true => drop(local.rename(&cx, (&root, name("new")), (&root, name("f"))).unwrap()),
        false => drop(local.remove(&cx, &root, name("f")).unwrap()),
    }
}

#[test]
fn loses_a_name_while_it_is_traced() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let files = Arc::new(OpenFiles::new(64));
    let local = LocalFs::open(&dir, &LocalOptions::default(), Arc::clone(&files)).unwrap();
    let (_, kept) = open_file(&local, &local.root(), "f");
    make(&local, &of(ROOT), &local.root(), "new", 0o644).unwrap();
    be_traced().unwrap();
    mark();
    remove_as(&local, std::env::var_os(RENAMES).is_some());
    mark();
    std::mem::forget(kept);
}

/// The number of stops. After each the server is killed; the file must be there, by its name or by its id, until it is known
/// that nobody reclaims it.
fn kill_at_every_stop(renames: bool) -> u32 {
    // nothing happens between the end of a call and the beginning of the next one
    for stops in (1..STOPS_MAX).step_by(2) {
        let stage = Stage::new(if is_root() { Naming::Handles } else { Naming::Table });
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", CHILD, "--test-threads=1"]).env(DIR, &stage.tree);
        if renames {
            command.env(RENAMES, "1");
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if !kill_at(&mut child, stops).unwrap() {
            assert_eq!(hidden(&stage.tree).len(), 1);
            return stops - 1;
        }
        let (cx, local) = (of(ROOT), stage.serve());
        let root = local.root();
        let by_name = find(&local, &cx, &root, "f").ok().map(|(fid, _)| fid);
        let by_name = by_name.filter(|fid| take(&local, &cx, fid).unwrap() == b"data");
        let names = hidden(&stage.tree);
        let by_id = names.first().map(|name| {
            let byte = |at: usize| u8::from_str_radix(&name[at..at + 2], 16).unwrap();
            Fid::new(&(0..name.len()).step_by(2).map(byte).collect::<Vec<_>>()).unwrap()
        });
        assert!(by_name.is_some() || by_id.is_some(), "lost after {stops} stops");
        if let Some(fid) = by_id {
            assert_eq!(take(&local, &cx, &fid).unwrap(), b"data");
            assert_eq!(nlink(&local, &fid), Ok(u32::from(by_name.is_some())), "{stops}");
        }
        // nobody has reclaimed it: a name that is left is not touched
        local.unlinked().unwrap().discard_left_over();
        soon("nothing to be left over", || hidden(&stage.tree).is_empty());
        if let Some(fid) = by_name {
            assert_eq!(
                (take(&local, &cx, &fid).unwrap(), nlink(&local, &fid)),
                (b"data".to_vec(), Ok(1))
            );
        }
        sys::identity::act_as_process().unwrap();
    }
    panic!("the removal did not end");
}

#[test]
fn a_server_that_is_killed_at_any_call_loses_no_open_file_and_leaves_nothing() {
    for renames in [false, true] {
        let stops = kill_at_every_stop(renames);
        assert!(stops > 10, "{stops}: there are more system calls");
    }
}

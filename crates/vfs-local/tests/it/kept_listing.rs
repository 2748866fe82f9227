//! Names that were listed before (`attr-cache`): a listing from them is the kernel's, with the same cookies; changes by calls are
//! in the next one, changes by other programs once the directory's attributes are too old. That all calls are seen,
//! whatever their order, is also compared in `oracle` and `conformance`, which run with kept attributes.

use crate::support::{ANN, ROOT, Stage, each, each_in_memory, find, has_root, make, name, of};
use bowline_vfs_local::LocalFs;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use vfs::{Attr, Backend, Cred, Cx, Fid, ListArgs, Result, SetAttr, Status, Time};

/// Longer than any test takes.
const LONG_MS: u32 = 60_000;
/// After that time an object can be told from a later one with the same inode number.
const OLD: Duration = Duration::from_secs(3);

fn old_of(cred: Cred<'_>, attr_cache_ms: u32) -> Cx<'_> {
    Cx { attr_cache_ms, ..of(cred) }
}

/// Root's context with attributes of this age.
fn old(attr_cache_ms: u32) -> Cx<'static> {
    old_of(ROOT, attr_cache_ms)
}

/// Name, inode number, cookie, and id and attributes.
type Listed = Vec<(String, u64, u64, Option<(Fid, Attr)>)>;

/// At most so many entries behind a cookie, and whether the end was reached.
fn some(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    (cookie, most): (u64, usize),
    nodes: bool,
) -> Result<(Listed, bool)> {
    let mut listed = Listed::new();
    let args = ListArgs { room: 4096, ..ListArgs::all(cookie, nodes) };
    let listing = local.readdir(cx, dir, args, &mut |entry| {
        if listed.len() == most {
            return ControlFlow::Break(());
        }
        let name = String::from_utf8_lossy(entry.name).into_owned();
        // a listing is an access; the time of creation was not asked for; the change attribute says how old ctime is
        let attr =
            |attr: Attr| Attr { atime: Time::default(), birth: None.into(), change: 0, ..attr };
        let node = entry.node.map(|node| (node.fid, attr(node.attr)));
        listed.push((name, entry.fileid, entry.cookie, node));
        ControlFlow::Continue(())
    })?;
    Ok((listed, listing.eof))
}

fn all(local: &LocalFs, age_ms: u32, dir: &Fid) -> Listed {
    some(local, &old(age_ms), dir, (0, usize::MAX), true).unwrap().0
}

fn names(local: &LocalFs, age_ms: u32, dir: &Fid) -> Vec<String> {
    let mut names: Vec<_> = all(local, age_ms, dir).into_iter().map(|(name, ..)| name).collect();
    names.retain(|name| !matches!(name.as_str(), "." | ".."));
    names.sort();
    names
}

fn fill(stage: &Stage, count: usize) {
    for n in 0..count {
        // of all lengths that end in another place of a word
        File::create(stage.tree.join(format!("{n}{}", "x".repeat(n % 17)))).unwrap();
    }
}

fn kept(stage: &Stage) -> u64 {
    stage.files.attr_cache_counts().listings
}

#[test]
fn a_kept_listing_is_the_kernels() {
    let run = |stage: &Stage| {
        fill(stage, 100);
        fs::create_dir(stage.tree.join("d")).unwrap();
        std::os::unix::fs::symlink("x", stage.tree.join("s")).unwrap();
        let local = stage.serve();
        let root = local.root();
        let (dir, _) = find(&local, &of(ROOT), &root, "d").unwrap();
        // when nothing is known of the objects yet, and when all is
        for wait in [Duration::ZERO, OLD] {
            std::thread::sleep(wait);
            for dir in [&root, &dir] {
                let wanted = all(&local, 0, dir);
                for round in 0..4 {
                    assert!(all(&local, LONG_MS, dir) == wanted, "listing {round}");
                    let by_name =
                        |age_ms| some(&local, &old(age_ms), dir, (0, 1000), false).unwrap();
                    assert!(by_name(LONG_MS) == by_name(0), "listing {round}");
                }
            }
        }
        assert!(kept(stage) >= 20, "{}", kept(stage));
        let counts = stage.files.attr_cache_counts();
        assert!(counts.hits > 500, "{counts:?}");
    };
    each_in_memory(run);
    each(run);
}

#[test]
fn a_listing_goes_on_by_the_kernel_and_back() {
    let run = |stage: &Stage| {
        fill(stage, 60);
        let local = stage.serve();
        let root = local.root();
        let wanted = all(&local, 0, &root);
        // one that is full before its end is kept whole
        let first = some(&local, &old(LONG_MS), &root, (0, 3), true).unwrap();
        assert_eq!(first, (wanted[..3].to_vec(), false));
        let before = kept(stage);
        for at in 0..wanted.len() {
            let behind = (wanted[at].2, usize::MAX);
            for age_ms in [0, LONG_MS] {
                let rest = some(&local, &old(age_ms), &root, behind, true).unwrap();
                assert!(rest == (wanted[at + 1..].to_vec(), true), "behind entry {at}");
            }
        }
        assert_eq!(kept(stage) - before, wanted.len() as u64);
        let (mut pages, mut cookie, mut number) = (Listed::new(), 0, 0);
        loop {
            let age_ms = if number % 2 == 0 { 0 } else { LONG_MS };
            let (page, eof) = some(&local, &old(age_ms), &root, (cookie, 5), true).unwrap();
            pages.extend(page);
            if eof {
                break;
            }
            cookie = pages.last().unwrap().2;
            number += 1;
        }
        assert!(pages == wanted);
    };
    each_in_memory(run);
    each(run);
}

#[test]
fn a_name_of_another_program_is_seen_when_the_listing_is_too_old() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let root = local.root();
        File::create(stage.tree.join("a")).unwrap();
        assert_eq!(names(&local, LONG_MS, &root), ["a"]);
        std::thread::sleep(Duration::from_millis(12));
        File::create(stage.tree.join("b")).unwrap();
        assert_eq!(names(&local, LONG_MS, &root), ["a"], "it was listed again");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(names(&local, 20, &root), ["a", "b"]);
        assert_eq!(names(&local, LONG_MS, &root), ["a", "b"]);
        // attributes that are asked for say that the names are others
        fs::rename(stage.tree.join("b"), stage.tree.join("c")).unwrap();
        assert_eq!(names(&local, LONG_MS, &root), ["a", "b"]);
        local.getattr(&old(0), &root, vfs::Want::STAT).unwrap();
        assert_eq!(names(&local, LONG_MS, &root), ["a", "c"]);
        // a cookie that it does not have is one of the kernel's, whose names count from there on
        fs::remove_file(stage.tree.join("a")).unwrap();
        for n in 0..5 {
            File::create(stage.tree.join(format!("n{n}"))).unwrap();
        }
        let now = fs::read_dir(&stage.tree).unwrap().count();
        assert_eq!(names(&local, LONG_MS, &root), ["a", "c"]);
        let (listed, _) = some(&local, &of(ROOT), &root, (0, usize::MAX), true).unwrap();
        assert_eq!(listed.len(), now + 2);
        assert_eq!(names(&local, LONG_MS, &root).len(), now, "the kernel was asked for attributes");
    });
}

#[test]
fn each_change_by_a_call_is_in_the_next_listing() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let (cx, root) = (old(LONG_MS), local.root());
        local.mkdir(&cx, &root, name("d"), &SetAttr::default()).unwrap();
        let (dir, _) = find(&local, &cx, &root, "d").unwrap();
        let parent = |dir: &Fid| {
            let listed = all(&local, LONG_MS, dir);
            listed.iter().find(|(name, ..)| name == "..").map(|(_, ino, ..)| *ino).unwrap()
        };
        for round in 0..20 {
            let list = || (names(&local, LONG_MS, &root), names(&local, LONG_MS, &dir));
            let had = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let twice = |here: &[&str], there: &[&str]| {
                for _ in 0..2 {
                    assert_eq!(list(), (had(here), had(there)), "round {round}");
                }
            };
            twice(&["d"], &[]);
            make(&local, &cx, &root, "a", 0o600).unwrap();
            twice(&["a", "d"], &[]);
            local.rename(&cx, (&root, name("a")), (&dir, name("b"))).unwrap();
            twice(&["d"], &["b"]);
            local.link(&cx, &find(&local, &cx, &dir, "b").unwrap().0, &root, name("c")).unwrap();
            twice(&["c", "d"], &["b"]);
            local.remove(&cx, &dir, name("b")).unwrap();
            twice(&["c", "d"], &[]);
            // a directory's own entry for the one above
            local.mkdir(&cx, &root, name("m"), &SetAttr::default()).unwrap();
            let (moved, _) = find(&local, &cx, &root, "m").unwrap();
            let (above, other) = (parent(&moved), find(&local, &cx, &root, "d").unwrap().1.fileid);
            assert_eq!(parent(&moved), above);
            local.rename(&cx, (&root, name("m")), (&dir, name("m"))).unwrap();
            assert_eq!(parent(&moved), other, "it was moved");
            local.rmdir(&cx, &dir, name("m")).unwrap();
            assert_eq!(
                some(&local, &cx, &moved, (0, 9), true).map(drop),
                Err(Status::Stale),
                "it was removed"
            );
            local.remove(&cx, &root, name("c")).unwrap();
        }
        assert!(kept(stage) > 100, "{}", kept(stage));
    });
}

/// One thread makes and removes names, each of which is in the next listing or is not, while others list.
#[test]
fn no_listing_is_older_than_the_last_change_that_is_done() {
    each_in_memory(|stage| {
        let local = stage.serve();
        let root = local.root();
        for n in 0..20 {
            File::create(stage.tree.join(format!("stay{n}"))).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        let names = names(&local, LONG_MS, &root);
                        let stay = names.iter().filter(|name| name.starts_with("stay")).count();
                        assert_eq!(stay, 20, "{names:?}");
                    }
                });
            }
            for round in 0..300 {
                let file = format!("go{round}");
                make(&local, &old(LONG_MS), &root, &file, 0o600).unwrap();
                assert!(names(&local, LONG_MS, &root).contains(&file), "{file} is not there");
                local.remove(&old(LONG_MS), &root, name(&file)).unwrap();
                assert!(!names(&local, LONG_MS, &root).contains(&file), "{file} is still there");
            }
            stop.store(true, SeqCst);
        });
    });
}

#[test]
fn a_listing_is_given_only_to_who_may_list() {
    if !has_root() {
        return;
    }
    each_in_memory(|stage| {
        fill(stage, 3);
        let local = stage.serve();
        let root = local.root();
        let set = |mode| {
            let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
            local.setattr(&old(LONG_MS), &root, &set, None).unwrap();
        };
        let nodes = |cred| {
            let listed = some(&local, &old_of(cred, LONG_MS), &root, (0, 99), true)?.0;
            Ok(listed.iter().filter(|(.., node)| node.is_some()).count())
        };
        for (mode, wanted) in [(0o705, Ok(4)), (0o704, Ok(0)), (0o701, Err(Status::Acces))] {
            set(mode);
            for round in 0..3 {
                assert_eq!(nodes(ROOT), Ok(4), "root, listing {round}");
                assert_eq!(nodes(ANN), wanted, "mode {mode:o}, listing {round}");
            }
        }
        // a program of this machine takes the right away
        set(0o705);
        assert_eq!((nodes(ANN), nodes(ANN)), (Ok(4), Ok(4)));
        fs::set_permissions(&stage.tree, PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(nodes(ANN), Ok(4));
        std::thread::sleep(Duration::from_millis(30));
        let now = some(&local, &old_of(ANN, 20), &root, (0, 99), true);
        assert_eq!(now.map(drop), Err(Status::Acces));
    });
}

#[test]
fn a_large_directory_is_not_kept() {
    each_in_memory(|stage| {
        fill(stage, 3000);
        let local = stage.serve();
        let root = local.root();
        let wanted = all(&local, 0, &root);
        for _ in 0..3 {
            assert!(all(&local, LONG_MS, &root) == wanted);
        }
        let (mut pages, mut cookie) = (Listed::new(), 0);
        loop {
            let (page, eof) = some(&local, &old(LONG_MS), &root, (cookie, 100), true).unwrap();
            pages.extend(page);
            if eof {
                break;
            }
            cookie = pages.last().unwrap().2;
        }
        assert!(pages == wanted && kept(stage) == 0, "{}", kept(stage));
    });
}

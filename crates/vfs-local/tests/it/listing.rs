//! Large directories, listed during concurrent changes.

use crate::support::{ROOT, Stage, each, each_in_memory, names, of};
use std::collections::HashMap;
use std::fs::{self, File};
use vfs::{Backend, ListArgs, Status};

/// Entries that stay for the whole listing: in memory, and on a disk, where creation takes longer.
const STABLE: [usize; 2] = [20_000, 4000];
/// Entries of the large directory, in memory and on a disk.
const LARGE: [usize; 2] = [100_000, 10_000];

#[test]
fn every_unchanged_entry_is_listed_once_during_changes() {
    each_in_memory(|stage| stable_entries(stage, STABLE[0]));
    each(|stage| stable_entries(stage, STABLE[1]));
}

fn stable_entries(stage: &Stage, stable: usize) {
    for n in 0..stable {
        File::create(stage.tree.join(format!("stable{n}"))).unwrap();
    }
    let local = stage.serve();
    let cx = of(ROOT);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let all = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(relaxed) {
                    break;
                }
                File::create(stage.tree.join(format!("passing{n}"))).unwrap();
                if n >= 10 {
                    fs::remove_file(stage.tree.join(format!("passing{}", n - 10))).unwrap();
                }
            }
        });
        let all = names(&local, &cx, &local.root(), 500, true);
        stop.store(true, relaxed);
        all
    });
    let mut seen: HashMap<String, usize> = HashMap::new();
    for name in all.into_iter().filter(|name| name.starts_with("stable")) {
        *seen.entry(name).or_default() += 1;
    }
    assert_eq!(seen.len(), stable);
    assert!(seen.values().all(|count| *count == 1));
}

#[test]
fn a_hundred_thousand_entries_in_small_replies() {
    each_in_memory(|stage| small_replies(stage, LARGE[0]));
    each(|stage| small_replies(stage, LARGE[1]));
}

fn small_replies(stage: &Stage, large: usize) {
    for n in 0..large {
        File::create(stage.tree.join(format!("{n}"))).unwrap();
    }
    let local = stage.serve();
    let mut all = names(&local, &of(ROOT), &local.root(), 4000, false);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), large + 2);
    // one entry per reply, as with the smallest client buffer, from the middle on
    let mut cookie = 0;
    for _ in 0..1000 {
        let mut taken = None;
        let done = local.readdir(
            &of(ROOT),
            &local.root(),
            ListArgs { room: 32, ..ListArgs::all(cookie, false) },
            &mut |entry| {
                if taken.is_some() {
                    return std::ops::ControlFlow::Break(());
                }
                taken = Some(entry.cookie);
                std::ops::ControlFlow::Continue(())
            },
        );
        assert!(!done.unwrap().eof);
        assert_ne!(Some(cookie), taken);
        cookie = taken.unwrap();
    }
}

#[test]
fn an_invalid_cookie_is_refused() {
    each(|stage| {
        let local = stage.serve();
        let done =
            local.readdir(&of(ROOT), &local.root(), ListArgs::all(u64::MAX, false), &mut |_| {
                std::ops::ControlFlow::Continue(())
            });
        assert_eq!(done, Err(Status::BadCookie));
    });
}

#[test]
fn a_listing_without_search_permission_has_names_only() {
    if !crate::support::has_root() {
        return;
    }
    each(|stage| {
        File::create(stage.tree.join("file")).unwrap();
        let mode = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(&stage.tree, mode).unwrap();
        };
        let local = stage.serve();
        let nodes = || {
            let mut nodes = 0;
            let done = local.readdir(
                &of(crate::support::ANN),
                &local.root(),
                ListArgs::all(0, true),
                &mut |entry| {
                    nodes += usize::from(entry.node.is_some());
                    std::ops::ControlFlow::Continue(())
                },
            );
            done.map(|_| nodes)
        };
        mode(0o705);
        assert_eq!(nodes(), Ok(2));
        mode(0o704);
        assert_eq!(nodes(), Ok(0));
        mode(0o701);
        assert_eq!(nodes(), Err(Status::Acces));
    });
}

/// A list that lacks what was made meanwhile does not come with the attributes of after that, by which it would pass for a new
/// one.
#[test]
fn a_directory_that_changes_while_it_is_listed_shows_its_attributes_of_before() {
    each(|stage| {
        File::create(stage.tree.join("old")).unwrap();
        let (local, cx) = (stage.serve(), of(ROOT));
        let (root, of_now) = (local.root(), |attr: vfs::Attr| (attr.mtime, attr.change));
        let shown = || of_now(local.getattr(&cx, &root, vfs::Want::STAT).unwrap());
        // the next change has another time
        std::thread::sleep(std::time::Duration::from_millis(30));
        let before = shown();
        let listing = local.readdir(&cx, &root, ListArgs::all(0, false), &mut |_| {
            File::create(stage.tree.join("new")).unwrap();
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(of_now(listing.unwrap().dir), before);
        assert_ne!(shown(), before);
    });
}

//! Concurrent changes to a name while it is being created.

use crate::support::{ANN, BOB, ROOT, Stage, each, each_in_memory, find, has_root, name, of};
use bowline_vfs_local::LocalFs;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use vfs::{Backend, Create, Created, Cx, Durability, FileType, Name, NodeKind, SetAttr, Status};

/// The mode of files created by the concurrent thread.
const OTHERS: u16 = 0o640;
/// Required calls of either outcome in a race.
const CALLS: usize = 200;
/// Time limit: on a busy machine one of the two may have the processor alone.
const PATIENCE: Duration = Duration::from_secs(20);

/// The context of root's calls without syncing.
fn quick() -> Cx<'static> {
    Cx { durability: Durability::Async, ..of(ROOT) }
}

/// Runs `calls` while another thread repeats an action.
fn beside(again: impl Fn() + Sync, calls: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                again();
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(calls));
        stop.store(true, Relaxed);
        done.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}

#[test]
fn a_name_that_is_replaced_is_found_all_the_time() {
    each_in_memory(|stage| {
        let (local, path) = (stage.serve(), stage.tree.join("f"));
        let new = stage.tree.join("new");
        File::create(&path).unwrap();
        let replace = || {
            File::create(&new).unwrap();
            fs::rename(&new, &path).unwrap();
        };
        let begun = Instant::now();
        beside(replace, || {
            for _ in 0..CALLS * 50 {
                find(&local, &quick(), &local.root(), "f").unwrap();
                if begun.elapsed() > PATIENCE {
                    break;
                }
            }
        });
    });
}

/// Creates a file and removes it, but no other's file.
fn create_and_remove(path: &Path) {
    let mut how = File::options();
    how.write(true).create_new(true).mode(OTHERS.into());
    if how.open(path).is_ok() {
        fs::remove_file(path).unwrap();
    }
}

/// Creates the file repeatedly during that, and removes it whenever it was new.
fn create(stage: &Stage, how: Create) {
    let (local, path) = (stage.serve(), stage.tree.join("f"));
    let (mut made, mut met) = (0, 0);
    let begun = Instant::now();
    let again = || create_and_remove(&path);
    beside(again, || {
        while made.min(met) < CALLS && begun.elapsed() < PATIENCE {
            match local.create(&quick(), &local.root(), name("f"), how) {
                Ok(done) if done.node.unwrap().attr.mode == OTHERS => met += 1,
                Ok(_) => {
                    fs::remove_file(&path).unwrap();
                    made += 1;
                }
                Err(Status::Exist) if !matches!(how, Create::Unchecked(_)) => met += 1,
                // eight races lost one after the other
                Err(Status::Jukebox) => {}
                Err(status) => panic!("{how:?}: {status:?} after {made} made, {met} met"),
            }
        }
    });
    assert!(made + met > 0);
}

#[test]
fn create_succeeds_when_the_existing_file_is_removed_concurrently() {
    each(|stage| {
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        create(stage, Create::Unchecked(mode));
        create(stage, Create::Unchecked(SetAttr { size: Some(0), ..mode }));
        create(stage, Create::Exclusive(*b"verifier"));
        create(stage, Create::Guarded(mode));
    });
}

/// The types that are created by name.
const BY_NAME: [FileType; 3] = [FileType::Directory, FileType::Symlink, FileType::Fifo];
/// Attributes beyond those of the creation: set by another system call.
const WANTED: SetAttr = SetAttr {
    mode: Some(0o2750),
    uid: Some(ANN.uid),
    gid: Some(ANN.gid),
    size: None,
    atime: vfs::SetTime::Keep,
    mtime: vfs::SetTime::Keep,
};
/// Calls during concurrent renames or removals of their objects.
const MEDDLED: usize = 500;

fn make(local: &LocalFs, ftype: FileType, at: Name<'_>, set: &SetAttr) -> vfs::Result<Created> {
    let (cx, root) = (quick(), local.root());
    match ftype {
        FileType::Directory => local.mkdir(&cx, &root, at, set),
        FileType::Symlink => local.symlink(&cx, &root, at, b"somewhere", set),
        _ => local.mknod(&cx, &root, at, NodeKind::Fifo, set),
    }
}

/// Creates it repeatedly during that; returns how often it was created, and how often it was found
/// then.
fn run_during_changes(local: &LocalFs, ftype: FileType, again: impl Fn() + Sync) -> (usize, usize) {
    let (mut made, mut found) = (0, 0);
    beside(again, || {
        for _ in 0..MEDDLED {
            match make(local, ftype, name("new"), &WANTED) {
                Ok(done) => {
                    made += 1;
                    let Some(node) = done.node else { continue };
                    found += 1;
                    let attr = node.attr;
                    assert_eq!((attr.ftype, attr.uid), (ftype, ANN.uid), "another's: {attr:?}");
                    let mode = if ftype == FileType::Symlink { 0o777 } else { 0o2750 };
                    assert_eq!((attr.gid, attr.mode), (ANN.gid, mode), "{ftype:?}");
                }
                Err(Status::Exist) => {}
                Err(status) => panic!("{ftype:?}: {status:?}"),
            }
        }
    });
    (made, found)
}

#[test]
fn an_object_renamed_to_the_new_name_is_not_taken_as_created() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let local = stage.serve();
        let root = local.root();
        let olds = ["directory", "symlink", "fifo"];
        for (old, ftype) in olds.into_iter().zip(BY_NAME) {
            make(&local, ftype, name(old), &SetAttr::default()).unwrap();
        }
        // an object that the caller created at the time of the call cannot be distinguished from
        // the new one
        std::thread::sleep(Duration::from_millis(2100));
        for ftype in BY_NAME {
            for (old, owner) in olds.into_iter().flat_map(|old| [(old, 0), (old, BOB.uid)]) {
                let path = stage.tree.join(old);
                lchown(&path, Some(owner), Some(owner)).unwrap();
                let seen = || {
                    let data = fs::symlink_metadata(&path).unwrap();
                    (data.ino(), data.uid(), data.gid(), data.mode())
                };
                let before = seen();
                let rename =
                    |from, to| local.rename(&quick(), (&root, name(from)), (&root, name(to)));
                let again = || {
                    if rename(old, "new").is_ok() {
                        rename("new", old).unwrap();
                    }
                };
                let (made, found) = run_during_changes(&local, ftype, again);
                assert_eq!(seen(), before, "{old} as {ftype:?}: {found} of {made} found");
                let _ = local.rmdir(&quick(), &root, name("new"));
                let _ = local.remove(&quick(), &root, name("new"));
            }
        }
    });
}

#[test]
fn an_object_removed_at_once_counts_as_created() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let local = stage.serve();
        let root = local.root();
        for ftype in BY_NAME {
            run_during_changes(&local, ftype, || {
                let _ = local.rmdir(&quick(), &root, name("new"));
                let _ = local.remove(&quick(), &root, name("new"));
            });
        }
        // the same for files, which are open when they are removed
        let again = || drop(fs::remove_file(stage.tree.join("new")));
        beside(again, || {
            for _ in 0..MEDDLED {
                let how = Create::Guarded(WANTED);
                let done = local.create(&quick(), &root, name("new"), how);
                assert!(matches!(done, Ok(_) | Err(Status::Exist)), "{done:?}");
            }
        });
    });
}

//! A call that may wait for a disk announces it at least once, so that others are served meanwhile;
//! calls on a file system in memory never do, and cost no hand-over.

use crate::support::{Stage, each, make, name, of};
use bowline_vfs_local::{LocalFs, LocalOptions, OpenFiles};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use testing::{Missing, skip};
use vfs::{Backend, Blocking, Create, Cx, Durability, Fid, NodeKind, Right, SetAttr, Stability};

/// Counts the announcements.
#[derive(Default)]
struct Told(AtomicU32);

impl Blocking for Told {
    fn will_block(&self) -> vfs::Result<()> {
        self.0.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// The identity of this process, which may change the objects that it creates.
fn own() -> vfs::Cred<'static> {
    let own = sys::identity::own().unwrap();
    vfs::Cred { uid: own.uid, gid: own.gid, groups: &[] }
}

/// The changes without an announcement, and those with one.
fn silent(local: &LocalFs) -> (Vec<&'static str>, Vec<&'static str>) {
    let told = Told::default();
    let cx = Cx {
        cred: own(),
        blocking: &told,
        durability: Durability::Sync,
        right: Right::Check,
        attr_cache_ms: 0,
    };
    let (quiet, mut silent, mut loud) = (of(own()), Vec::new(), Vec::new());
    let root = local.root();
    let set = SetAttr { mode: Some(0o644), ..SetAttr::default() };
    let file: Fid = make(local, &quiet, &root, "file", 0o644).unwrap().node.unwrap().fid;
    let mut check = |what, done: vfs::Result<()>| {
        done.unwrap_or_else(|status| panic!("{what}: {status}"));
        let said = told.0.swap(0, Relaxed) > 0;
        if said { loud.push(what) } else { silent.push(what) }
    };
    check("create", local.create(&cx, &root, name("a"), Create::Guarded(set)).map(drop));
    check("mkdir", local.mkdir(&cx, &root, name("d"), &set).map(drop));
    check("symlink", local.symlink(&cx, &root, name("s"), b"to", &set).map(drop));
    check("mknod", local.mknod(&cx, &root, name("p"), NodeKind::Fifo, &set).map(drop));
    check("link", local.link(&cx, &file, &root, name("b")).map(drop));
    check("rename", local.rename(&cx, (&root, name("b")), (&root, name("c"))).map(drop));
    check("setattr", local.setattr(&cx, &file, &set, None).map(drop));
    check("stable write", local.write(&cx, &file, 0, b"data", Stability::FileSync).map(drop));
    local.write(&quiet, &file, 0, b"more", Stability::Unstable).unwrap();
    check("commit", local.commit(&cx, &file, 0, 0).map(drop));
    check("remove", local.remove(&cx, &root, name("c")).map(drop));
    check("rmdir", local.rmdir(&cx, &root, name("d")).map(drop));
    (silent, loud)
}

/// Whether a directory is on a file system in memory.
fn is_memory(dir: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let dir = std::fs::File::open(dir).unwrap();
    i64::try_from(sys::stat::figures(dir.as_fd()).unwrap().kind).unwrap() == TMPFS
}

#[test]
fn calls_that_may_wait_for_a_disk_announce_blocking() {
    each(|stage: &Stage| {
        if is_memory(&stage.tree) {
            return skip(Missing::FileSystem, "temporary files are memory");
        }
        let (silent, loud) = silent(&stage.serve());
        assert_eq!(silent, [""; 0]);
        assert_eq!(loud.len(), 11);
    });
}

#[test]
fn calls_on_tmpfs_never_announce_blocking() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let served = dir.path().join("served");
    std::fs::create_dir(&served).unwrap();
    assert!(is_memory(&served));
    let options = LocalOptions { table: Some(dir.path().join("table")), ..LocalOptions::default() };
    let local = LocalFs::open(&served, &options, Arc::new(OpenFiles::new(64))).unwrap();
    let (silent, loud) = silent(&local);
    assert_eq!(loud, [""; 0]);
    assert_eq!(silent.len(), 11);
}

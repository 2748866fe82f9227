//! Descriptors never run out permanently, and none is open longer than needed.

use crate::support::{ROOT, each, find, in_child, make, of, put, take};
use bowline_vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use vfs::{Backend, Status, Want};

/// Descriptors of the child.
const LIMIT: [&str; 2] = ["prlimit", "--nofile=96:96"];

#[test]
fn a_server_with_few_descriptors_serves_many_files() {
    if !in_child("descriptors::a_server_with_few_descriptors_serves_many_files", &LIMIT) {
        return;
    }
    for force_table in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(OpenFiles::new(sys::limits::open_files()));
        let options = LocalOptions { force_table, ..LocalOptions::default() };
        let local = LocalFs::open(dir.path(), &options, Arc::clone(&files)).unwrap();
        assert!(local.naming() == Naming::Table || !force_table);
        let (cx, root) = (of(ROOT), local.root());
        let made: Vec<_> = (0..500)
            .map(|n| {
                let fid =
                    make(&local, &cx, &root, &format!("f{n}"), 0o644).unwrap().node.unwrap().fid;
                put(&local, &cx, &fid, format!("{n}").as_bytes()).unwrap();
                fid
            })
            .collect();
        for (n, fid) in made.iter().enumerate() {
            assert_eq!(take(&local, &cx, fid).unwrap(), format!("{n}").as_bytes());
        }
        // another process takes all that are left: some of ours are closed
        let mut hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        for fid in &made {
            assert!(local.getattr(&cx, fid, Want::STAT).is_ok());
        }
        // nothing of ours is left to close: JUKEBOX, never an I/O error
        while !files.is_empty() {
            files.evict_some();
        }
        hogs.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        assert_eq!(local.getattr(&cx, &made[7], Want::STAT), Err(Status::Jukebox));
        assert_eq!(find(&local, &cx, &root, "f7"), Err(Status::Jukebox));
        assert_eq!(take(&local, &cx, &made[7]), Err(Status::Jukebox));
        assert!(hogs.len() > 10);
        drop(hogs);
        assert_eq!(take(&local, &cx, &made[7]).unwrap(), b"7");
    }
}

#[test]
fn a_program_that_was_just_written_can_be_run() {
    each(|stage| {
        stage.files.sweep(1);
        let local = stage.serve();
        let cx = of(ROOT);
        let fid = make(&local, &cx, &local.root(), "run", 0o755).unwrap().node.unwrap().fid;
        let program = fs::read("/bin/true").unwrap();
        for (n, part) in program.chunks(32 << 10).enumerate() {
            let at = (n * (32 << 10)) as u64;
            local.write(&cx, &fid, at, part, vfs::Stability::Unstable).unwrap();
        }
        let path = stage.tree.join("run");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        let busy = Command::new(&path).status();
        assert!(busy.is_err(), "it is still open for writing");
        // as each client does when it closes the file
        local.commit(&cx, &fid, 0, 0).unwrap();
        // read all the time, not written
        for now_s in 2..=5 {
            take(&local, &cx, &fid).unwrap();
            stage.files.sweep(now_s);
        }
        // another thread closes it
        let begun = std::time::Instant::now();
        let ran = loop {
            match Command::new(&path).status() {
                Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                other => break other.unwrap(),
            }
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "still open for writing");
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        assert!(ran.success());
    });
}

/// Each is left with the one descriptor without which it would be lost, also when there is none left to open that by.
#[test]
fn files_without_a_name_leave_descriptors_to_each_other() {
    const TEST: &str = "descriptors::files_without_a_name_leave_descriptors_to_each_other";
    if !in_child(TEST, &LIMIT) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = Arc::new(OpenFiles::new(sys::limits::open_files()));
    let local = LocalFs::open(dir.path(), &LocalOptions::default(), Arc::clone(&files)).unwrap();
    let (cx, root) = (of(ROOT), local.root());
    let kept: Vec<_> = (0..60)
        .map(|n| {
            let name = format!("f{n}");
            let fid = make(&local, &cx, &root, &name, 0o644).unwrap().node.unwrap().fid;
            put(&local, &cx, &fid, name.as_bytes()).unwrap();
            let guard = local.keep(&cx, &fid).unwrap();
            (fid, name, guard)
        })
        .collect();
    for (_, name, _) in &kept {
        local.remove(&cx, &root, vfs::Name::new(name.as_bytes()).unwrap()).unwrap();
    }
    // all at the same moment: their descriptors for reading cannot all be open
    let read = |fid| take(&local, &cx, fid);
    assert!(kept.iter().any(|(fid, _, _)| read(fid) == Err(Status::Jukebox)));
    assert!(File::open("/dev/null").is_err(), "none is left");
    let begun = std::time::Instant::now();
    for (now_s, (fid, name, _)) in (2..).zip(&kept) {
        files.sweep(now_s);
        while read(fid) == Err(Status::Jukebox) {
            assert!(
                begun.elapsed() < std::time::Duration::from_secs(60),
                "{name} stays unreadable"
            );
        }
        assert_eq!(read(fid).unwrap(), name.as_bytes());
    }
}

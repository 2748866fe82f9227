//! A Linux directory conforms to the trait: on a disk and in memory, by handle and by table.

use crate::support::has_root;
use bowline_vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use std::sync::Arc;
use vfs::conformance::{Capabilities, run};

/// Runs the suite in fresh directories below `base`.
fn suite(base: &str, options: &LocalOptions) {
    suite_of(base, options, 0);
}

fn suite_of(base: &str, options: &LocalOptions, attr_cache_ms: u32) {
    sys::open::clear_umask();
    let files = Arc::new(OpenFiles::new(4096));
    let dirs = std::sync::Mutex::new(Vec::new());
    let own = sys::identity::own().unwrap();
    let fresh = || {
        let dir = tempfile::tempdir_in(base).unwrap();
        let options = LocalOptions { table: Some(dir.path().join("names")), ..options.clone() };
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let local = LocalFs::open(&root, &options, Arc::clone(&files)).unwrap();
        assert!(!options.force_table || local.naming() == Naming::Table);
        dirs.lock().unwrap().push(dir);
        Box::new(local) as Box<dyn vfs::Backend>
    };
    let root = has_root();
    let capabilities = Capabilities {
        acts_as_callers: root,
        device_nodes: root,
        own: (own.uid, own.gid),
        attr_cache_ms,
    };
    let checks = run(&fresh, capabilities);
    assert!(checks.len() >= 40, "{} checks", checks.len());
}

#[test]
fn on_a_disk() {
    suite("/var/tmp", &LocalOptions::default());
}

#[test]
fn on_a_disk_by_table() {
    suite("/var/tmp", &by_table());
}

/// As with the system call filters of Docker and containerd until 2023.
#[test]
fn on_a_disk_without_name_to_handle_at() {
    let served = || {
        sys::testing::syscall_filter::refuse_file_handles().unwrap();
        suite("/var/tmp", &LocalOptions::default());
    };
    std::thread::spawn(served).join().unwrap();
}

#[test]
fn in_memory() {
    suite("/dev/shm", &LocalOptions::default());
}

#[test]
fn in_memory_by_table() {
    suite("/dev/shm", &by_table());
}

fn by_table() -> LocalOptions {
    LocalOptions { force_table: true, ..LocalOptions::default() }
}

/// As on a file system whose times advance in ticks.
#[test]
fn on_a_disk_with_counted_changes() {
    suite("/var/tmp", &LocalOptions { count_changes: true, ..LocalOptions::default() });
}

/// Attributes and names are kept for so long that each would be old.
#[test]
fn with_kept_attributes() {
    for options in [LocalOptions::default(), by_table()] {
        suite_of("/dev/shm", &options, 60_000);
    }
    let counted = LocalOptions { count_changes: true, ..LocalOptions::default() };
    suite_of("/var/tmp", &counted, 60_000);
}

//! With a container's filter that does not know `openat2` and returns `EPERM`, as in Docker before version 20.10,
//! files are served all the same. In a process of its own, because a process caches the result.

use crate::support::{ROOT, find, in_child, make, of, put, take};
use bowline_vfs_local::{LocalFs, LocalOptions, OpenFiles};
use std::sync::Arc;

#[test]
fn files_are_served_where_openat2_is_refused() {
    if !in_child("refused::files_are_served_where_openat2_is_refused", &[]) {
        return;
    }
    let served = || {
        sys::testing::syscall_filter::refuse_openat2().unwrap();
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("away")).unwrap();
        let files = Arc::new(OpenFiles::new(4096));
        let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
        let (cx, root) = (of(ROOT), vfs::Backend::root(&local));
        let made = make(&local, &cx, &root, "file", 0o644).unwrap().node.unwrap().fid;
        put(&local, &cx, &made, b"data").unwrap();
        let (found, _) = find(&local, &cx, &root, "file").unwrap();
        assert_eq!(take(&local, &cx, &found).unwrap(), b"data");
        // no link is followed in the fallback either
        let (away, _) = find(&local, &cx, &root, "away").unwrap();
        assert!(find(&local, &cx, &away, "passwd").is_err());
    };
    std::thread::spawn(served).join().unwrap();
}

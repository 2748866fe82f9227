//! A local program that holds a lease on a file delays no call: calls that would have to open it are
//! answered with JUKEBOX at once, and succeed when the lease has been released.

use crate::support::{ROOT, each, find, make, of, put, take};
use std::fs::File;
use std::time::{Duration, Instant};
use sys::testing::lease::WriteLease;
use vfs::{Backend, SetAttr, Status};

/// Far below the 45 s that the kernel waits for a lease to be given back (`/proc/sys/fs/lease-break-time`).
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_lease_of_another_program_delays_no_call() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let path = stage.tree.join("leased");
        std::fs::write(&path, b"theirs").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let lease = WriteLease::take(file.into()).unwrap();
        let begun = Instant::now();
        let (fid, attr) = find(&local, &cx, &local.root(), "leased").unwrap();
        assert_eq!(attr.size, 6);
        assert_eq!(take(&local, &cx, &fid), Err(Status::Jukebox));
        assert_eq!(put(&local, &cx, &fid, b"ours"), Err(Status::Jukebox));
        let cut = SetAttr { size: Some(1), ..SetAttr::default() };
        assert_eq!(local.setattr(&cx, &fid, &cut, None).map(drop), Err(Status::Jukebox));
        let locks = local.locks().unwrap().open(&cx, &fid).map(drop);
        assert_eq!(locks, Err(Status::Jukebox));
        // what opens no data is not held up
        make(&local, &cx, &local.root(), "other", 0o644).unwrap();
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        local.setattr(&cx, &fid, &mode, None).unwrap();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        drop(lease);
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"theirs");
        assert_eq!(put(&local, &cx, &fid, b"ours"), Ok(4));
    });
}

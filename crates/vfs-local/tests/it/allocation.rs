//! Hot calls do not allocate once their objects are open.

use crate::support::{ANN, BOB, Stage, find, has_root, make, of, put};
use allocation_counter::measure;
use bowline_vfs_local::Naming;
use vfs::{AccessMask, Backend, Component, Want};

#[test]
fn hot_calls_allocate_nothing() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(Naming::Handles);
    std::fs::create_dir(stage.tree.join("dir")).unwrap();
    std::fs::set_permissions(
        stage.tree.join("dir"),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let local = stage.serve();
    let (dir, _) = find(&local, &of(ANN), &local.root(), "dir").unwrap();
    let fid = make(&local, &of(ANN), &dir, "f", 0o666).unwrap().node.unwrap().fid;
    put(&local, &of(ANN), &fid, &[7; 4096]).unwrap();
    // the ACL of a recently changed object is fetched each time
    std::thread::sleep(std::time::Duration::from_millis(50));
    let cx = of(BOB);
    let mut data = [0; 4096];
    let mut all = || {
        local.getattr(&cx, &fid, Want::STAT).unwrap();
        local.access(&cx, &fid, AccessMask(0x3f)).unwrap();
        assert_eq!(local.read(&cx, &fid, 0, &mut data).unwrap().count, 4096);
        let name = Component::new(b"f").unwrap();
        assert_eq!(local.lookup(&cx, &dir, name).unwrap().node.fid, fid);
        local.lookup(&cx, &dir, Component::new(b"none").unwrap()).unwrap_err();
    };
    all();
    let counted = measure(|| (0..100).for_each(|_| all()));
    assert_eq!(counted.count_total, 0);
    let write = || assert_eq!(put(&local, &of(ANN), &fid, &[8; 4096]), Ok(4096));
    assert_eq!(measure(write).count_total, 0);
}

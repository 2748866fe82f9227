//! Permissions: the check in user space against the kernel's own, and the kernel's rules for
//! changes.

use crate::support::{
    ANN, AS_NOBODY, BOB, ROOT, each, find, has_root, in_child, make, name, of, put, take,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use vfs::{AccessMask, Backend, Create, Cred, SetAttr, SetTime, Status, Time, Want};

/// Entries of an ACL in the attribute's binary form.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(bits.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// ACLs with users and groups of [`CALLERS`], with masks that restrict them.
fn acls() -> Vec<Option<Vec<u8>>> {
    const NONE: u32 = u32::MAX;
    let mut all = vec![None];
    for (named, group, mask) in [(7, 0, 7), (0, 7, 7), (5, 2, 3), (6, 4, 0), (3, 5, 6)] {
        all.push(Some(acl(&[
            (0x01, 6, NONE),
            (0x02, named, ANN.uid),
            (0x04, 1, NONE),
            (0x08, group, 4100),
            (0x10, mask, NONE),
            (0x20, 4, NONE),
        ])));
    }
    all
}

const OWNER: (u32, u32) = (4001, 4200);
const CALLERS: [Cred<'static>; 7] = [
    ROOT,
    ANN,
    BOB,
    Cred { uid: 4003, gid: 4200, groups: &[] },
    Cred { uid: 4003, gid: 4003, groups: &[1, 2, 4200] },
    Cred { uid: 4003, gid: 4003, groups: &[4100] },
    Cred { uid: 4003, gid: 4200, groups: &[4100] },
];

/// The bits of `rwx` in ACCESS for this type.
fn as_mask(rwx: u32, is_dir: bool) -> AccessMask {
    match (rwx, is_dir) {
        (4, _) => AccessMask::READ,
        (2, true) => AccessMask::DELETE,
        (2, false) => AccessMask::MODIFY,
        (_, true) => AccessMask::LOOKUP,
        (_, false) => AccessMask::EXECUTE,
    }
}

#[test]
fn access_matches_the_kernel() {
    if !has_root() {
        return;
    }
    let own = sys::identity::own().unwrap();
    each(|stage| {
        let (file, dir) = (stage.tree.join("file"), stage.tree.join("dir"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&dir).unwrap();
        let local = stage.serve();
        let mut compared = 0;
        for owner in [OWNER, (4999, 4200)] {
            for acl in acls() {
                for (path, is_dir) in [(&file, false), (&dir, true)] {
                    chown(path, Some(owner.0), Some(owner.1)).unwrap();
                    for mode in (0..0o1000).step_by(if acl.is_some() { 27 } else { 1 }) {
                        // setting the mode changes the mask of an ACL; the ACL is set after it
                        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
                        if let Some(acl) = &acl {
                            set_acl(path, acl).unwrap();
                        }
                        for caller in &CALLERS {
                            compare(&local, path, is_dir, caller, &own);
                            compared += 1;
                        }
                        if acl.is_some() {
                            take_acl_away(path);
                        }
                    }
                }
            }
        }
        assert!(compared > 10_000, "{compared}");
    });
}

fn set_acl(path: &std::path::Path, value: &[u8]) -> std::io::Result<()> {
    let file = fs::File::open(path)?;
    sys::acl::set(std::os::fd::AsFd::as_fd(&file), sys::acl::ACCESS, Some(value))
}

fn take_acl_away(path: &std::path::Path) {
    // an ACL of the three basic entries is equivalent to none
    let basic = acl(&[(1, 7, u32::MAX), (4, 7, u32::MAX), (0x20, 7, u32::MAX)]);
    set_acl(path, &basic).unwrap();
}

fn compare(
    local: &bowline_vfs_local::LocalFs,
    path: &std::path::Path,
    is_dir: bool,
    caller: &Cred<'static>,
    own: &sys::identity::Own,
) {
    let text = path.file_name().unwrap().to_str().unwrap();
    let (fid, _) = find(local, &of(ROOT), &local.root(), text).unwrap();
    let (granted, attr) = local.access(&of(*caller), &fid, AccessMask(0x3f)).unwrap();
    for rwx in [4, 2, 1] {
        // DELETE in a directory requires search permission as well
        let asked = if is_dir && rwx == 2 { 3 } else { rwx };
        sys::identity::act_as(caller.uid, caller.gid, caller.groups).unwrap();
        let kernel = sys::testing::access::kernel_permits(path, asked).unwrap();
        sys::identity::act_as_self(own).unwrap();
        let ours = granted.has(as_mask(rwx, is_dir));
        assert_eq!(ours, kernel, "{path:?} {:o} {caller:?} {rwx}", attr.mode);
    }
}

#[test]
fn an_acl_set_by_a_local_program_applies_at_once() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let path = stage.tree.join("file");
        fs::write(&path, "data").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o070)).unwrap();
        let local = stage.serve();
        let (fid, _) = find(&local, &of(ROOT), &local.root(), "file").unwrap();
        let give =
            |bits| acl(&[(1, 7, !0), (2, bits, ANN.uid), (4, 0, !0), (0x10, 7, !0), (0x20, 0, !0)]);
        for round in 0..200 {
            let may = round % 2 == 0;
            set_acl(&path, &give(if may { 7 } else { 0 })).unwrap();
            assert_eq!(take(&local, &of(ANN), &fid).is_ok(), may, "round {round}");
            assert_eq!(put(&local, &of(ANN), &fid, b"x").is_ok(), may, "round {round}");
        }
        // long settled, so that the result is cached
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(take(&local, &of(ANN), &fid), Err(Status::Acces));
        assert_eq!(take(&local, &of(ANN), &fid), Err(Status::Acces));
        set_acl(&path, &give(4)).unwrap();
        assert!(take(&local, &of(ANN), &fid).is_ok());
    });
}

#[test]
fn created_objects_belong_to_the_caller() {
    if !has_root() {
        return;
    }
    each(|stage| {
        fs::create_dir(stage.tree.join("shared")).unwrap();
        chown(stage.tree.join("shared"), Some(0), Some(4100)).unwrap();
        fs::set_permissions(stage.tree.join("shared"), fs::Permissions::from_mode(0o2770)).unwrap();
        let local = stage.serve();
        let root = local.root();
        let mode = SetAttr { mode: Some(0o6755), uid: Some(0), gid: Some(0), ..SetAttr::default() };
        let made = local.create(&of(ANN), &root, name("f"), Create::Guarded(mode)).unwrap();
        let attr = made.node.unwrap().attr;
        assert_eq!(
            (attr.uid, attr.gid, attr.mode),
            (ANN.uid, ANN.gid, 0o6755),
            "ids of others mean nothing"
        );
        let (shared, _) = find(&local, &of(ANN), &root, "shared").unwrap();
        let sub = SetAttr { mode: Some(0o755), ..SetAttr::default() };
        let sub = local.mkdir(&of(ANN), &shared, name("sub"), &sub).unwrap().node.unwrap().attr;
        assert_eq!((sub.gid, sub.mode), (4100, 0o2755), "the directory hands its group on");
        assert_eq!(make(&local, &of(BOB), &shared, "x", 0o644).map(drop), Err(Status::Acces));
        let device = vfs::NodeKind::Char(1, 3);
        let dev = local.mknod(&of(ANN), &root, name("null"), device, &SetAttr::default());
        assert_eq!(dev.map(drop), Err(Status::Perm));
        // sticky directories
        sys::identity::act_as_process().unwrap();
        fs::set_permissions(&stage.tree, fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(local.remove(&of(BOB), &root, name("f")), Err(Status::Perm));
        let by_ann = local.link(&of(ANN), &made.node.unwrap().fid, &root, name("g")).unwrap();
        assert_eq!(by_ann.0.nlink, 2);
        local.remove(&of(ANN), &root, name("f")).unwrap();
        assert!(local.getattr(&of(BOB), &made.node.unwrap().fid, Want::STAT).is_ok());
        // the thread has the server's identity again
        assert_eq!(make(&local, &of(ROOT), &shared, "y", 0o600).unwrap().node.unwrap().attr.uid, 0);
    });
}

#[test]
fn the_owner_keeps_access_after_chmod_and_others_do_not() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let local = stage.serve();
        let root = local.root();
        let fid = make(&local, &of(ANN), &root, "f", 0).unwrap().node.unwrap().fid;
        put(&local, &of(ANN), &fid, b"mine").unwrap();
        assert_eq!(take(&local, &of(ANN), &fid).unwrap(), b"mine");
        let cut = SetAttr { size: Some(2), ..SetAttr::default() };
        local.setattr(&of(ANN), &fid, &cut, None).unwrap();
        assert_eq!(take(&local, &of(ANN), &fid).unwrap(), b"mi");
        assert_eq!(take(&local, &of(BOB), &fid), Err(Status::Acces));
        assert_eq!(put(&local, &of(BOB), &fid, b"x"), Err(Status::Acces));
        assert_eq!(local.setattr(&of(BOB), &fid, &cut, None), Err(Status::Acces));
        let mode = SetAttr { mode: Some(0o777), ..SetAttr::default() };
        assert_eq!(local.setattr(&of(BOB), &fid, &mode, None), Err(Status::Perm));
        let both = SetAttr { size: Some(0), mode: Some(0o777), ..SetAttr::default() };
        assert!(local.setattr(&of(BOB), &fid, &both, None).is_err());
        assert_eq!(take(&local, &of(ANN), &fid).unwrap(), b"mi", "nothing by half");
        let give = SetAttr { uid: Some(BOB.uid), ..SetAttr::default() };
        assert_eq!(local.setattr(&of(ANN), &fid, &give, None), Err(Status::Perm));
        let same = SetAttr { uid: Some(ANN.uid), gid: Some(ANN.gid), ..SetAttr::default() };
        local.setattr(&of(ANN), &fid, &same, None).unwrap();
        // executable files can be read
        let run = make(&local, &of(ANN), &root, "run", 0o711).unwrap().node.unwrap().fid;
        assert!(take(&local, &of(BOB), &run).is_ok());
    });
}

#[test]
fn setting_times_is_permission_checked() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let local = stage.serve();
        let fid = make(&local, &of(ANN), &local.root(), "f", 0o666).unwrap().node.unwrap().fid;
        let past = SetTime::To(Time { sec: 1_000_000_007, nsec: 5 });
        let past = SetAttr { atime: past, mtime: past, ..SetAttr::default() };
        let change = local.setattr(&of(ANN), &fid, &past, None).unwrap();
        assert_eq!(change.after.unwrap().mtime, Time { sec: 1_000_000_007, nsec: 5 });
        assert_eq!(local.setattr(&of(BOB), &fid, &past, None), Err(Status::Perm));
        // as Linux sends with a truncation: the size, and mtime to the server's clock
        let cut = SetAttr { size: Some(0), mtime: SetTime::Now, ..SetAttr::default() };
        let change = local.setattr(&of(BOB), &fid, &cut, None).unwrap();
        assert!(change.after.unwrap().mtime.sec > 1_000_000_007);
        let now = SetAttr { atime: SetTime::Now, mtime: SetTime::Now, ..SetAttr::default() };
        local.setattr(&of(BOB), &fid, &now, None).unwrap();
        let only = SetAttr { mode: Some(0o644), ..SetAttr::default() };
        let ctime = local.setattr(&of(ANN), &fid, &only, None).unwrap().after.unwrap().ctime;
        assert_eq!(local.setattr(&of(BOB), &fid, &now, None), Err(Status::Acces));
        assert_eq!(local.setattr(&of(BOB), &fid, &cut, None), Err(Status::Acces));
        let wrong = Some(Time { sec: 1, nsec: 1 });
        assert_eq!(local.setattr(&of(ANN), &fid, &only, wrong), Err(Status::NotSync));
        local.setattr(&of(ANN), &fid, &only, Some(ctime)).unwrap();
    });
}

#[test]
fn writes_clear_set_id_bits() {
    if !has_root() {
        return;
    }
    each(|stage| {
        let local = stage.serve();
        let fid = make(&local, &of(ANN), &local.root(), "f", 0o6777).unwrap().node.unwrap().fid;
        let mode = || local.getattr(&of(ROOT), &fid, Want::STAT).unwrap().mode;
        put(&local, &of(ROOT), &fid, b"x").unwrap();
        assert_eq!(mode(), 0o6777, "root may");
        put(&local, &of(BOB), &fid, b"x").unwrap();
        assert_eq!(mode(), 0o777);
        let set = SetAttr { mode: Some(0o6777), ..SetAttr::default() };
        local.setattr(&of(ANN), &fid, &set, None).unwrap();
        let cut = SetAttr { size: Some(0), ..SetAttr::default() };
        local.setattr(&of(BOB), &fid, &cut, None).unwrap();
        assert_eq!(mode(), 0o777);
    });
}

#[test]
fn a_link_has_times_and_an_owner_but_no_mode() {
    each(|stage| {
        let local = stage.serve();
        let (cx, root) = (of(ROOT), local.root());
        let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        let link = local.symlink(&cx, &root, name("l"), b"gone", &set).unwrap().node.unwrap().fid;
        let time = SetTime::To(Time { sec: 77, nsec: 0 });
        let set = SetAttr { mode: Some(0o600), mtime: time, ..SetAttr::default() };
        let after = local.setattr(&cx, &link, &set, None).unwrap().after.unwrap();
        assert_eq!((after.mtime.sec, after.mode), (77, 0o777));
        let cut = SetAttr { size: Some(0), ..SetAttr::default() };
        assert_eq!(local.setattr(&cx, &link, &cut, None), Err(Status::Inval));
        assert_eq!(local.setattr(&cx, &root, &cut, None), Err(Status::IsDir));
    });
}

/// Closes all files, as in a restarted server or one with many other files.
fn close_all(stage: &crate::support::Stage) {
    while !stage.files.is_empty() {
        stage.files.evict_some();
    }
}

#[test]
fn an_unprivileged_server_keeps_owner_write_access() {
    const TEST: &str = "permissions::an_unprivileged_server_keeps_owner_write_access";
    if crate::support::is_root() && !in_child(TEST, &AS_NOBODY) {
        return;
    }
    let stage = crate::support::Stage::new(bowline_vfs_local::Naming::Table);
    let local = stage.serve();
    let (cx, root) = (of(ANN), local.root());
    let path = |mode: u32| stage.tree.join(format!("{mode:o}"));
    let mode_of = |mode| fs::metadata(path(mode)).unwrap().permissions().mode() & 0o7777;
    for mode in [0o444, 0o000, 0o200, 0o555, 0o464, 0o1444, 0o4444] {
        let fid = make(&local, &cx, &root, &format!("{mode:o}"), mode).unwrap().node.unwrap().fid;
        close_all(&stage);
        assert_eq!(put(&local, &cx, &fid, b"first data"), Ok(10), "{mode:o}");
        close_all(&stage);
        local.commit(&cx, &fid, 0, 0).unwrap();
        local.commit(&cx, &fid, 0, 5).unwrap();
        let cut = SetAttr { size: Some(5), ..SetAttr::default() };
        local.setattr(&cx, &fid, &cut, None).unwrap();
        assert_eq!(fs::metadata(path(mode)).unwrap().len(), 5, "{mode:o}");
        assert_eq!(mode_of(mode), mode & 0o1777, "{mode:o} as it was, less set-id bits");
        fs::set_permissions(path(mode), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::read(path(mode)).unwrap(), b"first");
    }
}

#[test]
fn modes_survive_concurrent_writes() {
    if crate::support::is_root()
        && !in_child("permissions::modes_survive_concurrent_writes", &AS_NOBODY)
    {
        return;
    }
    let stage = crate::support::Stage::new(bowline_vfs_local::Naming::Table);
    // two exports of one directory do not share open files
    let locals = [stage.serve(), stage.serve()];
    let (cx, root) = (of(ANN), locals[0].root());
    let fid = make(&locals[0], &cx, &root, "f", 0o444).unwrap().node.unwrap().fid;
    find(&locals[1], &cx, &root, "f").unwrap();
    for round in 0..200 {
        let mode = if round % 2 == 0 { 0o444 } else { 0o040 };
        close_all(&stage);
        std::thread::scope(|scope| {
            for local in locals.iter().chain(&locals) {
                scope.spawn(move || put(local, &of(ANN), &fid, b"data").unwrap());
            }
            let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
            locals[round / 2 % 2].setattr(&cx, &fid, &set, None).unwrap();
        });
        let now = fs::metadata(stage.tree.join("f")).unwrap().permissions().mode() & 0o7777;
        assert_eq!(now, mode, "round {round}: {now:o}");
    }
}

#[test]
fn a_server_without_privileges_is_its_own_user() {
    if crate::support::is_root()
        && !in_child("permissions::a_server_without_privileges_is_its_own_user", &AS_NOBODY)
    {
        return;
    }
    let stage = crate::support::Stage::new(bowline_vfs_local::Naming::Table);
    let (file, dir) = {
        let local = stage.serve();
        assert!(!local.acts_as_callers());
        let (cx, root) = (of(BOB), local.root());
        let own = sys::identity::own().unwrap();
        let dir =
            local.mkdir(&cx, &root, name("d"), &SetAttr::default()).unwrap().node.unwrap().fid;
        let made = make(&local, &cx, &dir, "f", 0o640).unwrap().node.unwrap();
        assert_eq!(made.attr.uid, own.uid, "everybody is the server's user");
        put(&local, &cx, &made.fid, b"data").unwrap();
        assert_eq!(take(&local, &of(ANN), &made.fid).unwrap(), b"data");
        let give = SetAttr { uid: Some(BOB.uid), ..SetAttr::default() };
        assert_eq!(local.setattr(&cx, &made.fid, &give, None), Err(Status::Perm));
        local.link(&cx, &made.fid, &root, name("g")).unwrap();
        local.rename(&cx, (&dir, name("f")), (&root, name("h"))).unwrap();
        local.commit(&cx, &made.fid, 0, 0).unwrap();
        // unreadable for the server itself: its directory is synced all the same
        let set = SetAttr { mode: Some(0o333), ..SetAttr::default() };
        local.setattr(&cx, &dir, &set, None).unwrap();
        make(&local, &cx, &dir, "hidden", 0o200).unwrap();
        (made.fid, dir)
    };
    let local = stage.serve();
    assert_eq!(take(&local, &of(ANN), &file).unwrap(), b"data");
    assert!(find(&local, &of(ANN), &dir, "hidden").is_ok());
    let listed = local.readdir(&of(ANN), &dir, vfs::ListArgs::all(0, false), &mut |_| {
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(listed, Err(Status::Acces));
}

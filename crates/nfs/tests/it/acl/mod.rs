//! NFSACL, against setfacl, getfacl and the kernel's own permission check.

mod random;

use crate::support::{TestServer, at, exports, wire};
use bowline_nfs::acl::acl_program;
use bowline_nfs::{Nfs, v2::handle};
use export::{Options, Squash};
use proto::nfs2::{Fattr2, Fh2, Nfsstat2, Res2};
use proto::nfs3::{
    AccessArgs, AccessOk, Bytes, Fattr3, LookupOk, Nfsstat3, PostOpAttr, Res, procedure as p,
};
use proto::nfsacl::{
    Access2Args, Access2Ok, AclEntries, AclEntry, GetAcl2Args, GetAcl2Res, GetAcl3Args, GetAcl3Res,
    SecAttr, SetAcl2Args, SetAcl3Args, SetAcl3Res, kind, mask, procedure2, procedure3,
};
use random::{Lists, Random};
use rpc::{KeepReply, Program, Service};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use testing::{Missing, is_root, skip};
use vfs_local::{LocalFs, LocalOptions, OpenFiles};

const BOTH: u32 = mask::ACL | mask::DEFAULT;

/// A directory, served with these options.
struct Stage {
    dir: TempDir,
    server: TestServer,
    acl: Service<Nfs>,
}

impl Stage {
    fn new(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let files = Arc::new(OpenFiles::new(4096));
        let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
        Self::over(dir, Arc::new(local), options)
    }

    fn over(dir: TempDir, backend: Arc<dyn vfs::Backend>, options: Options) -> Self {
        let server = TestServer::new(exports::of(&[("/e", backend, options)]));
        let acl = acl_program(Arc::clone(&server.program.state));
        Self { dir, server, acl }
    }

    /// Makes a file; its handle.
    fn file(&self, name: &str, mode: u32) -> Vec<u8> {
        fs::write(self.dir.path().join(name), "").unwrap();
        fs::set_permissions(self.dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        self.find(name)
    }

    fn dir(&self, name: &str) -> Vec<u8> {
        fs::create_dir(self.dir.path().join(name)).unwrap();
        self.find(name)
    }

    fn find(&self, name: &str) -> Vec<u8> {
        let root = self.server.root();
        let args = at(&root, name.as_bytes());
        let found: Res<LookupOk<'_>, PostOpAttr> = self.server.v3(p::LOOKUP, &args);
        found.into_result().unwrap().object.0.to_vec()
    }

    fn get(&self, handle: &[u8], mask: u32) -> SecAttr<'static> {
        let args = GetAcl3Args { handle: Bytes(handle), mask };
        let found: GetAcl3Res<'static> = self.server.of(&self.acl, (3, procedure3::GETACL), &args);
        let found = found.into_result().unwrap();
        assert!(found.attr.is_some());
        found.acl
    }

    fn set(&self, handle: &[u8], acl: SecAttr<'_>) -> Result<Fattr3, Nfsstat3> {
        let args = SetAcl3Args { handle: Bytes(handle), acl };
        let set: SetAcl3Res = self.server.of(&self.acl, (3, procedure3::SETACL), &args);
        set.into_result().map(Option::unwrap)
    }

    /// Who calls from now on.
    fn by(mut self, uid: u32) -> Self {
        self.server.uid = uid;
        self
    }
}

fn entry(kind: u32, id: u32, permissions: u32) -> AclEntry {
    AclEntry { kind, id, permissions }
}

fn sec_attr<'a>(mask: u32, access: &'a [AclEntry], default: &'a [AclEntry]) -> SecAttr<'a> {
    SecAttr {
        mask,
        acl_count: access.len() as u32,
        acl: AclEntries::Own(access),
        default_count: default.len() as u32,
        default: AclEntries::Own(default),
    }
}

/// A list with a right for a user.
fn named(user: u32, permissions: u32) -> [AclEntry; 5] {
    [
        entry(kind::USER_OBJ, 0, 6),
        entry(kind::USER, user, permissions),
        entry(kind::GROUP_OBJ, 0, 4),
        entry(kind::CLASS_OBJ, 0, 7),
        entry(kind::OTHER_OBJ, 0, 0),
    ]
}

fn has_root() -> bool {
    if !is_root() {
        skip(Missing::Root, "a server that acts as its callers");
    }
    is_root()
}

/// The attribute of a file as the kernel has it.
fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let file = fs::File::open(path).unwrap();
    sys::acl::get(std::os::fd::AsFd::as_fd(&file), name).unwrap()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

/// What getfacl says of all below a directory, by name.
fn getfacl(dir: &Path) -> BTreeMap<String, Vec<String>> {
    let done = Command::new("getfacl").args(["-Rnp", "."]).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let object = |block: &str| {
        let (comments, lines): (Vec<_>, Vec<_>) =
            lines(block).into_iter().partition(|line| line.starts_with('#'));
        let name = comments.first()?.strip_prefix("# file: ./")?;
        Some((name.to_owned(), lines))
    };
    text.split("\n\n").filter_map(object).collect()
}

/// The objects of a test with random lists: every fourth is a directory.
fn random_objects(stage: &Stage, seed: u64, count: usize) -> Vec<(String, Lists, Vec<u8>)> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|n| {
            let is_dir = n % 4 == 0;
            let name = format!("o{n}");
            let handle = if is_dir { stage.dir(&name) } else { stage.file(&name, 0o600) };
            (name, Lists::random(&mut random, is_dir), handle)
        })
        .collect()
}

#[test]
fn a_thousand_acls_set_by_setacl_match_getfacl() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    let objects = random_objects(&stage, 1, 1000);
    for (name, lists, handle) in &objects {
        let (access, default) = lists.wire(name.len() as u64);
        let after = stage.set(handle, sec_attr(BOTH, &access, &default)).unwrap();
        assert_eq!(after.mode & 0o777, lists.mode(), "{name}: {access:?}");
    }
    let found = getfacl(stage.dir.path());
    for (name, lists, handle) in &objects {
        assert_eq!(found[name], lists.text(), "{name}");
        let got = stage.get(handle, BOTH);
        let (access, default) = lists.shown();
        assert_eq!((got.acl, got.default), (AclEntries::Own(&access), AclEntries::Own(&default)));
    }
}

#[test]
fn a_thousand_acls_set_by_setfacl_match_getacl() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    let objects = random_objects(&stage, 2, 1000);
    let mut restore = String::new();
    for (name, lists, _) in &objects {
        restore += &format!("# file: {name}\n{}\n\n", lists.text().join("\n"));
    }
    fs::write(stage.dir.path().join("restore"), restore).unwrap();
    let mut setfacl = Command::new("setfacl");
    let done = setfacl.arg("--restore=restore").current_dir(stage.dir.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for (name, lists, handle) in &objects {
        let (access, default) = lists.shown();
        for asked in [mask::ALL, BOTH, mask::ACL, mask::DEFAULT_COUNT] {
            let got = stage.get(handle, asked);
            let expected = |bits: u32, list: &[AclEntry]| {
                if asked & bits == 0 { 0 } else { list.len() as u32 }
            };
            let list = |bit: u32, list: &[AclEntry]| {
                if asked & bit == 0 { Vec::new() } else { list.to_vec() }
            };
            assert_eq!(got.mask, asked);
            assert_eq!(got.acl_count, expected(mask::ACL | mask::ACL_COUNT, &access), "{name}");
            let counted = mask::DEFAULT | mask::DEFAULT_COUNT;
            assert_eq!(got.default_count, expected(counted, &default), "{name}");
            assert_eq!(got.acl.iter().collect::<Vec<_>>(), list(mask::ACL, &access), "{name}");
            let default = list(mask::DEFAULT, &default);
            assert_eq!(got.default.iter().collect::<Vec<_>>(), default, "{name}");
        }
    }
}

#[test]
fn access_after_setacl_matches_the_kernel() {
    if !has_root() {
        return;
    }
    let own = sys::identity::own().unwrap();
    let mut stage = Stage::new(exports::RW);
    let mut random = Random::new(3);
    let mut compared = 0;
    let (file, dir) = (stage.file("f", 0o600), stage.dir("d"));
    for name in ["f", "d"] {
        chown(stage.dir.path().join(name), Some(random::IDS[0]), Some(random::IDS[1])).unwrap();
    }
    // on the same two objects again and again, so that an ACL that was known and is not retired shows
    for round in 0..500 {
        for (name, handle) in [("f", &file), ("d", &dir)] {
            let lists = Lists::random(&mut random, name == "d");
            let (access, default) = lists.wire(round);
            stage.server.uid = 0;
            stage.set(handle, sec_attr(BOTH, &access, &default)).unwrap();
            let path = stage.dir.path().join(name);
            for uid in random::IDS {
                stage.server.uid = uid;
                let args = AccessArgs { object: Bytes(handle), access: 0x3f };
                let res: Res<AccessOk, PostOpAttr> = stage.server.v3(p::ACCESS, &args);
                let granted = res.into_result().unwrap().access;
                // what the caller of the procedure left this thread as does not matter
                sys::identity::act_as(uid, uid, &[]).unwrap();
                let may = |rwx| sys::testing::access::kernel_permits(&path, rwx).unwrap();
                let kernel = [may(4), may(if name == "d" { 3 } else { 2 }), may(1)];
                sys::identity::act_as_self(&own).unwrap();
                let ours = [granted & 1 != 0, granted & 4 != 0, granted & 0x22 != 0];
                assert_eq!(ours, kernel, "{name} {uid} {lists:?}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 4000, "{compared}");
}

#[test]
fn an_object_without_an_acl_has_the_entries_of_its_mode() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    let file = stage.file("f", 0o640);
    chown(stage.dir.path().join("f"), Some(11), Some(12)).unwrap();
    let expected = [
        entry(kind::USER_OBJ, 11, 6),
        entry(kind::GROUP_OBJ, 12, 4),
        entry(kind::CLASS_OBJ, 0, 4),
        entry(kind::OTHER_OBJ, 0, 0),
    ];
    let got = stage.get(&file, BOTH);
    assert_eq!((got.acl, got.acl_count), (AclEntries::Own(&expected), 4));
    assert_eq!((got.default.len(), got.default_count), (0, 0));
    let counted = stage.get(&file, mask::ACL_COUNT | mask::DEFAULT_COUNT);
    assert_eq!((counted.acl_count, counted.acl.len(), counted.default_count), (4, 0, 0));
    assert_eq!(stage.get(&file, 0).acl_count, 0);
}

#[test]
fn an_acl_equivalent_to_a_mode_is_a_chmod() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    let file = stage.file("f", 0o600);
    let path = stage.dir.path().join("f");
    stage.set(&file, sec_attr(mask::ACL, &named(7, 7), &[])).unwrap();
    assert!(attribute(&path, sys::acl::ACCESS).is_some());
    let mode = [
        entry(kind::OTHER_OBJ, 0, 1),
        entry(kind::USER_OBJ, 0, 7),
        entry(kind::CLASS_OBJ, 0, 5),
        entry(kind::GROUP_OBJ, 0, 5),
    ];
    let after = stage.set(&file, sec_attr(mask::ACL, &mode, &[])).unwrap();
    assert_eq!(after.mode, 0o751);
    assert_eq!(attribute(&path, sys::acl::ACCESS), None);
    // a mask that says something else is one
    let mut masked = mode;
    masked[2].permissions = 4;
    stage.set(&file, sec_attr(mask::ACL, &masked, &[])).unwrap();
    assert!(attribute(&path, sys::acl::ACCESS).is_some());
    // no entries take the ACL away
    stage.set(&file, sec_attr(mask::ACL, &[], &[])).unwrap();
    assert_eq!(attribute(&path, sys::acl::ACCESS), None);
}

#[test]
fn setacl_without_a_default_acl_removes_it_but_keeps_the_access_acl() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    let (dir, path) = (stage.dir("d"), stage.dir.path().join("d"));
    let default = named(8, 6).map(|e| entry(e.kind | kind::DEFAULT, e.id, e.permissions));
    stage.set(&dir, sec_attr(BOTH, &named(7, 7), &default)).unwrap();
    let access = attribute(&path, sys::acl::ACCESS);
    assert!(access.is_some() && attribute(&path, sys::acl::DEFAULT).is_some());
    stage.set(&dir, sec_attr(mask::DEFAULT, &[], &default)).unwrap();
    assert_eq!(attribute(&path, sys::acl::ACCESS), access);
    assert!(attribute(&path, sys::acl::DEFAULT).is_some());
    stage.set(&dir, sec_attr(mask::ACL, &named(7, 5), &[])).unwrap();
    assert_eq!(attribute(&path, sys::acl::DEFAULT), None);
}

#[test]
fn an_invalid_acl_is_refused_and_changes_nothing() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    let (file, dir) = (stage.file("f", 0o600), stage.dir("d"));
    let good = named(7, 7);
    let with = |at: usize, with: AclEntry| {
        let mut list = good;
        list[at] = with;
        list
    };
    let default = good.map(|e| entry(e.kind | kind::DEFAULT, e.id, e.permissions));
    let many: Vec<_> = (0..1021).map(|id| entry(kind::USER, id, 7)).chain(good).collect();
    assert_eq!(many.len(), 1026);
    for (why, handle, lists) in [
        ("a kind", &file, sec_attr(mask::ACL, &with(1, entry(0x40, 7, 7)), &[])),
        ("a permission", &file, sec_attr(mask::ACL, &with(1, entry(kind::USER, 7, 8)), &[])),
        ("no owner", &file, sec_attr(mask::ACL, &good[1..], &[])),
        ("no mask", &file, sec_attr(mask::ACL, &with(3, entry(kind::USER, 8, 7)), &[])),
        ("twice", &file, sec_attr(mask::ACL, &with(0, entry(kind::USER, 7, 7)), &[])),
        ("nobody", &file, sec_attr(mask::ACL, &with(1, entry(kind::USER, u32::MAX, 7)), &[])),
        ("a default list of a file", &file, sec_attr(BOTH, &good, &default)),
        ("a bad default list", &dir, sec_attr(BOTH, &good, &default[1..])),
        ("a bit of the mask", &dir, sec_attr(0x10 | mask::ACL, &good, &[])),
    ] {
        let refused = stage.set(handle, lists);
        assert_eq!(refused, Err(Nfsstat3::Inval), "{why}");
    }
    for name in ["f", "d"] {
        assert_eq!(attribute(&stage.dir.path().join(name), sys::acl::ACCESS), None);
    }
    // Solaris sets more bits in masks
    stage
        .set(&file, sec_attr(mask::ACL, &with(3, entry(kind::CLASS_OBJ, 0, 0x1006)), &[]))
        .unwrap();
    assert_eq!(fs::metadata(stage.dir.path().join("f")).unwrap().mode_bits(), 0o660);
    // one more than there may be does not decode
    let args = SetAcl3Args { handle: Bytes(&file), acl: sec_attr(mask::ACL, &many, &[]) };
    let mut reply = xdr::Writer::new();
    let (acl, args) = (&stage.acl, wire(&args));
    let fault = stage.server.run_of(acl, (3, procedure3::SETACL), &args, &mut reply);
    assert!(matches!(fault, Err(rpc::Fault::GarbageArgs(_))));
    let args = GetAcl3Args { handle: Bytes(&file), mask: 0x10 };
    let got: GetAcl3Res<'static> = stage.server.of(&stage.acl, (3, procedure3::GETACL), &args);
    assert_eq!(got.status(), Nfsstat3::Inval);
}

trait ModeBits {
    fn mode_bits(&self) -> u32;
}

impl ModeBits for fs::Metadata {
    fn mode_bits(&self) -> u32 {
        self.permissions().mode() & 0o777
    }
}

#[test]
fn only_owners_and_unsquashed_root_set_acls() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW).by(4002);
    let file = stage.file("f", 0o666);
    chown(stage.dir.path().join("f"), Some(4001), Some(4001)).unwrap();
    let list = named(7, 7);
    assert_eq!(stage.set(&file, sec_attr(mask::ACL, &list, &[])), Err(Nfsstat3::Perm));
    let stage = stage.by(4001);
    stage.set(&file, sec_attr(mask::ACL, &list, &[])).unwrap();
    let stage = stage.by(0);
    stage.set(&file, sec_attr(mask::ACL, &list, &[])).unwrap();

    let squashed = Stage::new(Options { squash: Squash::Root, ..exports::RW });
    let file = squashed.file("f", 0o666);
    assert_eq!(squashed.set(&file, sec_attr(mask::ACL, &list, &[])), Err(Nfsstat3::Perm));
    let read_only = Stage::new(exports::RO);
    let file = read_only.file("f", 0o666);
    assert_eq!(read_only.set(&file, sec_attr(mask::ACL, &list, &[])), Err(Nfsstat3::RoFs));
    assert_eq!(read_only.get(&file, BOTH).acl_count, 4);
}

#[test]
fn option_no_acl_shows_the_mode_and_refuses_setacl() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(Options { acl: false, ..exports::RW });
    let file = stage.file("f", 0o600);
    let path = stage.dir.path().join("f");
    let done = Command::new("setfacl").args(["-m", "u:4001:r"]).arg(&path).status().unwrap();
    assert!(done.success());
    assert_eq!(stage.get(&file, BOTH).acl_count, 4);
    let refused = stage.set(&file, sec_attr(mask::ACL, &named(7, 7), &[]));
    assert_eq!(refused, Err(Nfsstat3::NotSupp));
    assert!(attribute(&path, sys::acl::ACCESS).is_some());
    // it counts all the same
    let stage = stage.by(4001);
    let args = AccessArgs { object: Bytes(&file), access: 0x3f };
    let res: Res<AccessOk, PostOpAttr> = stage.server.v3(p::ACCESS, &args);
    assert_eq!(res.into_result().unwrap().access, 1);
}

#[test]
fn a_back_end_without_acls_has_modes() {
    let stage = Stage::over(tempfile::tempdir().unwrap(), exports::mem(), exports::RW);
    let root = stage.server.root();
    let got = stage.get(&root, mask::ALL);
    assert_eq!((got.acl_count, got.default_count), (4, 0));
    let refused = stage.set(&root, sec_attr(mask::ACL, &named(7, 7), &[]));
    assert_eq!(refused, Err(Nfsstat3::NotSupp));
    let stale = GetAcl3Args { handle: Bytes(&[0; 20]), mask: 0 };
    let got: GetAcl3Res<'static> = stage.server.of(&stage.acl, (3, procedure3::GETACL), &stale);
    assert_eq!(got, Res::Fail(Nfsstat3::BadHandle, None));
}

#[test]
fn version_2_of_nfsacl_returns_version_2_attributes() {
    if !has_root() {
        return;
    }
    let stage = Stage::new(exports::RW);
    stage.file("f", 0o640);
    let handle: Fh2 = handle::short_handle(&stage.find("f"));
    let list = named(7, 5);
    let args = SetAcl2Args { handle, acl: sec_attr(mask::ACL, &list, &[]) };
    let set: Res2<Fattr2> = stage.server.of(&stage.acl, (2, procedure2::SETACL), &args);
    let Res2::Ok(after) = set else { panic!("{set:?}") };
    assert_eq!(after.mode, 0o100_670);
    let attr: Res2<Fattr2> = stage.server.of(&stage.acl, (2, procedure2::GETATTR), &handle);
    assert_eq!(attr, Res2::Ok(after));
    let args = GetAcl2Args { handle, mask: BOTH };
    let got: GetAcl2Res<'static> = stage.server.of(&stage.acl, (2, procedure2::GETACL), &args);
    let Res2::Ok(got) = got else { panic!("{got:?}") };
    assert_eq!((got.attr, got.acl.acl), (after, AclEntries::Own(&list)));
    let stage = stage.by(7);
    let args = Access2Args { handle, access: 0x3f };
    let allowed: Res2<Access2Ok> = stage.server.of(&stage.acl, (2, procedure2::ACCESS), &args);
    assert_eq!(allowed, Res2::Ok(Access2Ok { attr: after, access: 0x21 }));
    let args = GetAcl2Args { handle: [0; 32], mask: BOTH };
    let stale: GetAcl2Res<'static> = stage.server.of(&stage.acl, (2, procedure2::GETACL), &args);
    assert_eq!(stale, Res2::Fail(Nfsstat2::Stale));
}

#[test]
fn only_replies_of_setacl_are_cached() {
    let stage = Stage::over(tempfile::tempdir().unwrap(), exports::mem(), exports::RW);
    for (version, rows) in [(2, 5), (3, 3)] {
        for procedure in 0..rows {
            let row = stage.acl.row(version, procedure).unwrap();
            let is_change = procedure == procedure3::SETACL;
            assert_eq!(row.plan.keep() == KeepReply::Always, is_change, "{version} {}", row.name);
        }
        assert_eq!(stage.acl.row(version, rows), None);
    }
}

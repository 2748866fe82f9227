//! ACLs and `mode_umask` over version 4 (RFC 8881 §6, RFC 8275), against what the file system has afterwards.

use crate::support::{TestServer, exports};
use crate::v4::{Client, fattr, ok, oper, plain};
use export::Options;
use proto::layout::Bytes;
use proto::nfs4::{
    AclValue, Bitmap4, CreateArgs, CreateType4, Createhow4, Fattr4, Nfsace4, Nfsstat4, OpenHow4,
    ReaddirArgs, SetattrArgs, Stateid4, attr, op,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use xdr::Writer;

struct Stage {
    dir: TempDir,
    client: Client,
}

impl Stage {
    fn new(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(OpenFiles::new(4096));
        let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
        let server = TestServer::new(exports::of(&[("/e", Arc::new(local), options)]));
        Self { dir, client: Client::over(server).of_minor(2) }
    }

    /// What getfacl shows of an object, without comments.
    fn getfacl(&self, name: &str) -> Vec<String> {
        let mut getfacl = Command::new("getfacl");
        let shown = getfacl.args(["-cn", name]).current_dir(self.dir.path()).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.dir.path().join(name)).unwrap().permissions().mode() & 0o7777
    }

    fn set(&self, handle: &[u8], attrs: Fattr4<'_>) -> Nfsstat4 {
        let args = SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs };
        let set = self.client.call(&[self.client.putfh(handle), oper(op::SETATTR, &args)]);
        if set.status == Nfsstat4::Ok {
            let mut r = set.inside();
            ok(&mut r, op::PUTFH);
            ok(&mut r, op::SETATTR);
            assert_eq!(r.get::<Bitmap4>().unwrap(), attrs.mask);
        }
        set.status
    }

    /// Type, flags, mask and subject of each entry.
    fn acl(&self, handle: &[u8]) -> Vec<(u32, u32, u32, String)> {
        let asked = Bitmap4::of(&[attr::ACL, attr::ACLSUPPORT]);
        let found = self.client.call(&[self.client.putfh(handle), oper(op::GETATTR, &asked)]);
        let mut r = found.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::GETATTR);
        assert_eq!(r.get::<Bitmap4>().unwrap(), asked);
        let values = r.opaque(1 << 16).unwrap().to_vec();
        let mut r = xdr::Reader::new(&values);
        let value: AclValue<'_> = r.get().unwrap();
        assert_eq!(r.u32().unwrap(), 3, "entries that allow and that deny");
        r.end().unwrap();
        let who = |ace: &Nfsace4<'_>| String::from_utf8(ace.who.0.to_vec()).unwrap();
        value.iter().map(|ace| (ace.kind, ace.flags, ace.mask, who(&ace))).collect()
    }
}

const READ: u32 = 1;
const WRITE: u32 = 2 | 4;
const EXECUTE: u32 = 0x20;

/// The attribute `acl` with these entries: type, flags, mask, subject.
fn acl(aces: &[(u32, u32, u32, &str)]) -> Fattr4<'static> {
    let mut w = Writer::new();
    w.u32(u32::try_from(aces.len()).unwrap());
    for (kind, flags, mask, who) in aces {
        w.words([*kind, *flags, *mask]);
        w.opaque(who.as_bytes());
    }
    fattr(&[attr::ACL], w.bytes())
}

#[test]
fn an_acl_is_set_and_shown() {
    let stage = Stage::new(exports::RW);
    let (file, _) = stage.client.create(b"f");
    let entries = [
        (0, 0, READ | WRITE, "OWNER@"),
        (1, 0, WRITE, "1002"),
        (0, 0, READ | EXECUTE, "1001"),
        (0, 0x40, READ | WRITE, "2001"),
        (0, 0x40, READ, "GROUP@"),
        (0, 0, READ, "EVERYONE@"),
    ];
    assert_eq!(stage.set(&file, acl(&entries)), Nfsstat4::Ok);
    let expected = [
        "user::rw-",
        "user:1001:r-x",
        "user:1002:r--",
        "group::r--",
        "group:2001:rw-",
        "mask::rwx",
        "other::r--",
    ];
    assert_eq!(stage.getfacl("f"), expected);
    let shown = stage.acl(&file);
    let subjects: Vec<_> = shown.iter().map(|(kind, _, _, who)| (*kind, who.as_str())).collect();
    let expected = [
        (1, "OWNER@"),
        (0, "OWNER@"),
        (1, "1001"),
        (0, "1001"),
        (1, "1002"),
        (0, "1002"),
        (0, "GROUP@"),
        (0, "2001"),
        (0, "EVERYONE@"),
    ];
    assert_eq!(subjects, expected);
    assert_eq!(shown[3].2 & (READ | WRITE | EXECUTE), READ | EXECUTE);
    // and what was shown can be set
    let again: Vec<_> =
        shown.iter().map(|(kind, flags, mask, who)| (*kind, *flags, *mask, who.as_str())).collect();
    assert_eq!(stage.set(&file, acl(&again)), Nfsstat4::Ok);
    assert_eq!(stage.acl(&file), shown);
}

#[test]
fn set_id_bits_survive_an_acl() {
    let stage = Stage::new(exports::RW);
    let (file, _) = stage.client.create(b"f");
    fs::set_permissions(stage.dir.path().join("f"), fs::Permissions::from_mode(0o6750)).unwrap();
    let simple =
        [(0, 0, READ | WRITE, "OWNER@"), (0, 0x40, READ, "GROUP@"), (0, 0, READ, "EVERYONE@")];
    assert_eq!(stage.set(&file, acl(&simple)), Nfsstat4::Ok);
    assert_eq!(stage.mode("f"), 0o6644);
    // of both the mode's other bits count
    let ace = acl(&simple);
    let both = [ace.values.0, &0o4777_u32.to_be_bytes()].concat();
    assert_eq!(stage.set(&file, fattr(&[attr::ACL, attr::MODE], &both)), Nfsstat4::Ok);
    assert_eq!(stage.mode("f"), 0o4644);
    // and a mode alone is the ACL's
    let mode = fattr(&[attr::MODE], &0o600_u32.to_be_bytes());
    assert_eq!(stage.set(&file, mode), Nfsstat4::Ok);
    assert_eq!(stage.getfacl("f"), ["user::rw-", "group::---", "other::---"]);
}

#[test]
fn a_directory_has_what_new_files_inherit() {
    let stage = Stage::new(exports::RW);
    let all = READ | WRITE | EXECUTE | 0x40;
    let entries = [
        (0, 3, all, "OWNER@"),
        (0, 3, all, "1001"),
        (0, 0x43, READ, "GROUP@"),
        (0, 3, READ, "EVERYONE@"),
    ];
    let create = CreateArgs { what: CreateType4::Dir, name: Bytes(b"d"), attrs: acl(&entries) };
    let made = stage.client.at_root(&[oper(op::CREATE, &create), plain(op::GETFH)]);
    assert_eq!(made.status, Nfsstat4::Ok);
    let one = ["user::rwx", "user:1001:rwx", "group::r--", "mask::rwx", "other::r--"];
    let both: Vec<_> = one
        .iter()
        .map(|line| (*line).to_owned())
        .chain(one.iter().map(|line| format!("default:{line}")))
        .collect();
    assert_eq!(stage.getfacl("d"), both);
    fs::write(stage.dir.path().join("d/f"), b"").unwrap();
    let inherited = stage.getfacl("d/f");
    assert!(inherited.iter().any(|line| line.starts_with("user:1001:rwx")), "{inherited:?}");
    // an ACL that nothing inherits takes it away
    let mut r = made.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::CREATE);
    r.opaque_fixed(20).unwrap();
    assert_eq!(r.get::<Bitmap4>().unwrap(), Bitmap4::of(&[attr::ACL]));
    ok(&mut r, op::GETFH);
    let dir = r.opaque(128).unwrap().to_vec();
    assert_eq!(stage.set(&dir, acl(&[(0, 0, all, "OWNER@")])), Nfsstat4::Ok);
    assert_eq!(stage.getfacl("d"), ["user::rwx", "group::---", "other::---"]);
}

#[test]
fn open_makes_a_file_with_an_acl() {
    let stage = Stage::new(exports::RW);
    let how = |attrs| OpenHow4::Create(Createhow4::Guarded(attrs));
    let given = acl(&[(0, 0, READ | WRITE, "OWNER@"), (0, 0, READ, "1001")]);
    stage.client.open(b"f", 3, 0, how(given)).unwrap();
    let expected = ["user::rw-", "user:1001:r--", "group::---", "mask::r--", "other::---"];
    assert_eq!(stage.getfacl("f"), expected);
    // one that cannot be set leaves no file
    let audit = acl(&[(2, 0, READ, "OWNER@")]);
    assert_eq!(stage.client.open(b"g", 3, 0, how(audit)), Err(Nfsstat4::AttrNotSupp));
    let inherited = acl(&[(0, 3, READ, "OWNER@")]);
    assert_eq!(stage.client.open(b"g", 3, 0, how(inherited)), Err(Nfsstat4::Inval));
    assert!(!stage.dir.path().join("g").exists());
}

#[test]
fn what_a_file_system_cannot_say_is_refused() {
    let stage = Stage::new(exports::RW);
    let (file, _) = stage.client.create(b"f");
    let before = stage.getfacl("f");
    let refused = |ace, status| assert_eq!(stage.set(&file, acl(&[ace])), status, "{ace:?}");
    refused((2, 0, READ, "EVERYONE@"), Nfsstat4::AttrNotSupp);
    refused((3, 0, READ, "EVERYONE@"), Nfsstat4::AttrNotSupp);
    refused((4, 0, READ, "EVERYONE@"), Nfsstat4::Inval);
    refused((1, 0, 0x80, "1001"), Nfsstat4::AttrNotSupp);
    refused((0, 3, READ, "1001"), Nfsstat4::Inval);
    refused((0, 0, READ, "somebody@example.org"), Nfsstat4::BadOwner);
    refused((0, 0, READ, "INTERACTIVE@"), Nfsstat4::BadOwner);
    refused((0, 0, 1 << 31, "1001"), Nfsstat4::Inval);
    assert_eq!(stage.getfacl("f"), before);
    // with an attribute before it that could be set
    let bad = [acl(&[(2, 0, READ, "OWNER@")]).values.0, &0o777_u32.to_be_bytes()].concat();
    assert_eq!(stage.set(&file, fattr(&[attr::ACL, attr::MODE], &bad)), Nfsstat4::AttrNotSupp);
    assert_eq!(stage.getfacl("f"), before);
}

#[test]
fn without_acls_the_attribute_is_missing() {
    let stage = Stage::new(Options { acl: false, ..exports::RW });
    let (file, _) = stage.client.create(b"f");
    assert_eq!(stage.set(&file, acl(&[(0, 0, READ, "OWNER@")])), Nfsstat4::AttrNotSupp);
    let asked = Bitmap4::of(&[attr::SUPPORTED_ATTRS, attr::ACL, attr::ACLSUPPORT]);
    let found = stage.client.call(&[stage.client.putfh(&file), oper(op::GETATTR, &asked)]);
    let mut r = found.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETATTR);
    assert_eq!(
        r.get::<Bitmap4>().unwrap(),
        Bitmap4::of(&[attr::SUPPORTED_ATTRS, attr::ACLSUPPORT])
    );
    r.u32().unwrap();
    assert!(!r.get::<Bitmap4>().unwrap().has(attr::ACL));
    assert_eq!(r.u32().unwrap(), 0);
}

#[test]
fn a_listing_has_the_acls_of_its_entries() {
    let stage = Stage::new(exports::RW);
    stage.client.create(b"f");
    let attrs = Bitmap4::of(&[attr::ACL]);
    let args = ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount: 4096, attrs };
    let listed = stage.client.at_root(&[oper(op::READDIR, &args)]);
    let mut r = listed.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::READDIR);
    r.u64().unwrap();
    assert!(r.bool().unwrap());
    r.u64().unwrap();
    assert_eq!(r.opaque(255).unwrap(), b"f");
    assert_eq!(r.get::<Bitmap4>().unwrap(), attrs);
    let mut values = xdr::Reader::new(r.opaque(4096).unwrap());
    assert!(values.get::<AclValue<'_>>().unwrap().count() >= 3);
}

#[test]
fn the_umask_counts_where_nothing_is_inherited() {
    let stage = Stage::new(exports::RW);
    let with = |mode: u32, umask: u32| {
        fattr(&[attr::MODE_UMASK], &[mode.to_be_bytes(), umask.to_be_bytes()].concat())
    };
    let make = |name: &str, attrs| {
        let how = OpenHow4::Create(Createhow4::Unchecked(attrs));
        stage.client.open(name.as_bytes(), 3, 0, how)
    };
    let (file, _) = make("plain", with(0o666, 0o027)).unwrap();
    assert_eq!(stage.mode("plain"), 0o640);
    let mut setfacl = Command::new("setfacl");
    let set = setfacl.args(["-d", "-m", "u:1001:rw"]).arg(stage.dir.path()).status();
    assert!(set.unwrap().success());
    make("inherits", with(0o666, 0o027)).unwrap();
    assert!(stage.getfacl("inherits").contains(&"user:1001:rw-".to_owned()));
    let how = OpenHow4::Create(Createhow4::Exclusive41([7; 8], with(0o660, 0o077)));
    stage.client.open(b"exclusive", 3, 0, how).unwrap();
    // for new objects only, alone, and with a sensible umask
    assert_eq!(stage.set(&file, with(0o600, 0)), Nfsstat4::Inval);
    let both = fattr(&[attr::MODE, attr::MODE_UMASK], &[0; 12]);
    assert_eq!(make("x", both), Err(Nfsstat4::Inval));
    assert_eq!(make("x", with(0o600, 0o1000)), Err(Nfsstat4::Inval));
    let old = stage.client.of_minor(1);
    let how = OpenHow4::Create(Createhow4::Unchecked(with(0o600, 0)));
    assert_eq!(old.open(b"x", 3, 0, how), Err(Nfsstat4::Inval));
}

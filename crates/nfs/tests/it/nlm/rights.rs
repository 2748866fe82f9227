//! Who may lock what.

use super::rig::{A, NeverBlocks, Owner, Rig};
use crate::support::exports;
use export::exports_file::parse;
use proto::nlm::{ShareAccess, ShareDeny, Status, procedure};
use state::{Limits, Recovery};
use std::sync::Arc;
use vfs::{Backend, Create, Cred, Cx, Durability, Name, Right, SetAttr};

/// Files of user 1000 with these modes, and a directory.
fn backend(files: &[(&str, u32)]) -> Arc<dyn Backend> {
    let backend = exports::mem();
    let cx = Cx {
        cred: Cred { uid: 0, gid: 0, groups: &[] },
        blocking: &NeverBlocks,
        durability: Durability::Async,
        right: Right::Check,
        attr_cache_ms: 0,
    };
    let root = backend.root();
    for (name, mode) in files {
        let set =
            SetAttr { mode: Some(*mode), uid: Some(1000), gid: Some(1000), ..SetAttr::default() };
        let name = Name::new(name.as_bytes()).unwrap();
        backend.create(&cx, &root, name, Create::Guarded(set)).unwrap();
    }
    let dir = Name::new(b"dir").unwrap();
    backend.mkdir(&cx, &root, dir, &SetAttr { mode: Some(0o777), ..SetAttr::default() }).unwrap();
    backend
}

#[test]
fn read_write_or_ownership_permits_locking() {
    let rig = Rig::over(backend(&[("read", 0o604), ("write", 0o602), ("none", 0o600), ("own", 0)]));
    let lock = |uid, name: &str| {
        let (who, handle) = (Owner { uid, ..A }, rig.handle(name));
        let status = rig.lock(who, true, who.lock(&handle, 0, 0));
        assert_eq!(rig.unlock(who, who.lock(&handle, 0, 0)), Status::Granted);
        status
    };
    assert_eq!(lock(2000, "read"), Status::Granted, "flock -x of a file that is open for reading");
    assert_eq!(lock(2000, "write"), Status::Granted);
    assert_eq!(lock(2000, "none"), Status::Failed);
    assert_eq!(lock(2000, "own"), Status::Failed);
    assert_eq!(lock(1000, "own"), Status::Granted);
    assert_eq!(lock(2000, "dir"), Status::Failed);
    assert_eq!(rig.nfs.state.totals().files, 0);
}

#[test]
fn no_auth_nlm_permits_locking_without_access() {
    let options = export::Options { auth_nlm: false, ..exports::RW };
    let files = backend(&[("none", 0o600)]);
    let rig = Rig::with(files, options, &Recovery::default(), Limits::default());
    let who = Owner { uid: 2000, ..A };
    let (none, dir) = (rig.handle("none"), rig.handle("dir"));
    assert_eq!(rig.lock(who, true, who.lock(&none, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(who, true, who.lock(&dir, 0, 0)), Status::Failed);
    let stranger = Owner { addr: "10.1.1.1:700", ..who };
    assert_eq!(rig.lock(stranger, true, who.lock(&none, 0, 0)), Status::Failed);
}

#[test]
fn a_read_only_export_has_no_locks_for_writing() {
    let files = backend(&[("read", 0o644)]);
    let rig = Rig::with(files, exports::RO, &Recovery::default(), Limits::default());
    let handle = rig.handle("read");
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 0)), Status::ReadOnly);
    let v1 = Owner { version: 1, ..A };
    assert_eq!(rig.lock(v1, true, A.lock(&handle, 0, 0)), Status::DeniedNoLocks);
    assert_eq!(rig.lock(A, false, A.lock(&handle, 0, 0)), Status::Granted);
}

/// As with the kernel's server: Linux locks by AUTH_SYS and without TLS, whatever it has mounted with. A share reservation,
/// which denies data to others, needs what READ and WRITE need.
#[test]
fn neither_the_flavor_nor_the_transport_keeps_a_client_from_locking() {
    for options in ["sec=krb5p", "xprtsec=tls:mtls", "sec=krb5i,xprtsec=mtls,tls-name=a.lab"] {
        let parsed = parse(format!("/e 127.0.0.1(rw,{options})").as_bytes());
        assert_eq!(parsed.errors, [], "{options}");
        let rule = parsed.entries[0].rules[0].clone();
        let files = backend(&[("read", 0o644), ("none", 0o600)]);
        let rig = Rig::with_rule(&files, rule);
        let who = Owner { uid: 2000, ..A };
        let (read, none) = (rig.handle("read"), rig.handle("none"));
        assert_eq!(rig.test(who, true, who.lock(&read, 0, 0)), Ok(()), "{options}");
        assert_eq!(rig.lock(who, true, who.lock(&read, 0, 0)), Status::Granted, "{options}");
        assert_eq!(rig.unlock(who, who.lock(&read, 0, 0)), Status::Granted, "{options}");
        assert_eq!(rig.lock(who, true, who.lock(&none, 0, 0)), Status::Failed, "{options}");
        let denial = (ShareAccess::Read, ShareDeny::Both);
        assert_eq!(rig.share(who, procedure::SHARE, &read, denial), Status::Failed, "{options}");
        let stranger = Owner { addr: "10.1.1.1:700", ..A };
        assert_eq!(rig.lock(stranger, false, A.lock(&read, 0, 0)), Status::Failed, "{options}");
    }
}

#[test]
fn clients_without_access_to_the_export_cannot_lock() {
    let rig = Rig::over(backend(&[("read", 0o644)]));
    let handle = rig.handle("read");
    let stranger = Owner { addr: "10.1.1.1:700", ..A };
    assert_eq!(rig.lock(stranger, false, A.lock(&handle, 0, 0)), Status::Failed);
    let high_port = Owner { addr: "127.0.0.1:7000", ..A };
    assert_eq!(rig.lock(high_port, false, A.lock(&handle, 0, 0)), Status::Failed);
}

//! Access control lists, for back ends that have them.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::access::Permission;
use crate::acl::{Acl, AclEntry, AclKind, AclTag, Acls};
use crate::{Cred, Fid, SetAttr, Status};

checks! {
    getting_an_acl_returns_the_one_set,
    an_acl_and_the_mode_change_together,
    new_objects_inherit_the_default_acl,
    only_directories_have_default_acls,
    setting_an_acl_changes_the_change_attribute,
}

/// Checks for back ends that act as their callers.
pub const BY_CALLERS: &[super::Check] = &[
    ("an_acl_is_checked_on_read", an_acl_is_checked_on_read),
    ("only_owners_set_acls", only_owners_set_acls),
];

const ANN: Cred<'static> = Cred { uid: 4001, gid: 4001, groups: &[] };
const BOB: Cred<'static> = Cred { uid: 4002, gid: 4002, groups: &[] };

const NONE: Permission = Permission::from_bits(0);
const READ_WRITE: Permission = Permission::READ.and(Permission::WRITE);

fn acls(fixture: &Fixture) -> &dyn Acls {
    fixture.backend.acls().unwrap()
}

fn set(fixture: &Fixture, fid: &Fid, kind: AclKind, acl: Option<&Acl>) {
    acls(fixture).set_acl(&fixture.cx(), fid, kind, acl).unwrap();
}

fn get(fixture: &Fixture, fid: &Fid, kind: AclKind) -> Option<Acl> {
    acls(fixture).acl(&fixture.cx(), fid, kind).unwrap()
}

/// An ACL with an entry for a user.
fn acl(user: u32, permissions: Permission, mask: Permission) -> Acl {
    let entry = |tag, permissions| AclEntry { tag, permissions };
    let entries = vec![
        entry(AclTag::UserObj, READ_WRITE),
        entry(AclTag::User(user), permissions),
        entry(AclTag::GroupObj, NONE),
        entry(AclTag::Mask, mask),
        entry(AclTag::Other, NONE),
    ];
    Acl::new(entries).unwrap()
}

fn getting_an_acl_returns_the_one_set(fixture: &Fixture) {
    let (file, dir) = (fixture.file("f"), fixture.dir("d"));
    let one = acl(ANN.uid, READ_WRITE, READ_WRITE);
    for fid in [&file, &dir] {
        assert_eq!(get(fixture, fid, AclKind::Access), None);
        set(fixture, fid, AclKind::Access, Some(&one));
        assert_eq!(get(fixture, fid, AclKind::Access).as_ref(), Some(&one));
        set(fixture, fid, AclKind::Access, None);
        assert_eq!(get(fixture, fid, AclKind::Access), None);
        // removing a missing ACL succeeds
        set(fixture, fid, AclKind::Access, None);
    }
    let root = fixture.root();
    let link =
        fixture.backend.symlink(&fixture.cx(), &root, entry_name("l"), b"f", &SetAttr::default());
    let link = link.unwrap().node.unwrap().fid;
    assert_eq!(get(fixture, &link, AclKind::Access), None);
    let refusal = acls(fixture).set_acl(&fixture.cx(), &link, AclKind::Access, Some(&one));
    refused(refusal, Status::NotSupp);
}

fn an_acl_and_the_mode_change_together(fixture: &Fixture) {
    let file = fixture.file("f");
    set(fixture, &file, AclKind::Access, Some(&acl(ANN.uid, Permission::READ, Permission::READ)));
    assert_eq!(fixture.attr(&file).mode, 0o640, "the group's bits are the mask");
    fixture.set(&file, SetAttr { mode: Some(0o604), ..SetAttr::default() }).unwrap();
    let found = get(fixture, &file, AclKind::Access).unwrap();
    assert_eq!(found.find(AclTag::Mask), Some(NONE));
    assert_eq!(found.find(AclTag::Other), Some(Permission::READ));
    assert_eq!(found.find(AclTag::User(ANN.uid)), Some(Permission::READ));
}

fn new_objects_inherit_the_default_acl(fixture: &Fixture) {
    let dir = fixture.dir("d");
    let default = acl(ANN.uid, READ_WRITE, READ_WRITE);
    set(fixture, &dir, AclKind::Default, Some(&default));
    assert_eq!(get(fixture, &dir, AclKind::Default).as_ref(), Some(&default));
    let found = get(fixture, &fixture.file_in(&dir, "f"), AclKind::Access).unwrap();
    assert_eq!(found.find(AclTag::User(ANN.uid)), Some(READ_WRITE));
    let below = fixture.dir_in(&dir, "e");
    assert_eq!(get(fixture, &below, AclKind::Default).as_ref(), Some(&default));
    set(fixture, &dir, AclKind::Default, None);
    assert_eq!(get(fixture, &dir, AclKind::Default), None);
    assert_eq!(get(fixture, &fixture.file_in(&dir, "g"), AclKind::Access), None);
}

fn only_directories_have_default_acls(fixture: &Fixture) {
    let file = fixture.file("f");
    assert_eq!(get(fixture, &file, AclKind::Default), None);
    let default = acl(ANN.uid, READ_WRITE, READ_WRITE);
    let refusal = acls(fixture).set_acl(&fixture.cx(), &file, AclKind::Default, Some(&default));
    refused(refusal, Status::Inval);
}

fn setting_an_acl_changes_the_change_attribute(fixture: &Fixture) {
    let file = fixture.file("f");
    let before = fixture.attr(&file);
    let one = acl(ANN.uid, READ_WRITE, READ_WRITE);
    let change = acls(fixture).set_acl(&fixture.cx(), &file, AclKind::Access, Some(&one)).unwrap();
    assert_eq!(fixture.before(&change), Some(fixture.comparable(before.wcc())));
    assert!(fixture.are_of(&change.after.unwrap(), &file));
    assert_ne!(fixture.attr(&file).change, before.change);
}

fn reads(fixture: &Fixture, who: Cred<'_>, file: &Fid) -> Result<(), Status> {
    fixture.backend.read(&fixture.by(who), file, 0, &mut [0; 4]).map(drop)
}

fn an_acl_is_checked_on_read(fixture: &Fixture) {
    let file = fixture.file("f");
    set(fixture, &file, AclKind::Access, Some(&acl(ANN.uid, Permission::READ, Permission::READ)));
    assert_eq!(reads(fixture, ANN, &file), Ok(()));
    refused(reads(fixture, BOB, &file), Status::Acces);
    set(fixture, &file, AclKind::Access, Some(&acl(BOB.uid, READ_WRITE, NONE)));
    refused(reads(fixture, ANN, &file), Status::Acces);
    refused(reads(fixture, BOB, &file), Status::Acces);
}

fn only_owners_set_acls(fixture: &Fixture) {
    let file = fixture.file("f");
    let (uid, gid) = (Some(ANN.uid), Some(ANN.gid));
    fixture.set(&file, SetAttr { uid, gid, ..SetAttr::default() }).unwrap();
    let one = acl(BOB.uid, READ_WRITE, READ_WRITE);
    let by = |who| acls(fixture).set_acl(&fixture.by(who), &file, AclKind::Access, Some(&one));
    refused(by(BOB), Status::Perm);
    by(ANN).unwrap();
    assert_eq!(get(fixture, &file, AclKind::Access), Some(one.clone()));
}

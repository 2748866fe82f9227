//! Extended attributes, for back ends that support them.

use super::checks;
use super::fixture::{Fixture, refused};
use crate::{
    Component, Cred, Fid, Name, SetAttr, SetXattr, Status, XATTR_VALUE_MAX, XattrName, Xattrs,
};

checks! {
    attributes_are_set_read_listed_and_removed,
    attributes_are_created_or_replaced_only_if_asked_for,
    directories_have_attributes,
    other_objects_have_none,
    values_of_all_bytes_and_lengths_are_kept,
    too_large_values_are_refused,
    setting_an_attribute_changes_the_change_attribute,
    names_are_checked,
}

/// Checks for back ends that act as their callers.
pub const BY_CALLERS: &[super::Check] =
    &[("attributes_need_permission", attributes_need_permission)];

fn xattrs(fixture: &Fixture) -> &dyn Xattrs {
    fixture.backend.xattrs().unwrap()
}

fn name(name: &str) -> XattrName<'_> {
    XattrName::new(name.as_bytes()).unwrap()
}

fn set(fixture: &Fixture, fid: &Fid, key: &str, value: &[u8], how: SetXattr) -> Result<(), Status> {
    xattrs(fixture).set_xattr(&fixture.cx(), fid, name(key), value, how).map(drop)
}

fn get(fixture: &Fixture, fid: &Fid, key: &str) -> Result<Vec<u8>, Status> {
    xattrs(fixture).xattr(&fixture.cx(), fid, name(key))
}

fn names(fixture: &Fixture, fid: &Fid) -> Vec<String> {
    let names = xattrs(fixture).xattr_names(&fixture.cx(), fid).unwrap();
    let mut names: Vec<_> =
        names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
    names.sort();
    names
}

fn attributes_are_set_read_listed_and_removed(fixture: &Fixture) {
    let file = fixture.file("f");
    assert_eq!(names(fixture, &file), [""; 0]);
    refused(get(fixture, &file, "a"), Status::NoXattr);
    set(fixture, &file, "a", b"one", SetXattr::Any).unwrap();
    set(fixture, &file, "b/c", b"", SetXattr::Any).unwrap();
    assert_eq!(names(fixture, &file), ["a", "b/c"]);
    assert_eq!(get(fixture, &file, "a").unwrap(), b"one");
    assert_eq!(get(fixture, &file, "b/c").unwrap(), b"");
    xattrs(fixture).remove_xattr(&fixture.cx(), &file, name("a")).unwrap();
    assert_eq!(names(fixture, &file), ["b/c"]);
    refused(xattrs(fixture).remove_xattr(&fixture.cx(), &file, name("a")), Status::NoXattr);
}

fn attributes_are_created_or_replaced_only_if_asked_for(fixture: &Fixture) {
    let file = fixture.file("f");
    refused(set(fixture, &file, "a", b"1", SetXattr::Replace), Status::NoXattr);
    set(fixture, &file, "a", b"2", SetXattr::Create).unwrap();
    refused(set(fixture, &file, "a", b"3", SetXattr::Create), Status::Exist);
    assert_eq!(get(fixture, &file, "a").unwrap(), b"2");
    set(fixture, &file, "a", b"4", SetXattr::Replace).unwrap();
    assert_eq!(get(fixture, &file, "a").unwrap(), b"4");
}

fn directories_have_attributes(fixture: &Fixture) {
    let dir = fixture.dir("d");
    set(fixture, &dir, "a", b"value", SetXattr::Create).unwrap();
    assert_eq!(
        (names(fixture, &dir), get(fixture, &dir, "a").unwrap()),
        (vec!["a".to_owned()], b"value".to_vec())
    );
}

fn other_objects_have_none(fixture: &Fixture) {
    let made = fixture.backend.symlink(
        &fixture.cx(),
        &fixture.root(),
        Name::new(b"link").unwrap(),
        b"to",
        &SetAttr::default(),
    );
    let link = made.unwrap().node.unwrap().fid;
    refused(set(fixture, &link, "a", b"1", SetXattr::Any), Status::WrongType);
    refused(get(fixture, &link, "a"), Status::WrongType);
    refused(xattrs(fixture).xattr_names(&fixture.cx(), &link), Status::WrongType);
    let found =
        fixture.backend.lookup(&fixture.cx(), &fixture.root(), Component::new(b"link").unwrap());
    assert_eq!(found.unwrap().node.fid, link);
}

fn values_of_all_bytes_and_lengths_are_kept(fixture: &Fixture) {
    let file = fixture.file("f");
    for len in [0, 1, 255, 256, 257, 1500] {
        let value: Vec<u8> = (0..len).map(|n: u32| n.to_le_bytes()[0]).collect();
        set(fixture, &file, "a", &value, SetXattr::Any).unwrap();
        assert_eq!(get(fixture, &file, "a").unwrap(), value, "{len}");
    }
}

fn too_large_values_are_refused(fixture: &Fixture) {
    let file = fixture.file("f");
    let large = vec![7; XATTR_VALUE_MAX + 1];
    refused(set(fixture, &file, "a", &large, SetXattr::Any), Status::XattrTooBig);
    assert_eq!(names(fixture, &file), [""; 0]);
}

fn setting_an_attribute_changes_the_change_attribute(fixture: &Fixture) {
    let file = fixture.file("f");
    let before = fixture.attr(&file);
    let by = fixture.cx();
    let change = xattrs(fixture).set_xattr(&by, &file, name("a"), b"1", SetXattr::Any).unwrap();
    assert_eq!(fixture.before(&change), Some(fixture.comparable(before.wcc())));
    assert!(fixture.are_of(&change.after.unwrap(), &file));
    let set = fixture.attr(&file);
    assert_ne!(set.change, before.change);
    xattrs(fixture).remove_xattr(&by, &file, name("a")).unwrap();
    assert_ne!(fixture.attr(&file).change, set.change);
}

fn names_are_checked(fixture: &Fixture) {
    refused(XattrName::new(b""), Status::Inval);
    refused(XattrName::new(b"a\0b"), Status::Inval);
    refused(XattrName::new(&[b'a'; 251]), Status::NameTooLong);
    let file = fixture.file("f");
    let longest = "n".repeat(250);
    set(fixture, &file, &longest, b"1", SetXattr::Any).unwrap();
    assert_eq!(names(fixture, &file), [longest]);
}

fn attributes_need_permission(fixture: &Fixture) {
    let file = fixture.file("f");
    set(fixture, &file, "a", b"1", SetXattr::Any).unwrap();
    let bob = fixture.by(Cred { uid: 4002, gid: 4002, groups: &[] });
    let mode = |mode| fixture.set(&file, SetAttr { mode: Some(mode), ..SetAttr::default() });
    mode(0o600).unwrap();
    refused(xattrs(fixture).xattr(&bob, &file, name("a")), Status::Acces);
    refused(xattrs(fixture).xattr_names(&bob, &file), Status::Acces);
    mode(0o604).unwrap();
    assert_eq!(xattrs(fixture).xattr(&bob, &file, name("a")), Ok(b"1".to_vec()));
    let set = xattrs(fixture).set_xattr(&bob, &file, name("a"), b"2", SetXattr::Any);
    refused(set, Status::Acces);
    refused(xattrs(fixture).remove_xattr(&bob, &file, name("a")), Status::Acces);
    mode(0o602).unwrap();
    xattrs(fixture).set_xattr(&bob, &file, name("a"), b"2", SetXattr::Any).unwrap();
}

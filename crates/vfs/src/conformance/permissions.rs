//! Permissions of users other than root, for backends that act as their callers.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::{AccessMask, Create, Cred, Fid, SetAttr, SetTime, Stability, Status, Time};

checks! {
    modes_are_checked_on_read_and_write,
    owners_keep_access_to_data_under_any_mode,
    directories_need_search_and_write,
    links_need_permission_on_the_directory_only,
    new_objects_belong_to_their_creator,
    set_group_id_directories_pass_on_their_group,
    the_sticky_bit_protects_entries,
    only_owners_change_attributes,
    access_matches_the_results_of_calls,
    writes_by_others_clear_the_set_user_id_bit,
    special_bits_set_with_a_size_are_kept,
    special_bits_set_with_an_owner_are_kept,
}

const OWNER: Cred<'static> = Cred { uid: 1001, gid: 2001, groups: &[] };
const MEMBER: Cred<'static> = Cred { uid: 1002, gid: 9, groups: &[5, 2001] };
const STRANGER: Cred<'static> = Cred { uid: 1003, gid: 9, groups: &[5] };

/// A file of OWNER's with this mode.
fn owned(fixture: &Fixture, name: &str, mode: u32) -> Fid {
    let file = fixture.file(name);
    give(fixture, &file, mode);
    file
}

/// Changes the owner of an object to OWNER, with this mode.
fn give(fixture: &Fixture, fid: &Fid, mode: u32) {
    let (uid, gid) = (Some(OWNER.uid), Some(OWNER.gid));
    fixture.set(fid, SetAttr { uid, gid, ..SetAttr::default() }).unwrap();
    fixture.set(fid, SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
}

fn reads(fixture: &Fixture, who: Cred<'_>, file: &Fid) -> Result<(), Status> {
    fixture.backend.read(&fixture.by(who), file, 0, &mut [0; 4]).map(drop)
}

fn writes(fixture: &Fixture, who: Cred<'_>, file: &Fid) -> Result<(), Status> {
    fixture.backend.write(&fixture.by(who), file, 0, b"data", Stability::Unstable).map(drop)
}

fn modes_are_checked_on_read_and_write(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o640);
    assert_eq!((reads(fixture, OWNER, &file), writes(fixture, OWNER, &file)), (Ok(()), Ok(())));
    assert_eq!(reads(fixture, MEMBER, &file), Ok(()));
    refused(writes(fixture, MEMBER, &file), Status::Acces);
    refused(reads(fixture, STRANGER, &file), Status::Acces);
    fixture.set(&file, SetAttr { mode: Some(0o606), ..SetAttr::default() }).unwrap();
    refused(reads(fixture, MEMBER, &file), Status::Acces);
    assert_eq!(writes(fixture, STRANGER, &file), Ok(()));
}

fn owners_keep_access_to_data_under_any_mode(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o000);
    assert_eq!((writes(fixture, OWNER, &file), reads(fixture, OWNER, &file)), (Ok(()), Ok(())));
    let runs = owned(fixture, "x", 0o711);
    assert_eq!(reads(fixture, STRANGER, &runs), Ok(()), "what may be executed may be read");
}

fn directories_need_search_and_write(fixture: &Fixture) {
    let dir = fixture.dir("d");
    fixture.file_in(&dir, "f");
    give(fixture, &dir, 0o751);
    let by = fixture.by(STRANGER);
    let name = crate::Component::Name(entry_name("f"));
    fixture.backend.lookup(&by, &dir, name).unwrap();
    let mut sink = |_: &crate::DirEntry<'_>| std::ops::ControlFlow::Continue(());
    refused(
        fixture.backend.readdir(&by, &dir, crate::ListArgs::all(0, false), &mut sink),
        Status::Acces,
    );
    let how = Create::Guarded(SetAttr::default());
    refused(fixture.backend.create(&by, &dir, entry_name("g"), how), Status::Acces);
    refused(fixture.backend.remove(&by, &dir, entry_name("f")), Status::Acces);
    fixture.set(&dir, SetAttr { mode: Some(0o750), ..SetAttr::default() }).unwrap();
    refused(fixture.backend.lookup(&by, &dir, name), Status::Acces);
    fixture.backend.remove(&fixture.by(OWNER), &dir, entry_name("f")).unwrap();
}

fn links_need_permission_on_the_directory_only(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o600);
    let set_user_id = owned(fixture, "s", 0o4711);
    let (open, closed) = (fixture.dir("open"), fixture.dir("closed"));
    give(fixture, &open, 0o777);
    give(fixture, &closed, 0o755);
    let by = fixture.by(STRANGER);
    for (target, name) in [(&file, "f"), (&set_user_id, "s")] {
        let (attr, _) = fixture.backend.link(&by, target, &open, entry_name(name)).unwrap();
        assert_eq!((attr.uid, attr.nlink), (OWNER.uid, 2));
        let link = fixture.backend.link(&by, target, &closed, entry_name(name));
        assert_eq!(link.map(drop), Err(Status::Acces), "{name}");
    }
    assert_eq!((fixture.names(&open).len(), fixture.names(&closed).len()), (2, 0));
}

fn new_objects_belong_to_their_creator(fixture: &Fixture) {
    fixture.set(&fixture.root(), SetAttr { mode: Some(0o777), ..SetAttr::default() }).unwrap();
    let by = fixture.by(OWNER);
    let (root, set) = (fixture.root(), SetAttr { mode: Some(0o600), ..SetAttr::default() });
    let made = [
        fixture.backend.create(&by, &root, entry_name("f"), Create::Guarded(set)).unwrap(),
        fixture.backend.mkdir(&by, &root, entry_name("d"), &set).unwrap(),
        fixture.backend.symlink(&by, &root, entry_name("l"), b"x", &set).unwrap(),
        fixture.backend.mknod(&by, &root, entry_name("p"), crate::NodeKind::Fifo, &set).unwrap(),
    ];
    for made in made {
        let attr = fixture.attr(&made.node.unwrap().fid);
        assert_eq!((attr.uid, attr.gid), (OWNER.uid, OWNER.gid), "{:?}", attr.ftype);
    }
    let device = crate::NodeKind::Char(1, 3);
    refused(fixture.backend.mknod(&by, &root, entry_name("c"), device, &set), Status::Perm);
}

fn set_group_id_directories_pass_on_their_group(fixture: &Fixture) {
    let dir = fixture.dir("d");
    give(fixture, &dir, 0o2777);
    let by = fixture.by(STRANGER);
    let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
    let inner = fixture.backend.mkdir(&by, &dir, entry_name("e"), &set).unwrap().node.unwrap();
    assert_eq!((inner.attr.uid, inner.attr.gid), (STRANGER.uid, OWNER.gid));
    assert_eq!(fixture.attr(&inner.fid).mode, 0o2755);
    let file = fixture
        .backend
        .create(&by, &dir, entry_name("f"), Create::Guarded(set))
        .unwrap()
        .node
        .unwrap();
    assert_eq!((file.attr.gid, file.attr.mode), (OWNER.gid, 0o755));
}

fn the_sticky_bit_protects_entries(fixture: &Fixture) {
    let dir = fixture.dir("d");
    fixture.set(&dir, SetAttr { mode: Some(0o1777), ..SetAttr::default() }).unwrap();
    let file = fixture.file_in(&dir, "f");
    give(fixture, &file, 0o666);
    let by = fixture.by(STRANGER);
    let removed = fixture.backend.remove(&by, &dir, entry_name("f"));
    assert!(matches!(removed, Err(Status::Perm | Status::Acces)), "{removed:?}");
    let renamed = fixture.backend.rename(&by, (&dir, entry_name("f")), (&dir, entry_name("g")));
    assert!(matches!(renamed, Err(Status::Perm | Status::Acces)), "{renamed:?}");
    fixture.backend.remove(&fixture.by(OWNER), &dir, entry_name("f")).unwrap();
}

fn only_owners_change_attributes(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o664);
    let set = |who, set| fixture.backend.setattr(&fixture.by(who), &file, &set, None).map(drop);
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    refused(set(MEMBER, mode), Status::Perm);
    refused(set(OWNER, SetAttr { uid: Some(1), ..SetAttr::default() }), Status::Perm);
    refused(set(OWNER, SetAttr { gid: Some(77), ..SetAttr::default() }), Status::Perm);
    // setting the current value is also reserved to the owner, and clears set-id bits
    let same = SetAttr { uid: Some(OWNER.uid), gid: Some(OWNER.gid), ..SetAttr::default() };
    refused(set(MEMBER, same), Status::Perm);
    refused(set(MEMBER, SetAttr { gid: Some(OWNER.gid), ..SetAttr::default() }), Status::Perm);
    set(OWNER, SetAttr { mode: Some(0o4775), ..SetAttr::default() }).unwrap();
    set(OWNER, same).unwrap();
    assert_eq!(fixture.attr(&file).mode, 0o775);
    set(OWNER, SetAttr { mode: Some(0o664), ..SetAttr::default() }).unwrap();
    let to = SetTime::To(Time { sec: 5, nsec: 0 });
    let time = set(MEMBER, SetAttr { mtime: to, ..SetAttr::default() });
    assert!(matches!(time, Err(Status::Perm | Status::Acces)), "{time:?}");
    set(MEMBER, SetAttr { mtime: SetTime::Now, atime: SetTime::Now, ..SetAttr::default() })
        .unwrap();
    set(MEMBER, SetAttr { size: Some(3), ..SetAttr::default() }).unwrap();
    refused(set(STRANGER, SetAttr { size: Some(0), ..SetAttr::default() }), Status::Acces);
    set(OWNER, mode).unwrap();
}

fn access_matches_the_results_of_calls(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o754);
    let all = AccessMask(0x3f);
    let access = |who, fid: &Fid| fixture.backend.access(&fixture.by(who), fid, all).unwrap().0;
    let data = AccessMask::MODIFY | AccessMask::EXTEND;
    assert_eq!(access(OWNER, &file), AccessMask::READ | data | AccessMask::EXECUTE);
    assert_eq!(access(MEMBER, &file), AccessMask::READ | AccessMask::EXECUTE);
    assert_eq!(access(STRANGER, &file), AccessMask::READ);
    let dir = fixture.dir("d");
    give(fixture, &dir, 0o751);
    assert_eq!(access(OWNER, &dir), AccessMask(0x1f));
    assert_eq!(access(STRANGER, &dir), AccessMask::LOOKUP);
}

fn writes_by_others_clear_the_set_user_id_bit(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o6777);
    writes(fixture, STRANGER, &file).unwrap();
    assert_eq!(fixture.attr(&file).mode, 0o777);
}

/// Changing the size clears set-id bits: a call that sets both applies both.
fn special_bits_set_with_a_size_are_kept(fixture: &Fixture) {
    let file = owned(fixture, "f", 0o644);
    let both = SetAttr { mode: Some(0o4755), size: Some(5), ..SetAttr::default() };
    fixture.backend.setattr(&fixture.by(OWNER), &file, &both, None).unwrap();
    let attr = fixture.attr(&file);
    assert_eq!((attr.mode, attr.size), (0o4755, 5));
}

/// Changing the owner clears set-id bits: a new object gets both in one call.
fn special_bits_set_with_an_owner_are_kept(fixture: &Fixture) {
    let root = fixture.root();
    fixture.set(&root, SetAttr { mode: Some(0o777), ..SetAttr::default() }).unwrap();
    let seen = |made: crate::Result<crate::Created>| {
        let node = made.unwrap().node.unwrap();
        assert_eq!(fixture.attr(&node.fid).mode, node.attr.mode, "as it was answered");
        (node.attr.uid, node.attr.gid, node.attr.mode)
    };
    let both = SetAttr { uid: Some(OWNER.uid), gid: Some(OWNER.gid), ..SetAttr::default() };
    let both = SetAttr { mode: Some(0o6755), ..both };
    let gid = SetAttr { uid: None, ..both };
    let (all, group) = ((OWNER.uid, OWNER.gid, 0o6755), (0, OWNER.gid, 0o6755));
    assert_eq!(seen(fixture.create(&root, "f", Create::Guarded(both))), all);
    assert_eq!(seen(fixture.create(&root, "g", Create::Unchecked(gid))), group);
    let (cx, fifo) = (fixture.cx(), crate::NodeKind::Fifo);
    assert_eq!(seen(fixture.backend.mknod(&cx, &root, entry_name("p"), fifo, &both)), all);
    assert_eq!(seen(fixture.backend.mkdir(&cx, &root, entry_name("d"), &both)), all);
    // an ordinary user may change to one of its own groups
    let by = fixture.by(MEMBER);
    let own = SetAttr { mode: Some(0o2755), ..gid };
    let made = fixture.backend.create(&by, &root, entry_name("h"), Create::Guarded(own));
    assert_eq!(seen(made), (MEMBER.uid, OWNER.gid, 0o2755));
    let plain = SetAttr { mode: Some(0o755), ..both };
    assert_eq!(seen(fixture.create(&root, "i", Create::Guarded(plain))), (all.0, all.1, 0o755));
}

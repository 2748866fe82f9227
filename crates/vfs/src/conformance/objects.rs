//! Creating objects, their attributes, and invalid ids.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::{Create, Fid, FileType, NodeKind, SetAttr, SetTime, Status, Time, Want};

checks! {
    a_new_file_has_the_requested_attributes,
    the_time_of_creation_is_returned_on_request,
    a_new_directory_has_the_requested_attributes,
    unchecked_truncates_and_guarded_refuses_an_existing_file,
    exclusive_survives_a_retry,
    nodes_of_every_type,
    attributes_are_set_one_by_one,
    a_guard_must_match,
    times_are_kept_to_the_nanosecond,
    removed_objects_are_stale,
    arbitrary_ids_are_refused,
    changes_return_attributes_before_and_after,
    statfs_is_plausible,
}

fn a_new_file_has_the_requested_attributes(fixture: &Fixture) {
    let set = SetAttr { mode: Some(0o640), ..SetAttr::default() };
    let made = fixture.create(&fixture.root(), "f", Create::Guarded(set)).unwrap();
    let attr = made.node.unwrap().attr;
    assert_eq!((attr.ftype, attr.mode, attr.nlink), (FileType::Regular, 0o640, 1));
    assert_eq!(
        (attr.uid, attr.gid, attr.size),
        (fixture.capabilities.own.0, fixture.capabilities.own.1, 0)
    );
    assert!(fixture.are_of(&attr, &made.node.unwrap().fid), "{attr:?}");
    assert_eq!(fixture.lookup(&fixture.root(), "f"), Ok(made.node.unwrap().fid));
    assert_eq!(made.dir.after.unwrap().fileid, fixture.attr(&fixture.root()).fileid);
}

fn the_time_of_creation_is_returned_on_request(fixture: &Fixture) {
    let file = fixture.file("f");
    let birth =
        || fixture.backend.getattr(&fixture.cx(), &file, Want::STAT | Want::BIRTH).unwrap().birth;
    let born = birth();
    fixture.write(&file, 0, b"later").unwrap();
    assert_eq!(birth(), born);
    if let Some(born) = born.known() {
        let attr = fixture.attr(&file);
        assert!(born <= attr.ctime, "{born:?} after {:?}", attr.ctime);
    }
}

fn a_new_directory_has_the_requested_attributes(fixture: &Fixture) {
    let links = fixture.attr(&fixture.root()).nlink;
    let set = SetAttr { mode: Some(0o750), ..SetAttr::default() };
    let made =
        fixture.backend.mkdir(&fixture.cx(), &fixture.root(), entry_name("d"), &set).unwrap();
    assert_eq!(
        (made.node.unwrap().attr.ftype, made.node.unwrap().attr.mode),
        (FileType::Directory, 0o750)
    );
    assert_eq!(made.node.unwrap().attr.nlink, 2);
    assert_eq!(fixture.attr(&fixture.root()).nlink, links + 1);
    refused(
        fixture.backend.mkdir(&fixture.cx(), &fixture.root(), entry_name("d"), &set),
        Status::Exist,
    );
    assert_eq!(fixture.names(&made.node.unwrap().fid), Vec::<String>::new());
}

fn unchecked_truncates_and_guarded_refuses_an_existing_file(fixture: &Fixture) {
    let root = fixture.root();
    let file = fixture.file("f");
    fixture.write(&file, 0, b"content").unwrap();
    refused(fixture.create(&root, "f", Create::Guarded(SetAttr::default())), Status::Exist);
    let taken = fixture.create(&root, "f", Create::Unchecked(SetAttr::default())).unwrap();
    assert_eq!((taken.node.unwrap().fid, taken.node.unwrap().attr.size), (file, 7));
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    let taken = fixture.create(&root, "f", Create::Unchecked(cut)).unwrap();
    assert_eq!((taken.node.unwrap().fid, taken.node.unwrap().attr.size), (file, 0));
    fixture.dir("d");
    refused(fixture.create(&root, "d", Create::Unchecked(SetAttr::default())), Status::Exist);
}

fn exclusive_survives_a_retry(fixture: &Fixture) {
    let root = fixture.root();
    let made = fixture.create(&root, "f", Create::Exclusive(*b"verifier")).unwrap();
    let again = fixture.create(&root, "f", Create::Exclusive(*b"verifier")).unwrap();
    assert_eq!(made.node.unwrap().fid, again.node.unwrap().fid);
    refused(fixture.create(&root, "f", Create::Exclusive(*b"another!")), Status::Exist);
    fixture.file("g");
    refused(fixture.create(&root, "g", Create::Exclusive(*b"verifier")), Status::Exist);
}

fn nodes_of_every_type(fixture: &Fixture) {
    let mut kinds = vec![("fifo", NodeKind::Fifo, FileType::Fifo, (0, 0))];
    kinds.push(("socket", NodeKind::Socket, FileType::Socket, (0, 0)));
    if fixture.capabilities.device_nodes {
        kinds.push(("char", NodeKind::Char(1, 3), FileType::Char, (1, 3)));
        kinds.push(("block", NodeKind::Block(259, 70_000), FileType::Block, (259, 70_000)));
    }
    let set = SetAttr { mode: Some(0o604), ..SetAttr::default() };
    for (name, kind, ftype, rdev) in kinds {
        let made = fixture
            .backend
            .mknod(&fixture.cx(), &fixture.root(), entry_name(name), kind, &set)
            .unwrap();
        let attr = fixture.attr(&made.node.unwrap().fid);
        assert_eq!((attr.ftype, attr.rdev, attr.mode), (ftype, rdev, 0o604), "{name}");
        refused(fixture.read(&made.node.unwrap().fid, 0, 1), Status::WrongType);
        refused(fixture.write(&made.node.unwrap().fid, 0, b"x"), Status::WrongType);
        fixture.backend.remove(&fixture.cx(), &fixture.root(), entry_name(name)).unwrap();
    }
}

fn attributes_are_set_one_by_one(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.set(&file, SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!(fixture.attr(&file).mode, 0o600);
    fixture.set(&file, SetAttr { size: Some(1000), ..SetAttr::default() }).unwrap();
    assert_eq!((fixture.attr(&file).size, fixture.attr(&file).mode), (1000, 0o600));
    if fixture.capabilities.acts_as_callers {
        fixture.set(&file, SetAttr { uid: Some(12), gid: Some(34), ..SetAttr::default() }).unwrap();
        assert_eq!((fixture.attr(&file).uid, fixture.attr(&file).gid), (12, 34));
    }
    let dir = fixture.dir("d");
    refused(fixture.set(&dir, SetAttr { size: Some(0), ..SetAttr::default() }), Status::IsDir);
    fixture.set(&file, SetAttr::default()).unwrap();
}

fn a_guard_must_match(fixture: &Fixture) {
    let file = fixture.file("f");
    let ctime = fixture.attr(&file).ctime;
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let wrong = Time { sec: ctime.sec - 1, ..ctime };
    refused(fixture.backend.setattr(&fixture.cx(), &file, &set, Some(wrong)), Status::NotSync);
    assert_eq!(fixture.attr(&file).mode, 0o644);
    fixture.backend.setattr(&fixture.cx(), &file, &set, Some(ctime)).unwrap();
    assert_eq!(fixture.attr(&file).mode, 0o600);
}

fn times_are_kept_to_the_nanosecond(fixture: &Fixture) {
    let file = fixture.file("f");
    let (a, m) =
        (Time { sec: 1_000_000_000, nsec: 1 }, Time { sec: 3_000_000_000, nsec: 999_999_999 });
    let set = SetAttr { atime: SetTime::To(a), mtime: SetTime::To(m), ..SetAttr::default() };
    fixture.set(&file, set).unwrap();
    assert_eq!((fixture.attr(&file).atime, fixture.attr(&file).mtime), (a, m));
    fixture.set(&file, SetAttr { mtime: SetTime::Now, ..SetAttr::default() }).unwrap();
    assert_eq!(fixture.attr(&file).atime, a);
    assert_ne!(fixture.attr(&file).mtime, m);
}

fn removed_objects_are_stale(fixture: &Fixture) {
    let (file, dir) = (fixture.file("f"), fixture.dir("d"));
    fixture.backend.remove(&fixture.cx(), &fixture.root(), entry_name("f")).unwrap();
    fixture.backend.rmdir(&fixture.cx(), &fixture.root(), entry_name("d")).unwrap();
    for gone in [file, dir] {
        refused(fixture.backend.getattr(&fixture.cx(), &gone, Want::STAT), Status::Stale);
    }
    refused(fixture.read(&file, 0, 1), Status::Stale);
    refused(fixture.write(&file, 0, b"x"), Status::Stale);
    refused(fixture.lookup(&dir, "x"), Status::Stale);
    refused(fixture.list(&dir, 0, 1, false), Status::Stale);
    refused(fixture.create(&dir, "x", Create::Unchecked(SetAttr::default())), Status::Stale);
    refused(fixture.lookup(&fixture.root(), "f"), Status::NoEnt);
}

fn arbitrary_ids_are_refused(fixture: &Fixture) {
    for bytes in [&b""[..], b"x", &[0xff; 9], &[0xab; Fid::MAX]] {
        let got = fixture.backend.getattr(&fixture.cx(), &Fid::new(bytes).unwrap(), Want::STAT);
        assert!(matches!(got, Err(Status::BadHandle | Status::Stale)), "{bytes:?}: {got:?}");
    }
}

fn changes_return_attributes_before_and_after(fixture: &Fixture) {
    let file = fixture.file("f");
    let before = fixture.comparable(fixture.attr(&file).wcc());
    let set = SetAttr { size: Some(10), ..SetAttr::default() };
    let change = fixture.backend.setattr(&fixture.cx(), &file, &set, None).unwrap();
    assert_eq!(fixture.before(&change), Some(before));
    assert!(fixture.are_of(&change.after.unwrap(), &file), "{change:?}");
    let dir = fixture.comparable(fixture.attr(&fixture.root()).wcc());
    let change = fixture.backend.remove(&fixture.cx(), &fixture.root(), entry_name("f")).unwrap();
    assert_eq!(fixture.before(&change), Some(dir));
    let after = fixture.comparable(change.after.unwrap().wcc());
    assert_eq!(after, fixture.comparable(fixture.attr(&fixture.root()).wcc()));
}

fn statfs_is_plausible(fixture: &Fixture) {
    let figures = fixture.backend.statfs(&fixture.cx(), &fixture.root()).unwrap();
    assert!(figures.avail_bytes <= figures.free_bytes && figures.free_bytes <= figures.total_bytes);
    assert_eq!(figures.attr.fileid, fixture.attr(&fixture.root()).fileid);
    let limits = fixture.backend.limits();
    assert!(limits.name_max >= 255 && limits.link_max >= 1000 && limits.file_size_max > 1 << 32);
    assert_eq!(fixture.backend.write_verifier(), fixture.backend.write_verifier());
}

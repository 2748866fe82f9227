//! Making objects, their attributes, and ids that lead nowhere.

use super::bed::{Bed, refused, word};
use super::checks;
use crate::{Create, Fid, FileType, NodeKind, SetAttr, SetTime, Status, Time, Want};

checks! {
    a_new_file_is_as_it_was_asked_for,
    creation_is_told_to_who_asks_and_stays,
    a_new_directory_is_as_it_was_asked_for,
    unchecked_takes_and_cuts_guarded_refuses,
    exclusive_survives_a_retry,
    nodes_of_every_type,
    attributes_are_set_one_by_one,
    a_guard_must_match,
    times_are_kept_to_the_nanosecond,
    removed_objects_are_stale,
    rubbish_ids_are_refused,
    changes_tell_before_and_after,
    figures_make_sense,
}

fn a_new_file_is_as_it_was_asked_for(bed: &Bed) {
    let set = SetAttr { mode: Some(0o640), ..SetAttr::default() };
    let made = bed.create(&bed.root(), "f", Create::Guarded(set)).unwrap();
    let attr = made.node.unwrap().attr;
    assert_eq!((attr.ftype, attr.mode, attr.nlink), (FileType::Regular, 0o640, 1));
    assert_eq!((attr.uid, attr.gid, attr.size), (bed.traits.own.0, bed.traits.own.1, 0));
    assert!(bed.are_of(&attr, &made.node.unwrap().fid), "{attr:?}");
    assert_eq!(bed.lookup(&bed.root(), "f"), Ok(made.node.unwrap().fid));
    assert_eq!(made.dir.after.unwrap().fileid, bed.attr(&bed.root()).fileid);
}

fn creation_is_told_to_who_asks_and_stays(bed: &Bed) {
    let file = bed.file("f");
    let birth = || bed.backend.getattr(&bed.cx(), &file, Want::STAT | Want::BIRTH).unwrap().birth;
    let born = birth();
    bed.write(&file, 0, b"later").unwrap();
    assert_eq!(birth(), born);
    if let Some(born) = born {
        let attr = bed.attr(&file);
        assert!(born <= attr.ctime, "{born:?} after {:?}", attr.ctime);
    }
}

fn a_new_directory_is_as_it_was_asked_for(bed: &Bed) {
    let links = bed.attr(&bed.root()).nlink;
    let set = SetAttr { mode: Some(0o750), ..SetAttr::default() };
    let made = bed.backend.mkdir(&bed.cx(), &bed.root(), word("d"), &set).unwrap();
    assert_eq!(
        (made.node.unwrap().attr.ftype, made.node.unwrap().attr.mode),
        (FileType::Directory, 0o750)
    );
    assert_eq!(made.node.unwrap().attr.nlink, 2);
    assert_eq!(bed.attr(&bed.root()).nlink, links + 1);
    refused(bed.backend.mkdir(&bed.cx(), &bed.root(), word("d"), &set), Status::Exist);
    assert_eq!(bed.names(&made.node.unwrap().fid), Vec::<String>::new());
}

fn unchecked_takes_and_cuts_guarded_refuses(bed: &Bed) {
    let root = bed.root();
    let file = bed.file("f");
    bed.write(&file, 0, b"content").unwrap();
    refused(bed.create(&root, "f", Create::Guarded(SetAttr::default())), Status::Exist);
    let taken = bed.create(&root, "f", Create::Unchecked(SetAttr::default())).unwrap();
    assert_eq!((taken.node.unwrap().fid, taken.node.unwrap().attr.size), (file, 7));
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    let taken = bed.create(&root, "f", Create::Unchecked(cut)).unwrap();
    assert_eq!((taken.node.unwrap().fid, taken.node.unwrap().attr.size), (file, 0));
    bed.dir("d");
    refused(bed.create(&root, "d", Create::Unchecked(SetAttr::default())), Status::Exist);
}

fn exclusive_survives_a_retry(bed: &Bed) {
    let root = bed.root();
    let made = bed.create(&root, "f", Create::Exclusive(*b"verifier")).unwrap();
    let again = bed.create(&root, "f", Create::Exclusive(*b"verifier")).unwrap();
    assert_eq!(made.node.unwrap().fid, again.node.unwrap().fid);
    refused(bed.create(&root, "f", Create::Exclusive(*b"another!")), Status::Exist);
    bed.file("g");
    refused(bed.create(&root, "g", Create::Exclusive(*b"verifier")), Status::Exist);
}

fn nodes_of_every_type(bed: &Bed) {
    let mut kinds = vec![("fifo", NodeKind::Fifo, FileType::Fifo, (0, 0))];
    kinds.push(("socket", NodeKind::Socket, FileType::Socket, (0, 0)));
    if bed.traits.device_nodes {
        kinds.push(("char", NodeKind::Char(1, 3), FileType::Char, (1, 3)));
        kinds.push(("block", NodeKind::Block(259, 70_000), FileType::Block, (259, 70_000)));
    }
    let set = SetAttr { mode: Some(0o604), ..SetAttr::default() };
    for (name, kind, ftype, rdev) in kinds {
        let made = bed.backend.mknod(&bed.cx(), &bed.root(), word(name), kind, &set).unwrap();
        let attr = bed.attr(&made.node.unwrap().fid);
        assert_eq!((attr.ftype, attr.rdev, attr.mode), (ftype, rdev, 0o604), "{name}");
        refused(bed.read(&made.node.unwrap().fid, 0, 1), Status::WrongType);
        refused(bed.write(&made.node.unwrap().fid, 0, b"x"), Status::WrongType);
        bed.backend.remove(&bed.cx(), &bed.root(), word(name)).unwrap();
    }
}

fn attributes_are_set_one_by_one(bed: &Bed) {
    let file = bed.file("f");
    bed.set(&file, SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!(bed.attr(&file).mode, 0o600);
    bed.set(&file, SetAttr { size: Some(1000), ..SetAttr::default() }).unwrap();
    assert_eq!((bed.attr(&file).size, bed.attr(&file).mode), (1000, 0o600));
    if bed.traits.acts_as_callers {
        bed.set(&file, SetAttr { uid: Some(12), gid: Some(34), ..SetAttr::default() }).unwrap();
        assert_eq!((bed.attr(&file).uid, bed.attr(&file).gid), (12, 34));
    }
    let dir = bed.dir("d");
    refused(bed.set(&dir, SetAttr { size: Some(0), ..SetAttr::default() }), Status::IsDir);
    bed.set(&file, SetAttr::default()).unwrap();
}

fn a_guard_must_match(bed: &Bed) {
    let file = bed.file("f");
    let ctime = bed.attr(&file).ctime;
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let wrong = Time { sec: ctime.sec - 1, ..ctime };
    refused(bed.backend.setattr(&bed.cx(), &file, &set, Some(wrong)), Status::NotSync);
    assert_eq!(bed.attr(&file).mode, 0o644);
    bed.backend.setattr(&bed.cx(), &file, &set, Some(ctime)).unwrap();
    assert_eq!(bed.attr(&file).mode, 0o600);
}

fn times_are_kept_to_the_nanosecond(bed: &Bed) {
    let file = bed.file("f");
    let (a, m) =
        (Time { sec: 1_000_000_000, nsec: 1 }, Time { sec: 3_000_000_000, nsec: 999_999_999 });
    let set = SetAttr { atime: SetTime::To(a), mtime: SetTime::To(m), ..SetAttr::default() };
    bed.set(&file, set).unwrap();
    assert_eq!((bed.attr(&file).atime, bed.attr(&file).mtime), (a, m));
    bed.set(&file, SetAttr { mtime: SetTime::Now, ..SetAttr::default() }).unwrap();
    assert_eq!(bed.attr(&file).atime, a);
    assert_ne!(bed.attr(&file).mtime, m);
}

fn removed_objects_are_stale(bed: &Bed) {
    let (file, dir) = (bed.file("f"), bed.dir("d"));
    bed.backend.remove(&bed.cx(), &bed.root(), word("f")).unwrap();
    bed.backend.rmdir(&bed.cx(), &bed.root(), word("d")).unwrap();
    for gone in [file, dir] {
        refused(bed.backend.getattr(&bed.cx(), &gone, Want::STAT), Status::Stale);
    }
    refused(bed.read(&file, 0, 1), Status::Stale);
    refused(bed.write(&file, 0, b"x"), Status::Stale);
    refused(bed.lookup(&dir, "x"), Status::Stale);
    refused(bed.list(&dir, 0, 1, false), Status::Stale);
    refused(bed.create(&dir, "x", Create::Unchecked(SetAttr::default())), Status::Stale);
    refused(bed.lookup(&bed.root(), "f"), Status::NoEnt);
}

fn rubbish_ids_are_refused(bed: &Bed) {
    for bytes in [&b""[..], b"x", &[0xff; 9], &[0xab; Fid::MAX]] {
        let got = bed.backend.getattr(&bed.cx(), &Fid::new(bytes).unwrap(), Want::STAT);
        assert!(matches!(got, Err(Status::BadHandle | Status::Stale)), "{bytes:?}: {got:?}");
    }
}

fn changes_tell_before_and_after(bed: &Bed) {
    let file = bed.file("f");
    let before = bed.attr(&file).wcc();
    let set = SetAttr { size: Some(10), ..SetAttr::default() };
    let change = bed.backend.setattr(&bed.cx(), &file, &set, None).unwrap();
    assert_eq!(change.before, Some(before));
    assert!(bed.are_of(&change.after.unwrap(), &file), "{change:?}");
    let dir = bed.attr(&bed.root()).wcc();
    let change = bed.backend.remove(&bed.cx(), &bed.root(), word("f")).unwrap();
    assert_eq!(change.before, Some(dir));
    assert_eq!(change.after.map(|a| a.wcc()), Some(bed.attr(&bed.root()).wcc()));
}

fn figures_make_sense(bed: &Bed) {
    let figures = bed.backend.statfs(&bed.cx(), &bed.root()).unwrap();
    assert!(figures.avail_bytes <= figures.free_bytes && figures.free_bytes <= figures.total_bytes);
    assert_eq!(figures.attr.fileid, bed.attr(&bed.root()).fileid);
    let limits = bed.backend.limits();
    assert!(limits.name_max >= 255 && limits.link_max >= 1000 && limits.file_size_max > 1 << 32);
    assert_eq!(bed.backend.write_verifier(), bed.backend.write_verifier());
}

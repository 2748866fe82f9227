//! What others than root may and may not, for backends that act as their callers.

use super::bed::{Bed, refused, word};
use super::checks;
use crate::{AccessMask, Create, Cred, Fid, SetAttr, SetTime, Stability, Status, Time};

checks! {
    modes_decide_who_reads_and_writes,
    owners_go_on_whatever_the_mode_says,
    directories_need_search_and_write,
    new_objects_belong_to_their_maker,
    set_group_directories_hand_their_group_down,
    the_sticky_bit_protects_entries,
    attributes_are_the_owners_to_change,
    access_tells_what_would_happen,
    strangers_writing_clear_set_user_id,
    special_bits_outlast_the_size_that_comes_with_them,
    special_bits_outlast_the_owner_that_comes_with_them,
}

const OWNER: Cred<'static> = Cred { uid: 1001, gid: 2001, groups: &[] };
const MEMBER: Cred<'static> = Cred { uid: 1002, gid: 9, groups: &[5, 2001] };
const STRANGER: Cred<'static> = Cred { uid: 1003, gid: 9, groups: &[5] };

/// A file of OWNER's with this mode.
fn owned(bed: &Bed, name: &str, mode: u32) -> Fid {
    let file = bed.file(name);
    give(bed, &file, mode);
    file
}

/// Gives an object to OWNER with this mode.
fn give(bed: &Bed, fid: &Fid, mode: u32) {
    let (uid, gid) = (Some(OWNER.uid), Some(OWNER.gid));
    bed.set(fid, SetAttr { uid, gid, ..SetAttr::default() }).unwrap();
    bed.set(fid, SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
}

fn reads(bed: &Bed, who: Cred<'_>, file: &Fid) -> Result<(), Status> {
    bed.backend.read(&bed.by(who), file, 0, &mut [0; 4]).map(drop)
}

fn writes(bed: &Bed, who: Cred<'_>, file: &Fid) -> Result<(), Status> {
    bed.backend.write(&bed.by(who), file, 0, b"data", Stability::Unstable).map(drop)
}

fn modes_decide_who_reads_and_writes(bed: &Bed) {
    let file = owned(bed, "f", 0o640);
    assert_eq!((reads(bed, OWNER, &file), writes(bed, OWNER, &file)), (Ok(()), Ok(())));
    assert_eq!(reads(bed, MEMBER, &file), Ok(()));
    refused(writes(bed, MEMBER, &file), Status::Acces);
    refused(reads(bed, STRANGER, &file), Status::Acces);
    bed.set(&file, SetAttr { mode: Some(0o606), ..SetAttr::default() }).unwrap();
    refused(reads(bed, MEMBER, &file), Status::Acces);
    assert_eq!(writes(bed, STRANGER, &file), Ok(()));
}

fn owners_go_on_whatever_the_mode_says(bed: &Bed) {
    let file = owned(bed, "f", 0o000);
    assert_eq!((writes(bed, OWNER, &file), reads(bed, OWNER, &file)), (Ok(()), Ok(())));
    let runs = owned(bed, "x", 0o711);
    assert_eq!(reads(bed, STRANGER, &runs), Ok(()), "what may be executed may be read");
}

fn directories_need_search_and_write(bed: &Bed) {
    let dir = bed.dir("d");
    bed.file_in(&dir, "f");
    give(bed, &dir, 0o751);
    let by = bed.by(STRANGER);
    let name = crate::Component::Name(word("f"));
    bed.backend.lookup(&by, &dir, name).unwrap();
    let mut sink = |_: &crate::DirEntry<'_>| std::ops::ControlFlow::Continue(());
    refused(
        bed.backend.readdir(&by, &dir, crate::ListArgs::all(0, false), &mut sink),
        Status::Acces,
    );
    let how = Create::Guarded(SetAttr::default());
    refused(bed.backend.create(&by, &dir, word("g"), how), Status::Acces);
    refused(bed.backend.remove(&by, &dir, word("f")), Status::Acces);
    bed.set(&dir, SetAttr { mode: Some(0o750), ..SetAttr::default() }).unwrap();
    refused(bed.backend.lookup(&by, &dir, name), Status::Acces);
    bed.backend.remove(&bed.by(OWNER), &dir, word("f")).unwrap();
}

fn new_objects_belong_to_their_maker(bed: &Bed) {
    bed.set(&bed.root(), SetAttr { mode: Some(0o777), ..SetAttr::default() }).unwrap();
    let by = bed.by(OWNER);
    let (root, set) = (bed.root(), SetAttr { mode: Some(0o600), ..SetAttr::default() });
    let made = [
        bed.backend.create(&by, &root, word("f"), Create::Guarded(set)).unwrap(),
        bed.backend.mkdir(&by, &root, word("d"), &set).unwrap(),
        bed.backend.symlink(&by, &root, word("l"), b"x", &set).unwrap(),
        bed.backend.mknod(&by, &root, word("p"), crate::NodeKind::Fifo, &set).unwrap(),
    ];
    for made in made {
        let attr = bed.attr(&made.node.unwrap().fid);
        assert_eq!((attr.uid, attr.gid), (OWNER.uid, OWNER.gid), "{:?}", attr.ftype);
    }
    let device = crate::NodeKind::Char(1, 3);
    refused(bed.backend.mknod(&by, &root, word("c"), device, &set), Status::Perm);
}

fn set_group_directories_hand_their_group_down(bed: &Bed) {
    let dir = bed.dir("d");
    give(bed, &dir, 0o2777);
    let by = bed.by(STRANGER);
    let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
    let inner = bed.backend.mkdir(&by, &dir, word("e"), &set).unwrap().node.unwrap();
    assert_eq!((inner.attr.uid, inner.attr.gid), (STRANGER.uid, OWNER.gid));
    assert_eq!(bed.attr(&inner.fid).mode, 0o2755);
    let file =
        bed.backend.create(&by, &dir, word("f"), Create::Guarded(set)).unwrap().node.unwrap();
    assert_eq!((file.attr.gid, file.attr.mode), (OWNER.gid, 0o755));
}

fn the_sticky_bit_protects_entries(bed: &Bed) {
    let dir = bed.dir("d");
    bed.set(&dir, SetAttr { mode: Some(0o1777), ..SetAttr::default() }).unwrap();
    let file = bed.file_in(&dir, "f");
    give(bed, &file, 0o666);
    let by = bed.by(STRANGER);
    let removed = bed.backend.remove(&by, &dir, word("f"));
    assert!(matches!(removed, Err(Status::Perm | Status::Acces)), "{removed:?}");
    let renamed = bed.backend.rename(&by, (&dir, word("f")), (&dir, word("g")));
    assert!(matches!(renamed, Err(Status::Perm | Status::Acces)), "{renamed:?}");
    bed.backend.remove(&bed.by(OWNER), &dir, word("f")).unwrap();
}

fn attributes_are_the_owners_to_change(bed: &Bed) {
    let file = owned(bed, "f", 0o664);
    let set = |who, set| bed.backend.setattr(&bed.by(who), &file, &set, None).map(drop);
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    refused(set(MEMBER, mode), Status::Perm);
    refused(set(OWNER, SetAttr { uid: Some(1), ..SetAttr::default() }), Status::Perm);
    refused(set(OWNER, SetAttr { gid: Some(77), ..SetAttr::default() }), Status::Perm);
    // what is so already is the owner's to say as well, and takes set-id bits away
    let same = SetAttr { uid: Some(OWNER.uid), gid: Some(OWNER.gid), ..SetAttr::default() };
    refused(set(MEMBER, same), Status::Perm);
    refused(set(MEMBER, SetAttr { gid: Some(OWNER.gid), ..SetAttr::default() }), Status::Perm);
    set(OWNER, SetAttr { mode: Some(0o4775), ..SetAttr::default() }).unwrap();
    set(OWNER, same).unwrap();
    assert_eq!(bed.attr(&file).mode, 0o775);
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

fn access_tells_what_would_happen(bed: &Bed) {
    let file = owned(bed, "f", 0o754);
    let all = AccessMask(0x3f);
    let access = |who, fid: &Fid| bed.backend.access(&bed.by(who), fid, all).unwrap().0;
    let data = AccessMask::MODIFY | AccessMask::EXTEND;
    assert_eq!(access(OWNER, &file), AccessMask::READ | data | AccessMask::EXECUTE);
    assert_eq!(access(MEMBER, &file), AccessMask::READ | AccessMask::EXECUTE);
    assert_eq!(access(STRANGER, &file), AccessMask::READ);
    let dir = bed.dir("d");
    give(bed, &dir, 0o751);
    assert_eq!(access(OWNER, &dir), AccessMask(0x1f));
    assert_eq!(access(STRANGER, &dir), AccessMask::LOOKUP);
}

fn strangers_writing_clear_set_user_id(bed: &Bed) {
    let file = owned(bed, "f", 0o6777);
    writes(bed, STRANGER, &file).unwrap();
    assert_eq!(bed.attr(&file).mode, 0o777);
}

/// Changing the size takes set-id bits away: who sets both gets both.
fn special_bits_outlast_the_size_that_comes_with_them(bed: &Bed) {
    let file = owned(bed, "f", 0o644);
    let both = SetAttr { mode: Some(0o4755), size: Some(5), ..SetAttr::default() };
    bed.backend.setattr(&bed.by(OWNER), &file, &both, None).unwrap();
    let attr = bed.attr(&file);
    assert_eq!((attr.mode, attr.size), (0o4755, 5));
}

/// Changing the owner takes set-id bits away: a new object gets both in one call.
fn special_bits_outlast_the_owner_that_comes_with_them(bed: &Bed) {
    let root = bed.root();
    bed.set(&root, SetAttr { mode: Some(0o777), ..SetAttr::default() }).unwrap();
    let seen = |made: crate::Result<crate::Created>| {
        let node = made.unwrap().node.unwrap();
        assert_eq!(bed.attr(&node.fid).mode, node.attr.mode, "as it was answered");
        (node.attr.uid, node.attr.gid, node.attr.mode)
    };
    let both = SetAttr { uid: Some(OWNER.uid), gid: Some(OWNER.gid), ..SetAttr::default() };
    let both = SetAttr { mode: Some(0o6755), ..both };
    let gid = SetAttr { uid: None, ..both };
    let (all, group) = ((OWNER.uid, OWNER.gid, 0o6755), (0, OWNER.gid, 0o6755));
    assert_eq!(seen(bed.create(&root, "f", Create::Guarded(both))), all);
    assert_eq!(seen(bed.create(&root, "g", Create::Unchecked(gid))), group);
    let (cx, fifo) = (bed.cx(), crate::NodeKind::Fifo);
    assert_eq!(seen(bed.backend.mknod(&cx, &root, word("p"), fifo, &both)), all);
    assert_eq!(seen(bed.backend.mkdir(&cx, &root, word("d"), &both)), all);
    // an ordinary user may say which of the own groups it is
    let by = bed.by(MEMBER);
    let own = SetAttr { mode: Some(0o2755), ..gid };
    let made = bed.backend.create(&by, &root, word("h"), Create::Guarded(own));
    assert_eq!(seen(made), (MEMBER.uid, OWNER.gid, 0o2755));
    let plain = SetAttr { mode: Some(0o755), ..both };
    assert_eq!(seen(bed.create(&root, "i", Create::Guarded(plain))), (all.0, all.1, 0o755));
}

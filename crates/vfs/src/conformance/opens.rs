//! The requirements of state about open files: the change attribute, kept files, rights that were checked
//! at open.

use super::checks;
use super::fixture::{Fixture, ROOT, entry_name, refused};
use crate::{
    ChangeKind, Cred, Cx, Fid, OpenAccess, Right, SetAttr, Stability, Status, Want, WriteDone,
};

checks! {
    the_change_attribute_differs_after_each_change,
    the_change_attribute_of_a_directory_differs_after_each_change,
    reading_does_not_change_the_change_attribute,
    replies_have_the_change_attribute_of_getattr,
    a_kept_file_outlives_its_last_name,
    a_kept_file_outlives_a_rename_over_it,
    a_file_is_kept_until_its_last_guard_is_dropped,
    only_regular_files_are_kept,
    root_may_open_every_file,
}

/// Checks for backends that act as their callers.
pub const BY_CALLERS: &[super::Check] = &[
    ("opening_is_checked_by_the_mode", opening_is_checked_by_the_mode),
    ("the_right_of_an_open_file_outlives_a_chmod", the_right_of_an_open_file_outlives_a_chmod),
];

const OWNER: Cred<'static> = Cred { uid: 1001, gid: 2001, groups: &[] };
const STRANGER: Cred<'static> = Cred { uid: 1003, gid: 9, groups: &[] };

/// Number of changes in immediate succession.
const CHANGES: u32 = 200;

/// Asserts that a change attribute has changed.
fn moved(fixture: &Fixture, before: u64, after: u64, what: &str) {
    assert_ne!(before, after, "{what}");
    if fixture.backend.limits().change_kind == ChangeKind::MonotonicIncrement {
        assert!(after > before, "{what}");
    }
}

fn the_change_attribute_differs_after_each_change(fixture: &Fixture) {
    let file = fixture.file("f");
    let mut last = fixture.attr(&file).change;
    for number in 0..CHANGES {
        match number % 3 {
            0 => fixture.write(&file, 0, b"some").unwrap(),
            1 => {
                let mode = Some(0o600 | number & 0o77);
                fixture.set(&file, SetAttr { mode, ..SetAttr::default() }).unwrap();
            }
            _ => {
                let size = Some(number.into());
                fixture.set(&file, SetAttr { size, ..SetAttr::default() }).unwrap();
            }
        }
        let now = fixture.attr(&file).change;
        moved(fixture, last, now, "a change of a file");
        last = now;
    }
    let (cx, root) = (fixture.cx(), fixture.root());
    fixture.backend.link(&cx, &file, &root, entry_name("g")).unwrap();
    let linked = fixture.attr(&file).change;
    moved(fixture, last, linked, "another name");
    fixture.backend.remove(&cx, &root, entry_name("f")).unwrap();
    moved(fixture, linked, fixture.attr(&file).change, "a name less");
}

fn the_change_attribute_of_a_directory_differs_after_each_change(fixture: &Fixture) {
    let (cx, root) = (fixture.cx(), fixture.root());
    let mut last = fixture.attr(&root).change;
    let mut look = |what: &str| {
        let now = fixture.attr(&root).change;
        moved(fixture, last, now, what);
        last = now;
    };
    for number in 0..CHANGES / 4 {
        let (name, other) = (format!("f{number}"), format!("g{number}"));
        fixture.file(&name);
        look("create");
        fixture
            .backend
            .rename(&cx, (&root, entry_name(&name)), (&root, entry_name(&other)))
            .unwrap();
        look("rename");
        fixture.backend.remove(&cx, &root, entry_name(&other)).unwrap();
        look("remove");
    }
}

fn reading_does_not_change_the_change_attribute(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.write(&file, 0, b"some").unwrap();
    // also if it settles a tick after the change
    std::thread::sleep(std::time::Duration::from_millis(50));
    let before = fixture.attr(&file).change;
    for _ in 0..10 {
        fixture.read(&file, 0, 4).unwrap();
        fixture.lookup(&fixture.root(), "f").unwrap();
    }
    assert_eq!(fixture.attr(&file).change, before);
}

fn replies_have_the_change_attribute_of_getattr(fixture: &Fixture) {
    if fixture.backend.limits().change_kind == ChangeKind::Undefined {
        // it may settle between two calls
        return;
    }
    let (file, root) = (fixture.file("f"), fixture.root());
    let before = fixture.attr(&file).change;
    let cx = fixture.cx();
    let WriteDone { file: change, .. } =
        fixture.backend.write(&cx, &file, 0, b"some", Stability::Unstable).unwrap();
    assert_eq!(change.before.unwrap().change, before);
    assert_eq!(change.after.unwrap().change, fixture.attr(&file).change);
    let before = fixture.attr(&root).change;
    let change = fixture.backend.remove(&cx, &root, entry_name("f")).unwrap();
    assert_eq!(change.before.unwrap().change, before);
    assert_eq!(change.after.unwrap().change, fixture.attr(&root).change);
    let made = fixture.file("g");
    let found = fixture.backend.getattr(&cx, &made, Want::STAT).unwrap();
    let name = crate::Component::Name(entry_name("g"));
    assert_eq!(fixture.backend.lookup(&cx, &root, name).unwrap().node.attr.change, found.change);
    let (entries, _) = fixture.list(&root, 0, usize::MAX, true).unwrap();
    let listed = entries.into_iter().find(|(name, ..)| name == b"g").unwrap().2.unwrap();
    assert_eq!(listed.attr.change, found.change);
}

/// Asserts that a file without a name can be used as before.
fn assert_usable_without_a_name(fixture: &Fixture, file: &Fid) {
    assert_eq!(fixture.attr(file).nlink, 0);
    fixture.write(file, 0, b"still there").unwrap();
    assert_eq!(fixture.read(file, 0, 100).unwrap(), (b"still there".to_vec(), true));
    fixture.set(file, SetAttr { size: Some(5), ..SetAttr::default() }).unwrap();
    assert_eq!(fixture.attr(file).size, 5);
    fixture.backend.commit(&fixture.cx(), file, 0, 0).unwrap();
}

fn a_kept_file_outlives_its_last_name(fixture: &Fixture) {
    let (cx, root) = (fixture.cx(), fixture.root());
    let file = fixture.file("f");
    let kept = fixture.backend.keep(&cx, &file).unwrap();
    fixture.backend.link(&cx, &file, &root, entry_name("g")).unwrap();
    fixture.backend.remove(&cx, &root, entry_name("f")).unwrap();
    assert_eq!(fixture.attr(&file).nlink, 1);
    fixture.backend.remove(&cx, &root, entry_name("g")).unwrap();
    assert_usable_without_a_name(fixture, &file);
    assert!(fixture.names(&root).is_empty());
    // a new file of the same name is another file
    let other = fixture.file("f");
    assert_ne!(other, file);
    drop(kept);
    refused(fixture.backend.getattr(&cx, &file, Want::STAT), Status::Stale);
    refused(fixture.read(&file, 0, 1), Status::Stale);
    refused(fixture.backend.keep(&cx, &file), Status::Stale);
    refused(fixture.backend.open(&cx, &file, OpenAccess::READ), Status::Stale);
    assert_eq!(fixture.attr(&other).nlink, 1);
}

fn a_kept_file_outlives_a_rename_over_it(fixture: &Fixture) {
    let (cx, root) = (fixture.cx(), fixture.root());
    let (file, new) = (fixture.file("f"), fixture.file("new"));
    let kept = fixture.backend.keep(&cx, &file).unwrap();
    fixture.backend.rename(&cx, (&root, entry_name("new")), (&root, entry_name("f"))).unwrap();
    assert_usable_without_a_name(fixture, &file);
    assert_eq!(fixture.lookup(&root, "f"), Ok(new));
    drop(kept);
    refused(fixture.write(&file, 0, b"x"), Status::Stale);
}

fn a_file_is_kept_until_its_last_guard_is_dropped(fixture: &Fixture) {
    let (cx, root) = (fixture.cx(), fixture.root());
    let file = fixture.file("f");
    let first = fixture.backend.keep(&cx, &file).unwrap();
    fixture.backend.remove(&cx, &root, entry_name("f")).unwrap();
    let second = fixture.backend.keep(&cx, &file).unwrap();
    drop(first);
    assert_usable_without_a_name(fixture, &file);
    drop(second);
    refused(fixture.backend.getattr(&cx, &file, Want::STAT), Status::Stale);
    // a file with a name does not need a guard
    let named = fixture.file("g");
    drop(fixture.backend.keep(&cx, &named).unwrap());
    assert_eq!(fixture.attr(&named).nlink, 1);
}

fn only_regular_files_are_kept(fixture: &Fixture) {
    let dir = fixture.dir("d");
    refused(fixture.backend.keep(&fixture.cx(), &dir), Status::IsDir);
    refused(fixture.backend.may_open(&fixture.cx(), &dir, OpenAccess::READ), Status::IsDir);
    refused(fixture.backend.open(&fixture.cx(), &dir, OpenAccess::READ), Status::IsDir);
}

fn root_may_open_every_file(fixture: &Fixture) {
    let file = fixture.file("f");
    let attr = fixture.backend.may_open(&fixture.cx(), &file, OpenAccess::BOTH).unwrap();
    assert_eq!(attr.fileid, fixture.attr(&file).fileid);
}

/// A file of OWNER's with this mode.
fn owned(fixture: &Fixture, mode: u32) -> Fid {
    let file = fixture.file("f");
    let (uid, gid) = (Some(OWNER.uid), Some(OWNER.gid));
    fixture.set(&file, SetAttr { uid, gid, ..SetAttr::default() }).unwrap();
    fixture.set(&file, SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
    file
}

fn opening_is_checked_by_the_mode(fixture: &Fixture) {
    let (read, write, both) = (OpenAccess::READ, OpenAccess::WRITE, OpenAccess::BOTH);
    let file = owned(fixture, 0o000);
    let set =
        |mode| fixture.set(&file, SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
    let may = |who, access| {
        let checked = fixture.backend.may_open(&fixture.by(who), &file, access).map(drop);
        let opened = fixture.backend.open(&fixture.by(who), &file, access);
        assert_eq!(opened.map(drop), checked, "{who:?} {access:?}");
        checked
    };
    // no exception for the owner; what may be executed may be read
    for (mode, who, access, result) in [
        (0o000, OWNER, read, Err(Status::Acces)),
        (0o000, ROOT, both, Ok(())),
        (0o400, OWNER, read, Ok(())),
        (0o400, OWNER, both, Err(Status::Acces)),
        (0o600, OWNER, both, Ok(())),
        (0o711, STRANGER, read, Ok(())),
        (0o711, STRANGER, both, Err(Status::Acces)),
        (0o100, OWNER, read, Ok(())),
        (0o611, OWNER, read, Ok(())),
        (0o611, OWNER, both, Ok(())),
        (0o077, OWNER, read, Err(Status::Acces)),
        (0o604, STRANGER, read, Ok(())),
        (0o604, STRANGER, write, Err(Status::Acces)),
        (0o602, STRANGER, write, Ok(())),
    ] {
        set(mode);
        assert_eq!(may(who, access), result, "{mode:04o} {who:?} {access:?}");
    }
}

fn the_right_of_an_open_file_outlives_a_chmod(fixture: &Fixture) {
    let file = owned(fixture, 0o600);
    fixture.write(&file, 0, b"some").unwrap();
    let with = |right| Cx { right, ..fixture.by(STRANGER) };
    let reads = |right| fixture.backend.read(&with(right), &file, 0, &mut [0; 4]).map(drop);
    let writes = |right| {
        fixture.backend.write(&with(right), &file, 0, b"data", Stability::Unstable).map(drop)
    };
    let cuts = |right| {
        let size = SetAttr { size: Some(2), ..SetAttr::default() };
        fixture.backend.setattr(&with(right), &file, &size, None).map(drop)
    };
    let opened = Right::Opened;
    let no = Err(Status::Acces);
    assert_eq!((reads(Right::Check), writes(Right::Check), cuts(Right::Check)), (no, no, no));
    let read = opened(OpenAccess::READ);
    assert_eq!((reads(read), writes(read), cuts(read)), (Ok(()), no, no));
    let write = opened(OpenAccess::WRITE);
    assert_eq!((reads(write), writes(write), cuts(write)), (no, Ok(()), Ok(())));
    let both = opened(OpenAccess::BOTH);
    assert_eq!((reads(both), writes(both), cuts(both)), (Ok(()), Ok(()), Ok(())));
    // it is a right to data only
    let mode = SetAttr { mode: Some(0o666), ..SetAttr::default() };
    refused(fixture.backend.setattr(&with(both), &file, &mode, None), Status::Perm);
}

//! The space of files, for back ends that know it.

use super::checks;
use super::fixture::{Fixture, refused};
use crate::{Advice, Content, Cred, Cx, Fid, FileAt, OpenAccess, Right, SetAttr, Space, Status};

checks! {
    allocated_space_reads_as_zeros_and_is_counted,
    allocating_keeps_data_and_never_shortens,
    a_freed_range_is_zeros_and_a_hole,
    seek_finds_data_and_holes,
    a_hole_is_never_reported_over_data,
    a_range_is_copied,
    a_file_may_be_copied_into_itself,
    changes_of_space_change_the_change_attribute,
    ranges_that_no_file_can_have_are_refused,
    only_regular_files_have_space,
    advice_that_is_followed_was_given,
}

/// Checks for back ends that act as their callers.
pub const BY_CALLERS: &[super::Check] = &[
    ("changes_of_space_need_permission", changes_of_space_need_permission),
    ("changes_of_space_clear_set_id_bits", changes_of_space_clear_set_id_bits),
];

/// Checks for back ends whose files can share data.
pub const OF_CLONES: &[super::Check] = &[
    ("a_range_is_cloned", a_range_is_cloned),
    ("clones_that_are_not_aligned_are_refused", clones_that_are_not_aligned_are_refused),
];

/// More than a block of any file system here.
const STEP: u64 = 64 * 1024;
/// The parts of a sparse file.
const PART: u64 = 256 * 1024;

fn space(fixture: &Fixture) -> &dyn Space {
    fixture.backend.space().unwrap()
}

/// A file with data in its first part, a hole as its second, and data in its third.
fn sparse(fixture: &Fixture) -> Fid {
    let file = fixture.file("sparse");
    fixture.write(&file, 0, &vec![1; 256 * 1024]).unwrap();
    fixture.write(&file, 2 * PART, &vec![2; 256 * 1024]).unwrap();
    file
}

fn at<'a>(fixture: &Fixture, fid: &'a Fid, offset: u64) -> FileAt<'a> {
    FileAt { cx: fixture.cx(), fid, offset }
}

fn allocated_space_reads_as_zeros_and_is_counted(fixture: &Fixture) {
    let file = fixture.file("f");
    let change = space(fixture).allocate(&fixture.cx(), &file, PART, PART).unwrap();
    assert!(fixture.are_of(&change.after.unwrap(), &file));
    let attr = fixture.attr(&file);
    assert_eq!(attr.size, 2 * PART);
    assert!((PART..2 * PART).contains(&attr.used), "{} bytes", attr.used);
    assert_eq!(fixture.read(&file, PART, 100).unwrap(), (vec![0; 100], false));
}

fn allocating_keeps_data_and_never_shortens(fixture: &Fixture) {
    let file = sparse(fixture);
    space(fixture).allocate(&fixture.cx(), &file, 0, 2 * PART).unwrap();
    let attr = fixture.attr(&file);
    assert_eq!(attr.size, 3 * PART);
    assert!(attr.used >= 3 * PART, "{} bytes", attr.used);
    assert_eq!(fixture.read(&file, PART - 1, 2).unwrap().0, [1, 0]);
    assert_eq!(fixture.read(&file, 2 * PART - 1, 2).unwrap().0, [0, 2]);
}

fn a_freed_range_is_zeros_and_a_hole(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.write(&file, 0, &vec![7; 256 * 1024]).unwrap();
    // not aligned to anything
    let change = space(fixture).deallocate(&fixture.cx(), &file, 1000, PART / 2).unwrap();
    assert!(fixture.are_of(&change.after.unwrap(), &file));
    let data = fixture.read(&file, 0, 256 * 1024).unwrap().0;
    let freed = |at: u64| (1000..1000 + PART / 2).contains(&at);
    assert!((0..).zip(&data).all(|(at, byte)| *byte == if freed(at) { 0 } else { 7 }));
    assert_eq!(fixture.attr(&file).size, PART);
    assert!(fixture.attr(&file).used < PART - PART / 4);
    let hole = space(fixture).hole_at(&fixture.cx(), &file, STEP).unwrap();
    assert!(hole.is_some_and(|end| (PART / 4..=1000 + PART / 2).contains(&end)), "{hole:?}");
    // beyond the end, and over it
    space(fixture).deallocate(&fixture.cx(), &file, PART - 10, 100).unwrap();
    space(fixture).deallocate(&fixture.cx(), &file, 2 * PART, 100).unwrap();
    assert_eq!(fixture.attr(&file).size, PART);
    assert_eq!(fixture.read(&file, PART - 11, 2).unwrap().0, [7, 0]);
}

fn seek_finds_data_and_holes(fixture: &Fixture) {
    let file = sparse(fixture);
    let seek = |offset, what| space(fixture).seek(&fixture.cx(), &file, offset, what);
    assert_eq!(seek(10, Content::Data), Ok(Some(10)));
    assert_eq!(seek(10, Content::Hole), Ok(Some(PART)));
    assert_eq!(seek(PART + STEP, Content::Data), Ok(Some(2 * PART)));
    assert_eq!(seek(PART + STEP, Content::Hole), Ok(Some(PART + STEP)));
    // the hole at the end
    assert_eq!(seek(2 * PART + 5, Content::Hole), Ok(Some(3 * PART)));
    assert_eq!(seek(3 * PART, Content::Hole), Err(Status::NxIo));
    assert_eq!(seek(3 * PART, Content::Data), Err(Status::NxIo));
    assert_eq!(seek(u64::MAX, Content::Data), Err(Status::NxIo));
    fixture.set(&file, SetAttr { size: Some(4 * PART), ..SetAttr::default() }).unwrap();
    assert_eq!(seek(3 * PART + STEP, Content::Data), Ok(None));
}

fn a_hole_is_never_reported_over_data(fixture: &Fixture) {
    let file = sparse(fixture);
    let hole = |offset| space(fixture).hole_at(&fixture.cx(), &file, offset).unwrap();
    assert_eq!((hole(0), hole(PART - 1), hole(2 * PART), hole(3 * PART)), (None, None, None, None));
    assert_eq!((hole(PART), hole(2 * PART - 1)), (Some(2 * PART), Some(2 * PART)));
    fixture.write(&file, PART + STEP, b"x").unwrap();
    assert!(hole(PART).is_some_and(|end| end <= PART + STEP));
    fixture.set(&file, SetAttr { size: Some(4 * PART), ..SetAttr::default() }).unwrap();
    assert_eq!(hole(3 * PART), Some(4 * PART));
}

fn a_range_is_copied(fixture: &Fixture) {
    let (from, to) = (sparse(fixture), fixture.file("to"));
    let copied = space(fixture).copy_range(at(fixture, &from, PART - 7), at(fixture, &to, 3), 14);
    match copied {
        // it is for the caller to read and write
        Err(Status::NotSupp) => return,
        copied => assert_eq!(copied, Ok(14)),
    }
    assert_eq!(fixture.attr(&to).size, 17);
    let expected = [&[0; 3][..], &[1; 7], &[0; 7]].concat();
    assert_eq!(fixture.read(&to, 0, 100).unwrap(), (expected, true));
    let at_end = space(fixture).copy_range(at(fixture, &from, 3 * PART), at(fixture, &to, 0), 14);
    assert_eq!(at_end, Ok(0));
    let short =
        space(fixture).copy_range(at(fixture, &from, 3 * PART - 4), at(fixture, &to, 0), 14);
    assert_eq!(short, Ok(4));
}

fn a_file_may_be_copied_into_itself(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.write(&file, 0, b"0123456789").unwrap();
    match space(fixture).copy_range(at(fixture, &file, 0), at(fixture, &file, 100), 10) {
        Err(Status::NotSupp) => {}
        copied => assert_eq!(copied, Ok(10)),
    }
    assert_eq!(fixture.read(&file, 0, 10).unwrap().0, b"0123456789");
}

fn changes_of_space_change_the_change_attribute(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.write(&file, 0, &vec![7; 256 * 1024]).unwrap();
    let before = fixture.attr(&file);
    space(fixture).allocate(&fixture.cx(), &file, PART, STEP).unwrap();
    let allocated = fixture.attr(&file);
    assert_ne!(before.change, allocated.change);
    space(fixture).deallocate(&fixture.cx(), &file, 0, STEP).unwrap();
    assert_ne!(allocated.change, fixture.attr(&file).change);
}

fn ranges_that_no_file_can_have_are_refused(fixture: &Fixture) {
    let file = fixture.file("f");
    let most = i64::MAX.cast_unsigned();
    for (offset, len) in [(u64::MAX, 1), (1, u64::MAX), (most, 1), (1 << 63, 4096)] {
        let (cx, space) = (fixture.cx(), space(fixture));
        refused(space.allocate(&cx, &file, offset, len), Status::FBig);
        refused(space.deallocate(&cx, &file, offset, len), Status::FBig);
    }
    assert_eq!(fixture.attr(&file).size, 0);
}

fn only_regular_files_have_space(fixture: &Fixture) {
    let (dir, file) = (fixture.dir("d"), fixture.file("f"));
    let (cx, space) = (fixture.cx(), space(fixture));
    refused(space.allocate(&cx, &dir, 0, 1), Status::IsDir);
    refused(space.deallocate(&cx, &dir, 0, 1), Status::IsDir);
    refused(space.seek(&cx, &dir, 0, Content::Data), Status::IsDir);
    refused(space.hole_at(&cx, &dir, 0), Status::IsDir);
    refused(space.copy_range(at(fixture, &dir, 0), at(fixture, &file, 0), 1), Status::IsDir);
    refused(space.copy_range(at(fixture, &file, 0), at(fixture, &dir, 0), 1), Status::IsDir);
    refused(space.advise(&cx, &dir, 0, 0, Advice::WILL_NEED), Status::IsDir);
}

fn advice_that_is_followed_was_given(fixture: &Fixture) {
    let file = sparse(fixture);
    for given in [0, 1, 1 << 4, 1 << 6, u32::MAX, 1 << 10] {
        for (offset, len) in [(0, 0), (PART, 2 * PART), (u64::MAX, 5)] {
            let followed =
                space(fixture).advise(&fixture.cx(), &file, offset, len, Advice::from_bits(given));
            assert_eq!(followed.unwrap().bits() & !given, 0);
        }
    }
}

const ANN: Cred<'static> = Cred { uid: 4001, gid: 4001, groups: &[] };
const BOB: Cred<'static> = Cred { uid: 4002, gid: 4002, groups: &[] };

/// A file that everybody may read, and its owner write.
fn of_ann(fixture: &Fixture, mode: u32) -> Fid {
    let file = fixture.file("ann");
    fixture.write(&file, 0, &vec![7; 256 * 1024]).unwrap();
    let (uid, gid, mode) = (Some(ANN.uid), Some(ANN.gid), Some(mode));
    fixture.set(&file, SetAttr { uid, gid, mode, ..SetAttr::default() }).unwrap();
    file
}

fn changes_of_space_need_permission(fixture: &Fixture) {
    let (file, other) = (of_ann(fixture, 0o600), fixture.file("bob"));
    let (uid, gid) = (Some(BOB.uid), Some(BOB.gid));
    fixture.set(&other, SetAttr { uid, gid, ..SetAttr::default() }).unwrap();
    let (space, bob) = (space(fixture), fixture.by(BOB));
    refused(space.allocate(&bob, &file, 0, PART), Status::Acces);
    refused(space.deallocate(&bob, &file, 0, PART), Status::Acces);
    refused(space.seek(&bob, &file, 0, Content::Data), Status::Acces);
    refused(space.hole_at(&bob, &file, 0), Status::Acces);
    let side = |fid, offset| FileAt { cx: bob, fid, offset };
    refused(space.copy_range(side(&file, 0), side(&other, 0), 10), Status::Acces);
    refused(space.copy_range(side(&other, 0), side(&file, 0), 10), Status::Acces);
    // an open gives the right
    let opened = Cx { right: Right::Opened(OpenAccess::BOTH), ..bob };
    space.allocate(&opened, &file, 0, PART).unwrap();
    assert_eq!(space.seek(&opened, &file, 0, Content::Data), Ok(Some(0)));
    assert_eq!(fixture.read(&file, 0, 1).unwrap().0, [7]);
}

fn changes_of_space_clear_set_id_bits(fixture: &Fixture) {
    let file = of_ann(fixture, 0o6755);
    let ann = fixture.by(ANN);
    space(fixture).deallocate(&ann, &file, 0, STEP).unwrap();
    let mode = fixture.attr(&file).mode;
    fixture.write(&file, 0, b"x").unwrap();
    // as a write does; kernels before 6.0 leave them at that
    assert!([0o755, 0o6755].contains(&(mode & 0o7777)), "{mode:o}");
}

fn a_range_is_cloned(fixture: &Fixture) {
    let (from, to) = (sparse(fixture), fixture.file("to"));
    fixture.write(&to, 0, b"old").unwrap();
    let clone = |offset, to_offset, len| {
        space(fixture).clone_range(at(fixture, &from, offset), at(fixture, &to, to_offset), len)
    };
    let change = clone(0, 0, 0).unwrap();
    assert!(fixture.are_of(&change.after.unwrap(), &to));
    assert_eq!(fixture.attr(&to).size, 3 * PART);
    assert_eq!(fixture.read(&to, PART - 1, 2).unwrap().0, [1, 0]);
    clone(2 * PART, 0, PART).unwrap();
    assert_eq!(fixture.read(&to, PART - 1, 2).unwrap().0, [2, 0]);
    // they are two files
    fixture.write(&to, 0, b"new").unwrap();
    assert_eq!(fixture.read(&from, 0, 3).unwrap().0, [1, 1, 1]);
    // an end that is not aligned
    fixture.write(&from, 3 * PART, b"end").unwrap();
    clone(3 * PART, 3 * PART, 3).unwrap();
    assert_eq!(fixture.read(&to, 3 * PART, 10).unwrap(), (b"end".to_vec(), true));
}

fn clones_that_are_not_aligned_are_refused(fixture: &Fixture) {
    let (from, to) = (sparse(fixture), fixture.file("to"));
    let block = u64::from(fixture.backend.limits().clone_block.unwrap());
    for (offset, to_offset, len) in [
        (1, 0, block),
        (0, 1, block),
        (0, 0, block - 1),
        (4 * PART, 0, block),
        (2 * PART, 0, 2 * PART),
    ] {
        let (source, target) = (at(fixture, &from, offset), at(fixture, &to, to_offset));
        refused(space(fixture).clone_range(source, target, len), Status::Inval);
    }
    let overlap = (at(fixture, &from, 0), at(fixture, &from, block));
    refused(space(fixture).clone_range(overlap.0, overlap.1, 2 * block), Status::Inval);
    assert_eq!(fixture.attr(&to).size, 0);
}

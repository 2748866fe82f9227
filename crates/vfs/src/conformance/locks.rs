//! Locks, for back ends that support those of programs other than NFS clients: a second open of a
//! file's locks stands for another program.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::{Fid, FileLocks, LockChange, LockConflict, LockMode, LockOutcome, LockRange, Status};

checks! {
    locks_conflict_with_those_of_others,
    readers_share_and_writers_do_not,
    a_lock_can_be_upgraded_and_downgraded,
    a_conflict_changes_nothing,
    dropping_file_locks_releases_them,
    a_file_that_is_kept_keeps_its_locks,
    only_regular_files_have_locks,
}

const READ: Option<LockMode> = Some(LockMode::Read);
const WRITE: Option<LockMode> = Some(LockMode::Write);

fn open(fixture: &Fixture, file: &Fid) -> Box<dyn FileLocks> {
    fixture.backend.locks().unwrap().open(&fixture.cx(), file).unwrap()
}

fn range(start: u64, last: u64) -> LockRange {
    LockRange::from_bounds(start, last).unwrap()
}

fn change(start: u64, last: u64, mode: Option<LockMode>) -> LockChange {
    LockChange { range: range(start, last), mode }
}

fn apply(fixture: &Fixture, locks: &mut dyn FileLocks, changes: &[LockChange]) -> LockOutcome {
    locks.apply(&fixture.cx(), changes).unwrap()
}

/// Locks a range without a conflict.
fn take(fixture: &Fixture, locks: &mut dyn FileLocks, changes: &[LockChange]) {
    assert_eq!(apply(fixture, locks, changes), LockOutcome::Done);
}

/// The locks that others see on these bytes, each byte by itself.
fn seen(others: &dyn FileLocks, bytes: std::ops::Range<u64>) -> String {
    let one = |at| match others.test(range(at, at), LockMode::Write).unwrap() {
        None => '-',
        Some(LockConflict { mode: LockMode::Read, .. }) => 'r',
        Some(LockConflict { mode: LockMode::Write, .. }) => 'w',
    };
    bytes.map(one).collect()
}

fn locks_conflict_with_those_of_others(fixture: &Fixture) {
    let file = fixture.file("f");
    let (mut own, mut other) = (open(fixture, &file), open(fixture, &file));
    let changes = [change(2, 3, WRITE), change(5, 5, READ), change(1 << 40, u64::MAX, WRITE)];
    take(fixture, own.as_mut(), &changes);
    assert_eq!(seen(other.as_ref(), 0..8), "--ww-r--");
    assert_eq!(seen(own.as_ref(), 0..8), "--------", "nobody is in his own way");
    let conflict = other.test(range(0, 100), LockMode::Write).unwrap().unwrap();
    assert_eq!((conflict.range, conflict.mode), (range(2, 3), LockMode::Write));
    let last = other.test(range((1 << 40) + 5, u64::MAX), LockMode::Read).unwrap().unwrap();
    assert_eq!(last.range, range(1 << 40, u64::MAX));
    let taken = apply(fixture, other.as_mut(), &[change(3, 4, READ)]);
    assert_eq!(taken, LockOutcome::Conflict(conflict));
    take(fixture, own.as_mut(), &[change(0, u64::MAX, None)]);
    assert_eq!(other.test(LockRange::ALL, LockMode::Write).unwrap(), None);
}

fn readers_share_and_writers_do_not(fixture: &Fixture) {
    let file = fixture.file("f");
    let (mut one, mut other) = (open(fixture, &file), open(fixture, &file));
    take(fixture, one.as_mut(), &[change(0, 9, READ)]);
    take(fixture, other.as_mut(), &[change(5, 14, READ)]);
    for (start, last) in [(0, 5), (9, 9)] {
        let outcome = apply(fixture, other.as_mut(), &[change(start, last, WRITE)]);
        assert!(matches!(outcome, LockOutcome::Conflict(_)), "{start} to {last}");
    }
    take(fixture, other.as_mut(), &[change(10, 14, WRITE)]);
    assert_eq!(seen(one.as_ref(), 0..16), "-----rrrrrwwwww-");
}

fn a_lock_can_be_upgraded_and_downgraded(fixture: &Fixture) {
    let file = fixture.file("f");
    let (mut own, other) = (open(fixture, &file), open(fixture, &file));
    take(fixture, own.as_mut(), &[change(0, 9, READ)]);
    take(fixture, own.as_mut(), &[change(3, 5, WRITE)]);
    assert_eq!(seen(other.as_ref(), 0..12), "rrrwwwrrrr--");
    take(fixture, own.as_mut(), &[change(4, 4, READ), change(0, 1, None), change(9, 10, WRITE)]);
    assert_eq!(seen(other.as_ref(), 0..12), "--rwrwrrrww-");
    take(fixture, own.as_mut(), &[change(0, 20, READ)]);
    assert_eq!(seen(other.as_ref(), 0..12), "rrrrrrrrrrrr");
    take(fixture, own.as_mut(), &[change(0, 20, None)]);
    assert_eq!(seen(other.as_ref(), 0..12), "------------");
}

fn a_conflict_changes_nothing(fixture: &Fixture) {
    let file = fixture.file("f");
    let (mut own, mut other) = (open(fixture, &file), open(fixture, &file));
    take(fixture, own.as_mut(), &[change(0, 3, READ), change(6, 7, WRITE)]);
    take(fixture, other.as_mut(), &[change(10, 10, WRITE)]);
    let before = seen(other.as_ref(), 0..10);
    let changes = [
        change(0, 1, WRITE),
        change(2, 2, None),
        change(4, 5, WRITE),
        change(6, 6, READ),
        change(8, 12, READ),
    ];
    let outcome = apply(fixture, own.as_mut(), &changes);
    assert!(matches!(outcome, LockOutcome::Conflict(found) if found.range == range(10, 10)));
    assert_eq!(seen(other.as_ref(), 0..10), before);
    assert_eq!(before, "rrrr--ww--");
    drop(other);
    take(fixture, own.as_mut(), &changes);
    assert_eq!(seen(open(fixture, &file).as_ref(), 0..14), "ww-rwwrwrrrrr-");
}

fn dropping_file_locks_releases_them(fixture: &Fixture) {
    let file = fixture.file("f");
    let mut own = open(fixture, &file);
    take(fixture, own.as_mut(), &[change(0, u64::MAX, WRITE)]);
    // READ and WRITE open and close the file
    fixture.write(&file, 0, b"some").unwrap();
    fixture.read(&file, 0, 4).unwrap();
    let other = open(fixture, &file);
    assert_eq!(seen(other.as_ref(), 0..2), "ww");
    drop(own);
    assert_eq!(seen(other.as_ref(), 0..2), "--");
}

fn a_file_that_is_kept_keeps_its_locks(fixture: &Fixture) {
    let (cx, file) = (fixture.cx(), fixture.file("f"));
    let kept = fixture.backend.keep(&cx, &file).unwrap();
    let mut own = open(fixture, &file);
    take(fixture, own.as_mut(), &[change(0, 0, READ)]);
    fixture.backend.remove(&cx, &fixture.root(), entry_name("f")).unwrap();
    take(fixture, own.as_mut(), &[change(0, 1, WRITE)]);
    assert_eq!(seen(open(fixture, &file).as_ref(), 0..3), "ww-");
    drop(kept);
}

fn only_regular_files_have_locks(fixture: &Fixture) {
    let dir = fixture.dir("d");
    refused(fixture.backend.locks().unwrap().open(&fixture.cx(), &dir).map(drop), Status::IsDir);
}

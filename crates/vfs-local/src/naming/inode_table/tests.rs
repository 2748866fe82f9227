//! Records are found, over restarts, crashes at any byte, and with many writers.

use super::InodeTable;
use super::dentry::{DENTRIES_MAX, Dentry, FileKey};
use super::record::SLOT;

fn key(n: u32) -> FileKey {
    FileKey::new(&n.to_be_bytes()).unwrap()
}

fn dentry(parent: u32, name: &[u8]) -> Dentry {
    Dentry { parent: key(parent), name: name.to_vec() }
}

/// The newest dentry of a key.
fn first(table: &InodeTable, n: u32) -> Option<Dentry> {
    table.dentries(&key(n)).into_iter().next()
}

#[test]
fn the_newest_name_is_found_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    {
        let table = InodeTable::open(&path).unwrap();
        for n in 1..500 {
            table.remember(&key(0), format!("name{n}").as_bytes(), &key(n)).unwrap();
        }
        table.remember(&key(3), &[b'x'; 255], &key(7)).unwrap();
    }
    let table = InodeTable::open(&path).unwrap();
    assert_eq!(first(&table, 9), Some(dentry(0, b"name9")));
    assert_eq!(first(&table, 7), Some(dentry(3, &[b'x'; 255])));
    assert_eq!(first(&table, 999), None);
}

#[test]
fn a_forgotten_entry_stays_forgotten_until_it_is_added_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    table.remember(&key(0), b"gone", &key(1)).unwrap();
    table.remember(&key(0), b"back", &key(2)).unwrap();
    for n in [1, 2, 3] {
        table.forget(&key(n)).unwrap();
    }
    assert_eq!(first(&table, 1), None);
    table.remember(&key(0), b"back", &key(2)).unwrap();
    drop(table);
    let table = InodeTable::open(&path).unwrap();
    assert_eq!(first(&table, 1), None);
    assert_eq!(first(&table, 2), Some(dentry(0, b"back")));
}

#[test]
fn a_known_name_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    for _ in 0..100 {
        table.remember(&key(0), b"a", &key(1)).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SLOT as u64);
}

#[test]
fn a_truncated_file_yields_all_complete_records() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    {
        let table = InodeTable::open(&path).unwrap();
        for n in 1..=4 {
            table.remember(&key(0), &vec![b'n'; 60 * n as usize], &key(n)).unwrap();
        }
    }
    let whole = std::fs::read(&path).unwrap();
    let ends = [2, 3 + 2, 4 + 5, 5 + 9].map(|slots: usize| slots);
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let table = InodeTable::open(&path).unwrap();
        let found = (1..=4).filter(|n| first(&table, *n).is_some()).count();
        // a record is found if its last byte of data is there; at most one slot of padding less
        let at_least = ends.iter().filter(|end| **end * SLOT <= cut).count();
        assert!(found >= at_least && found <= at_least + 1, "cut at {cut}: {found}");
        table.remember(&key(0), b"after", &key(9)).unwrap();
        drop(table);
        assert!(first(&InodeTable::open(&path).unwrap(), 9).is_some());
    }
}

#[test]
fn corruption_loses_only_the_records_it_hits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    {
        let table = InodeTable::open(&path).unwrap();
        for n in 0..20 {
            table.remember(&key(100), b"short", &key(n)).unwrap();
        }
    }
    let whole = std::fs::read(&path).unwrap();
    for hit in (0..whole.len()).step_by(13) {
        let mut bytes = whole.clone();
        bytes[hit] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        let table = InodeTable::open(&path).unwrap();
        let found = (0..20).filter(|n| first(&table, *n).is_some()).count();
        assert!(found >= 19, "{found} after damage at {hit}");
    }
}

#[test]
fn concurrent_writers_lose_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for n in 0..1000 {
                    let name = format!("{t}.{n}");
                    table.remember(&key(0), name.as_bytes(), &key(t * 1000 + n)).unwrap();
                }
            });
        }
    });
    drop(table);
    let table = InodeTable::open(&path).unwrap();
    for n in 0..4000 {
        let name = format!("{}.{}", n / 1000, n % 1000);
        assert_eq!(first(&table, n), Some(dentry(0, name.as_bytes())));
    }
}

#[test]
fn a_file_of_mostly_old_records_is_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    {
        let table = InodeTable::open(&path).unwrap();
        for n in 0..3000u32 {
            table.remember(&key(0), n.to_string().as_bytes(), &key(n % 10)).unwrap();
        }
    }
    let before = std::fs::metadata(&path).unwrap().len();
    let table = InodeTable::open(&path).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < before / 10);
    assert_eq!(first(&table, 5), Some(dentry(0, b"2995")));
}

#[test]
fn an_object_has_several_names_the_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let (a, b, c) = (dentry(0, b"a"), dentry(1, b"b"), dentry(2, b"c"));
    {
        let table = InodeTable::open(&path).unwrap();
        for at in [&a, &b, &c, &a] {
            table.remember(&at.parent, &at.name, &key(7)).unwrap();
        }
        assert_eq!(table.dentries(&key(7)), [c.clone(), b.clone(), a.clone()]);
        table.prefer(&a, &key(7)).unwrap();
        table.moved(&key(7), &c, None).unwrap();
        table.moved(&key(7), &b, Some(&c)).unwrap();
    }
    let table = InodeTable::open(&path).unwrap();
    assert_eq!(table.dentries(&key(7)), [c.clone(), a.clone()]);
    table.moved(&key(7), &c, None).unwrap();
    table.moved(&key(7), &a, None).unwrap();
    assert_eq!(table.dentries(&key(7)), [a], "the last stays, as where to look");
}

#[test]
fn names_beyond_the_limit_evict_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    for n in 0..2 * DENTRIES_MAX {
        table.remember(&key(0), &[b'a' + n as u8; 255], &key(1)).unwrap();
    }
    drop(table);
    let kept = InodeTable::open(&path).unwrap().dentries(&key(1));
    let newest = (DENTRIES_MAX..2 * DENTRIES_MAX).rev().map(|n| dentry(0, &[b'a' + n as u8; 255]));
    assert_eq!(kept, newest.collect::<Vec<_>>());
}

#[test]
fn names_linked_concurrently_are_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let table = InodeTable::open(&dir.path().join("names")).unwrap();
    std::thread::scope(|scope| {
        for n in 0..DENTRIES_MAX as u8 {
            let table = &table;
            scope.spawn(move || table.remember(&key(0), &[n], &key(1)).unwrap());
        }
    });
    assert_eq!(table.dentries(&key(1)).len(), DENTRIES_MAX);
}

#[test]
fn short_lived_files_do_not_grow_the_table_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    for n in 0..100 {
        table.remember(&key(0), b"stays", &key(n)).unwrap();
    }
    for round in 0..20 {
        for n in 0..10_000 {
            let n = 1000 + round * 10_000 + n;
            table.remember(&key(0), b"comes and goes", &key(n)).unwrap();
            table.forget(&key(n)).unwrap();
        }
        table.compact().unwrap();
    }
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes <= (super::COMPACT_MIN + 20_000) * SLOT as u64, "{bytes}");
    for table in [table, InodeTable::open(&path).unwrap()] {
        assert!((0..100).all(|n| first(&table, n) == Some(dentry(0, b"stays"))));
        assert_eq!(first(&table, 1000), None);
    }
}

#[test]
fn compaction_loses_no_concurrent_record() {
    const EACH: u32 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut tidied = 0;
    std::thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let table = &table;
            scope.spawn(move || {
                for n in (1..EACH).map(|n| n * 2 + writer) {
                    table.remember(&key(0), b"before", &key(n)).unwrap();
                    let (from, to) = (dentry(0, b"before"), dentry(1, b"after"));
                    table.moved(&key(n), &from, Some(&to)).unwrap();
                    if n % 16 > 1 {
                        table.forget(&key(n)).unwrap();
                    }
                    assert_eq!(first(table, n).is_some(), n % 16 <= 1, "{n}");
                }
            })
        });
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                tidied += u32::from(table.compact_beyond(2000).unwrap());
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(tidied > 2, "{tidied}");
    for table in [table, InodeTable::open(&path).unwrap()] {
        for n in 2..EACH * 2 {
            let there = (n % 16 <= 1).then(|| dentry(1, b"after"));
            assert_eq!(first(&table, n), there, "{n}");
        }
    }
}

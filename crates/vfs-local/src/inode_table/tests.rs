//! What is noted is found, over restarts, crashes at any byte, and many writers.

use super::{FileKey, InodeTable, SLOT};

fn key(n: u32) -> FileKey {
    FileKey::new(&n.to_be_bytes()).unwrap()
}

#[test]
fn it_remembers_over_a_restart_and_takes_the_newest() {
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
    assert_eq!(table.locate(&key(9)), Some((key(0), b"name9".to_vec())));
    assert_eq!(table.locate(&key(7)), Some((key(3), vec![b'x'; 255])));
    assert_eq!(table.locate(&key(999)), None);
}

#[test]
fn what_is_forgotten_stays_forgotten_and_may_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    table.remember(&key(0), b"gone", &key(1)).unwrap();
    table.remember(&key(0), b"back", &key(2)).unwrap();
    for n in [1, 2, 3] {
        table.forget(&key(n)).unwrap();
    }
    assert_eq!(table.locate(&key(1)), None);
    table.remember(&key(0), b"back", &key(2)).unwrap();
    drop(table);
    let table = InodeTable::open(&path).unwrap();
    assert_eq!(table.locate(&key(1)), None);
    assert_eq!(table.locate(&key(2)), Some((key(0), b"back".to_vec())));
}

#[test]
fn what_is_known_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let table = InodeTable::open(&path).unwrap();
    for _ in 0..100 {
        table.remember(&key(0), b"a", &key(1)).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SLOT as u64);
}

#[test]
fn a_file_torn_at_any_byte_gives_all_whole_records() {
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
        let found = (1..=4).filter(|n| table.locate(&key(*n)).is_some()).count();
        // a record is found if its last byte of data is there; at the most one slot of padding less
        let at_least = ends.iter().filter(|end| **end * SLOT <= cut).count();
        assert!(found >= at_least && found <= at_least + 1, "cut at {cut}: {found}");
        table.remember(&key(0), b"after", &key(9)).unwrap();
        drop(table);
        assert!(InodeTable::open(&path).unwrap().locate(&key(9)).is_some());
    }
}

#[test]
fn damage_in_the_middle_loses_only_what_it_hits() {
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
        let found = (0..20).filter(|n| table.locate(&key(*n)).is_some()).count();
        assert!(found >= 19, "{found} after damage at {hit}");
    }
}

#[test]
fn many_writers_lose_nothing() {
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
        assert_eq!(table.locate(&key(n)), Some((key(0), name.into_bytes())));
    }
}

#[test]
fn a_file_of_mostly_old_records_is_written_anew() {
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
    assert_eq!(table.locate(&key(5)), Some((key(0), b"2995".to_vec())));
}

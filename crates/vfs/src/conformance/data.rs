//! Reading and writing.

use super::checks;
use super::fixture::{Fixture, refused};
use crate::{SetAttr, Stability, Status};
use std::io::{Read, Write};
use std::os::fd::AsFd;

checks! {
    written_data_is_read,
    reads_end_at_the_end,
    holes_read_as_zeros_far_beyond_4_gib,
    truncating_and_extending,
    empty_reads_and_writes_do_nothing,
    stability_is_at_least_the_requested_one,
    data_in_a_pipe_is_written_like_any_other,
    writing_updates_the_times,
    directories_have_no_data,
    offsets_beyond_any_file_are_refused,
    reads_beyond_any_file_find_the_end,
}

fn written_data_is_read(fixture: &Fixture) {
    let file = fixture.file("f");
    let data: Vec<u8> = (0..100_000u32).map(|n| n.to_be_bytes()[3] ^ n.to_be_bytes()[2]).collect();
    fixture.write(&file, 0, &data).unwrap();
    assert_eq!(fixture.read(&file, 0, 100_000).unwrap(), (data.clone(), true));
    assert_eq!(fixture.read(&file, 4095, 3).unwrap(), (data[4095..4098].to_vec(), false));
    fixture.write(&file, 50_000, b"over").unwrap();
    assert_eq!(fixture.read(&file, 49_999, 6).unwrap().0[1..5], *b"over");
    assert_eq!(fixture.attr(&file).size, 100_000);
}

fn reads_end_at_the_end(fixture: &Fixture) {
    let file = fixture.file("f");
    assert_eq!(fixture.read(&file, 0, 10).unwrap(), (Vec::new(), true));
    fixture.write(&file, 0, b"12345").unwrap();
    assert_eq!(fixture.read(&file, 3, 10).unwrap(), (b"45".to_vec(), true));
    assert_eq!(fixture.read(&file, 3, 2).unwrap(), (b"45".to_vec(), true));
    assert_eq!(fixture.read(&file, 5, 10).unwrap(), (Vec::new(), true));
    assert_eq!(fixture.read(&file, 1 << 40, 10).unwrap(), (Vec::new(), true));
}

fn holes_read_as_zeros_far_beyond_4_gib(fixture: &Fixture) {
    let file = fixture.file("f");
    let far = (5 << 30) + 123;
    fixture.write(&file, far, b"far").unwrap();
    assert_eq!(fixture.attr(&file).size, far + 3);
    assert!(fixture.attr(&file).used < 1 << 20);
    assert_eq!(fixture.read(&file, far - 4, 7).unwrap(), (b"\0\0\0\0far".to_vec(), true));
    assert_eq!(fixture.read(&file, 1 << 32, 8).unwrap(), (vec![0; 8], false));
}

fn truncating_and_extending(fixture: &Fixture) {
    let file = fixture.file("f");
    let size = |n| SetAttr { size: Some(n), ..SetAttr::default() };
    fixture.write(&file, 0, &[7; 10_000]).unwrap();
    fixture.set(&file, size(5000)).unwrap();
    fixture.set(&file, size(9000)).unwrap();
    let (data, eof) = fixture.read(&file, 0, 20_000).unwrap();
    assert!(eof && data.len() == 9000);
    assert!(data[..5000].iter().all(|b| *b == 7) && data[5000..].iter().all(|b| *b == 0));
}

fn empty_reads_and_writes_do_nothing(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.write(&file, 0, b"x").unwrap();
    let before = fixture.attr(&file);
    fixture.write(&file, 100, b"").unwrap();
    assert_eq!((fixture.attr(&file).size, fixture.attr(&file).mtime), (1, before.mtime));
    assert_eq!(fixture.read(&file, 0, 0).unwrap().0, b"");
}

fn stability_is_at_least_the_requested_one(fixture: &Fixture) {
    let file = fixture.file("f");
    for stable in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        let done = fixture.backend.write(&fixture.cx(), &file, 0, b"data", stable).unwrap();
        assert!(done.committed >= stable);
    }
    fixture.backend.commit(&fixture.cx(), &file, 0, 0).unwrap();
    fixture.backend.commit(&fixture.cx(), &file, 1 << 40, 5).unwrap();
}

fn data_in_a_pipe_is_written_like_any_other(fixture: &Fixture) {
    let file = fixture.file("f");
    let data: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut read, mut write) = std::io::pipe().unwrap();
    write.write_all(&data).unwrap();
    let before = fixture.attr(&file);
    let piped = |at, len| fixture.backend.write_piped(&fixture.cx(), &file, at, read.as_fd(), len);
    let done = piped(100, 15_000).unwrap();
    assert_eq!(done.count, 15_000);
    assert_eq!(fixture.before(&done.file), Some(fixture.comparable(before.wcc())));
    assert_eq!(done.file.after.unwrap().size, 15_100);
    // overwrites existing data
    assert_eq!(piped(50, 4_000).unwrap().count, 4_000);
    let mut left = vec![0; 1_000];
    read.read_exact(&mut left).unwrap();
    assert_eq!(left, data[19_000..]);
    let (found, eof) = fixture.read(&file, 0, 20_000).unwrap();
    let expected = [&[0; 50], &data[15_000..19_000], &data[3_950..15_000]].concat();
    assert!(eof && found == expected);
}

fn writing_updates_the_times(fixture: &Fixture) {
    let file = fixture.file("f");
    let before = fixture.attr(&file);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let done = fixture.backend.write(&fixture.cx(), &file, 0, b"x", Stability::Unstable).unwrap();
    assert_eq!(fixture.before(&done.file), Some(fixture.comparable(before.wcc())));
    let after = done.file.after.unwrap();
    assert!(after.mtime > before.mtime && after.ctime > before.ctime && after.size == 1);
}

fn directories_have_no_data(fixture: &Fixture) {
    let dir = fixture.dir("d");
    refused(fixture.read(&dir, 0, 10), Status::IsDir);
    refused(fixture.write(&dir, 0, b"x"), Status::IsDir);
    refused(fixture.backend.commit(&fixture.cx(), &dir, 0, 0), Status::IsDir);
}

fn offsets_beyond_any_file_are_refused(fixture: &Fixture) {
    let file = fixture.file("f");
    refused(fixture.write(&file, u64::MAX - 1, b"xyz"), Status::FBig);
    refused(fixture.write(&file, i64::MAX.cast_unsigned(), b"x"), Status::FBig);
    assert_eq!(fixture.attr(&file).size, 0);
}

/// A file ends before them (RFC 1813 §3.3.6), even where the kernel does not support such offsets.
fn reads_beyond_any_file_find_the_end(fixture: &Fixture) {
    let file = fixture.file("f");
    fixture.write(&file, 0, b"xyz").unwrap();
    let most = i64::MAX.cast_unsigned();
    for offset in [most - 4096, most - 1, most, most + 1, u64::MAX - 1, u64::MAX] {
        for count in [0, 1, 4096, 1 << 20] {
            let found = fixture.read(&file, offset, count);
            assert_eq!(found.unwrap(), (Vec::new(), true), "{count} at {offset}");
        }
    }
}

//! The codec against RFC 4506's layout, byte by byte, and against itself.

use super::{Error, FileRange, Reader, Segment, Writer, padded, padding};
use std::os::fd::OwnedFd;
use std::sync::Arc;

#[test]
fn padding_reaches_the_next_multiple_of_four() {
    assert_eq!([0, 1, 2, 3, 4, 5].map(padding), [0, 3, 2, 1, 0, 3]);
    assert_eq!(padded(5), 8);
    assert_eq!(padded(usize::MAX), usize::MAX.saturating_add(padding(usize::MAX)));
}

#[test]
fn opaque_is_length_bytes_zero_padding() {
    let mut w = Writer::new();
    w.opaque(b"hello");
    assert_eq!(w.bytes(), b"\0\0\0\x05hello\0\0\0");
    let mut r = Reader::new(w.bytes());
    assert_eq!(r.opaque(5).unwrap(), b"hello");
    r.end().unwrap();
}

#[test]
fn padding_never_contains_stale_memory() {
    let mut w = Writer::new();
    w.raw(&[0xff; 64]);
    w.clear();
    w.opaque(b"a");
    assert_eq!(w.bytes(), b"\0\0\0\x01a\0\0\0");
}

#[test]
fn lengths_are_checked_before_use() {
    let over = 0xffff_ffffu32.to_be_bytes();
    assert_eq!(Reader::new(&over).opaque(10), Err(Error::TooLong { len: 0xffff_ffff, limit: 10 }));
    assert!(matches!(Reader::new(&over).opaque(usize::MAX), Err(Error::Short { .. })));
    assert_eq!(Reader::new(b"\0\0\0\x02ab\0").opaque(9), Err(Error::Short { wanted: 1 }));
    assert_eq!(Reader::new(b"\0\0").u32(), Err(Error::Short { wanted: 2 }));
}

#[test]
fn booleans_are_zero_or_one() {
    assert_eq!(Reader::new(&[0, 0, 0, 2]).bool(), Err(Error::NotBool(2)));
    assert_eq!(Reader::new(&[0, 0, 0, 1]).option::<u32>(), Err(Error::Short { wanted: 4 }));
    assert_eq!(Reader::new(&[0, 0, 0, 0]).option::<u32>(), Ok(None));
}

#[test]
fn a_mark_patches_and_rewinds() {
    let mut w = Writer::new();
    w.u32(1);
    let mark = w.mark();
    w.u32(0);
    w.u64(7);
    w.patch_u32(mark, 9);
    assert_eq!(w.bytes().get(4..8), Some(&[0, 0, 0, 9][..]));
    assert_eq!(w.written_since(mark), 12);
    w.rewind(mark);
    assert_eq!(w.bytes(), [0, 0, 0, 1]);
}

#[test]
fn space_becomes_reply_only_when_advanced() {
    let mut w = Writer::new();
    w.space(8).copy_from_slice(b"abcdefgh");
    w.advance(3);
    w.pad(3);
    assert_eq!(w.bytes(), b"abc\0");
}

#[test]
fn a_range_of_bytes_can_be_taken_out() {
    let mut w = Writer::new();
    w.raw(b"abcdefgh");
    w.remove(2..5);
    assert_eq!(w.bytes(), b"abfgh");
    w.remove(4..5);
    w.remove(4..4);
    assert_eq!(w.bytes(), b"abfg");
    w.raw(b"i");
    assert_eq!(w.bytes(), b"abfgi");
}

#[test]
fn trailing_bytes_are_an_error() {
    assert_eq!(Reader::new(&[1, 2]).end(), Err(Error::Trailing(2)));
}

/// The segments of a writer, a range as its offset and length.
fn shape(w: &Writer) -> Vec<Result<Vec<u8>, (u64, usize)>> {
    let part = |segment| match segment {
        Segment::Bytes(bytes) => Ok(bytes.to_vec()),
        Segment::File(range) => Err((range.offset, range.len)),
    };
    w.segments().map(part).collect()
}

#[test]
fn ranges_keep_their_position_among_bytes() {
    let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    let range = |offset, len| FileRange { file: Arc::clone(&file), offset, len };
    let mut w = Writer::new();
    w.take_ranges(Some(1));
    w.raw(b"head");
    w.range(range(7, 5));
    w.pad(5);
    let mark = w.mark();
    w.range(range(0, 4));
    w.range(range(4, 4));
    assert_eq!((w.len(), w.total_len()), (7, 20));
    let first = [Ok(b"head".to_vec()), Err((7, 5)), Ok(vec![0; 3])];
    assert_eq!(shape(&w)[..3], first);
    assert_eq!(shape(&w)[3..], [Err((0, 4)), Err((4, 4))]);
    w.rewind(mark);
    assert_eq!(shape(&w), first, "undone with the bytes behind the mark");
    let mut all = Writer::new();
    all.raw(b"ab");
    w.append_to(&mut all);
    assert!(w.is_empty() && !w.has_ranges());
    assert_eq!(shape(&all)[..2], [Ok(b"abhead".to_vec()), Err((7, 5))]);
    all.clear();
    assert_eq!((shape(&all), all.total_len()), (Vec::new(), 0));
    assert_eq!(Arc::strong_count(&file), 1, "nothing holds the file any more");
}

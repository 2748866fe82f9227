//! The codec against RFC 4506's layout, byte by byte, and against itself.

use super::{Error, Reader, Writer, padded, padding};

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
fn stale_memory_never_shows_in_padding() {
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
fn leftovers_are_seen() {
    assert_eq!(Reader::new(&[1, 2]).end(), Err(Error::Trailing(2)));
}

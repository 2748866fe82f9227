//! Record marking: any chunking of any fragmenting gives the same records, and the limits hold.

use super::{FRAGMENTS_MAX, MARK_LEN, Partial, Record, RecordError, STEP, mark};
use proptest::prelude::{Strategy, any, prop, proptest};

const MAX: usize = 1 << 20;

/// A fragment with its mark.
fn fragment(data: &[u8], last: bool) -> Vec<u8> {
    let len = u32::try_from(data.len()).unwrap();
    let mut out = (len | u32::from(last) << 31).to_be_bytes().to_vec();
    out.extend_from_slice(data);
    out
}

fn drain(partial: &mut Partial, mut input: &[u8], max: usize) -> Result<Vec<Vec<u8>>, RecordError> {
    let mut records = Vec::new();
    while let Some(record) = partial.next(&mut input, max)? {
        records.push(record.to_vec());
    }
    assert!(input.is_empty(), "all input is taken in");
    Ok(records)
}

#[test]
fn a_complete_record_is_returned_in_place() {
    let mut stream = fragment(b"one", true);
    stream.extend(fragment(b"two!", true));
    stream.extend(fragment(b"", true));
    let mut partial = Partial::new();
    let mut input = &stream[..];
    let range = stream.as_ptr_range();
    for expected in [&b"one"[..], b"two!", b""] {
        let Some(Record::InPlace(record)) = partial.next(&mut input, MAX).unwrap() else {
            panic!("not in place")
        };
        assert_eq!(record, expected);
        assert!(range.contains(&record.as_ptr()) || record.is_empty());
    }
    assert!(partial.next(&mut input, MAX).unwrap().is_none());
    assert!(partial.is_empty());
    assert_eq!(partial.capacity(), 0, "nothing was copied");
}

#[test]
fn the_number_of_missing_bytes_is_known() {
    let mut partial = Partial::new();
    assert_eq!(partial.missing(), 0);
    assert!(drain(&mut partial, &[0x80, 0], MAX).unwrap().is_empty());
    assert_eq!(partial.missing(), 2);
    assert!(drain(&mut partial, &[0, 9, 1, 2, 3, 4], MAX).unwrap().is_empty());
    assert_eq!(partial.missing(), 5);
    assert_eq!(drain(&mut partial, &[5, 6, 7, 8, 9], MAX).unwrap(), [[1, 2, 3, 4, 5, 6, 7, 8, 9]]);
    assert!(partial.is_empty());
    assert!(drain(&mut partial, &[0, 0, 0, 3, 1], MAX).unwrap().is_empty());
    assert_eq!(partial.missing(), 2 + MARK_LEN, "another fragment must follow");
    assert!(drain(&mut partial, &[2, 3], MAX).unwrap().is_empty());
    assert_eq!(partial.missing(), MARK_LEN);
    assert!(!partial.is_empty());
}

#[test]
fn a_claimed_length_reserves_no_memory() {
    let mut partial = Partial::new();
    let mut head = mark(MAX).unwrap().to_be_bytes().to_vec();
    head.extend_from_slice(&[7; 10]);
    assert!(drain(&mut partial, &head, MAX).unwrap().is_empty());
    assert!(partial.capacity() <= 256);
    assert_eq!(partial.space().unwrap().len(), STEP);
    assert!(partial.capacity() <= 2 * STEP);
}

#[test]
fn a_big_record_is_received_in_place_up_to_its_end() {
    let data: Vec<u8> = (0..MAX).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let stream = fragment(&data, true);
    let mut partial = Partial::new();
    let (head, mut rest) = stream.split_at(100_000);
    assert!(drain(&mut partial, head, MAX).unwrap().is_empty());
    let mut receives = 0;
    while let Some(room) = partial.space() {
        // A socket that gives at most 50 000 bytes at a time.
        let take = room.len().min(50_000);
        room[..take].copy_from_slice(&rest[..take]);
        rest = &rest[take..];
        partial.received(take);
        receives += 1;
    }
    assert!(rest.is_empty());
    assert_eq!(receives, (MAX - 99_996).div_ceil(50_000));
    let Some(Record::Joined(mut record)) = partial.next(&mut &[][..], MAX).unwrap() else {
        panic!("complete")
    };
    assert_eq!(record.bytes(), data);
    assert_eq!(partial.capacity(), 0, "the memory went with the record");
    let capacity = record.capacity();
    partial.reuse(&mut record);
    assert_eq!(partial.capacity(), capacity);
    assert!(drain(&mut partial, &stream[..4], MAX).unwrap().is_empty());
    assert_eq!(partial.space().unwrap().len(), MAX, "memory that is there is used at once");
    assert!(partial.release().is_none(), "a record is under way");
}

#[test]
fn space_is_limited_to_the_current_fragment() {
    let mut partial = Partial::new();
    assert!(partial.space().is_none());
    assert!(partial.is_empty());
    assert!(drain(&mut partial, &[0x80, 0, 0, 2], MAX).unwrap().is_empty());
    partial.space().unwrap().copy_from_slice(b"ab");
    partial.received(2);
    assert_eq!(drain(&mut partial, &[], MAX).unwrap(), [b"ab"]);
}

#[test]
fn a_record_has_a_largest_length() {
    let at_limit = fragment(&[1; 100], true);
    assert_eq!(drain(&mut Partial::new(), &at_limit, 100).unwrap().len(), 1);
    let error = RecordError::TooLarge { len: 100, limit: 99 };
    assert_eq!(drain(&mut Partial::new(), &at_limit, 99), Err(error));
    // Refused by its mark alone, whole buffer or not.
    assert_eq!(drain(&mut Partial::new(), &at_limit[..4], 99), Err(error));
    // And as a sum of fragments.
    let mut two = fragment(&[1; 50], false);
    two.extend(fragment(&[2; 50], true));
    assert_eq!(drain(&mut Partial::new(), &two, 100).unwrap(), [[[1; 50], [2; 50]].concat()]);
    assert_eq!(drain(&mut Partial::new(), &two, 99), Err(error));
    let huge = 0x7fff_ffff_u32.to_be_bytes();
    let error = RecordError::TooLarge { len: 0x7fff_ffff, limit: MAX };
    assert_eq!(drain(&mut Partial::new(), &huge, MAX), Err(error));
}

#[test]
fn empty_fragments_are_counted() {
    let empties = |count: u32| [fragment(b"", false).repeat(count as usize), fragment(b"x", true)];
    let most = empties(FRAGMENTS_MAX - 1).concat();
    assert_eq!(drain(&mut Partial::new(), &most, MAX).unwrap(), [b"x"]);
    // The count starts again with each record.
    assert_eq!(drain(&mut Partial::new(), &most.repeat(2), MAX).unwrap(), [b"x", b"x"]);
    let more = empties(FRAGMENTS_MAX).concat();
    assert_eq!(drain(&mut Partial::new(), &more, MAX), Err(RecordError::TooManyFragments));
}

#[test]
fn marks_are_those_of_section_11() {
    assert_eq!(mark(0), Some(0x8000_0000));
    assert_eq!(mark(5), Some(0x8000_0005));
    assert_eq!(mark(0x7fff_ffff), Some(0xffff_ffff));
    assert_eq!(mark(0x8000_0000), None);
}

/// Records, each as its fragments.
fn fragmented() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let fragment = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(prop::collection::vec(fragment, 1..5), 0..8)
}

proptest! {
    #[test]
    fn records_do_not_depend_on_fragments_and_receive_sizes(
        records in fragmented(),
        chunks in prop::collection::vec((1usize..60, any::<bool>()), 1..40),
    ) {
        let mut stream = Vec::new();
        for fragments in &records {
            for (n, data) in fragments.iter().enumerate() {
                stream.extend(fragment(data, n + 1 == fragments.len()));
            }
        }
        let mut partial = Partial::new();
        let mut found = Vec::new();
        let mut rest = &stream[..];
        for (size, direct) in chunks.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            match partial.space().filter(|_| *direct) {
                Some(room) => {
                    let take = room.len().min(*size).min(rest.len());
                    room[..take].copy_from_slice(&rest[..take]);
                    rest = &rest[take..];
                    partial.received(take);
                    found.extend(drain(&mut partial, &[], MAX).unwrap());
                }
                None => {
                    let (now, later) = rest.split_at((*size).min(rest.len()));
                    rest = later;
                    found.extend(drain(&mut partial, now, MAX).unwrap());
                }
            }
        }
        let whole: Vec<Vec<u8>> = records.iter().map(|r| r.concat()).collect();
        assert_eq!(found, whole);
        assert!(partial.is_empty());
    }
}

#[test]
fn data_taken_early_is_not_kept() {
    let data: Vec<u8> = (0..100).collect();
    let stream = fragment(&data, true);
    let next = fragment(b"next", true);
    let mut partial = Partial::new();
    assert_eq!(partial.so_far(), None, "no record has begun");
    assert!(drain(&mut partial, &stream[..MARK_LEN], MAX).unwrap().is_empty());
    assert_eq!(partial.so_far(), Some(&[][..]));
    // 40 bytes come and lie somewhere else; 10 to 30 go
    partial.arrived(40, [&data[..10], &data[30..40]]);
    assert_eq!((partial.so_far().unwrap().len(), partial.missing()), (20, 60));
    partial.join(&data[40..50]);
    partial.forget(10..25);
    assert_eq!(partial.so_far().unwrap(), [&data[..10], &data[45..50]].concat());
    let rest = [&stream[MARK_LEN + 50..], &next[..]].concat();
    let records = drain(&mut partial, &rest, MAX).unwrap();
    assert_eq!(records, [[&data[..10], &data[45..]].concat(), b"next".to_vec()]);
    assert!(partial.is_empty());
}

#[test]
fn a_record_completed_elsewhere_leaves_nothing() {
    let mut partial = Partial::new();
    assert!(drain(&mut partial, &fragment(&[1; 100], true)[..50], MAX).unwrap().is_empty());
    partial.arrived_whole();
    assert!(partial.is_empty());
    assert_eq!(drain(&mut partial, &fragment(b"next", true), MAX).unwrap(), [b"next"]);
}

#[test]
fn only_a_single_fragment_is_seen_before_it_is_whole() {
    let mut partial = Partial::new();
    assert!(drain(&mut partial, &fragment(b"first", false), MAX).unwrap().is_empty());
    assert_eq!(partial.so_far(), None);
    assert!(drain(&mut partial, &fragment(b"second", true)[..6], MAX).unwrap().is_empty());
    assert_eq!(partial.so_far(), None, "there is something before it");
    assert!(drain(&mut Partial::new(), &fragment(b"more", false)[..6], MAX).unwrap().is_empty());
}

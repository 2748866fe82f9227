//! Layouts against RFC 1813, and every type against itself.

use super::{
    Bytes, CreateArgs, CreateHow3, DirOpArgs3, Entry3, EntryPlus3, FATTR3_LEN, FHSIZE, Fattr3,
    FileType3, LookupOk, MknodArgs, MknodData3, Nfsstat3, Nfstime3, ReadOk, ReaddirOk, Res, Sattr3,
    SetTime3, SetattrArgs, Specdata3, StableHow, WccAttr, WccData, WholeEntryPlus3, WriteArgs,
    decode_args, procedure,
};
use xdr::{Decode, Encode, Error, Reader, Writer};

fn wire(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

fn there_and_back<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(
    value: &T,
    bytes: &'a [u8],
) {
    let mut r = Reader::new(bytes);
    assert_eq!(&r.get::<T>().unwrap(), value);
    r.end().unwrap();
}

const TIME: Nfstime3 = Nfstime3 { seconds: 7, nseconds: 8 };

const ATTR: Fattr3 = Fattr3 {
    ftype: FileType3::Dir,
    mode: 0o755,
    nlink: 3,
    uid: 4,
    gid: 5,
    size: 0x0102_0304_0506_0708,
    used: 0x1112_1314_1516_1718,
    rdev: Specdata3 { major: 6, minor: 7 },
    fsid: 0x2122_2324_2526_2728,
    fileid: 0x3132_3334_3536_3738,
    atime: Nfstime3 { seconds: 9, nseconds: 10 },
    mtime: Nfstime3 { seconds: 11, nseconds: 12 },
    ctime: Nfstime3 { seconds: 13, nseconds: 14 },
};

#[test]
fn attributes_have_the_layout_of_the_rfc() {
    let bytes = wire(&ATTR);
    assert_eq!(bytes.len(), FATTR3_LEN);
    let expected: Vec<u8> = [
        2,
        0o755,
        3,
        4,
        5,
        0x0102_0304,
        0x0506_0708,
        0x1112_1314,
        0x1516_1718,
        6,
        7,
        0x2122_2324,
        0x2526_2728,
        0x3132_3334,
        0x3536_3738,
        9,
        10,
        11,
        12,
        13,
        14u32,
    ]
    .iter()
    .flat_map(|word| word.to_be_bytes())
    .collect();
    assert_eq!(bytes, expected);
    there_and_back(&ATTR, &bytes);
}

#[test]
fn status_numbers_are_those_of_the_rfc() {
    let numbers: Vec<u32> = Nfsstat3::ALL.iter().map(|s| s.number()).collect();
    assert_eq!(
        numbers,
        [
            0, 1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71, 10001,
            10002, 10003, 10004, 10005, 10006, 10007, 10008
        ]
    );
    assert_eq!(Nfsstat3::from_number(3), None);
}

#[test]
fn arguments_survive_a_round_trip() {
    let place = DirOpArgs3 { dir: Bytes(b"dirh"), name: Bytes(b"name") };
    let set = Sattr3 {
        mode: Some(0o644),
        uid: None,
        gid: Some(9),
        size: Some(1 << 40),
        atime: SetTime3::Server,
        mtime: SetTime3::Client(TIME),
    };
    let args = SetattrArgs { object: Bytes(b"abc"), set, guard: Some(TIME) };
    let bytes = wire(&args);
    there_and_back(&args, &bytes);
    decode_args(procedure::SETATTR, &bytes).unwrap();
    for how in [
        CreateHow3::Unchecked(set),
        CreateHow3::Guarded(Sattr3::default()),
        CreateHow3::Exclusive(*b"verifier"),
    ] {
        let args = CreateArgs { place, how };
        there_and_back(&args, &wire(&args));
    }
    let rdev = Specdata3 { major: 8, minor: 1 };
    for what in [
        MknodData3::Char(set, rdev),
        MknodData3::Block(set, rdev),
        MknodData3::Socket(set),
        MknodData3::Fifo(set),
        MknodData3::Reg,
        MknodData3::Dir,
        MknodData3::Lnk,
    ] {
        let args = MknodArgs { place, what };
        let bytes = wire(&args);
        there_and_back(&args, &bytes);
        decode_args(procedure::MKNOD, &bytes).unwrap();
    }
}

#[test]
fn a_write_whose_count_differs_from_its_data_is_refused() {
    let args = WriteArgs {
        file: Bytes(b"f"),
        offset: 5,
        stable: StableHow::DataSync,
        data: Bytes(b"hello"),
    };
    let mut bytes = wire(&args);
    there_and_back(&args, &bytes);
    assert_eq!(decode_args(procedure::WRITE, &bytes), Ok(()));
    bytes[19] = 4; // count, behind the handle (8) and the offset (8)
    assert!(matches!(decode_args(procedure::WRITE, &bytes), Err(Error::Invalid(_))));
}

#[test]
fn arguments_of_the_wrong_length_are_refused() {
    let bytes = wire(&Bytes::<64>(b"handle"));
    assert_eq!(decode_args(procedure::GETATTR, &bytes), Ok(()));
    let mut long = bytes.clone();
    long.extend([0; 4]);
    assert_eq!(decode_args(procedure::GETATTR, &long), Err(Error::Trailing(4)));
    assert!(matches!(decode_args(procedure::GETATTR, &bytes[..8]), Err(Error::Short { .. })));
    let over = wire(&Bytes::<99>(&[1; 65]));
    assert_eq!(decode_args(procedure::GETATTR, &over), Err(Error::TooLong { len: 65, limit: 64 }));
    assert!(matches!(decode_args(22, &[]), Err(Error::NotMember { value: 22, .. })));
}

#[test]
fn results_survive_a_round_trip() {
    let wcc =
        WccData { before: Some(WccAttr { size: 1, mtime: TIME, ctime: TIME }), after: Some(ATTR) };
    there_and_back(&wcc, &wire(&wcc));
    let found: Res<LookupOk<'_>, Option<Fattr3>> =
        Res::Ok(LookupOk { object: Bytes(b"handle!"), attr: Some(ATTR), dir: None });
    there_and_back(&found, &wire(&found));
    let failed: Res<LookupOk<'_>, Option<Fattr3>> = Res::Fail(Nfsstat3::NoEnt, Some(ATTR));
    let bytes = wire(&failed);
    assert_eq!(bytes[..8], [0, 0, 0, 2, 0, 0, 0, 1]);
    there_and_back(&failed, &bytes);
    let read: Res<ReadOk<'_>, Option<Fattr3>> =
        Res::Ok(ReadOk { attr: None, count: 3, eof: true, data: Bytes(b"abc") });
    let bytes = wire(&read);
    assert_eq!(bytes[8..], *b"\0\0\0\x03\0\0\0\x01\0\0\0\x03abc\0");
    there_and_back(&read, &bytes);
}

#[test]
fn the_computed_length_of_an_entry_is_its_encoded_length() {
    let entry = Entry3 { fileid: 1, name: Bytes(b"abcde"), cookie: 2 };
    assert_eq!(wire(&entry).len() + 4, Entry3::wire_len(5));
    let list = ReaddirOk { dir: Some(ATTR), verf: [0; 8], entries: vec![entry, entry], eof: true };
    there_and_back(&list, &wire(&list));
}

#[test]
fn an_entry_in_one_piece_is_that_of_its_fields() {
    let handle: [u8; FHSIZE] = std::array::from_fn(|at| at as u8 + 1);
    let mut w = Writer::new();
    for (name_len, handle_len) in (0..=9).flat_map(|name| (0..=FHSIZE).map(move |len| (name, len)))
    {
        let (fileid, cookie, name) =
            (0x4142_4344_4546_4748, 0x5152_5354_5556_5758, vec![7; name_len]);
        let fields = EntryPlus3 {
            fileid,
            name: Bytes(&name),
            cookie,
            attr: Some(ATTR),
            handle: Some(Bytes(&handle[..handle_len])),
        };
        // what an earlier reply left in the buffer must not show in the padding
        w.clear();
        w.raw(&[0xff; 512]);
        w.clear();
        let whole = WholeEntryPlus3 { fileid, name: &name, cookie, attr: &ATTR, handle_len };
        whole.put(&mut w, |place| *place = handle);
        assert_eq!(w.bytes(), [&wire(&true)[..], &wire(&fields)].concat());
        assert_eq!(w.bytes().len(), whole.wire_len());
    }
}

#[test]
fn handles_of_all_lengths_up_to_the_limit_decode() {
    for len in 0..=64 {
        let data = vec![7; len];
        let bytes = wire(&Bytes::<64>(&data));
        there_and_back(&Bytes::<64>(&data), &bytes);
    }
}

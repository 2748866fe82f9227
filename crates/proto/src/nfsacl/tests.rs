//! NFSACL's types against the published layout, byte by byte, and against themselves.

use super::{
    Access2Args, Access2Ok, Access2Res, AclEntries, AclEntry, Attr2Res, GetAcl2Args, GetAcl2Ok,
    GetAcl2Res, GetAcl3Args, GetAcl3Ok, GetAcl3Res, SecAttr, SetAcl2Args, SetAcl3Args, SetAcl3Res,
    decode_all_args, kind, mask, procedure2, procedure3,
};
use crate::layout::Bytes;
use crate::nfs2::{Fattr2, FileType2, Nfsstat2, Timeval};
use crate::nfs3::Nfsstat3;
use xdr::{Encode, Error, Reader, Writer};

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

const ENTRIES: [AclEntry; 3] = [
    AclEntry { kind: kind::USER_OBJ, id: 0, permissions: 7 },
    AclEntry { kind: kind::GROUP_OBJ, id: 0, permissions: 5 },
    AclEntry { kind: kind::OTHER_OBJ, id: 0, permissions: 4 },
];

const LISTS: SecAttr<'_> = SecAttr {
    mask: mask::ALL,
    acl_count: 3,
    acl: AclEntries::Own(&ENTRIES),
    default_count: 0,
    default: AclEntries::NONE,
};

#[test]
fn getacl_has_the_published_layout() {
    let args = GetAcl3Args { handle: Bytes(b"handle"), mask: mask::ACL | mask::ACL_COUNT };
    let wire = bytes(&args);
    assert_eq!(wire, b"\0\0\0\x06handle\0\0\0\0\0\x03");
    assert_eq!(Reader::new(&wire).get(), Ok(args));

    let words = [0, 0, 15, 3, 3, 1, 0, 7, 4, 0, 5, 0x20, 0, 4, 0, 0_u32];
    let expected: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let result = GetAcl3Res::Ok(GetAcl3Ok { attr: None, acl: LISTS });
    assert_eq!(bytes(&result), expected);
    let mut r = Reader::new(&expected);
    assert_eq!(r.get(), Ok(result));
    assert_eq!(r.end(), Ok(()));

    let failed = GetAcl3Res::Fail(Nfsstat3::NotSupp, None);
    let wire = bytes(&failed);
    assert_eq!(wire, b"\0\0\x27\x14\0\0\0\0");
    assert_eq!(Reader::new(&wire).get(), Ok(failed));
    let set = SetAcl3Res::Ok(None);
    assert_eq!(bytes(&set), b"\0\0\0\0\0\0\0\0");
    assert_eq!(Reader::new(&bytes(&set)).get(), Ok(set));
}

#[test]
fn a_list_is_empty_or_as_long_as_its_count() {
    let counts = SecAttr {
        mask: mask::ACL_COUNT | mask::DEFAULT_COUNT,
        acl_count: 4,
        acl: AclEntries::NONE,
        default_count: 1024,
        default: AclEntries::NONE,
    };
    let wire = bytes(&counts);
    assert_eq!(Reader::new(&wire).get(), Ok(counts));
    // a list is as long as its count
    let short = SecAttr { acl_count: 4, ..LISTS };
    assert!(matches!(Reader::new(&bytes(&short)).get::<SecAttr<'_>>(), Err(Error::Invalid(_))));
    let over = SecAttr { default_count: 1025, ..counts };
    let wire = bytes(&over);
    let taken = Reader::new(&wire).get::<SecAttr<'_>>();
    assert_eq!(taken, Err(Error::TooLong { len: 1025, limit: 1024 }));
}

#[test]
fn list_lengths_are_limited() {
    let entry = AclEntry { kind: kind::USER | kind::DEFAULT, id: 1000, permissions: 6 };
    for (len, taken) in [(1024, true), (1025, false)] {
        let entries = vec![entry; len];
        let count = u32::try_from(len).unwrap();
        let list = AclEntries::Own(&entries);
        let acl = SecAttr { acl_count: count, acl: list, ..LISTS };
        let args = SetAcl3Args { handle: Bytes(b"h"), acl };
        let wire = bytes(&args);
        assert_eq!(decode_all_args(3, procedure3::SETACL, &wire).is_ok(), taken);
        if taken {
            assert_eq!(Reader::new(&wire).get(), Ok(args));
        }
    }
    // a count without the bytes
    let wire = [&bytes(&Bytes::<64>(b"h"))[..], &[0, 0, 0, 15, 0, 0, 4, 0, 0, 0, 4, 0]].concat();
    assert!(matches!(decode_all_args(3, procedure3::SETACL, &wire), Err(Error::Short { .. })));
}

#[test]
fn every_procedure_has_its_arguments_and_no_more() {
    let handle = [7; 32];
    let get2 = bytes(&GetAcl2Args { handle, mask: 1 });
    let set2 = bytes(&SetAcl2Args { handle, acl: LISTS });
    let access2 = bytes(&Access2Args { handle, access: 0x3f });
    let get3 = bytes(&GetAcl3Args { handle: Bytes(b""), mask: 1 });
    let set3 = bytes(&SetAcl3Args { handle: Bytes(b"x"), acl: LISTS });
    for (version, number, args) in [
        (2, procedure2::GETACL, &get2),
        (2, procedure2::SETACL, &set2),
        (2, procedure2::GETATTR, &handle.to_vec()),
        (2, procedure2::ACCESS, &access2),
        (3, procedure3::GETACL, &get3),
        (3, procedure3::SETACL, &set3),
    ] {
        assert_eq!(decode_all_args(version, number, args), Ok(()), "{version}.{number}");
        let more = [&args[..], &[0; 4]].concat();
        assert_eq!(decode_all_args(version, number, &more), Err(Error::Trailing(4)));
    }
    for version in [2, 3] {
        assert_eq!(decode_all_args(version, 0, b""), Ok(()));
        assert!(decode_all_args(version, 5, b"").is_err());
    }
    assert!(decode_all_args(3, 3, b"").is_err());
    assert!(decode_all_args(4, 1, &get3).is_err());
}

#[test]
fn results_of_version_2_survive_a_round_trip() {
    let time = Timeval { seconds: 1, useconds: 2 };
    let attr = Fattr2 {
        ftype: FileType2::Reg,
        mode: 0o100_644,
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 4,
        blocksize: 5,
        rdev: 6,
        blocks: 7,
        fsid: 8,
        fileid: 9,
        atime: time,
        mtime: time,
        ctime: time,
    };
    let got = GetAcl2Res::Ok(GetAcl2Ok { attr, acl: LISTS });
    assert_eq!(Reader::new(&bytes(&got)).get(), Ok(got));
    let allowed = Access2Res::Ok(Access2Ok { attr, access: 1 });
    let wire = bytes(&allowed);
    assert_eq!(wire.len(), 4 + 68 + 4);
    assert_eq!(Reader::new(&wire).get(), Ok(allowed));
    let failed = Attr2Res::Fail(Nfsstat2::Acces);
    assert_eq!(bytes(&failed), b"\0\0\0\x0d");
    assert_eq!(Reader::new(&bytes(&failed)).get(), Ok(failed));
}

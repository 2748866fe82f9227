//! The quota protocol's types against the layout in use, byte by byte, and against themselves.

use super::{
    GetQuotaArgs, Quota, QuotaResult, SetLimits, SetQuotaArgs, decode_all_args, kind,
    procedure as p,
};
use xdr::{Error, Reader, Writer};

#[test]
fn a_getquota_call_has_the_layout_in_use() {
    let args = GetQuotaArgs { path: b"/srv", kind: kind::GROUP, id: 1000 };
    let mut w = Writer::new();
    args.encode(&mut w, 2);
    assert_eq!(w.bytes(), b"\0\0\0\x04/srv\0\0\0\x01\0\0\x03\xe8");
    assert_eq!(GetQuotaArgs::decode(&mut Reader::new(w.bytes()), 2), Ok(args));
    let mut w = Writer::new();
    args.encode(&mut w, 1);
    assert_eq!(w.bytes(), b"\0\0\0\x04/srv\0\0\x03\xe8");
    let users = GetQuotaArgs { kind: kind::USER, ..args };
    assert_eq!(GetQuotaArgs::decode(&mut Reader::new(w.bytes()), 1), Ok(users));
}

#[test]
fn a_getquota_reply_has_the_layout_in_use() {
    let quota = Quota {
        block_size: 1024,
        active: true,
        block_hard_limit: 1,
        block_soft_limit: 2,
        blocks: 3,
        file_hard_limit: 4,
        file_soft_limit: 5,
        files: 6,
        block_seconds_left: 7,
        file_seconds_left: 8,
    };
    let expected: Vec<u8> =
        [1, 1024, 1, 1, 2, 3, 4, 5, 6, 7, 8_u32].iter().flat_map(|n| n.to_be_bytes()).collect();
    for (result, wire) in [
        (QuotaResult::Ok(quota), &expected[..]),
        (QuotaResult::NoQuota, b"\0\0\0\x02"),
        (QuotaResult::Perm, b"\0\0\0\x03"),
    ] {
        let mut w = Writer::new();
        w.put(&result);
        assert_eq!(w.bytes(), wire);
        assert_eq!(Reader::new(wire).get(), Ok(result));
    }
    for unknown in [0, 4_u32] {
        assert!(Reader::new(&unknown.to_be_bytes()).get::<QuotaResult>().is_err());
    }
}

#[test]
fn every_procedure_has_its_arguments_and_no_more() {
    let limits = SetLimits {
        block_hard_limit: 1,
        block_soft_limit: 2,
        blocks: 3,
        file_hard_limit: 4,
        file_soft_limit: 5,
        files: 6,
        block_seconds_left: 7,
        file_seconds_left: 8,
    };
    for version in [1, 2] {
        let mut get = Writer::new();
        GetQuotaArgs { path: b"/", kind: 0, id: 0 }.encode(&mut get, version);
        let mut set = Writer::new();
        let args = SetQuotaArgs { command: 9, path: b"/a", id: 7, kind: kind::USER, limits };
        args.encode(&mut set, version);
        assert_eq!(SetQuotaArgs::decode(&mut Reader::new(set.bytes()), version), Ok(args));
        for (number, args) in [
            (p::GETQUOTA, &get),
            (p::GETACTIVEQUOTA, &get),
            (p::SETQUOTA, &set),
            (p::SETACTIVEQUOTA, &set),
        ] {
            assert_eq!(decode_all_args(version, number, args.bytes()), Ok(()));
            let more = [args.bytes(), &[0; 4]].concat();
            assert_eq!(decode_all_args(version, number, &more), Err(Error::Trailing(4)));
        }
        assert_eq!(decode_all_args(version, p::NULL, b""), Ok(()));
        assert!(decode_all_args(version, 5, b"").is_err());
    }
    assert!(decode_all_args(3, p::NULL, b"").is_err());
}

#[test]
fn path_lengths_are_limited() {
    for (len, taken) in [(1024, true), (1025, false)] {
        let path = vec![b'p'; len];
        let mut w = Writer::new();
        GetQuotaArgs { path: &path, kind: 0, id: 0 }.encode(&mut w, 2);
        assert_eq!(decode_all_args(2, p::GETQUOTA, w.bytes()).is_ok(), taken);
    }
}

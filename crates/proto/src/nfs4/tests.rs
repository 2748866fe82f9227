//! Layouts against the XDR of RFC 5662 and RFC 7531, word by word.

use super::{
    ATTRS, Bitmap4, CbOffloadArgs, ChangeInfo4, ChannelAttrs, ClientAddr4, CloneArgs, CloseArgs,
    CompoundHead, CopyArgs, CreateArgs, CreateSessionArgs, CreateType4, Createhow4, DelegpurgeArgs,
    ExchangeIdArgs, ExistLockOwner4, Fattr4, ImplId, IoAdviseArgs, ListxattrsArgs, LockArgs,
    LockOwner4, LockType4, Locker4, Nfsstat4, Nfstime4, OPS, OffloadInfo4, OpenArgs, OpenClaim4,
    OpenConfirmArgs, OpenHow4, OpenOwner4, OpenToLockOwner4, RangeArgs, ReadArgs, ReaddirArgs,
    ReleaseLockownerArgs, RenewArgs, SeekArgs, SequenceArgs, SetattrArgs, SetclientidArgs,
    SetclientidConfirmArgs, SetxattrArgs, SetxattrOption4, Specdata4, StableHow4, StateProtectHow,
    Stateid4, TestStateidArgs, WriteArgs, XattrArgs, attr, content, decode_op_args, op, op_info,
};
use crate::layout::Bytes;
use proptest::prelude::*;
use xdr::{Decode, Encode, Error, Reader, Writer};

fn wire(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The value is these words on the wire, and these words are the value.
fn golden<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(value: &T, expected: &[u32]) {
    assert_eq!(wire(value), words(expected));
    let mut r = Reader::new(words(expected).leak());
    assert_eq!(&r.get::<T>().unwrap(), value);
    r.end().unwrap();
}

const STATEID: Stateid4 = Stateid4 { seqid: 9, other: *b"abcdefghijkl" };
/// The words of [`STATEID`].
const S: [u32; 4] = [9, 0x6162_6364, 0x6566_6768, 0x696a_6b6c];

#[test]
fn arguments_have_the_layout_of_the_rfc() {
    let [s0, s1, s2, s3] = S;
    let sequence = SequenceArgs {
        sessionid: *b"0123456789abcdef",
        sequenceid: 5,
        slotid: 2,
        highest_slotid: 3,
        cachethis: true,
    };
    let id = [0x3031_3233, 0x3435_3637, 0x3839_6162, 0x6364_6566];
    golden(&sequence, &[id[0], id[1], id[2], id[3], 5, 2, 3, 1]);
    golden(&CompoundHead { tag: b"hi", minor: 1, count: 4 }, &[2, 0x6869_0000, 1, 4]);
    golden(&CloseArgs { seqid: 1, stateid: STATEID }, &[1, s0, s1, s2, s3]);
    golden(&ReadArgs { stateid: STATEID, offset: 1 << 32, count: 7 }, &[s0, s1, s2, s3, 1, 0, 7]);
    let write = WriteArgs {
        stateid: STATEID,
        offset: 3,
        stable: StableHow4::FileSync,
        data: Bytes(b"data!"),
    };
    golden(&write, &[s0, s1, s2, s3, 0, 3, 2, 5, 0x6461_7461, 0x2100_0000]);
    let listed = Bitmap4::of(&[attr::TYPE, attr::MODE, attr::SUPPATTR_EXCLCREAT]);
    let readdir =
        ReaddirArgs { cookie: 8, cookieverf: [0; 8], dircount: 1, maxcount: 2, attrs: listed };
    golden(&readdir, &[0, 8, 0, 0, 1, 2, 3, 1 << 1, 1 << 1, 1 << 11]);
    let size =
        Fattr4 { mask: Bitmap4::of(&[attr::SIZE]), values: Bytes(&[0, 0, 0, 0, 0, 0, 0, 6]) };
    golden(&SetattrArgs { stateid: STATEID, attrs: size }, &[s0, s1, s2, s3, 1, 1 << 4, 8, 0, 6]);
    let change = ChangeInfo4 { atomic: true, before: 1, after: 2 };
    golden(&change, &[1, 0, 1, 0, 2]);
    let device = CreateType4::Chr(Specdata4 { major: 5, minor: 1 });
    let none = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
    golden(
        &CreateArgs { what: device, name: Bytes(b"tty"), attrs: none },
        &[4, 5, 1, 3, 0x7474_7900, 0, 0],
    );
    let link = CreateType4::Lnk(Bytes(b"to"));
    golden(
        &CreateArgs { what: link, name: Bytes(b"l"), attrs: none },
        &[5, 2, 0x746f_0000, 1, 0x6c00_0000, 0, 0],
    );
}

#[test]
fn data_operations_have_the_layout_of_the_rfc() {
    let [s0, s1, s2, s3] = S;
    let range = RangeArgs { stateid: STATEID, offset: 1 << 32, length: 7 };
    golden(&range, &[s0, s1, s2, s3, 1, 0, 0, 7]);
    let seek = SeekArgs { stateid: STATEID, offset: 9, what: content::HOLE };
    golden(&seek, &[s0, s1, s2, s3, 0, 9, 1]);
    let clone = CloneArgs {
        src_stateid: STATEID,
        dst_stateid: Stateid4::ANONYMOUS,
        src_offset: 1,
        dst_offset: 2,
        count: 3,
    };
    let words = [s0, s1, s2, s3, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3];
    golden(&clone, &words);
    let copy = CopyArgs { range: clone, consecutive: true, synchronous: false, sources: 0 };
    golden(&copy, &[&words[..], &[1, 0, 0]].concat());
    // by name, by URL, by address
    let sources = [3, 1, 1, 0x6100_0000, 2, 2, 0x6162_0000, 3, 3, 0x7463_7000, 1, 0x3100_0000];
    let bytes = self::words(&[&words[..], &[0, 1], &sources].concat());
    let mut r = Reader::new(&bytes);
    let decoded: CopyArgs = r.get().unwrap();
    r.end().unwrap();
    assert_eq!((decoded.sources, decoded.synchronous), (3, true));
    let hints = Bitmap4::of(&[4, 6]);
    let advise = IoAdviseArgs { stateid: STATEID, offset: 5, count: 6, hints };
    golden(&advise, &[s0, s1, s2, s3, 0, 5, 0, 6, 1, 1 << 4 | 1 << 6]);
}

#[test]
fn the_end_of_a_copy_has_the_layout_of_the_rfc() {
    let [s0, s1, s2, s3] = S;
    let done =
        OffloadInfo4::Done { count: 1 << 32, committed: StableHow4::Unstable, verifier: [7; 8] };
    let args = CbOffloadArgs { fh: Bytes(b"file"), stateid: STATEID, info: done };
    let seven = 0x0707_0707;
    // no stateid in the result, unstable
    golden(&args, &[4, 0x6669_6c65, s0, s1, s2, s3, 0, 0, 1, 0, 0, seven, seven]);
    let failed = OffloadInfo4::Failed { status: Nfsstat4::NoSpc, bytes_copied: 9 };
    golden(&CbOffloadArgs { info: failed, ..args }, &[4, 0x6669_6c65, s0, s1, s2, s3, 28, 0, 9]);
}

#[test]
fn extended_attributes_have_the_layout_of_the_rfc() {
    golden(&XattrArgs { name: Bytes(b"key") }, &[3, 0x6b65_7900]);
    let set = SetxattrArgs {
        option: SetxattrOption4::Replace,
        name: Bytes(b"k"),
        value: Bytes(b"value"),
    };
    golden(&set, &[2, 1, 0x6b00_0000, 5, 0x7661_6c75, 0x6500_0000]);
    golden(&ListxattrsArgs { cookie: 1 << 32, maxcount: 9 }, &[1, 0, 9]);
}

#[test]
fn open_has_the_layout_of_the_rfc() {
    let none = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
    let owner = OpenOwner4 { clientid: 6, owner: Bytes(b"me") };
    let open =
        |how, claim| OpenArgs { seqid: 0, share_access: 3, share_deny: 0, owner, how, claim };
    let head = [0, 3, 0, 0, 6, 2, 0x6d65_0000];
    let check = |how, claim, rest: &[u32]| golden(&open(how, claim), &[&head[..], rest].concat());
    let file = OpenClaim4::Null(Bytes(b"f"));
    check(OpenHow4::NoCreate, file, &[0, 0, 1, 0x6600_0000]);
    check(OpenHow4::Create(Createhow4::Unchecked(none)), file, &[1, 0, 0, 0, 0, 1, 0x6600_0000]);
    check(OpenHow4::Create(Createhow4::Guarded(none)), OpenClaim4::Fh, &[1, 1, 0, 0, 4]);
    check(
        OpenHow4::Create(Createhow4::Exclusive([1; 8])),
        OpenClaim4::Fh,
        &[1, 2, 0x0101_0101, 0x0101_0101, 4],
    );
    let both = Createhow4::Exclusive41([1; 8], none);
    check(OpenHow4::Create(both), OpenClaim4::Fh, &[1, 3, 0x0101_0101, 0x0101_0101, 0, 0, 4]);
    let [s0, s1, s2, s3] = S;
    check(OpenHow4::NoCreate, OpenClaim4::Previous(1), &[0, 1, 1]);
    let name = Bytes(b"f");
    check(
        OpenHow4::NoCreate,
        OpenClaim4::DelegateCur(STATEID, name),
        &[0, 2, s0, s1, s2, s3, 1, 0x6600_0000],
    );
    check(OpenHow4::NoCreate, OpenClaim4::DelegatePrev(name), &[0, 3, 1, 0x6600_0000]);
    check(OpenHow4::NoCreate, OpenClaim4::DelegCurFh(STATEID), &[0, 5, s0, s1, s2, s3]);
    check(OpenHow4::NoCreate, OpenClaim4::DelegPrevFh, &[0, 6]);
}

#[test]
fn arguments_of_version_4_0_have_the_layout_of_the_rfc() {
    let [s0, s1, s2, s3] = S;
    let location = ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(b"1.2.3.4.0.9") };
    let known = SetclientidArgs {
        verifier: [3; 8],
        id: Bytes(b"me"),
        cb_program: 0x4000_0000,
        cb_location: location,
        callback_ident: 5,
    };
    let head = [0x0303_0303, 0x0303_0303, 2, 0x6d65_0000, 0x4000_0000];
    let addr = [3, 0x7463_7000, 11, 0x312e_322e, 0x332e_342e, 0x302e_3900, 5];
    golden(&known, &[&head[..], &addr].concat());
    let confirm = SetclientidConfirmArgs { clientid: 1 << 32 | 2, confirm: [4; 8] };
    golden(&confirm, &[1, 2, 0x0404_0404, 0x0404_0404]);
    golden(&OpenConfirmArgs { stateid: STATEID, seqid: 6 }, &[s0, s1, s2, s3, 6]);
    golden(&RenewArgs { clientid: 7 }, &[0, 7]);
    golden(&DelegpurgeArgs { clientid: 7 }, &[0, 7]);
    let owner = LockOwner4 { clientid: 8, owner: Bytes(b"l") };
    golden(&ReleaseLockownerArgs { owner }, &[0, 8, 1, 0x6c00_0000]);
    let lock =
        |locker| LockArgs { kind: LockType4::Write, reclaim: false, offset: 1, length: 2, locker };
    let head = [2, 0, 0, 1, 0, 2];
    let new = OpenToLockOwner4 { open_seqid: 10, open: STATEID, lock_seqid: 11, owner };
    let rest = [1, 10, s0, s1, s2, s3, 11, 0, 8, 1, 0x6c00_0000];
    golden(&lock(Locker4::New(new)), &[&head[..], &rest].concat());
    let known = ExistLockOwner4 { lock: STATEID, lock_seqid: 12 };
    golden(&lock(Locker4::Known(known)), &[&head[..], &[0, s0, s1, s2, s3, 12]].concat());
}

#[test]
fn session_arguments_have_the_layout_of_the_rfc() {
    let exchange = ExchangeIdArgs {
        verifier: [2; 8],
        ownerid: b"owner",
        flags: 0x103,
        state_protect: StateProtectHow::None,
        impl_id: Some(ImplId {
            domain: Bytes(b"org"),
            name: Bytes(b"it"),
            date: Nfstime4 { seconds: 1, nseconds: 2 },
        }),
    };
    let name = [5, 0x6f77_6e65, 0x7200_0000];
    let head = [0x0202_0202, 0x0202_0202, name[0], name[1], name[2], 0x103, 0];
    golden(&exchange, &[&head[..], &[1, 3, 0x6f72_6700, 2, 0x6974_0000, 0, 1, 2]].concat());

    let machine = [&head[..6], &[1, 1, 1 << 3, 0, 0]].concat();
    let decoded: ExchangeIdArgs<'_> = Reader::new(words(&machine).leak()).get().unwrap();
    let (enforce, allow) = (Bitmap4::of(&[3]), Bitmap4::NONE);
    assert_eq!(decoded.state_protect, StateProtectHow::MachCred { enforce, allow });
    let secret = [&head[..6], &[2, 0, 0, 1, 2, 0x6161_0000, 0, 8, 1, 0]].concat();
    let decoded: ExchangeIdArgs<'_> = Reader::new(words(&secret).leak()).get().unwrap();
    assert_eq!(decoded.state_protect, StateProtectHow::Ssv);
}

#[test]
fn create_session_has_the_layout_of_the_rfc() {
    let attrs = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1,
        maxresponsesize: 2,
        maxresponsesize_cached: 3,
        maxoperations: 4,
        maxrequests: 5,
    };
    golden(&attrs, &[0, 1, 2, 3, 4, 5, 0]);
    let bytes = [
        &[0, 77, 1, 2][..],
        &[0, 1, 2, 3, 4, 5, 0],
        // ca_rdma_ird
        &[0, 1, 2, 3, 4, 5, 1, 9],
        &[0x4000_0000, 3],
        // AUTH_NONE, AUTH_SYS with one group, RPCSEC_GSS
        &[0, 1, 7, 2, 0x6869_0000, 10, 20, 1, 30, 6, 1, 1, 0, 0],
    ];
    let args: CreateSessionArgs<'_> = Reader::new(words(&bytes.concat()).leak()).get().unwrap();
    assert_eq!((args.clientid, args.sequence, args.flags), (77, 1, 2));
    assert_eq!((args.fore, args.back), (attrs, attrs));
    assert_eq!((args.cb_program, args.sec_parms.count), (0x4000_0000, 3));
}

#[test]
fn a_list_of_stateids_is_bounded_by_the_record() {
    let bytes = [&[2][..], &S, &S].concat();
    let args: TestStateidArgs<'_> = Reader::new(words(&bytes).leak()).get().unwrap();
    assert_eq!(args.iter().collect::<Vec<_>>(), [STATEID, STATEID]);
    let short = Reader::new(words(&[3, 0, 0]).leak()).get::<TestStateidArgs<'_>>();
    assert!(matches!(short, Err(Error::Short { .. })));
    let many = Reader::new(words(&[u32::MAX]).leak()).get::<TestStateidArgs<'_>>();
    assert!(matches!(many, Err(Error::TooLong { .. })));
}

#[test]
fn tables_are_indexed_by_number() {
    for (number, row) in (3..).zip(&OPS) {
        assert_eq!(row.number, number);
        assert_eq!(op_info(number), Some(row));
    }
    for number in [0, 1, 2, 76, op::ILLEGAL, u32::MAX] {
        assert_eq!(op_info(number), None);
    }
    assert_eq!((op_info(op::RENEW).unwrap().until, op_info(op::SEQUENCE).unwrap().since), (0, 1));
    for (number, row) in (0..).zip(&ATTRS) {
        assert_eq!(row.number, number);
        assert!(row.readable || row.settable);
    }
    assert_eq!(Nfsstat4::DelegRevoked.number(), 10087);
    assert_eq!(Nfsstat4::from_number(10073), None);
}

#[test]
fn unknown_attributes_in_a_bitmap_are_recorded() {
    let decoded: Bitmap4 = Reader::new(words(&[4, 2, 0, 0, 1]).leak()).get().unwrap();
    assert_ne!(decoded, Bitmap4::of(&[1]));
    assert_eq!(decoded.iter().collect::<Vec<_>>(), [1]);
    assert!(!Bitmap4::of(&[0, 1, 2]).covers(&decoded));
    assert_eq!(decoded.and(&Bitmap4::of(&[1, 95])), Bitmap4::of(&[1]));
}

#[test]
fn truncated_arguments_do_not_decode() {
    let read = wire(&ReadArgs { stateid: STATEID, offset: 1, count: 7 });
    for len in 0..read.len() {
        let decoded = decode_op_args(op::READ, &mut Reader::new(&read[..len])).unwrap();
        assert!(decoded.is_err(), "{len}");
    }
    assert!(decode_op_args(op::SET_SSV, &mut Reader::new(&[])).is_none());
}

proptest! {
    #[test]
    fn bitmaps_are_sets(a in proptest::collection::btree_set(0_u32..96, 0..20), b in proptest::collection::btree_set(0_u32..96, 0..20)) {
        let map = |set: &std::collections::BTreeSet<u32>| Bitmap4::of(&set.iter().copied().collect::<Vec<_>>());
        let (x, y) = (map(&a), map(&b));
        prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(x.and(&y), map(&(&a & &b)));
        prop_assert_eq!(x.or(&y), map(&(&a | &b)));
        prop_assert_eq!(x.without(&y), map(&(&a - &b)));
        prop_assert_eq!(x.covers(&y), a.is_superset(&b));
        prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
        prop_assert!((0..96).all(|n| x.has(n) == a.contains(&n)));
        let bytes = wire(&x);
        prop_assert_eq!(Reader::new(&bytes).get::<Bitmap4>(), Ok(x));
    }
}

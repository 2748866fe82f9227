//! NLM's types against the published layouts, byte by byte, and against themselves.

use super::{
    Answer, CancelArgs, FreeAllArgs, Holder, Lock, LockArgs, ShareAccess, ShareAnswer, ShareArgs,
    ShareDeny, SmNotifyArgs, Status, TestAnswer, TestArgs, TestResult, UnlockArgs, Versioned,
    Width, decode_all_args, procedure as p,
};
use xdr::{Error, Reader, Writer};

fn bytes<'a>(value: &impl Versioned<'a>, width: Width) -> Vec<u8> {
    let mut w = Writer::new();
    value.encode(&mut w, width);
    w.bytes().to_vec()
}

const LOCK: Lock<'_> = Lock {
    caller_name: b"box",
    handle: b"handle!!",
    oh: b"12@box",
    svid: -2,
    offset: 0x0102_0304,
    len: 5,
};

/// [`LOCK`] up to the offset.
const LOCK_HEAD: &[u8] = b"\0\0\0\x03box\0\0\0\0\x08handle!!\0\0\0\x0612@box\0\0\xff\xff\xff\xfe";

#[test]
fn a_lock_call_has_the_published_layout() {
    let args = LockArgs {
        cookie: b"cook",
        block: true,
        exclusive: false,
        lock: LOCK,
        reclaim: true,
        state: 7,
    };
    let head = [b"\0\0\0\x04cook\0\0\0\x01\0\0\0\0", LOCK_HEAD].concat();
    let tail = b"\0\0\0\x01\0\0\0\x07";
    let narrow = [&head[..], b"\x01\x02\x03\x04\0\0\0\x05", tail].concat();
    assert_eq!(bytes(&args, Width::Bits32), narrow);
    let wide = [&head[..], b"\0\0\0\0\x01\x02\x03\x04\0\0\0\0\0\0\0\x05", tail].concat();
    assert_eq!(bytes(&args, Width::Bits64), wide);
    for (width, wire) in [(Width::Bits32, narrow), (Width::Bits64, wide)] {
        assert_eq!(LockArgs::decode(&mut Reader::new(&wire), width), Ok(args));
    }
}

#[test]
fn only_denied_is_followed_by_a_holder() {
    let holder = Holder { exclusive: true, svid: 9, oh: b"oh", offset: 1 << 40, len: 0 };
    let denied = TestAnswer { cookie: b"", result: TestResult::Denied(holder) };
    let wire = bytes(&denied, Width::Bits64);
    let expected =
        b"\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x09\0\0\0\x02oh\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(wire, expected);
    assert_eq!(TestAnswer::decode(&mut Reader::new(&wire), Width::Bits64), Ok(denied));
    for status in Status::ALL.iter().copied().filter(|status| *status != Status::Denied) {
        let answer = TestAnswer { cookie: b"c", result: TestResult::Other(status) };
        let wire = bytes(&answer, Width::Bits64);
        assert_eq!(wire.len(), 12);
        assert_eq!(TestAnswer::decode(&mut Reader::new(&wire), Width::Bits64), Ok(answer));
    }
    // an offset beyond version 1 becomes the largest that it has
    let wire = bytes(&denied, Width::Bits32);
    let TestResult::Denied(found) =
        TestAnswer::decode(&mut Reader::new(&wire), Width::Bits32).unwrap().result
    else {
        panic!("denied");
    };
    assert_eq!((found.offset, found.len), (u64::from(u32::MAX), 0));
}

#[test]
fn versions_1_and_3_lack_the_later_statuses() {
    for status in Status::ALL.iter().copied() {
        let answer = Answer { cookie: b"", status };
        let wide = bytes(&answer, Width::Bits64);
        assert_eq!(wide[4..], status.number().to_be_bytes());
        let narrow = bytes(&answer, Width::Bits32);
        let known = status.number() <= 5;
        let sent = if known { status } else { Status::DeniedNoLocks };
        assert_eq!(narrow[4..], sent.number().to_be_bytes());
        let taken = Answer::decode(&mut Reader::new(&wide), Width::Bits32);
        assert_eq!(taken.is_ok(), known, "{status:?}");
    }
    assert_eq!(Status::from_number(10), None);
}

#[test]
fn a_share_call_has_the_published_layout() {
    let args = ShareArgs {
        cookie: b"c",
        caller_name: b"pc",
        handle: b"hand",
        oh: b"",
        deny: ShareDeny::Write,
        access: ShareAccess::Both,
        reclaim: false,
    };
    let wire = bytes(&args, Width::Bits64);
    let expected =
        b"\0\0\0\x01c\0\0\0\0\0\0\x02pc\0\0\0\0\0\x04hand\0\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0\0";
    assert_eq!(wire, expected);
    assert_eq!(ShareArgs::decode(&mut Reader::new(&wire), Width::Bits32), Ok(args));
    let answer = ShareAnswer { cookie: b"c", status: Status::Denied, sequence: -1 };
    let wire = bytes(&answer, Width::Bits32);
    assert_eq!(wire, b"\0\0\0\x01c\0\0\0\0\0\0\x01\xff\xff\xff\xff");
    assert_eq!(ShareAnswer::decode(&mut Reader::new(&wire), Width::Bits32), Ok(answer));
}

#[test]
fn notifications_have_the_published_layout() {
    let args = SmNotifyArgs { name: b"box", state: 5, private: *b"0123456789abcdef" };
    let wire = bytes(&args, Width::Bits64);
    assert_eq!(wire, b"\0\0\0\x03box\0\0\0\0\x050123456789abcdef");
    assert_eq!(SmNotifyArgs::decode(&mut Reader::new(&wire), Width::Bits64), Ok(args));
    let args = FreeAllArgs { name: b"box", state: 0 };
    let wire = bytes(&args, Width::Bits64);
    assert_eq!(wire, b"\0\0\0\x03box\0\0\0\0\0");
    assert_eq!(FreeAllArgs::decode(&mut Reader::new(&wire), Width::Bits64), Ok(args));
}

/// Which arguments each procedure takes, in each version.
#[test]
fn every_procedure_has_its_arguments_and_no_more() {
    for (version, width) in [(1, Width::Bits32), (3, Width::Bits32), (4, Width::Bits64)] {
        assert_eq!(Width::of_version(version), Some(width));
        let test = bytes(&TestArgs { cookie: b"", exclusive: true, lock: LOCK }, width);
        let lock = LockArgs {
            cookie: b"",
            block: false,
            exclusive: true,
            lock: LOCK,
            reclaim: false,
            state: 0,
        };
        let lock = bytes(&lock, width);
        let cancel = CancelArgs { cookie: b"", block: true, exclusive: true, lock: LOCK };
        let cancel = bytes(&cancel, width);
        let unlock = bytes(&UnlockArgs { cookie: b"", lock: LOCK }, width);
        let tested = TestAnswer { cookie: b"", result: TestResult::Other(Status::Granted) };
        let tested = bytes(&tested, width);
        let answer = bytes(&Answer { cookie: b"", status: Status::Blocked }, width);
        let private = [0; 16];
        let notify = bytes(&SmNotifyArgs { name: b"", state: 1, private }, width);
        let share = ShareArgs {
            cookie: b"",
            caller_name: b"",
            handle: b"",
            oh: b"",
            deny: ShareDeny::None,
            access: ShareAccess::Read,
            reclaim: true,
        };
        let share = bytes(&share, width);
        let free = bytes(&FreeAllArgs { name: b"", state: 1 }, width);
        let table = [
            (p::TEST, &test, 1),
            (p::TEST_MSG, &test, 1),
            (p::GRANTED, &test, 1),
            (p::GRANTED_MSG, &test, 1),
            (p::LOCK, &lock, 1),
            (p::LOCK_MSG, &lock, 1),
            (p::CANCEL, &cancel, 1),
            (p::CANCEL_MSG, &cancel, 1),
            (p::UNLOCK, &unlock, 1),
            (p::UNLOCK_MSG, &unlock, 1),
            (p::TEST_RES, &tested, 1),
            (p::LOCK_RES, &answer, 1),
            (p::CANCEL_RES, &answer, 1),
            (p::UNLOCK_RES, &answer, 1),
            (p::GRANTED_RES, &answer, 1),
            (p::SM_NOTIFY, &notify, 1),
            (p::SHARE, &share, 3),
            (p::UNSHARE, &share, 3),
            (p::NM_LOCK, &lock, 3),
            (p::FREE_ALL, &free, 3),
        ];
        for (number, args, since) in table {
            let known = version >= since;
            assert_eq!(decode_all_args(version, number, args).is_ok(), known, "{version}.{number}");
            let mut more = args.clone();
            more.extend([0; 4]);
            assert!(decode_all_args(version, number, &more).is_err(), "{version}.{number}");
            let less = &args[..args.len() - 4];
            assert!(decode_all_args(version, number, less).is_err(), "{version}.{number}");
        }
        assert_eq!(decode_all_args(version, p::NULL, b"anything"), Ok(()));
        for number in [17, 18, 19, 24, u32::MAX] {
            assert!(decode_all_args(version, number, b"").is_err());
        }
    }
    assert_eq!(Width::of_version(2), None);
    assert!(decode_all_args(2, p::NULL, b"").is_err());
}

#[test]
fn every_length_is_limited() {
    let long = vec![b'x'; 1025];
    let limits = [
        (UnlockArgs { cookie: &long[..1024], lock: LOCK }, None),
        (UnlockArgs { cookie: &long, lock: LOCK }, Some((1025, 1024))),
        (UnlockArgs { cookie: b"", lock: Lock { caller_name: &long[..1024], ..LOCK } }, None),
        (UnlockArgs { cookie: b"", lock: Lock { caller_name: &long, ..LOCK } }, Some((1025, 1024))),
        (UnlockArgs { cookie: b"", lock: Lock { oh: &long[..1024], ..LOCK } }, None),
        (UnlockArgs { cookie: b"", lock: Lock { oh: &long, ..LOCK } }, Some((1025, 1024))),
        (UnlockArgs { cookie: b"", lock: Lock { handle: &long[..64], ..LOCK } }, None),
        (UnlockArgs { cookie: b"", lock: Lock { handle: &long[..65], ..LOCK } }, Some((65, 64))),
    ];
    for (args, over) in limits {
        let wire = bytes(&args, Width::Bits64);
        let expected = over.map_or(Ok(()), |(len, limit)| Err(Error::TooLong { len, limit }));
        assert_eq!(decode_all_args(4, p::UNLOCK, &wire), expected);
    }
}

/// A small generator with a fixed sequence (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn slice<'b>(&mut self, from: &'b [u8]) -> &'b [u8] {
        let len = self.next() as usize % (from.len() + 1);
        &from[..len]
    }

    fn flag(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}

#[test]
fn encoding_and_decoding_are_inverse() {
    let stock: Vec<u8> = (0..=255).cycle().take(1024).collect();
    let mut random = Random(7);
    for round in 0..3000 {
        let width = if round % 2 == 0 { Width::Bits32 } else { Width::Bits64 };
        let narrow = |value: u64| if width == Width::Bits32 { value >> 32 } else { value };
        let lock = Lock {
            caller_name: random.slice(&stock),
            handle: random.slice(&stock[..64]),
            oh: random.slice(&stock),
            svid: random.next() as i32,
            offset: narrow(random.next()),
            len: narrow(random.next()),
        };
        let args = LockArgs {
            cookie: random.slice(&stock),
            block: random.flag(),
            exclusive: random.flag(),
            lock,
            reclaim: random.flag(),
            state: random.next() as i32,
        };
        let wire = bytes(&args, width);
        let mut r = Reader::new(&wire);
        assert_eq!(LockArgs::decode(&mut r, width), Ok(args));
        assert_eq!(r.end(), Ok(()));
        let holder = Holder {
            exclusive: random.flag(),
            svid: lock.svid,
            oh: lock.oh,
            offset: lock.offset,
            len: lock.len,
        };
        let answer = TestAnswer { cookie: args.cookie, result: TestResult::Denied(holder) };
        let wire = bytes(&answer, width);
        assert_eq!(TestAnswer::decode(&mut Reader::new(&wire), width), Ok(answer));
        // arbitrary bytes are refused or decoded without another effect
        let at = random.next() as usize % wire.len();
        let mut broken = wire.clone();
        broken[at] ^= 1 << (random.next() % 8);
        for version in [1, 3, 4] {
            for number in 0..24 {
                let _any = decode_all_args(version, number, &broken);
            }
        }
    }
}

//! NSM's types against the published layout, byte by byte, and against themselves.

use super::{
    Mon, MonId, MyId, Name, Notify, Outcome, Stat, StatResult, decode_all_args, procedure as p,
};
use xdr::{Decode, Encode, Error, Reader, Writer};

fn there_and_back<T>(value: T, wire: &[u8])
where
    T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug,
{
    assert_eq!(bytes(&value), wire);
    assert_eq!(Reader::new(wire).get::<T>(), Ok(value));
}

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

const MY_ID: MyId<'_> = MyId { name: Name(b"me"), program: 100_021, version: 4, procedure: 16 };

#[test]
fn every_type_has_the_published_layout() {
    let notify = Notify { name: b"client", state: 5 };
    let wire = bytes(&notify);
    assert_eq!(wire, b"\0\0\0\x06client\0\0\0\0\0\x05");
    assert_eq!(Reader::new(&wire).get(), Ok(notify));
    let mon =
        Mon { mon_id: MonId { name: Name(b"you"), my_id: MY_ID }, private: *b"0123456789abcdef" };
    let wire = bytes(&mon);
    let my_id = b"\0\0\0\x02me\0\0\0\x01\x86\xb5\0\0\0\x04\0\0\0\x10";
    assert_eq!(wire, [b"\0\0\0\x03you\0", &my_id[..], b"0123456789abcdef"].concat());
    assert_eq!(Reader::new(&wire).get(), Ok(mon));
    there_and_back(Stat { state: -3 }, b"\xff\xff\xff\xfd");
    let result = StatResult { outcome: Outcome::Fail, stat: Stat { state: 9 } };
    there_and_back(result, b"\0\0\0\x01\0\0\0\x09");
    let result = StatResult { outcome: Outcome::Success, stat: Stat { state: 1 } };
    there_and_back(result, b"\0\0\0\0\0\0\0\x01");
    assert_eq!(Outcome::from_number(2), None);
}

#[test]
fn every_procedure_has_its_arguments_and_no_more() {
    let name = bytes(&Name(b"host"));
    let mon_id = MonId { name: Name(b""), my_id: MY_ID };
    let mon = bytes(&Mon { mon_id, private: [1; 16] });
    let (mon_id, my_id) = (bytes(&mon_id), bytes(&MY_ID));
    let notify = bytes(&Notify { name: b"", state: 1 });
    for (number, args) in [
        (p::STAT, &name),
        (p::MON, &mon),
        (p::UNMON, &mon_id),
        (p::UNMON_ALL, &my_id),
        (p::NOTIFY, &notify),
    ] {
        assert_eq!(decode_all_args(number, args), Ok(()));
        let mut more = args.clone();
        more.extend([0; 4]);
        assert_eq!(decode_all_args(number, &more), Err(Error::Trailing(4)));
        assert!(decode_all_args(number, &args[..args.len() - 4]).is_err());
    }
    assert_eq!(decode_all_args(p::NULL, b""), Ok(()));
    assert_eq!(decode_all_args(p::SIMU_CRASH, b""), Ok(()));
    assert!(decode_all_args(7, b"").is_err());
}

#[test]
fn name_lengths_are_limited() {
    for (len, taken) in [(1024, true), (1025, false)] {
        let name = vec![b'h'; len];
        let wire = bytes(&Notify { name: &name, state: 1 });
        assert_eq!(decode_all_args(p::NOTIFY, &wire).is_ok(), taken);
        let wire = bytes(&Name(&name));
        assert_eq!(decode_all_args(p::STAT, &wire).is_ok(), taken);
    }
}

//! RPC messages against the layout of RFC 5531, byte by byte, and against themselves.

use super::{
    Accepted, AuthStat, AuthSysParms, CallHeader, Denied, Groups, OpaqueAuth, ReplyBody,
    ReplyHeader, flavor,
};
use xdr::{Decode, Encode, Error, Reader, Writer};

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

/// Words as they go over the wire.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

fn decode<'a, T: Decode<'a>>(record: &'a [u8]) -> Result<T, Error> {
    let mut r = Reader::new(record);
    let value = r.get()?;
    r.end()?;
    Ok(value)
}

const CALL: CallHeader<'_> = CallHeader {
    xid: 0x0102_0304,
    program: 100_003,
    version: 3,
    procedure: 1,
    credential: OpaqueAuth { flavor: flavor::AUTH_SHORT, body: b"abcde" },
    verifier: OpaqueAuth::NONE,
};

#[test]
fn a_call_has_the_layout_of_section_9() {
    let mut wire = words(&[0x0102_0304, 0, 2, 100_003, 3, 1, 2, 5]);
    wire.extend_from_slice(b"abcde\0\0\0");
    wire.extend_from_slice(&words(&[0, 0]));
    assert_eq!(bytes(&CALL), wire);
    assert_eq!(decode(&wire), Ok(CALL));
}

#[test]
fn replies_and_other_rpc_versions_are_not_calls() {
    let wire = bytes(&CALL);
    for (at, value) in [(1, 1), (1, 2), (2, 1), (2, 3)] {
        let mut wrong = wire.clone();
        wrong[at * 4..at * 4 + 4].copy_from_slice(&u32::to_be_bytes(value));
        let error = decode::<CallHeader<'_>>(&wrong).unwrap_err();
        assert!(matches!(error, Error::NotMember { value: v, .. } if v == value));
    }
    for len in 0..wire.len() {
        assert!(matches!(decode::<CallHeader<'_>>(&wire[..len]), Err(Error::Short { .. })));
    }
}

#[test]
fn an_auth_body_has_at_most_400_bytes() {
    let body = [7; 404];
    let auth = |len| OpaqueAuth { flavor: 9, body: &body[..len] };
    let wire = bytes(&auth(400));
    assert_eq!(decode(&wire), Ok(auth(400)));
    let wire = bytes(&auth(401));
    assert_eq!(decode::<OpaqueAuth<'_>>(&wire), Err(Error::TooLong { len: 401, limit: 400 }));
}

#[test]
fn every_reply_has_the_layout_of_section_9() {
    let accepted = |status| ReplyHeader::accepted(9, status);
    let denied = |denied| ReplyHeader::denied(9, denied);
    for (reply, wire) in [
        (accepted(Accepted::Success), &[9, 1, 0, 0, 0, 0][..]),
        (accepted(Accepted::ProgUnavail), &[9, 1, 0, 0, 0, 1]),
        (accepted(Accepted::ProgMismatch { low: 2, high: 4 }), &[9, 1, 0, 0, 0, 2, 2, 4]),
        (accepted(Accepted::ProcUnavail), &[9, 1, 0, 0, 0, 3]),
        (accepted(Accepted::GarbageArgs), &[9, 1, 0, 0, 0, 4]),
        (accepted(Accepted::SystemErr), &[9, 1, 0, 0, 0, 5]),
        (denied(Denied::RpcMismatch { low: 2, high: 2 }), &[9, 1, 1, 0, 2, 2]),
        (denied(Denied::AuthError(AuthStat::TooWeak)), &[9, 1, 1, 1, 5]),
    ] {
        assert_eq!(bytes(&reply), words(wire));
        assert_eq!(decode(&words(wire)), Ok(reply));
    }
}

#[test]
fn a_servers_verifier_is_kept() {
    let mut wire = words(&[9, 1, 0, 2, 3]);
    wire.extend_from_slice(b"abc\0\0\0\0\0");
    let verifier = OpaqueAuth { flavor: flavor::AUTH_SHORT, body: b"abc" };
    let body = ReplyBody::Accepted { verifier, status: Accepted::Success };
    assert_eq!(decode(&wire), Ok(ReplyHeader { xid: 9, body }));
}

#[test]
fn undefined_members_are_refused() {
    for wire in [&[9, 0][..], &[9, 1, 2], &[9, 1, 0, 0, 0, 6], &[9, 1, 1, 2]] {
        let wire = words(wire);
        assert!(matches!(decode::<ReplyHeader<'_>>(&wire), Err(Error::NotMember { .. })));
    }
}

#[test]
fn refusals_have_the_numbers_of_section_9() {
    for number in 1..=14 {
        assert_eq!(AuthStat::from_number(number).number(), number);
    }
    assert_eq!([0, 15, u32::MAX].map(AuthStat::from_number), [AuthStat::Failed; 3]);
}

#[test]
fn auth_sys_has_the_layout_of_appendix_a() {
    let mut wire = words(&[77, 6]);
    wire.extend_from_slice(b"client\0\0");
    wire.extend_from_slice(&words(&[1000, 100, 2, 24, 27]));
    let parms = AuthSysParms {
        stamp: 77,
        machine_name: b"client",
        uid: 1000,
        gid: 100,
        groups: Groups::new(&[24, 27]).unwrap(),
    };
    assert_eq!(bytes(&parms), wire);
    assert_eq!(decode(&wire), Ok(parms));
}

#[test]
fn auth_sys_enforces_its_limits() {
    assert!(Groups::new(&[1; 16]).is_some());
    assert!(Groups::new(&[1; 17]).is_none());
    let mut seventeen = words(&[0, 0, 1, 1, 17]);
    seventeen.extend_from_slice(&[0; 68]);
    let error = decode::<AuthSysParms<'_>>(&seventeen).unwrap_err();
    assert_eq!(error, Error::TooLong { len: 17, limit: 16 });
    let mut long = words(&[0, 256]);
    long.extend_from_slice(&[b'x'; 300]);
    let error = decode::<AuthSysParms<'_>>(&long).unwrap_err();
    assert_eq!(error, Error::TooLong { len: 256, limit: 255 });
}

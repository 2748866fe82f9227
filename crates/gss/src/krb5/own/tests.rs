//! Both sides of a context by this program: which tokens are accepted and which are refused.

use super::{Messages, OwnMessages, Room, SessionKeys, room};
use proptest::prelude::*;

fn side(is_initiator: bool, encryption_type: u32, is_acceptor_subkey: bool) -> OwnMessages {
    let len = if encryption_type % 2 == 1 { 16 } else { 32 };
    OwnMessages::new(&SessionKeys {
        is_initiator,
        send_sequence: 7,
        encryption_type,
        key: (0..len).collect(),
        is_acceptor_subkey,
    })
    .unwrap()
}

fn sealed(by: &OwnMessages, message: &[u8]) -> Vec<u8> {
    let Room { head, tail } = by.room();
    let mut token = [&vec![0; head], message, &vec![0; tail]].concat();
    by.seal(&mut token).unwrap();
    token
}

fn opened(by: &OwnMessages, token: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    let range = by.open(token, &mut buffer).ok()?;
    assert!(buffer.len() <= token.len());
    Some(buffer[range].to_vec())
}

/// Rotates the body of a token right (RFC 4121 §4.2.5).
fn rotated(token: &[u8], count: u16) -> Vec<u8> {
    let (header, body) = token.split_at(16);
    let mut body = body.to_vec();
    let len = body.len();
    body.rotate_right(usize::from(count) % len);
    let mut header = header.to_vec();
    header[6..8].copy_from_slice(&count.to_be_bytes());
    [header, body].concat()
}

proptest! {
    #[test]
    fn a_sealed_message_is_opened_with_any_rotation(
        encryption_type in 17_u32..=20,
        message in proptest::collection::vec(any::<u8>(), 0..200),
        subkey: bool,
        count: u16,
    ) {
        let (client, server) =
            (side(true, encryption_type, subkey), side(false, encryption_type, subkey));
        for (from, to) in [(&client, &server), (&server, &client)] {
            let token = sealed(from, &message);
            prop_assert_eq!(opened(to, &token), Some(message.clone()));
            prop_assert_eq!(opened(to, &rotated(&token, count)), Some(message.clone()));
            prop_assert_eq!(opened(from, &token), None, "a token is not accepted by its sender");
            let sum = from.checksum(&message).unwrap();
            prop_assert!(to.verify(&message, &sum).is_ok() && from.verify(&message, &sum).is_err());
        }
    }
}

#[test]
fn messages_longer_than_an_encryption_piece_are_opened() {
    for encryption_type in 17..=20 {
        let (client, server) =
            (side(true, encryption_type, true), side(false, encryption_type, true));
        for len in [8191 - 16, 8192 - 16, 8192, 8193, 65_536, 100_003] {
            let message: Vec<u8> = (0..len).map(|n: u32| (n % 251) as u8).collect();
            assert_eq!(opened(&server, &sealed(&client, &message)), Some(message), "{len}");
        }
    }
}

#[test]
fn any_changed_bit_or_truncation_is_detected() {
    for encryption_type in 17..=20 {
        let (client, server) =
            (side(true, encryption_type, true), side(false, encryption_type, true));
        let (token, sum) = (sealed(&client, b"a message"), client.checksum(b"a message").unwrap());
        for bit in 0..token.len() * 8 {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // a rotation by the body's length is no rotation
            assert_eq!(opened(&server, &changed), None, "bit {bit} of type {encryption_type}");
        }
        for bit in 0..sum.len() * 8 {
            let mut changed = sum.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(server.verify(b"a message", &changed).is_err(), "bit {bit}");
        }
        for len in 0..token.len() {
            assert_eq!(opened(&server, &token[..len]), None);
        }
        for len in 0..sum.len() {
            assert!(server.verify(b"a message", &sum[..len]).is_err());
        }
        assert!(server.verify(b"another message", &sum).is_err());
    }
}

#[test]
fn token_flags_are_checked() {
    let (client, server) = (side(true, 18, true), side(false, 18, false));
    assert_eq!(opened(&server, &sealed(&client, b"x")), None, "of another key");
    let unsealed = {
        let mut token = sealed(&client, b"x");
        token[2] &= !2;
        token
    };
    assert_eq!(opened(&side(false, 18, true), &unsealed), None, "not marked as sealed");
    assert_eq!(room(12), Room { head: 32, tail: 28 });
}

#[test]
fn each_token_has_the_next_number() {
    let client = side(true, 17, true);
    let number = |token: &[u8]| u64::from_be_bytes(token[8..16].try_into().unwrap());
    assert_eq!(number(&sealed(&client, b"x")), 7);
    assert_eq!(number(&client.checksum(b"x").unwrap()), 8);
}

//! The examples of the specifications; against the library see `tests/it/library.rs`.

use super::super::cts::Aes;
use super::{Authenticated, derive_by_cipher, derive_by_hmac, folded};
use aws_lc_rs::hmac;

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn folding_is_as_in_rfc_3961() {
    assert_eq!(folded(b"012345", 8), hex("be072631276b1955"));
    assert_eq!(folded(b"password", 7), hex("78a07b6caf85fa"));
    assert_eq!(folded(b"kerberos", 16), hex("6b65726265726f737b9b5b2b93132b93"));
    assert_eq!(folded(b"Rough Consensus, and Running Code", 8), hex("bb6ed30870b7f0e0"));
}

#[test]
fn stolen_ciphertext_is_as_in_rfc_3962() {
    let aes = Aes::new(b"chicken teriyaki").unwrap();
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, b""));
    let text = b"I would like the General Gau's Chicken, please, and wonton soup.";
    for (len, sealed) in [
        (17, "c6353568f2bf8cb4d8a580362da7ff7f 97"),
        (31, "fc00783e0efdb2c1d445d4c8eff7ed22 97687268d6ecccc0c07b25e25ecfe5"),
        (32, "39312523a78662d5be7fcbcc98ebf5a8 97687268d6ecccc0c07b25e25ecfe584"),
    ] {
        let mut data = text[..len].to_vec();
        aes.encrypt(&mut data, Authenticated::Plaintext, &mut mac).unwrap();
        assert_eq!(data, hex(sealed), "{len}");
        let mut plain = vec![0; len];
        aes.decrypt(&data, &mut plain, Authenticated::Plaintext, &mut mac).unwrap();
        assert_eq!(plain, text[..len]);
    }
    let mut short = [0; 15];
    assert_eq!(aes.encrypt(&mut short, Authenticated::Plaintext, &mut mac), None);
}

#[test]
fn keys_are_derived_as_in_rfc_8009() {
    let base = hex("3705D96080C17728A0E800EAB6E0D23C");
    let key =
        |purpose| derive_by_hmac(hmac::HMAC_SHA256, &base, &[0, 0, 0, 2, purpose], 16).unwrap();
    assert_eq!(key(0x99), hex("B31A018A48F54776F403E9A396325DC3"));
    assert_eq!(key(0xaa), hex("9B197DD1E8C5609D6E67C3E37C62C72E"));
    assert_eq!(key(0x55), hex("9FDA0E56AB2D85E1569A688696C26A6C"));
    assert_eq!(derive_by_cipher(&base[..15], &[1, 2, 3, 4, 5], 16), None, "no key of AES");
}

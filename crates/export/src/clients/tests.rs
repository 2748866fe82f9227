//! Clients in text form, and the addresses and names that they match.

use super::{Client, ClientError, Pattern};
use proptest::prelude::*;

fn client(text: &str) -> Client {
    Client::parse(text).unwrap()
}

fn is(text: &str, address: &str) -> Option<bool> {
    client(text).matches_address(address.parse().unwrap())
}

#[test]
fn addresses_and_networks() {
    assert_eq!(is("10.0.0.1", "10.0.0.1"), Some(true));
    assert_eq!(is("10.0.0.1", "10.0.0.2"), Some(false));
    assert_eq!(is("::ffff:10.0.0.1", "10.0.0.1"), Some(true));
    assert_eq!(is("[fd00::1]", "fd00::1"), Some(true));
    assert_eq!(is("10.1.2.3/8", "10.255.0.9"), Some(true));
    assert_eq!(is("10.0.0.0/8", "11.0.0.0"), Some(false));
    assert_eq!(is("10.0.0.0/255.255.0.0", "10.0.9.9"), Some(true));
    assert_eq!(is("10.0.0.0/255.255.0.0", "10.1.0.0"), Some(false));
    assert_eq!(is("0.0.0.0/0", "1.2.3.4"), Some(true));
    assert_eq!(is("0.0.0.0/0", "::1"), Some(false));
    assert_eq!(is("1.2.3.4/32", "1.2.3.5"), Some(false));
    assert_eq!(is("fd00::/16", "fd00:1::2"), Some(true));
    assert_eq!(is("fd00::/16", "fd01::"), Some(false));
    assert_eq!(is("fd00::/ffff:ffff::", "fd00::9"), Some(true));
    assert_eq!(is("::/0", "::1"), Some(true));
    assert_eq!(is("::1/128", "::2"), Some(false));
    assert_eq!(is("*", "::2"), Some(true));
    assert_eq!(is("host", "::2"), None);
}

#[test]
fn invalid_clients_are_refused_with_a_reason() {
    for wrong in ["", "a b", "10.0.0", "10.0.0.256", "-x", ".x", "a..b", "ä", "@", "@a,b", "x/8"] {
        assert!(matches!(Client::parse(wrong), Err(ClientError::Unrecognized(_))), "{wrong}");
    }
    for wrong in ["10.0.0.0/33", "10.0.0.0/255.0.255.0", "::/129", "10.0.0.0/x", "1.1.1.1/ffff::"] {
        assert!(matches!(Client::parse(wrong), Err(ClientError::Mask(..))), "{wrong}");
    }
    for wrong in ["10.1.*", "192.168.1.?"] {
        assert!(matches!(Client::parse(wrong), Err(ClientError::WildcardAddress(_))), "{wrong}");
    }
    for wrong in ["h[", "h]", "h[]", "h[!]", "h[a[b]"] {
        assert!(matches!(Client::parse(wrong), Err(ClientError::Class(_))), "{wrong}");
    }
    assert!(matches!(Client::parse("gss/krb5"), Err(ClientError::Kerberos(_))));
    assert_eq!(Client::parse(&"a".repeat(256)), Err(ClientError::TooLong));
}

#[test]
fn names_are_lower_case_and_kinds_have_their_rank() {
    assert_eq!(client("Build.Example.ORG."), Client::Host("build.example.org".into()));
    let ranks = ["h", "10.0.0.0/8", "*.x", "@g", "*"].map(|text| client(text).rank());
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    assert_eq!(client("10.0.0.1").rank(), client("h").rank());
}

#[test]
fn patterns_match_names() {
    for (pattern, yes, no) in [
        ("*.lan", "a.b.LAN", "lan"),
        ("a*c?e", "abbcxe", "abbcxf"),
        ("node[0-9]", "node7", "nodex"),
        ("node[!0-9]", "nodex", "node7"),
        ("n[a-cx]*", "nx1", "nd1"),
        ("**", "", "\u{1}never"),
        ("[*]", "*", "x"),
    ] {
        let pattern = Pattern(pattern.to_owned());
        assert!(pattern.matches(yes), "{pattern:?} {yes}");
        assert!(!pattern.matches(no) || pattern.0 == "**", "{pattern:?} {no}");
    }
    // backtracks to the last star only, so that this ends
    assert!(!Pattern("*a".repeat(100)).matches(&"b".repeat(255)));
}

/// The definition, by exhaustive search.
fn slow(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|n| slow(rest, &name[n..])),
        Some((byte, rest)) => name
            .split_first()
            .is_some_and(|(own, left)| (*byte == b'?' || byte == own) && slow(rest, left)),
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_displayed_clients_parse_again(text in ".{0,40}|[0-9a-f.:/*?@\\[\\]-]{0,20}") {
        if let Ok(client) = Client::parse(&text) {
            prop_assert_eq!(Client::parse(&client.to_string()), Ok(client));
        }
    }

    #[test]
    fn stars_match_as_defined(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
        let expected = slow(pattern.as_bytes(), name.as_bytes());
        prop_assert_eq!(Pattern(pattern).matches(&name), expected);
    }

    #[test]
    fn a_network_matches_addresses_with_its_prefix(base: u32, bits in 0..=32u8, other: u32) {
        let text = format!("{}/{bits}", std::net::Ipv4Addr::from_bits(base));
        let same = bits == 0 || (base ^ other) >> (32 - bits) == 0;
        let address = std::net::Ipv4Addr::from_bits(other).into();
        prop_assert_eq!(client(&text).matches_address(address), Some(same));
    }
}

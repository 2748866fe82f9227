//! Lines as administrators write them, right and wrong.

use super::parse;
use crate::clients::Pattern;
use crate::options::{Options, Squash};
use proptest::prelude::*;
use vfs::Durability;

#[test]
fn a_usual_file() {
    let parsed = parse(
        b"# comment\n\
        /srv/a  10.0.0.0/8(rw,no_root_squash) *.lan(ro,async) @trusted(rw)\n\
        \"/srv/with space\" -rw,anonuid=7 host1 host2(insecure) \\\n   192.168.1.0/255.255.255.0\n\
        /srv/oct\\040al *(all_squash)\n",
    );
    assert_eq!(parsed.errors, []);
    let [a, spaced, octal] = parsed.entries.as_slice() else { panic!("{:?}", parsed.entries) };
    assert_eq!(a.path, b"/srv/a");
    assert_eq!(a.rules.len(), 3);
    let rw = Options { read_only: false, squash: Squash::None, ..Options::default() };
    assert_eq!(a.rules[0].options, rw);
    assert_eq!(a.rules[1].options.durability, Durability::Async);
    assert_eq!(a.rules[2].pattern, Pattern::Netgroup("trusted".into()));
    assert_eq!(spaced.path, b"/srv/with space");
    assert_eq!(spaced.rules.len(), 3);
    assert!(spaced.rules.iter().all(|r| r.options.anonuid == 7 && !r.options.read_only));
    assert!(spaced.rules[0].options.secure && !spaced.rules[1].options.secure);
    assert_eq!(octal.path, b"/srv/oct al");
    assert_eq!(octal.rules[0].options.squash, Squash::All);
}

#[test]
fn every_error_has_its_place() {
    let source =
        b"/a *(rw,frobnicate)\n  srv *(rw)\n/b *(anonuid=x,sec=krb5)\n/c \"open\n/d h(rw\n/e a/b\n";
    let parsed = parse(source);
    let places: Vec<_> = parsed.errors.iter().map(|e| (e.line, e.column)).collect();
    assert_eq!(places, [(4, 4), (1, 9), (2, 3), (3, 6), (3, 16), (5, 5), (6, 4)]);
    let shown = parsed.errors[1].shown("exports", source);
    assert_eq!(shown, "exports:1:9: unknown option frobnicate\n  /a *(rw,frobnicate)\n          ^");
}

#[test]
fn what_has_no_effect_is_said() {
    let parsed = parse(b"/a *(rw,subtree_check,no_wdelay)\n/b\n/c host (rw)\n");
    assert_eq!(parsed.errors, []);
    let lines: Vec<_> = parsed.notes.iter().map(|n| n.line).collect();
    assert_eq!(lines, [1, 1, 2, 3]);
    assert_eq!(parsed.entries[2].rules[1].pattern, Pattern::Anyone);
    assert!(parsed.entries[2].rules[0].options.read_only);
}

#[test]
fn lines_of_one_path_add_up() {
    let parsed = parse(b"/a x(rw)\n/a/ y(ro)\n/a *(fsid=0)\n");
    assert_eq!(parsed.entries.len(), 1);
    assert_eq!(parsed.entries[0].rules.len(), 3);
    assert!(parsed.entries[0].fsid.is_some());
}

#[test]
fn the_example_of_the_repository_is_in_order() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../exports.example");
    let parsed = parse(&std::fs::read(path).unwrap());
    assert_eq!(parsed.errors, []);
    assert!(parsed.entries.len() >= 3);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse(&bytes);
    }

    #[test]
    fn no_words_make_it_panic(text in r#"(/[a-z]{0,3}|[ \t\n"\\#]|-rw|\*|@g|[0-9./]{1,9}|\((rw|ro|,|=|fsid=0|x){0,5}\)?){0,40}"#) {
        let parsed = parse(text.as_bytes());
        for remark in parsed.errors.iter().chain(&parsed.notes) {
            prop_assert!(remark.line >= 1 && remark.column >= 1);
            remark.shown("f", text.as_bytes());
        }
    }
}

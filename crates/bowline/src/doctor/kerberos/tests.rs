//! What is said about keytabs and names; with a realm, see the guest `kerberos`.

use super::{
    Asked, Keytab, KeytabEntry, PrincipalsFile, encryption_types, findings, key_of, of_failure,
    reverse_name,
};
use crate::doctor::finding::Level;
use std::path::Path;

fn key(principal: &str, version: u32, encryption_type: u16) -> KeytabEntry {
    KeytabEntry { principal: principal.into(), version, encryption_type }
}

#[test]
fn a_name_without_a_key_is_a_problem_with_the_command_that_adds_one() {
    let keys = [key("nfs/a.lab.test@LAB.TEST", 2, 18), key("nfs/a.lab.test@LAB.TEST", 3, 18)];
    let found = |name| key_of(name, &keys, Path::new("/k"));
    assert!(found("A.lab.test").text.ends_with("key version 3"), "{:?}", found("A.lab.test"));
    let missing = found("b.lab.test");
    assert_eq!(missing.level, Level::Problem);
    assert!(missing.remedy.contains("ktadd -k /k nfs/b.lab.test"), "{missing:?}");
    assert_eq!(found("a").level, Level::Problem, "a name is not the beginning of another");
}

#[test]
fn unaccepted_encryption_types_are_a_problem_and_only_new_ones_a_note() {
    let level = |types: &[u16]| {
        let keys: Vec<_> = types.iter().map(|number| key("nfs/a@R", 1, *number)).collect();
        encryption_types(&keys).level
    };
    assert_eq!(level(&[18, 23]), Level::Ok);
    assert_eq!(level(&[19, 20]), Level::Note);
    assert_eq!(level(&[23, 16]), Level::Problem);
    assert_eq!(level(&[]), Level::Problem);
}

#[test]
fn a_reverse_name_without_a_key_is_noted() {
    let keys = [key("nfs/a.lab.test@LAB.TEST", 2, 18)];
    let level = |reverse: &[&str]| {
        let reverse = reverse.iter().map(|name| (*name).to_owned()).collect();
        reverse_name("a.lab.test", &reverse, &keys).level
    };
    assert_eq!(level(&[]), Level::Ok);
    assert_eq!(level(&["A.lab.test"]), Level::Ok);
    assert_eq!(level(&["A.lab.test", "dhcp-7.lab.test"]), Level::Note);
}

#[test]
fn library_failures_name_the_part_to_fix() {
    for (text, about) in [
        ("Cannot contact any KDC for realm 'LAB.TEST'", "KDC"),
        ("Cannot find KDC for realm \"LAB.TEST\"", "KDC"),
        ("Clock skew too great", "clock"),
        ("Server not found in Kerberos database", "ticket"),
        ("Client 'nfs/a@LAB.TEST' not found in Kerberos database", "ticket"),
        ("Preauthentication failed", "keys"),
        ("something else", "ticket"),
    ] {
        let found = of_failure(text);
        assert_eq!((found.about, found.level), (about, Level::Problem), "{text}");
        assert!(!found.remedy.is_empty());
    }
}

#[test]
fn without_a_keytab_later_checks_are_skipped() {
    let asked = Asked {
        keytab: Keytab::File("/nonexistent/keytab".into()),
        principals: PrincipalsFile::Off,
        names: Vec::new(),
        users: Vec::new(),
    };
    let found = findings(asked);
    let last = found.last().unwrap();
    assert_eq!(last.level, Level::Problem);
    assert!(last.about == "keytab" || last.about == "library", "{last:?}");
    assert!(!found.iter().any(|finding| finding.about == "ticket"));
}

//! Listing directories, also while they change.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::Status;
use std::collections::BTreeMap;

checks! {
    an_empty_directory_has_two_entries,
    listed_nodes_match_lookup,
    pages_of_any_size_list_everything_once,
    unchanged_entries_are_listed_once_during_changes,
    a_listing_goes_on_behind_each_of_its_cookies,
    small_pages_show_each_change_of_a_small_directory,
    invalid_cookies_are_refused,
    files_cannot_be_listed,
}

/// Lists page by page, running an action between the pages; returns how often each name was listed.
fn pages(
    fixture: &Fixture,
    dir: &crate::Fid,
    size: usize,
    mut between: impl FnMut(),
) -> BTreeMap<String, u32> {
    let (mut seen, mut cookie) = (BTreeMap::new(), 0);
    loop {
        let (entries, eof) = fixture.list(dir, cookie, size, false).unwrap();
        for (name, at, _) in &entries {
            assert_ne!(*at, 0);
            *seen.entry(String::from_utf8(name.clone()).unwrap()).or_default() += 1;
            cookie = *at;
        }
        if eof {
            return seen;
        }
        assert!(!entries.is_empty(), "no entry and no end");
        between();
    }
}

fn an_empty_directory_has_two_entries(fixture: &Fixture) {
    let dir = fixture.dir("d");
    let (entries, eof) = fixture.list(&dir, 0, 10, true).unwrap();
    let mut names: Vec<&[u8]> = entries.iter().map(|(name, ..)| &**name).collect();
    names.sort_unstable();
    assert!(eof);
    assert_eq!(names, [&b"."[..], b".."]);
    let (_, cookie, _) = entries.last().unwrap();
    assert_eq!(fixture.list(&dir, *cookie, 10, true).unwrap().0.len(), 0);
}

fn listed_nodes_match_lookup(fixture: &Fixture) {
    let root = fixture.root();
    fixture.file("f");
    fixture.dir("d");
    let (entries, _) = fixture.list(&root, 0, 10, true).unwrap();
    for name in ["f", "d"] {
        let (_, _, node) = entries.iter().find(|(n, ..)| n == name.as_bytes()).unwrap();
        let node = node.unwrap();
        assert_eq!(Ok(node.fid), fixture.lookup(&root, name));
        assert!(fixture.are_of(&node.attr, &node.fid), "{node:?}");
    }
    let (entries, _) = fixture.list(&root, 0, 10, false).unwrap();
    assert!(entries.iter().all(|(_, _, node)| node.is_none()));
}

fn pages_of_any_size_list_everything_once(fixture: &Fixture) {
    let dir = fixture.dir("d");
    for n in 0..1000 {
        fixture.file_in(&dir, &format!("f{n}"));
    }
    for size in [1, 7, 100, 5000] {
        let seen = pages(fixture, &dir, size, || ());
        assert_eq!(seen.len(), 1002, "pages of {size}");
        assert!(seen.values().all(|count| *count == 1), "pages of {size}");
    }
}

fn unchanged_entries_are_listed_once_during_changes(fixture: &Fixture) {
    let dir = fixture.dir("d");
    for n in 0..2000 {
        fixture.file_in(&dir, &format!("stay{n}"));
        fixture.file_in(&dir, &format!("go{n}"));
    }
    let mut n = 0;
    let seen = pages(fixture, &dir, 97, || {
        for _ in 0..10 {
            fixture.backend.remove(&fixture.cx(), &dir, entry_name(&format!("go{n}"))).unwrap();
            fixture.file_in(&dir, &format!("come{n}"));
            n += 1;
        }
    });
    for n in 0..2000 {
        assert_eq!(seen.get(&format!("stay{n}")), Some(&1), "stay{n}");
    }
    assert!(seen.values().all(|count| *count == 1));
}

/// A backend may answer from what it has read before: the same names with the same cookies, from any of them on.
fn a_listing_goes_on_behind_each_of_its_cookies(fixture: &Fixture) {
    let dir = fixture.dir("d");
    for n in 0..20 {
        fixture.file_in(&dir, &format!("f{n}"));
    }
    for nodes in [false, true, false, true] {
        // attributes may differ in how old the last change is
        let list = |cookie, limit| {
            let (entries, eof) = fixture.list(&dir, cookie, limit, nodes).unwrap();
            let told = |(name, cookie, node): super::fixture::Listed| {
                (name, cookie, node.map(|node| node.fid))
            };
            (entries.into_iter().map(told).collect::<Vec<_>>(), eof)
        };
        let (whole, eof) = list(0, 100);
        assert!(eof && whole.len() == 22, "{}", whole.len());
        for (at, (_, cookie, _)) in whole.iter().enumerate() {
            let rest = whole.get(at + 1..).unwrap_or_default();
            assert_eq!(list(*cookie, 100), (rest.to_vec(), true), "behind entry {at}");
            let next = rest.get(..1).unwrap_or_default();
            assert_eq!(list(*cookie, 1), (next.to_vec(), rest.len() < 2), "behind entry {at}");
        }
    }
}

fn small_pages_show_each_change_of_a_small_directory(fixture: &Fixture) {
    let dir = fixture.dir("d");
    for n in 0..60 {
        fixture.file_in(&dir, &format!("stay{n}"));
        fixture.file_in(&dir, &format!("go{n}"));
    }
    for round in 0..2 {
        // twice before it changes: it may be kept
        let all = fixture.names(&dir);
        assert_eq!(fixture.names(&dir), all);
        let mut n = round * 30;
        let seen = pages(fixture, &dir, 7, || {
            let gone = format!("go{n}");
            fixture.backend.remove(&fixture.cx(), &dir, entry_name(&gone)).unwrap();
            let names = fixture.names(&dir);
            assert!(!names.contains(&gone), "{gone} is still listed");
            fixture.file_in(&dir, &format!("come{n}"));
            assert!(fixture.names(&dir).contains(&format!("come{n}")), "come{n} is not listed");
            n += 1;
        });
        assert!((0..60).all(|n| seen.get(&format!("stay{n}")) == Some(&1)), "{seen:?}");
        assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    }
}

fn invalid_cookies_are_refused(fixture: &Fixture) {
    refused(fixture.list(&fixture.root(), u64::MAX, 10, false), Status::BadCookie);
}

fn files_cannot_be_listed(fixture: &Fixture) {
    let file = fixture.file("f");
    refused(fixture.list(&file, 0, 10, false), Status::NotDir);
    refused(fixture.create(&file, "x", crate::Create::Exclusive([0; 8])), Status::NotDir);
}

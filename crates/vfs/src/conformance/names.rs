//! Looking up, removing and renaming.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::{Component, Create, Fid, Name, Result, SetAttr, Status};

checks! {
    lookups_find_existing_names,
    dot_dot_stops_at_the_root,
    names_of_every_byte,
    names_of_every_length,
    remove_and_rmdir_check_the_type,
    directories_with_entries_are_not_removed,
    renames_move_and_replace_entries,
    renames_respect_types,
    a_rename_that_does_nothing_shows_no_change,
    a_directory_cannot_be_moved_below_itself,
    rename_between_two_links_does_nothing,
    link_counts_follow_directories,
}

fn rename(fixture: &Fixture, from: (&Fid, &str), to: (&Fid, &str)) -> Result<()> {
    let (from, to) = ((from.0, entry_name(from.1)), (to.0, entry_name(to.1)));
    fixture.backend.rename(&fixture.cx(), from, to).map(drop)
}

fn lookups_find_existing_names(fixture: &Fixture) {
    let dir = fixture.dir("d");
    let file = fixture.file_in(&dir, "f");
    assert_eq!(fixture.lookup(&dir, "f"), Ok(file));
    refused(fixture.lookup(&dir, "g"), Status::NoEnt);
    refused(fixture.lookup(&file, "x"), Status::NotDir);
    let found =
        fixture.backend.lookup(&fixture.cx(), &dir, Component::Name(entry_name("f"))).unwrap();
    assert!(fixture.are_of(&found.node.attr, &file), "{found:?}");
    assert_eq!(found.dir.fileid, fixture.attr(&dir).fileid);
}

fn dot_dot_stops_at_the_root(fixture: &Fixture) {
    let root = fixture.root();
    let dir = fixture.dir("d");
    let inner = fixture.dir_in(&dir, "e");
    assert_eq!(fixture.lookup(&inner, "."), Ok(inner));
    assert_eq!(fixture.lookup(&inner, ".."), Ok(dir));
    assert_eq!(fixture.lookup(&dir, ".."), Ok(root));
    assert_eq!(fixture.lookup(&root, ".."), Ok(root));
}

fn names_of_every_byte(fixture: &Fixture) {
    let root = fixture.root();
    for byte in (1..=255u8).filter(|b| *b != b'/') {
        let bytes = [byte, b'x'];
        let name = Name::new(&bytes).unwrap();
        let made = fixture
            .backend
            .create(&fixture.cx(), &root, name, Create::Guarded(SetAttr::default()))
            .unwrap();
        let found = fixture.backend.lookup(&fixture.cx(), &root, Component::Name(name)).unwrap();
        assert_eq!(found.node.fid, made.node.unwrap().fid, "{byte}");
        fixture.backend.remove(&fixture.cx(), &root, name).unwrap();
    }
    assert_eq!(fixture.names(&root), Vec::<String>::new());
}

fn names_of_every_length(fixture: &Fixture) {
    for len in [1, 2, 254, 255] {
        let name = "n".repeat(len);
        let file = fixture.file(&name);
        assert_eq!(fixture.lookup(&fixture.root(), &name), Ok(file));
    }
    assert_eq!(Name::new(&[b'n'; 256]), Err(Status::NameTooLong));
    assert_eq!(fixture.names(&fixture.root()).len(), 4);
}

fn remove_and_rmdir_check_the_type(fixture: &Fixture) {
    let root = fixture.root();
    fixture.file("f");
    fixture.dir("d");
    refused(fixture.backend.remove(&fixture.cx(), &root, entry_name("d")), Status::IsDir);
    refused(fixture.backend.rmdir(&fixture.cx(), &root, entry_name("f")), Status::NotDir);
    refused(fixture.backend.remove(&fixture.cx(), &root, entry_name("none")), Status::NoEnt);
    refused(fixture.backend.rmdir(&fixture.cx(), &root, entry_name("none")), Status::NoEnt);
    fixture.backend.remove(&fixture.cx(), &root, entry_name("f")).unwrap();
    fixture.backend.rmdir(&fixture.cx(), &root, entry_name("d")).unwrap();
    assert_eq!(fixture.names(&root), Vec::<String>::new());
}

fn directories_with_entries_are_not_removed(fixture: &Fixture) {
    let dir = fixture.dir("d");
    fixture.file_in(&dir, "f");
    refused(
        fixture.backend.rmdir(&fixture.cx(), &fixture.root(), entry_name("d")),
        Status::NotEmpty,
    );
    assert_eq!(fixture.names(&dir), ["f"]);
}

fn renames_move_and_replace_entries(fixture: &Fixture) {
    let root = fixture.root();
    let (a, b) = (fixture.dir("a"), fixture.dir("b"));
    let file = fixture.file_in(&a, "f");
    let other = fixture.file_in(&b, "g");
    fixture.write(&file, 0, b"kept").unwrap();
    rename(fixture, (&a, "f"), (&b, "g")).unwrap();
    assert_eq!(fixture.lookup(&b, "g"), Ok(file));
    refused(fixture.lookup(&a, "f"), Status::NoEnt);
    refused(fixture.backend.getattr(&fixture.cx(), &other, crate::Want::STAT), Status::Stale);
    assert_eq!(fixture.read(&file, 0, 10).unwrap().0, b"kept");
    rename(fixture, (&root, "a"), (&b, "moved")).unwrap();
    assert_eq!(fixture.lookup(&b, "moved"), Ok(a));
    assert_eq!(fixture.lookup(&a, ".."), Ok(b));
    refused(rename(fixture, (&root, "a"), (&root, "z")), Status::NoEnt);
}

fn renames_respect_types(fixture: &Fixture) {
    let root = fixture.root();
    fixture.file("f");
    fixture.dir("empty");
    fixture.dir("d");
    let full = fixture.dir("full");
    fixture.file_in(&full, "x");
    refused(rename(fixture, (&root, "f"), (&root, "d")), Status::IsDir);
    refused(rename(fixture, (&root, "d"), (&root, "f")), Status::NotDir);
    // a non-empty directory fails with NOTEMPTY before the type is checked
    let over = rename(fixture, (&full, "x"), (&root, "full"));
    assert!(matches!(over, Err(Status::NotEmpty | Status::Exist)), "{over:?}");
    let over = rename(fixture, (&root, "d"), (&root, "full"));
    assert!(matches!(over, Err(Status::NotEmpty | Status::Exist)), "{over:?}");
    rename(fixture, (&root, "d"), (&root, "empty")).unwrap();
    assert_eq!(fixture.names(&root), ["empty", "f", "full"]);
}

/// Between two names of one file nothing happens, so the change attributes of the directories stay (RFC 8881 §18.26.4).
fn a_rename_that_does_nothing_shows_no_change(fixture: &Fixture) {
    let root = fixture.root();
    let (a, b) = (fixture.dir("a"), fixture.dir("b"));
    let file = fixture.file_in(&a, "f");
    fixture.dir_in(&a, "d");
    fixture.backend.link(&fixture.cx(), &file, &b, entry_name("g")).unwrap();
    let changes = |from: (&Fid, &str), to: (&Fid, &str)| {
        let (from, to) = ((from.0, entry_name(from.1)), (to.0, entry_name(to.1)));
        let (source, target) = fixture.backend.rename(&fixture.cx(), from, to).unwrap();
        let changed = |c: crate::Change| c.before.unwrap().change != c.after.unwrap().change;
        (changed(source), changed(target))
    };
    for (from, to) in [
        ((&a, "f"), (&a, "f")),
        ((&a, "d"), (&a, "d")),
        ((&root, "a"), (&root, "a")),
        ((&a, "f"), (&b, "g")),
    ] {
        assert_eq!(changes(from, to), (false, false), "{} to {}", from.1, to.1);
    }
    assert_eq!(
        (fixture.names(&a), fixture.names(&b)),
        (vec!["d".into(), "f".into()], vec!["g".into()])
    );
    // another file takes the place of one that has a second name
    fixture.file_in(&a, "x");
    assert_eq!(changes((&a, "x"), (&b, "g")), (true, true));
}

fn a_directory_cannot_be_moved_below_itself(fixture: &Fixture) {
    let dir = fixture.dir("d");
    let inner = fixture.dir_in(&dir, "e");
    refused(rename(fixture, (&fixture.root(), "d"), (&inner, "x")), Status::Inval);
    refused(rename(fixture, (&fixture.root(), "d"), (&dir, "x")), Status::Inval);
}

fn rename_between_two_links_does_nothing(fixture: &Fixture) {
    let root = fixture.root();
    let file = fixture.file("f");
    fixture.backend.link(&fixture.cx(), &file, &root, entry_name("g")).unwrap();
    rename(fixture, (&root, "f"), (&root, "g")).unwrap();
    rename(fixture, (&root, "f"), (&root, "f")).unwrap();
    assert_eq!(fixture.names(&root), ["f", "g"]);
    assert_eq!(fixture.attr(&file).nlink, 2);
}

fn link_counts_follow_directories(fixture: &Fixture) {
    let (a, b) = (fixture.dir("a"), fixture.dir("b"));
    fixture.dir_in(&a, "x");
    assert_eq!((fixture.attr(&a).nlink, fixture.attr(&b).nlink), (3, 2));
    rename(fixture, (&a, "x"), (&b, "x")).unwrap();
    assert_eq!((fixture.attr(&a).nlink, fixture.attr(&b).nlink), (2, 3));
    fixture.backend.rmdir(&fixture.cx(), &b, entry_name("x")).unwrap();
    assert_eq!(fixture.attr(&b).nlink, 2);
}

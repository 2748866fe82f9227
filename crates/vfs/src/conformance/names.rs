//! Looking up, removing and renaming.

use super::bed::{Bed, refused, word};
use super::checks;
use crate::{Component, Create, Fid, Name, Result, SetAttr, Status};

checks! {
    lookups_find_what_is_there,
    dots_lead_up_to_the_root_and_no_further,
    names_of_every_byte,
    names_of_every_length,
    removing_needs_the_right_verb,
    full_directories_stay,
    renames_move_and_replace,
    renames_respect_types,
    a_directory_never_goes_below_itself,
    one_inode_under_two_names_is_no_rename,
    link_counts_follow_directories,
}

fn rename(bed: &Bed, from: (&Fid, &str), to: (&Fid, &str)) -> Result<()> {
    let (from, to) = ((from.0, word(from.1)), (to.0, word(to.1)));
    bed.backend.rename(&bed.cx(), from, to).map(drop)
}

fn lookups_find_what_is_there(bed: &Bed) {
    let dir = bed.dir("d");
    let file = bed.file_in(&dir, "f");
    assert_eq!(bed.lookup(&dir, "f"), Ok(file));
    refused(bed.lookup(&dir, "g"), Status::NoEnt);
    refused(bed.lookup(&file, "x"), Status::NotDir);
    let found = bed.backend.lookup(&bed.cx(), &dir, Component::Name(word("f"))).unwrap();
    assert!(bed.are_of(&found.node.attr, &file), "{found:?}");
    assert_eq!(found.dir.fileid, bed.attr(&dir).fileid);
}

fn dots_lead_up_to_the_root_and_no_further(bed: &Bed) {
    let root = bed.root();
    let dir = bed.dir("d");
    let inner = bed.dir_in(&dir, "e");
    assert_eq!(bed.lookup(&inner, "."), Ok(inner));
    assert_eq!(bed.lookup(&inner, ".."), Ok(dir));
    assert_eq!(bed.lookup(&dir, ".."), Ok(root));
    assert_eq!(bed.lookup(&root, ".."), Ok(root));
}

fn names_of_every_byte(bed: &Bed) {
    let root = bed.root();
    for byte in (1..=255u8).filter(|b| *b != b'/') {
        let bytes = [byte, b'x'];
        let name = Name::new(&bytes).unwrap();
        let made = bed
            .backend
            .create(&bed.cx(), &root, name, Create::Guarded(SetAttr::default()))
            .unwrap();
        let found = bed.backend.lookup(&bed.cx(), &root, Component::Name(name)).unwrap();
        assert_eq!(found.node.fid, made.node.unwrap().fid, "{byte}");
        bed.backend.remove(&bed.cx(), &root, name).unwrap();
    }
    assert_eq!(bed.names(&root), Vec::<String>::new());
}

fn names_of_every_length(bed: &Bed) {
    for len in [1, 2, 254, 255] {
        let name = "n".repeat(len);
        let file = bed.file(&name);
        assert_eq!(bed.lookup(&bed.root(), &name), Ok(file));
    }
    assert_eq!(Name::new(&[b'n'; 256]), Err(Status::NameTooLong));
    assert_eq!(bed.names(&bed.root()).len(), 4);
}

fn removing_needs_the_right_verb(bed: &Bed) {
    let root = bed.root();
    bed.file("f");
    bed.dir("d");
    refused(bed.backend.remove(&bed.cx(), &root, word("d")), Status::IsDir);
    refused(bed.backend.rmdir(&bed.cx(), &root, word("f")), Status::NotDir);
    refused(bed.backend.remove(&bed.cx(), &root, word("none")), Status::NoEnt);
    refused(bed.backend.rmdir(&bed.cx(), &root, word("none")), Status::NoEnt);
    bed.backend.remove(&bed.cx(), &root, word("f")).unwrap();
    bed.backend.rmdir(&bed.cx(), &root, word("d")).unwrap();
    assert_eq!(bed.names(&root), Vec::<String>::new());
}

fn full_directories_stay(bed: &Bed) {
    let dir = bed.dir("d");
    bed.file_in(&dir, "f");
    refused(bed.backend.rmdir(&bed.cx(), &bed.root(), word("d")), Status::NotEmpty);
    assert_eq!(bed.names(&dir), ["f"]);
}

fn renames_move_and_replace(bed: &Bed) {
    let root = bed.root();
    let (a, b) = (bed.dir("a"), bed.dir("b"));
    let file = bed.file_in(&a, "f");
    let other = bed.file_in(&b, "g");
    bed.write(&file, 0, b"kept").unwrap();
    rename(bed, (&a, "f"), (&b, "g")).unwrap();
    assert_eq!(bed.lookup(&b, "g"), Ok(file));
    refused(bed.lookup(&a, "f"), Status::NoEnt);
    refused(bed.backend.getattr(&bed.cx(), &other, crate::Want::STAT), Status::Stale);
    assert_eq!(bed.read(&file, 0, 10).unwrap().0, b"kept");
    rename(bed, (&root, "a"), (&b, "moved")).unwrap();
    assert_eq!(bed.lookup(&b, "moved"), Ok(a));
    assert_eq!(bed.lookup(&a, ".."), Ok(b));
    refused(rename(bed, (&root, "a"), (&root, "z")), Status::NoEnt);
}

fn renames_respect_types(bed: &Bed) {
    let root = bed.root();
    bed.file("f");
    bed.dir("empty");
    bed.dir("d");
    let full = bed.dir("full");
    bed.file_in(&full, "x");
    refused(rename(bed, (&root, "f"), (&root, "d")), Status::IsDir);
    refused(rename(bed, (&root, "d"), (&root, "f")), Status::NotDir);
    // a directory that holds what is to take its place is full before it is of the wrong type
    let over = rename(bed, (&full, "x"), (&root, "full"));
    assert!(matches!(over, Err(Status::NotEmpty | Status::Exist)), "{over:?}");
    let over = rename(bed, (&root, "d"), (&root, "full"));
    assert!(matches!(over, Err(Status::NotEmpty | Status::Exist)), "{over:?}");
    rename(bed, (&root, "d"), (&root, "empty")).unwrap();
    assert_eq!(bed.names(&root), ["empty", "f", "full"]);
}

fn a_directory_never_goes_below_itself(bed: &Bed) {
    let dir = bed.dir("d");
    let inner = bed.dir_in(&dir, "e");
    refused(rename(bed, (&bed.root(), "d"), (&inner, "x")), Status::Inval);
    refused(rename(bed, (&bed.root(), "d"), (&dir, "x")), Status::Inval);
}

fn one_inode_under_two_names_is_no_rename(bed: &Bed) {
    let root = bed.root();
    let file = bed.file("f");
    bed.backend.link(&bed.cx(), &file, &root, word("g")).unwrap();
    rename(bed, (&root, "f"), (&root, "g")).unwrap();
    rename(bed, (&root, "f"), (&root, "f")).unwrap();
    assert_eq!(bed.names(&root), ["f", "g"]);
    assert_eq!(bed.attr(&file).nlink, 2);
}

fn link_counts_follow_directories(bed: &Bed) {
    let (a, b) = (bed.dir("a"), bed.dir("b"));
    bed.dir_in(&a, "x");
    assert_eq!((bed.attr(&a).nlink, bed.attr(&b).nlink), (3, 2));
    rename(bed, (&a, "x"), (&b, "x")).unwrap();
    assert_eq!((bed.attr(&a).nlink, bed.attr(&b).nlink), (2, 3));
    bed.backend.rmdir(&bed.cx(), &b, word("x")).unwrap();
    assert_eq!(bed.attr(&b).nlink, 2);
}

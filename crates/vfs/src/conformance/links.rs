//! Hard and symbolic links.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::{FileType, SetAttr, Status};

checks! {
    hard_links_are_one_object,
    directories_have_no_hard_links,
    symbolic_links_keep_their_target,
    symbolic_links_are_not_followed,
}

fn hard_links_are_one_object(fixture: &Fixture) {
    let root = fixture.root();
    let file = fixture.file("f");
    fixture.write(&file, 0, b"one").unwrap();
    let (attr, change) =
        fixture.backend.link(&fixture.cx(), &file, &root, entry_name("g")).unwrap();
    assert_eq!((attr.nlink, attr.fileid), (2, fixture.attr(&file).fileid));
    assert!(change.after.is_some());
    let other = fixture.lookup(&root, "g").unwrap();
    assert_eq!(fixture.read(&other, 0, 9).unwrap().0, b"one");
    refused(fixture.backend.link(&fixture.cx(), &file, &root, entry_name("g")), Status::Exist);
    fixture.backend.remove(&fixture.cx(), &root, entry_name("f")).unwrap();
    assert_eq!(fixture.attr(&other).nlink, 1);
    assert_eq!(fixture.read(&other, 0, 9).unwrap().0, b"one");
}

fn directories_have_no_hard_links(fixture: &Fixture) {
    let dir = fixture.dir("d");
    refused(
        fixture.backend.link(&fixture.cx(), &dir, &fixture.root(), entry_name("e")),
        Status::Perm,
    );
}

fn symbolic_links_keep_their_target(fixture: &Fixture) {
    let root = fixture.root();
    let long = "x".repeat(1000);
    for (n, target) in ["f", "../../etc/passwd", "/", " \n\u{e9}", &long].iter().enumerate() {
        let name = n.to_string();
        let set = SetAttr::default();
        let made = fixture
            .backend
            .symlink(&fixture.cx(), &root, entry_name(&name), target.as_bytes(), &set)
            .unwrap();
        assert_eq!(made.node.unwrap().attr.ftype, FileType::Symlink);
        assert_eq!(made.node.unwrap().attr.size, target.len() as u64);
        let mut got = b"old".to_vec();
        fixture.backend.readlink(&fixture.cx(), &made.node.unwrap().fid, &mut got).unwrap();
        assert_eq!(got, target.as_bytes());
    }
    refused(
        fixture.backend.symlink(&fixture.cx(), &root, entry_name("0"), b"x", &SetAttr::default()),
        Status::Exist,
    );
    let file = fixture.file("f");
    refused(fixture.backend.readlink(&fixture.cx(), &file, &mut Vec::new()), Status::Inval);
}

fn symbolic_links_are_not_followed(fixture: &Fixture) {
    let root = fixture.root();
    let dir = fixture.dir("d");
    fixture.file_in(&dir, "f");
    let set = SetAttr::default();
    let link = fixture
        .backend
        .symlink(&fixture.cx(), &root, entry_name("l"), b"d", &set)
        .unwrap()
        .node
        .unwrap()
        .fid;
    refused(fixture.lookup(&link, "f"), Status::NotDir);
    refused(fixture.list(&link, 0, 10, false), Status::NotDir);
    refused(fixture.read(&link, 0, 1), Status::Symlink);
    assert_eq!(fixture.lookup(&root, "l"), Ok(link));
    fixture.backend.remove(&fixture.cx(), &root, entry_name("l")).unwrap();
    assert_eq!(fixture.names(&dir), ["f"]);
}

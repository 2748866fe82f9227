//! Hard and symbolic links.

use super::bed::{Bed, refused, word};
use super::checks;
use crate::{FileType, SetAttr, Status};

checks! {
    hard_links_are_one_object,
    directories_have_no_hard_links,
    symbolic_links_keep_their_target,
    symbolic_links_are_not_followed,
}

fn hard_links_are_one_object(bed: &Bed) {
    let root = bed.root();
    let file = bed.file("f");
    bed.write(&file, 0, b"one").unwrap();
    let (attr, change) = bed.backend.link(&bed.cx(), &file, &root, word("g")).unwrap();
    assert_eq!((attr.nlink, attr.fileid), (2, bed.attr(&file).fileid));
    assert!(change.after.is_some());
    let other = bed.lookup(&root, "g").unwrap();
    assert_eq!(bed.read(&other, 0, 9).unwrap().0, b"one");
    refused(bed.backend.link(&bed.cx(), &file, &root, word("g")), Status::Exist);
    bed.backend.remove(&bed.cx(), &root, word("f")).unwrap();
    assert_eq!(bed.attr(&other).nlink, 1);
    assert_eq!(bed.read(&other, 0, 9).unwrap().0, b"one");
}

fn directories_have_no_hard_links(bed: &Bed) {
    let dir = bed.dir("d");
    refused(bed.backend.link(&bed.cx(), &dir, &bed.root(), word("e")), Status::Perm);
}

fn symbolic_links_keep_their_target(bed: &Bed) {
    let root = bed.root();
    let long = "x".repeat(1000);
    for (n, target) in ["f", "../../etc/passwd", "/", " \n\u{e9}", &long].iter().enumerate() {
        let name = n.to_string();
        let set = SetAttr::default();
        let made =
            bed.backend.symlink(&bed.cx(), &root, word(&name), target.as_bytes(), &set).unwrap();
        assert_eq!(made.node.unwrap().attr.ftype, FileType::Symlink);
        assert_eq!(made.node.unwrap().attr.size, target.len() as u64);
        let mut got = b"old".to_vec();
        bed.backend.readlink(&bed.cx(), &made.node.unwrap().fid, &mut got).unwrap();
        assert_eq!(got, target.as_bytes());
    }
    refused(
        bed.backend.symlink(&bed.cx(), &root, word("0"), b"x", &SetAttr::default()),
        Status::Exist,
    );
    let file = bed.file("f");
    refused(bed.backend.readlink(&bed.cx(), &file, &mut Vec::new()), Status::Inval);
}

fn symbolic_links_are_not_followed(bed: &Bed) {
    let root = bed.root();
    let dir = bed.dir("d");
    bed.file_in(&dir, "f");
    let set = SetAttr::default();
    let link =
        bed.backend.symlink(&bed.cx(), &root, word("l"), b"d", &set).unwrap().node.unwrap().fid;
    refused(bed.lookup(&link, "f"), Status::NotDir);
    refused(bed.list(&link, 0, 10, false), Status::NotDir);
    refused(bed.read(&link, 0, 1), Status::Symlink);
    assert_eq!(bed.lookup(&root, "l"), Ok(link));
    bed.backend.remove(&bed.cx(), &root, word("l")).unwrap();
    assert_eq!(bed.names(&dir), ["f"]);
}

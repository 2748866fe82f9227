//! The whole way of a hot call, from the record to the reply, over a Linux directory: nothing is
//! allocated once objects are open and the reply's buffer has grown.

use crate::support::dispatched::Dispatched;
use crate::support::{at, wire};
use proto::nfs3::{
    AccessArgs, Bytes, ReadArgs, ReaddirplusArgs, StableHow, WriteArgs, procedure as p,
};
use std::sync::Arc;
use testing::{Missing, is_root, skip};
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use xdr::{Reader, Writer};

#[test]
fn the_hot_procedures_allocate_nothing_on_a_directory() {
    if !is_root() {
        skip(Missing::Root, "a server that finds files by handle");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![7; 65_536]).unwrap();
    for n in 0..50 {
        std::fs::write(dir.path().join(format!("entry{n}")), b"").unwrap();
    }
    let files = Arc::new(OpenFiles::new(4096));
    let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
    let server = Dispatched::over(Arc::new(local));
    let found = server.call(p::LOOKUP, &wire(&at(&server.root, b"file")));
    let mut r = Reader::new(&found[24..]);
    assert_eq!(r.u32().unwrap(), 0);
    let handle = r.opaque(64).unwrap().to_vec();
    let (file, root) = (Bytes(handle.as_slice()), Bytes(server.root.as_slice()));
    let stable = StableHow::Unstable;
    let list =
        ReaddirplusArgs { dir: root, cookie: 0, verf: [0; 8], dircount: 8192, maxcount: 8192 };
    let calls = [
        ("GETATTR", p::GETATTR, wire(&file)),
        ("LOOKUP", p::LOOKUP, wire(&at(&server.root, b"file"))),
        ("LOOKUP of nothing", p::LOOKUP, wire(&at(&server.root, b"missing"))),
        ("ACCESS", p::ACCESS, wire(&AccessArgs { object: file, access: 0x3f })),
        ("READ 4 KiB", p::READ, wire(&ReadArgs { file, offset: 4096, count: 4096 })),
        ("READ 64 KiB", p::READ, wire(&ReadArgs { file, offset: 0, count: 65_536 })),
        ("WRITE", p::WRITE, wire(&WriteArgs { file, offset: 0, stable, data: Bytes(&[1; 4096]) })),
        ("READDIRPLUS", p::READDIRPLUS, wire(&list)),
    ];
    // the ACL of what has just changed is asked for again and again
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut reply = Writer::new();
    for (name, procedure, args) in &calls {
        let record = server.record(*procedure, args);
        for _ in 0..2 {
            server.answer(&record, &mut reply);
            reply.clear();
        }
        let counted = allocation_counter::measure(|| {
            for _ in 0..100 {
                server.answer(&record, &mut reply);
                reply.clear();
            }
        });
        assert_eq!(counted.count_total, 0, "{name}");
    }
}

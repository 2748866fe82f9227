//! Version 2 over a real file system in memory.

use crate::support::{TestServer, exports};
use bowline_nfs::v2::handle;
use proto::nfs2::{
    AttrStat, CreateArgs2, DirOpArgs2, DirOpOk2, Fattr2, Fh2, FileType2, KEEP, LinkArgs2, Nfsstat2,
    Path2, ReadArgs2, ReadOk2, ReaddirArgs2, ReaddirOk2, RenameArgs2, Res2, Sattr2, SetattrArgs2,
    StatfsOk2, SymlinkArgs2, WriteArgs2, procedure as p,
};
use proto::nfs3::{self, Bytes, MadeOk, NoBody, Sattr3, SymlinkArgs, WccData};
use std::collections::BTreeSet;

fn server() -> (TestServer, Fh2) {
    let server = TestServer::new(exports::of(&[("/mem", exports::mem(), exports::RW)]));
    let root = handle::short_handle(&server.root());
    (server, root)
}

fn at(dir: Fh2, name: &[u8]) -> DirOpArgs2<'_> {
    DirOpArgs2 { dir, name: Bytes(name) }
}

fn mode(mode: u32) -> Sattr2 {
    Sattr2 { mode, ..Sattr2::default() }
}

fn ok<T>(result: Res2<T>) -> T {
    match result {
        Res2::Ok(ok) => ok,
        Res2::Fail(status) => panic!("{status:?}"),
    }
}

fn create(server: &TestServer, dir: Fh2, name: &[u8], set: Sattr2) -> DirOpOk2 {
    ok(server.v2(p::CREATE, &CreateArgs2 { place: at(dir, name), set }))
}

#[test]
fn written_data_is_read_back() {
    let (server, root) = server();
    let made = create(&server, root, b"f", mode(0o100_640));
    assert_eq!((made.attr.ftype, made.attr.mode), (FileType2::Reg, 0o100_640));
    let file = made.file;
    let data = Bytes(b"hello".as_slice());
    let args = WriteArgs2 { file, beginoffset: 0, offset: 3, totalcount: 0, data };
    assert_eq!(ok(server.v2::<AttrStat>(p::WRITE, &args)).size, 8);
    let args = ReadArgs2 { file, offset: 0, count: 8192, totalcount: 0 };
    let read: Res2<ReadOk2<'_>> = server.v2(p::READ, &args);
    assert_eq!(ok(read).data.0, b"\0\0\0hello");
    let found: Res2<DirOpOk2> = server.v2(p::LOOKUP, &at(root, b"f"));
    assert_eq!(ok(found).file, file);
    // CREATE of what is there cuts it, as the size says.
    let again = create(&server, root, b"f", Sattr2 { size: 0, ..mode(0o640) });
    assert_eq!((again.file, again.attr.size), (file, 0));
}

#[test]
fn attributes_are_set_one_by_one() {
    let (server, root) = server();
    let file = create(&server, root, b"f", mode(0o600)).file;
    let set =
        |set| -> Fattr2 { ok(server.v2::<AttrStat>(p::SETATTR, &SetattrArgs2 { file, set })) };
    assert_eq!(set(mode(0o444)).mode, 0o100_444);
    let grown = set(Sattr2 { size: 4000, ..Sattr2::default() });
    assert_eq!((grown.size, grown.mode), (4000, 0o100_444));
    let mtime = proto::nfs2::Timeval { seconds: 5, useconds: 6 };
    assert_eq!(set(Sattr2 { mtime, ..Sattr2::default() }).mtime, mtime);
    let stat: Res2<StatfsOk2> = server.v2(p::STATFS, &root);
    assert_eq!(ok(stat).tsize, 8192);
}

#[test]
fn a_file_over_4_gib_shows_the_largest_32_bit_size() {
    let (server, root) = server();
    let file = create(&server, root, b"f", mode(0o600)).file;
    let long = server.nfs().v2.aliases.resolve(&server.nfs().exports, &file).unwrap();
    let set = proto::nfs3::Sattr3 { size: Some(1 << 33), ..Default::default() };
    let args = proto::nfs3::SetattrArgs { object: Bytes(long.bytes()), set, guard: None };
    let grown: proto::nfs3::Res<proto::nfs3::WccData, proto::nfs3::WccData> =
        server.v3(proto::nfs3::procedure::SETATTR, &args);
    assert!(grown.into_result().is_ok());
    assert_eq!(ok(server.v2::<AttrStat>(p::GETATTR, &file)).size, u32::MAX);
}

#[test]
fn entries_are_created_removed_and_renamed() {
    let (server, root) = server();
    let file = create(&server, root, b"f", mode(0o600)).file;
    let dir: Res2<DirOpOk2> =
        server.v2(p::MKDIR, &CreateArgs2 { place: at(root, b"d"), set: mode(0o755) });
    let dir = ok(dir).file;
    let done = |procedure, args: &dyn xdr::Encode| {
        let mut w = xdr::Writer::new();
        args.encode(&mut w);
        crate::support::decoded::<Res2<NoBody>>(
            server.try_call(2, procedure, w.bytes()).unwrap().bytes,
        )
    };
    let nothing = Res2::Ok(NoBody);
    assert_eq!(done(p::LINK, &LinkArgs2 { file, to: at(dir, b"g") }), nothing);
    let target = Bytes(b"target".as_slice());
    let args = SymlinkArgs2 { place: at(root, b"l"), target, set: mode(0o777) };
    assert_eq!(done(p::SYMLINK, &args), nothing);
    let link = ok(server.v2::<Res2<DirOpOk2>>(p::LOOKUP, &at(root, b"l")));
    assert_eq!(link.attr.ftype, FileType2::Lnk);
    assert_eq!(ok(server.v2::<Res2<Path2<'_>>>(p::READLINK, &link.file)).0, b"target");
    assert_eq!(done(p::RMDIR, &at(root, b"d")), Res2::Fail(Nfsstat2::NotEmpty));
    let args = RenameArgs2 { from: at(dir, b"g"), to: at(root, b"h") };
    assert_eq!(done(p::RENAME, &args), nothing);
    assert_eq!(done(p::RMDIR, &at(root, b"d")), nothing);
    assert_eq!(done(p::REMOVE, &at(root, b"f")), nothing);
    assert_eq!(done(p::REMOVE, &at(root, b"h")), nothing);
    assert_eq!(server.v2::<AttrStat>(p::GETATTR, &file), Res2::Fail(Nfsstat2::Stale));
    let fifo = create(&server, root, b"p", Sattr2 { size: KEEP, ..mode(0o020_600) });
    assert_eq!((fifo.attr.ftype, fifo.attr.mode), (FileType2::Chr, 0o010_600));
}

#[test]
fn a_large_directory_is_listed_once() {
    let (server, root) = server();
    let mut expected = BTreeSet::from([b".".to_vec(), b"..".to_vec()]);
    for n in 0..300 {
        let name = format!("file {n}").into_bytes();
        create(&server, root, &name, mode(0o600));
        expected.insert(name);
    }
    for count in [64, 1000, 8192] {
        let mut seen = BTreeSet::new();
        let mut cookie = 0;
        loop {
            let args = ReaddirArgs2 { dir: root, cookie, count };
            let list: ReaddirOk2<'_> = ok(server.v2(p::READDIR, &args));
            for entry in &list.entries {
                assert!(seen.insert(entry.name.0.to_vec()), "twice: {entry:?}");
                cookie = entry.cookie;
            }
            if list.eof {
                break;
            }
        }
        assert_eq!(seen, expected, "{count}");
    }
}

#[test]
fn link_targets_longer_than_version_2_allows_are_errors() {
    let (server, root) = server();
    let make = |name, target: &[u8]| {
        let args = SymlinkArgs2 { place: at(root, name), target: Bytes(target), set: mode(0o777) };
        server.v2::<Res2<NoBody>>(p::SYMLINK, &args)
    };
    let read = |name| {
        let link = ok(server.v2::<Res2<DirOpOk2>>(p::LOOKUP, &at(root, name))).file;
        server.v2::<Res2<Path2<'_>>>(p::READLINK, &link)
    };
    assert_eq!(make(b"a", &[b'x'; 1024]), Res2::Ok(NoBody));
    assert_eq!(ok(read(b"a")).0.len(), 1024);
    assert_eq!(make(b"b", &[b'x'; 1025]), Res2::Fail(Nfsstat2::NameTooLong));
    // made by version 3, which has longer ones
    let (dir, set) = (server.root(), Sattr3::default());
    let place = crate::support::at(&dir, b"c");
    let args = SymlinkArgs { place, set, target: Bytes(&[b'x'; 1025]) };
    let made: nfs3::Res<MadeOk<'_>, WccData> = server.v3(nfs3::procedure::SYMLINK, &args);
    made.into_result().unwrap();
    assert!(matches!(read(b"c"), Res2::Fail(Nfsstat2::NameTooLong)));
}

//! What version 2 puts on the wire, and how it lives with short handles and cookies.

use crate::support::fixed::Fixed;
use crate::support::{TestServer, exports, wire};
use bowline_nfs::v2::handle;
use proto::nfs2::{
    AttrStat, CreateArgs2, DirOpArgs2, DirOpOk2, Fh2, KEEP, LinkArgs2, Nfsstat2, ReadArgs2,
    ReadOk2, ReaddirArgs2, ReaddirOk2, RenameArgs2, Res2, Sattr2, SetattrArgs2, StatfsOk2,
    SymlinkArgs2, WriteArgs2, procedure as p,
};
use proto::nfs3::{Bytes, NoBody};
use rpc::Fault;
use std::sync::Arc;
use xdr::Encode;

fn server(long: bool) -> TestServer {
    TestServer::new(exports::of(&[("/fixed", Arc::new(Fixed { long }), exports::RW)]))
}

fn root(server: &TestServer) -> Fh2 {
    handle::short_handle(&server.root())
}

fn at(dir: Fh2, name: &[u8]) -> DirOpArgs2<'_> {
    DirOpArgs2 { dir, name: Bytes(name) }
}

fn file(server: &TestServer) -> Fh2 {
    match server.v2::<Res2<DirOpOk2>>(p::LOOKUP, &at(root(server), b"file")) {
        Res2::Ok(found) => found.file,
        Res2::Fail(status) => panic!("{status:?}"),
    }
}

/// Status and `fattr` of the fixed file.
fn file_attr() -> Vec<u8> {
    let words = [0, 1, 0o100_644, 1, 1000, 100, 12, 4096, 0, 8, 0x55, 2, 1, 0, 3, 0, 5, 0u32];
    words.map(u32::to_be_bytes).concat()
}

#[test]
fn getattr_is_status_and_attributes() {
    let server = server(false);
    assert_eq!(server.try_call(2, p::GETATTR, &file(&server)).unwrap().bytes, file_attr());
}

#[test]
fn read_is_limited_to_8_kib() {
    let server = server(false);
    let args = ReadArgs2 { file: file(&server), offset: 7, count: 1 << 20, totalcount: 0 };
    let reply = server.try_call(2, p::READ, &wire(&args)).unwrap();
    assert_eq!(reply.bytes, [file_attr(), b"\0\0\0\x05world\0\0\0".to_vec()].concat());
    assert_eq!(reply.outcome.bytes_read, 5);
    let args = ReadArgs2 { file: root(&server), ..args };
    let read: Res2<ReadOk2<'_>> = server.v2(p::READ, &args);
    assert_eq!(read, Res2::Fail(Nfsstat2::IsDir));
}

#[test]
fn write_answers_with_attributes() {
    let server = server(false);
    let data = Bytes(b"abc".as_slice());
    let args = WriteArgs2 { file: file(&server), beginoffset: 9, offset: 0, totalcount: 9, data };
    let reply = server.try_call(2, p::WRITE, &wire(&args)).unwrap();
    assert_eq!((reply.bytes, reply.outcome.bytes_written), (file_attr(), 3));
    let mut long = wire(&args.file);
    long.extend([0; 12]);
    let mut data = xdr::Writer::new();
    data.opaque(&[0; 8193]);
    long.extend(data.bytes());
    assert!(matches!(server.try_call(2, p::WRITE, &long), Err(Fault::GarbageArgs(_))));
}

#[test]
fn long_handles_have_aliases() {
    let server = server(true);
    let (root, file) = (root(&server), file(&server));
    assert!(server.root().len() > 32);
    let found: AttrStat = server.v2(p::GETATTR, &file);
    assert!(matches!(found, Res2::Ok(attr) if attr.fileid == 2));
    // The root is known without having been looked up, also after a restart.
    let found: AttrStat = server.v2(p::GETATTR, &root);
    assert!(matches!(found, Res2::Ok(attr) if attr.fileid == 1));
    let restarted = server.restarted();
    let found: AttrStat = restarted.v2(p::GETATTR, &root);
    assert!(matches!(found, Res2::Ok(_)));
    let lost: AttrStat = restarted.v2(p::GETATTR, &file);
    assert_eq!(lost, Res2::Fail(Nfsstat2::Stale));
    assert_eq!(self::file(&restarted), file);
    let found: AttrStat = restarted.v2(p::GETATTR, &file);
    assert!(matches!(found, Res2::Ok(_)));
}

#[test]
fn unknown_version_2_handles_are_stale() {
    let server = server(false);
    let mut bad = file(&server);
    bad[6] ^= 1;
    for handle in [[0; 32], [0xff; 32], [200; 32], bad] {
        let found: AttrStat = server.v2(p::GETATTR, &handle);
        assert_eq!(found, Res2::Fail(Nfsstat2::Stale));
    }
}

#[test]
fn readdir_continues_after_every_cookie() {
    let server = server(false);
    let list = |server: &TestServer, cookie, count| -> Res2<ReaddirOk2<'_>> {
        server.v2(p::READDIR, &ReaddirArgs2 { dir: root(server), cookie, count })
    };
    let ok = |result: Res2<ReaddirOk2<'static>>| match result {
        Res2::Ok(list) => list,
        Res2::Fail(status) => panic!("{status:?}"),
    };
    let all = ok(list(&server, 0, 4096));
    assert_eq!((all.entries.len(), all.eof), (3, true));
    assert_eq!(wire(&all).len(), 3 * 20 + 8);
    let first = ok(list(&server, 0, 20 + 8));
    assert_eq!((first.entries.len(), first.eof), (1, false));
    assert_eq!(list(&server, 0, 27), Res2::Fail(Nfsstat2::Io));
    // With the table, and on a server that never gave the cookie out.
    for server in [&server, &server.restarted()] {
        let rest = ok(list(server, first.entries[0].cookie, 4096));
        let names: Vec<&[u8]> = rest.entries.iter().map(|e| e.name.0).collect();
        assert_eq!((names, rest.eof), (vec![b"..".as_slice(), b"file"], true));
        let middle = ok(list(server, all.entries[1].cookie, 4096));
        assert_eq!(middle.entries.len(), 1);
    }
    assert_eq!(list(&server, 0x8000_0001, 4096), Res2::Fail(Nfsstat2::Io));
}

#[test]
fn failures_have_only_a_status() {
    let server = server(false);
    let (root, file) = (root(&server), file(&server));
    let place = at(root, b"new");
    let status = |procedure, args: &dyn Encode| {
        let mut w = xdr::Writer::new();
        args.encode(&mut w);
        let reply = server.try_call(2, procedure, w.bytes()).unwrap().bytes;
        let number = u32::from_be_bytes(reply.as_slice().try_into().unwrap());
        Nfsstat2::from_number(number).unwrap()
    };
    let set = Sattr2::default();
    assert_eq!(status(p::LOOKUP, &at(root, b"none")), Nfsstat2::NoEnt);
    assert_eq!(status(p::CREATE, &CreateArgs2 { place, set }), Nfsstat2::NoSpc);
    let fifo = Sattr2 { mode: 0o020_644, size: KEEP, ..set };
    assert_eq!(status(p::CREATE, &CreateArgs2 { place, set: fifo }), Nfsstat2::Perm);
    assert_eq!(status(p::MKDIR, &CreateArgs2 { place, set }), Nfsstat2::DQuot);
    let args = SymlinkArgs2 { place, target: Bytes(b"x"), set };
    assert_eq!(status(p::SYMLINK, &args), Nfsstat2::Io);
    assert_eq!(status(p::LINK, &LinkArgs2 { file, to: place }), Nfsstat2::Io);
    assert_eq!(status(p::REMOVE, &place), Nfsstat2::Acces);
    assert_eq!(status(p::RMDIR, &place), Nfsstat2::NotEmpty);
    assert_eq!(status(p::RENAME, &RenameArgs2 { from: place, to: place }), Nfsstat2::Io);
    assert_eq!(status(p::READLINK, &file), Nfsstat2::Io);
    assert_eq!(status(p::STATFS, &root), Nfsstat2::Io);
    let stat: Res2<StatfsOk2> = server.v2(p::STATFS, &file);
    assert_eq!(stat, Res2::Fail(Nfsstat2::Io));
}

#[test]
fn a_created_object_that_is_already_removed_is_looked_up_by_name() {
    for server in [server(false), server(true)] {
        let made = |name| -> Res2<DirOpOk2> {
            let place = at(root(&server), name);
            server.v2(p::MKDIR, &CreateArgs2 { place, set: Sattr2::default() })
        };
        let Res2::Ok(there) = made(b"file") else { panic!("it was made") };
        assert_eq!((there.file, there.attr.fileid), (file(&server), 2));
        assert_eq!(made(b"gone"), Res2::Fail(Nfsstat2::NoEnt));
    }
}

#[test]
fn jukebox_is_not_answered_in_version_2() {
    let server = server(false);
    let args = SetattrArgs2 { file: file(&server), set: Sattr2 { mode: 0, ..Sattr2::default() } };
    let result = server.try_call(2, p::SETATTR, &wire(&args));
    assert!(matches!(result, Err(Fault::NotNow)));
}

#[test]
fn root_and_writecache_return_void() {
    let server = server(false);
    for procedure in [p::NULL, p::ROOT, p::WRITECACHE] {
        assert!(server.try_call(2, procedure, &[]).unwrap().bytes.is_empty());
        assert!(server.try_call(2, procedure, &[0; 4]).unwrap().bytes.is_empty());
    }
    assert!(bowline_nfs::v2::decode_all_args(p::NULL, &[]).is_ok());
    let removed: Res2<NoBody> = server.v2(p::REMOVE, &at([0; 32], b"x"));
    assert_eq!(removed, Res2::Fail(Nfsstat2::Stale));
}

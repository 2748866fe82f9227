//! Version 3 over a real file system in memory: what is made is there, what is removed is gone.

use crate::support::{TestServer, at, exports};
use proto::nfs3::{
    Bytes, CreateArgs, CreateHow3, Fattr3, FileType3, LinkArgs, LinkRes, LookupOk, MadeOk,
    MkdirArgs, MknodArgs, MknodData3, Nfsstat3, NoBody, PostOpAttr, ReadArgs, ReadOk, ReaddirArgs,
    ReaddirOk, ReaddirplusArgs, ReaddirplusOk, ReadlinkOk, RenameArgs, RenameRes, Res, Sattr3,
    SetTime3, SetattrArgs, Specdata3, StableHow, SymlinkArgs, WccData, WriteArgs, WriteOk,
    procedure as p,
};
use std::collections::BTreeSet;

fn server() -> TestServer {
    TestServer::new(exports::of(&[("/mem", exports::mem(), exports::RW)]))
}

const MODE: Sattr3 = Sattr3 {
    mode: Some(0o640),
    uid: None,
    gid: None,
    size: None,
    atime: SetTime3::Keep,
    mtime: SetTime3::Keep,
};

type Made = Res<MadeOk<'static>, WccData>;

fn create(server: &TestServer, dir: &[u8], name: &[u8], how: CreateHow3) -> Made {
    server.v3(p::CREATE, &CreateArgs { place: at(dir, name), how })
}

fn handle(made: Made) -> Vec<u8> {
    made.into_result().unwrap().object.unwrap().0.to_vec()
}

fn file(server: &TestServer, name: &[u8]) -> Vec<u8> {
    handle(create(server, &server.root(), name, CreateHow3::Guarded(MODE)))
}

fn mkdir(server: &TestServer, dir: &[u8], name: &[u8]) -> Made {
    server.v3(p::MKDIR, &MkdirArgs { place: at(dir, name), set: MODE })
}

fn attr(server: &TestServer, handle: &[u8]) -> Result<Fattr3, Nfsstat3> {
    server.v3::<Res<Fattr3, NoBody>>(p::GETATTR, &Bytes::<64>(handle)).into_result()
}

fn lookup(server: &TestServer, dir: &[u8], name: &[u8]) -> Result<LookupOk<'static>, Nfsstat3> {
    server.v3::<Res<LookupOk<'_>, PostOpAttr>>(p::LOOKUP, &at(dir, name)).into_result()
}

fn write(server: &TestServer, file: &[u8], offset: u64, data: &[u8]) -> Result<WriteOk, Nfsstat3> {
    let stable = StableHow::FileSync;
    let args = WriteArgs { file: Bytes(file), offset, stable, data: Bytes(data) };
    server.v3::<Res<WriteOk, WccData>>(p::WRITE, &args).into_result()
}

fn read(server: &TestServer, file: &[u8], offset: u64, count: u32) -> ReadOk<'static> {
    let args = ReadArgs { file: Bytes(file), offset, count };
    server.v3::<Res<ReadOk<'_>, PostOpAttr>>(p::READ, &args).into_result().unwrap()
}

#[test]
fn written_data_is_read_back() {
    let server = server();
    let file = file(&server, b"f");
    let written = write(&server, &file, 3, b"hello").unwrap();
    assert_eq!((written.count, written.committed), (5, StableHow::FileSync));
    assert_eq!(written.file.after.unwrap().size, 8);
    let all = read(&server, &file, 0, 100);
    assert_eq!((all.data.0, all.eof, all.count), (b"\0\0\0hello".as_slice(), true, 8));
    assert_eq!(all.attr.unwrap().size, 8);
    assert!(!read(&server, &file, 0, 4).eof);
    let found = lookup(&server, &server.root(), b"f").unwrap();
    assert_eq!(found.object.0, file);
    assert_eq!((found.attr.unwrap().mode, found.attr.unwrap().ftype), (0o640, FileType3::Reg));
    assert_eq!(found.dir.unwrap().ftype, FileType3::Dir);
}

#[test]
fn create_is_unchecked_guarded_or_exclusive() {
    let server = server();
    let root = server.root();
    let first = file(&server, b"f");
    write(&server, &first, 0, b"data").unwrap();
    assert_eq!(create(&server, &root, b"f", CreateHow3::Guarded(MODE)).status(), Nfsstat3::Exist);
    let cut = Sattr3 { size: Some(0), ..MODE };
    assert_eq!(handle(create(&server, &root, b"f", CreateHow3::Unchecked(cut))), first);
    assert_eq!(attr(&server, &first).unwrap().size, 0);
    let exclusive = |verifier| create(&server, &root, b"x", CreateHow3::Exclusive(verifier));
    let second = handle(exclusive(*b"verifier"));
    assert_eq!(handle(exclusive(*b"verifier")), second);
    assert_eq!(exclusive(*b"another!").status(), Nfsstat3::Exist);
    let taken = create(&server, &root, b"f", CreateHow3::Exclusive(*b"verifier"));
    assert_eq!(taken.status(), Nfsstat3::Exist);
}

#[test]
fn setattr_with_a_wrong_guard_is_not_sync() {
    let server = server();
    let file = file(&server, b"f");
    let before = attr(&server, &file).unwrap();
    let set = Sattr3 { mode: Some(0o170_600), size: Some(10), ..Sattr3::default() };
    let setattr = |guard| -> Res<WccData, WccData> {
        server.v3(p::SETATTR, &SetattrArgs { object: Bytes(&file), set, guard })
    };
    let mut wrong = before.ctime;
    wrong.seconds ^= 1;
    assert_eq!(setattr(Some(wrong)).status(), Nfsstat3::NotSync);
    assert_eq!(attr(&server, &file).unwrap().size, 0);
    assert_eq!(setattr(Some(before.ctime)).status(), Nfsstat3::Ok);
    let after = attr(&server, &file).unwrap();
    assert_eq!((after.mode, after.size), (0o600, 10));
}

#[test]
fn every_kind_of_object_can_be_made() {
    let server = server();
    let root = server.root();
    let kind = |made: Made| {
        let made = made.into_result().unwrap();
        assert!(made.dir.after.is_some());
        made.attr.unwrap().ftype
    };
    assert_eq!(kind(mkdir(&server, &root, b"d")), FileType3::Dir);
    let args =
        SymlinkArgs { place: at(&root, b"l"), set: Sattr3::default(), target: Bytes(b"../x") };
    let link: Made = server.v3(p::SYMLINK, &args);
    assert_eq!(kind(link), FileType3::Lnk);
    let link = Bytes::<64>(link.into_result().unwrap().object.unwrap().0);
    let target: Res<ReadlinkOk<'_>, PostOpAttr> = server.v3(p::READLINK, &link);
    assert_eq!(target.into_result().unwrap().target.0, b"../x");
    let not: Res<ReadlinkOk<'_>, PostOpAttr> = server.v3(p::READLINK, &Bytes::<64>(&root));
    assert_eq!(not.status(), Nfsstat3::Inval);
    let rdev = Specdata3 { major: 1, minor: 3 };
    let special = [
        (MknodData3::Char(MODE, rdev), FileType3::Chr),
        (MknodData3::Block(MODE, rdev), FileType3::Blk),
        (MknodData3::Socket(MODE), FileType3::Sock),
        (MknodData3::Fifo(MODE), FileType3::Fifo),
    ];
    for (place, (what, expected)) in (b'0'..).zip(special) {
        let name = [place];
        let made: Made = server.v3(p::MKNOD, &MknodArgs { place: at(&root, &name), what });
        assert_eq!(kind(made), expected);
        if expected == FileType3::Chr {
            assert_eq!(made.into_result().unwrap().attr.unwrap().rdev, rdev);
        }
    }
    assert_eq!(mkdir(&server, &root, b"d").status(), Nfsstat3::Exist);
}

#[test]
fn entries_are_created_removed_and_renamed() {
    let server = server();
    let root = server.root();
    let file = file(&server, b"f");
    let dir = handle(mkdir(&server, &root, b"d"));
    let linked: Res<LinkRes, LinkRes> =
        server.v3(p::LINK, &LinkArgs { file: Bytes(&file), link: at(&dir, b"g") });
    assert_eq!(linked.into_result().unwrap().attr.unwrap().nlink, 2);
    let rmdir = |name| server.v3::<Res<WccData, WccData>>(p::RMDIR, &at(&root, name)).status();
    let remove = |dir: &[u8], name: &[u8]| {
        server.v3::<Res<WccData, WccData>>(p::REMOVE, &at(dir, name)).status()
    };
    assert_eq!(rmdir(b"d"), Nfsstat3::NotEmpty);
    assert_eq!(rmdir(b"f"), Nfsstat3::NotDir);
    assert_eq!(remove(&root, b"d"), Nfsstat3::IsDir);
    assert_eq!(remove(&root, b"f"), Nfsstat3::Ok);
    assert_eq!(remove(&root, b"f"), Nfsstat3::NoEnt);
    let args = RenameArgs { from: at(&dir, b"g"), to: at(&root, b"h") };
    let renamed: Res<RenameRes, RenameRes> = server.v3(p::RENAME, &args);
    let renamed = renamed.into_result().unwrap();
    assert!(renamed.from.after.is_some() && renamed.to.after.is_some());
    assert_eq!(lookup(&server, &root, b"h").unwrap().object.0, file);
    assert_eq!(rmdir(b"d"), Nfsstat3::Ok);
    assert_eq!(attr(&server, &dir), Err(Nfsstat3::Stale));
    assert_eq!(remove(&root, b"h"), Nfsstat3::Ok);
    assert_eq!(attr(&server, &file), Err(Nfsstat3::Stale));
    assert_eq!(lookup(&server, &root, b"..").unwrap().object.0, root);
}

#[test]
fn a_large_directory_is_listed_once_with_every_count() {
    let server = server();
    let root = server.root();
    let mut expected = BTreeSet::from([b".".to_vec(), b"..".to_vec()]);
    for n in 0..300 {
        let name = format!("a file with a name of some length {n}").into_bytes();
        file(&server, &name);
        expected.insert(name);
    }
    for count in [200, 512, 4096, 65_536] {
        assert_eq!(plain(&server, &root, count), expected, "{count}");
    }
    assert_eq!(plus(&server, &root), expected);
}

fn plain(server: &TestServer, dir: &[u8], count: u32) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    let mut cookie = 0;
    loop {
        let args = ReaddirArgs { dir: Bytes(dir), cookie, verf: [0; 8], count };
        let list: Res<ReaddirOk<'_>, PostOpAttr> = server.v3(p::READDIR, &args);
        let list = list.into_result().unwrap();
        for entry in &list.entries {
            assert!(seen.insert(entry.name.0.to_vec()), "twice: {entry:?}");
            cookie = entry.cookie;
        }
        if list.eof {
            return seen;
        }
    }
}

fn plus(server: &TestServer, dir: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    let mut cookie = 0;
    loop {
        let (dircount, maxcount) = (1024, 8192);
        let dir = Bytes(dir);
        let args = ReaddirplusArgs { dir, cookie, verf: [0; 8], dircount, maxcount };
        let list: Res<ReaddirplusOk<'_>, PostOpAttr> = server.v3(p::READDIRPLUS, &args);
        let list = list.into_result().unwrap();
        for entry in &list.entries {
            assert!(seen.insert(entry.name.0.to_vec()), "twice: {entry:?}");
            cookie = entry.cookie;
            if entry.name.0.len() > 2 {
                let found = lookup(server, dir.0, entry.name.0).unwrap();
                assert_eq!(entry.handle, Some(found.object));
                assert_eq!(entry.attr.unwrap().fileid, entry.fileid);
            }
        }
        if list.eof {
            return seen;
        }
    }
}

#[test]
fn permissions_depend_on_the_caller() {
    let mut server = server();
    let file = file(&server, b"f");
    server.uid = 1234;
    let args = ReadArgs { file: Bytes(&file), offset: 0, count: 1 };
    let read: Res<ReadOk<'_>, PostOpAttr> = server.v3(p::READ, &args);
    assert!(matches!(read, Res::Fail(Nfsstat3::Acces, Some(_))));
    assert_eq!(write(&server, &file, 0, b"x"), Err(Nfsstat3::Acces));
}

//! What a disk that is full, over quota, read-only, dying or gone says reaches the client as the
//! right status of its version, from every operation, and never as a failure of RPC.

use crate::support::{TestServer, at, exports, wire};
use proto::nfs3::{
    Bytes, CreateArgs, CreateHow3, LinkArgs, MkdirArgs, MknodArgs, MknodData3, Nfsstat3, ReadArgs,
    ReaddirArgs, RenameArgs, Sattr3, SetTime3, SetattrArgs, StableHow, SymlinkArgs, WriteArgs,
    procedure as p,
};
use std::sync::{Arc, Mutex};
use vfs::Status;
use vfs_mem::{Fault, FaultyFs, MemFs, MemOptions, Operation};
use xdr::{Encode, Reader, Writer};

const SET: Sattr3 = Sattr3 {
    mode: Some(0o640),
    uid: None,
    gid: None,
    size: None,
    atime: SetTime3::Keep,
    mtime: SetTime3::Keep,
};

/// A server over a backend whose fault can be set.
fn server() -> (TestServer, Arc<Mutex<Fault>>) {
    let backend = FaultyFs::new(MemFs::new(MemOptions::default()));
    let fault = backend.fault();
    (TestServer::new(exports::of(&[("/mem", Arc::new(backend), exports::RW)])), fault)
}

/// The first word of a version 3 result: its status.
fn status(server: &TestServer, procedure: u32, args: &[u8]) -> u32 {
    let mut reply = Writer::new();
    server.run(3, procedure, args, &mut reply).unwrap();
    Reader::new(reply.bytes()).u32().unwrap()
}

/// A call of every operation of the backend, on a directory `dir` and a file `file`.
fn calls(dir: &[u8], file: &[u8]) -> Vec<(Operation, u32, Vec<u8>)> {
    let place = || at(dir, b"new");
    let (read, list) = (
        ReadArgs { file: Bytes(file), offset: 0, count: 10 },
        ReaddirArgs { dir: Bytes(dir), cookie: 0, verf: [0; 8], count: 4096 },
    );
    let data = Bytes(b"data".as_slice());
    let write = WriteArgs { file: Bytes(file), offset: 0, stable: StableHow::Unstable, data };
    let how = CreateHow3::Guarded(SET);
    let set = SetattrArgs { object: Bytes(file), set: SET, guard: None };
    fn row(operation: Operation, procedure: u32, args: &impl Encode) -> (Operation, u32, Vec<u8>) {
        (operation, procedure, wire(args))
    }
    vec![
        row(Operation::Getattr, p::GETATTR, &Bytes::<64>(file)),
        row(Operation::Setattr, p::SETATTR, &set),
        row(Operation::Lookup, p::LOOKUP, &at(dir, b"f")),
        row(Operation::Read, p::READ, &read),
        row(Operation::Write, p::WRITE, &write),
        row(Operation::Create, p::CREATE, &CreateArgs { place: place(), how }),
        row(Operation::Mkdir, p::MKDIR, &MkdirArgs { place: place(), set: SET }),
        row(
            Operation::Symlink,
            p::SYMLINK,
            &SymlinkArgs { place: place(), set: SET, target: Bytes(b"to".as_slice()) },
        ),
        row(Operation::Mknod, p::MKNOD, &MknodArgs { place: place(), what: MknodData3::Fifo(SET) }),
        row(Operation::Remove, p::REMOVE, &at(dir, b"f")),
        row(Operation::Rmdir, p::RMDIR, &at(dir, b"f")),
        row(Operation::Rename, p::RENAME, &RenameArgs { from: at(dir, b"f"), to: place() }),
        row(Operation::Link, p::LINK, &LinkArgs { file: Bytes(file), link: place() }),
        row(Operation::Readdir, p::READDIR, &list),
        row(Operation::Statfs, p::FSSTAT, &Bytes::<64>(dir)),
    ]
}

#[test]
fn errors_of_the_disk_reach_the_client() {
    let (server, fault) = server();
    let dir = server.root();
    let place = at(&dir, b"f");
    let how = CreateHow3::Guarded(SET);
    let mut reply = Writer::new();
    server.run(3, p::CREATE, &wire(&CreateArgs { place, how }), &mut reply).unwrap();
    let file = crate::support::decoded::<
        proto::nfs3::Res<proto::nfs3::MadeOk<'_>, proto::nfs3::WccData>,
    >(reply.bytes().to_vec());
    let file = file.into_result().unwrap().object.unwrap().0.to_vec();
    let cases = [
        (Status::Io, Nfsstat3::Io),
        (Status::NoSpc, Nfsstat3::NoSpc),
        (Status::DQuot, Nfsstat3::DQuot),
        (Status::RoFs, Nfsstat3::RoFs),
        (Status::Stale, Nfsstat3::Stale),
        (Status::Jukebox, Nfsstat3::Jukebox),
        (Status::ServerFault, Nfsstat3::ServerFault),
    ];
    for (said, heard) in cases {
        for (operation, procedure, args) in calls(&dir, &file) {
            let only = Fault { operation: Some(operation), status: Some(said), ..Fault::default() };
            *fault.lock().unwrap() = only;
            assert_eq!(status(&server, procedure, &args), heard as u32, "{operation:?} {said:?}");
        }
    }
}

#[test]
fn every_procedure_answers_when_the_backend_fails_every_call() {
    let (server, fault) = server();
    let dir = server.root();
    *fault.lock().unwrap() = Fault { status: Some(Status::Io), ..Fault::default() };
    for (operation, procedure, args) in calls(&dir, &dir) {
        assert_eq!(status(&server, procedure, &args), Nfsstat3::Io as u32, "{operation:?}");
    }
    *fault.lock().unwrap() = Fault::default();
    assert_eq!(status(&server, p::GETATTR, &wire(&Bytes::<64>(&dir))), 0);
}

//! A GETATTR behind an operation that has fetched the attributes does not ask the file system again; where that would be
//! wrong it does. Whether it asks is told by a back end whose GETATTR fails.

use super::{Client, fattr, oper, plain};
use crate::support::{TestServer, exports};
use proto::layout::Bytes;
use proto::nfs4::{
    AccessArgs, Bitmap4, CommitArgs, CreateArgs, CreateType4, Createhow4, Fattr4, GetattrArgs,
    Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, SetattrArgs, StableHow4, Stateid4,
    WriteArgs, attr, op,
};
use std::sync::{Arc, Mutex};
use vfs::Status;
use vfs_mem::{Fault, FaultyFs, MemFs, MemOptions, Operation};

struct Fixture {
    client: Client,
    fault: Arc<Mutex<Fault>>,
    file: Vec<u8>,
    stateid: Stateid4,
}

fn getattr(number: u32) -> Vec<u8> {
    oper(op::GETATTR, &GetattrArgs { attrs: Bitmap4::of(&[number]) })
}

fn open(access: u32, deny: u32, owner: &[u8], how: OpenHow4<'_>) -> Vec<u8> {
    let args = OpenArgs {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: OpenOwner4 { clientid: 0, owner: Bytes(owner) },
        how,
        claim: OpenClaim4::Null(Bytes(b"f")),
    };
    oper(op::OPEN, &args)
}

impl Fixture {
    fn new() -> Self {
        let backend = FaultyFs::new(MemFs::new(MemOptions::default()));
        let fault = backend.fault();
        let server = TestServer::new(exports::of(&[("/e", Arc::new(backend), exports::RW)]));
        let client = Client::over(server);
        let (file, stateid) = client.create(b"f");
        assert_eq!(client.write(&file, stateid, b"some"), Nfsstat4::Ok);
        Self { client, fault, file, stateid }
    }

    /// What comes of these operations while the file system does not answer GETATTR.
    fn without_getattr(&self, operations: &[Vec<u8>]) -> Nfsstat4 {
        *self.fault.lock().unwrap() = Fault {
            operation: Some(Operation::Getattr),
            status: Some(Status::Io),
            ..Fault::default()
        };
        let done = self.client.call(operations).status;
        *self.fault.lock().unwrap() = Fault::default();
        done
    }

    fn at_file(&self, operations: &[Vec<u8>]) -> Nfsstat4 {
        self.without_getattr(&[&[self.client.putfh(&self.file)], operations].concat())
    }

    fn at_root(&self, operations: &[Vec<u8>]) -> Nfsstat4 {
        let root = self.client.putfh(&self.client.server.root());
        self.without_getattr(&[&[root], operations].concat())
    }
}

fn access() -> Vec<u8> {
    oper(op::ACCESS, &AccessArgs { access: 0x3f })
}

fn lookup() -> Vec<u8> {
    oper(op::LOOKUP, &Bytes::<255>(b"f"))
}

#[test]
fn attributes_that_were_just_fetched_are_not_fetched_again() {
    let f = Fixture::new();
    let size = || getattr(attr::SIZE);
    assert_eq!(f.at_file(&[size()]), Nfsstat4::Io, "this one asks");
    assert_eq!(f.at_file(&[access(), size()]), Nfsstat4::Ok);
    assert_eq!(
        f.at_file(&[access(), plain(op::GETFH), size(), getattr(attr::CHANGE)]),
        Nfsstat4::Ok
    );
    assert_eq!(f.at_root(&[lookup(), plain(op::GETFH), size()]), Nfsstat4::Ok);
    assert_eq!(f.at_root(&[open(1, 0, b"owner", OpenHow4::NoCreate), size()]), Nfsstat4::Ok);
    let (stateid, stable) = (f.stateid, StableHow4::Unstable);
    let write = WriteArgs {
        stateid: Stateid4 { seqid: 0, ..stateid },
        offset: 0,
        stable,
        data: Bytes(b"1"),
    };
    assert_eq!(f.at_file(&[oper(op::WRITE, &write), size()]), Nfsstat4::Ok);
    let commit = oper(op::COMMIT, &CommitArgs { offset: 0, count: 0 });
    assert_eq!(f.at_file(&[commit, size()]), Nfsstat4::Ok);
    let attrs = fattr(&[attr::MODE], &[0, 0, 1, 0]);
    let set = oper(op::SETATTR, &SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs });
    assert_eq!(f.at_file(&[set, size()]), Nfsstat4::Ok);
    let attrs = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
    let make = CreateArgs { what: CreateType4::Dir, name: Bytes(b"d"), attrs };
    assert_eq!(f.at_root(&[oper(op::CREATE, &make), size()]), Nfsstat4::Ok);
}

#[test]
fn attributes_from_before_something_that_counts_are_fetched_again() {
    let f = Fixture::new();
    let size = || getattr(attr::SIZE);
    // another object
    let root = f.client.putfh(&f.client.server.root());
    assert_eq!(f.at_file(&[access(), root, size()]), Nfsstat4::Io);
    assert_eq!(f.at_file(&[access(), plain(op::SAVEFH), size()]), Nfsstat4::Io);
    // others are held back from now on
    let denies = open(1, 2, b"other", OpenHow4::NoCreate);
    assert_eq!(f.at_root(&[denies, size()]), Nfsstat4::ShareDenied, "it is open for writing");
    let close = oper(
        op::CLOSE,
        &proto::nfs4::CloseArgs { seqid: 0, stateid: Stateid4 { seqid: 0, ..f.stateid } },
    );
    assert_eq!(f.at_file(&[close]), Nfsstat4::Ok);
    let denies = open(1, 2, b"other", OpenHow4::NoCreate);
    assert_eq!(f.at_root(&[denies, size()]), Nfsstat4::Io);
    // what it was opened with was changed
    let f = Fixture::new();
    let cuts = OpenHow4::Create(Createhow4::Unchecked(fattr(&[attr::SIZE], &[0; 8])));
    assert_eq!(f.at_root(&[open(3, 0, b"owner", cuts), size()]), Nfsstat4::Io);
}

/// The bytes are those of a GETATTR by itself.
#[test]
fn attributes_that_are_used_again_are_those_of_the_object() {
    let f = Fixture::new();
    let attrs = || oper(op::GETATTR, &GetattrArgs { attrs: proto::nfs4::LINUX_GETATTR });
    let by_itself = f.client.call(&[f.client.putfh(&f.file), attrs()]);
    let own = by_itself.inside().rest()[8..].to_vec();
    for (at_root, before) in [(false, access()), (true, lookup())] {
        let found = match at_root {
            true => f.client.at_root(&[before, attrs()]),
            false => f.client.call(&[f.client.putfh(&f.file), before, attrs()]),
        };
        assert!(found.bytes().ends_with(&own), "{at_root}");
    }
}

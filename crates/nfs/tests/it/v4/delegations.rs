//! Changes without an open that meet a write delegation which was granted meanwhile, over files in memory.

use super::{Client, FORE, fattr, ok, oper, send};
use crate::support::{TestServer, at, decoded, exports, wire};
use export::Delegate;
use proto::layout::Bytes;
use proto::nfs3::{
    CommitArgs, CommitOk, CreateArgs, CreateHow3, Nfsstat3, ReadArgs as ReadArgs3, Res, Sattr3,
    WccData,
};
use proto::nfs4::{
    Bitmap4, CloseArgs, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, SetattrArgs,
    StableHow4, Stateid4, WriteArgs, attr, op,
};
use std::sync::{Arc, Mutex};
use vfs_mem::{Fault, FaultyFs, Gate, MemFs, MemOptions, Operation};

/// Procedures of version 3.
const READ3: u32 = 6;
const CREATE3: u32 = 8;
const COMMIT3: u32 = 21;
/// `OPEN_DELEGATE_WRITE`, and `OPEN4_SHARE_ACCESS_BOTH` with `_WANT_WRITE_DELEG`.
pub(super) const WRITE_DELEGATION: u32 = 2;
const WANT_WRITE: u32 = 0x203;

impl Client {
    /// Another client of the same server, which can be called back.
    pub(super) fn beside(&self, owner: &[u8]) -> Self {
        let client = Self::named(self.server.again(), owner, FORE);
        client.set_callbacks(true);
        client
    }

    /// The type of the delegation that it gets.
    pub(super) fn open_for_delegation(&self, file: &[u8]) -> u32 {
        let args = OpenArgs {
            seqid: 0,
            share_access: WANT_WRITE,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"holder") },
            how: OpenHow4::NoCreate,
            claim: OpenClaim4::Null(Bytes(file)),
        };
        let opened = self.at_root(&[oper(op::OPEN, &args)]);
        assert_eq!(opened.status, Nfsstat4::Ok);
        let mut r = opened.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::OPEN);
        r.opaque_fixed(16 + 24).unwrap();
        r.get::<Bitmap4>().unwrap();
        r.u32().unwrap()
    }
}

/// What a change is answered: of version 4, or of version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Four(Nfsstat4),
    Three(Nfsstat3),
}

type Change = fn(&TestServer, &[u8]) -> Answer;

fn decoded_status(reply: &[u8]) -> Nfsstat3 {
    decoded(reply[..4].to_vec())
}

/// Makes a change that is allowed before another client has the delegation, and is done afterwards; the answer.
fn overtaken(operation: Operation, change: Change) -> Answer {
    let disk = FaultyFs::new(MemFs::new(MemOptions::default()));
    let fault: Arc<Mutex<Fault>> = disk.fault();
    let server = TestServer::new(exports::of(&[("/e", Arc::new(disk), exports::RW)]));
    let client = Client::over(server);
    client.set_callbacks(true);
    let (handle, open) = client.create(b"file");
    assert_eq!(client.write(&handle, open, b"first"), Nfsstat4::Ok);
    let close = CloseArgs { seqid: 0, stateid: open };
    let closed = client.call(&[client.putfh(&handle), oper(op::CLOSE, &close)]);
    assert_eq!(closed.status, Nfsstat4::Ok);
    client.server.nfs().set_delegations(Delegate::Write);
    let gate: &'static Gate = Box::leak(Box::default());
    *fault.lock().unwrap() =
        Fault { operation: Some(operation), gate: Some(gate), ..Fault::default() };
    let other = client.server.again();
    let answer = std::thread::scope(|scope| {
        let (other, handle) = (&other, &handle);
        let changing = scope.spawn(move || change(other, handle));
        // nobody was in its way
        gate.await_call();
        assert_eq!(client.open_for_delegation(b"file"), WRITE_DELEGATION);
        gate.open();
        changing.join().unwrap()
    });
    let counts = client.server.nfs().delegation_counts();
    assert_eq!((counts.writing, counts.recalled), (1, 1));
    answer
}

#[test]
fn a_write_without_an_open_that_a_delegation_has_overtaken_recalls_it_and_is_made_again() {
    let answer = overtaken(Operation::Write, |server, handle| {
        let (stateid, data) = (Stateid4::ANONYMOUS, Bytes(&b"changed"[..]));
        let args = WriteArgs { stateid, offset: 0, stable: StableHow4::FileSync, data };
        let putfh = oper(op::PUTFH, &Bytes::<128>(handle));
        Answer::Four(send(server, 0, &[putfh, oper(op::WRITE, &args)]).status)
    });
    assert_eq!(answer, Answer::Four(Nfsstat4::Delay));
}

#[test]
fn a_size_that_a_delegation_has_overtaken_recalls_it() {
    let answer = overtaken(Operation::Setattr, |server, handle| {
        let attrs = fattr(&[attr::SIZE], &2_u64.to_be_bytes());
        let args = SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs };
        let putfh = oper(op::PUTFH, &Bytes::<128>(handle));
        Answer::Four(send(server, 0, &[putfh, oper(op::SETATTR, &args)]).status)
    });
    assert_eq!(answer, Answer::Four(Nfsstat4::Ok));
}

#[test]
fn a_create_of_version_3_that_a_delegation_has_overtaken_recalls_it() {
    let answer = overtaken(Operation::Create, |server, _| {
        let root = server.root();
        let set = Sattr3 { size: Some(0), ..Sattr3::default() };
        let args = CreateArgs { place: at(&root, b"file"), how: CreateHow3::Unchecked(set) };
        let reply = server.try_call(3, CREATE3, &wire(&args)).unwrap().bytes;
        Answer::Three(decoded_status(&reply))
    });
    assert_eq!(answer, Answer::Three(Nfsstat3::Ok));
}

/// An older size than version 3 was told before, by GETATTR which asks the holder, would be taken for news.
#[test]
fn failures_of_version_3_have_no_attributes_of_a_file_that_another_writes() {
    let server = TestServer::new(exports::of(&[(
        "/e",
        Arc::new(FaultyFs::new(MemFs::new(MemOptions::default()))),
        exports::RW,
    )]));
    let client = Client::over(server);
    client.set_callbacks(true);
    let (handle, open) = client.create(b"file");
    let close = CloseArgs { seqid: 0, stateid: open };
    client.call(&[client.putfh(&handle), oper(op::CLOSE, &close)]);
    client.server.nfs().set_delegations(Delegate::Write);
    let commit = CommitArgs { file: Bytes(&handle), offset: 0, count: 0 };
    let committed = |client: &Client| -> WccData {
        match client.server.v3::<Res<CommitOk, WccData>>(COMMIT3, &commit) {
            Res::Ok(done) => done.file,
            Res::Fail(status, _) => panic!("{status:?}"),
        }
    };
    assert!(committed(&client).after.is_some());
    assert_eq!(client.open_for_delegation(b"file"), WRITE_DELEGATION);
    assert!(committed(&client).after.is_none());
    let read = ReadArgs3 { file: Bytes(&handle), offset: 0, count: 5 };
    let reply = client.server.try_call(3, READ3, &wire(&read)).unwrap().bytes;
    // the status, and no attributes
    assert_eq!(reply, [10_008_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat());
}

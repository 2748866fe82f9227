//! Locks of version 4.1, in one table with those of NLM and of local programs.

use super::local::{ALL, FIRST_TEN, local};
use super::rig::{A, Owner, Rig, file_in_memory, try_args};
use crate::support::Awake;
use bowline_nfs::nfs_program;
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloseArgs, CompoundHead, ExchangeIdArgs, FreeStateidArgs, LockArgs, LockDenied,
    LockOwner4, LockType4, Locker4, LocktArgs, LockuArgs, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4,
    OpenOwner4, SequenceArgs, StateProtectHow, Stateid4, op,
};
use proto::nlm::Status;
use rpc::{AuthSys, Call, Credential, Peer, Program, Transport};
use state::Limits;
use state::v4::V4Limits;
use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::Arc;
use sys::ofd_lock::{self, LockType};
use xdr::{Encode, Reader, Writer};

pub(super) fn oper(number: u32, args: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(number);
    w.put(args);
    w.bytes().to_vec()
}

/// Runs a COMPOUND; its status and, if it is none of success, the last operation's, and the results.
pub(super) fn compound(rig: &Rig, operations: &[Vec<u8>]) -> (Nfsstat4, Vec<u8>) {
    compound_of(1, rig, operations)
}

/// The same of a minor version.
pub(super) fn compound_of(minor: u32, rig: &Rig, operations: &[Vec<u8>]) -> (Nfsstat4, Vec<u8>) {
    let mut w = Writer::new();
    let count = u32::try_from(operations.len()).unwrap();
    w.put(&CompoundHead { tag: b"", minor, count });
    w.raw(&operations.concat());
    let peer = Peer {
        addr: "127.0.0.1:900".parse().unwrap(),
        local: "127.0.0.1:2049".parse().unwrap(),
        transport: Transport::Tcp,
        security: rig.sender.security,
    };
    let credential = match &rig.sender.principal {
        Some(principal) => Credential::Principal(principal),
        None => Credential::Sys(AuthSys::new(b"test", 0, 0, &[]).unwrap()),
    };
    let mut call = Call::new(1, &peer, credential, &Awake);
    let program = nfs_program(Arc::clone(&rig.nfs));
    let row = program.row(4, 1).unwrap().id;
    let mut reply = Writer::new();
    program.run(row, &mut call, &mut Reader::new(w.bytes()), &mut reply).unwrap();
    let mut r = Reader::new(reply.bytes());
    let status = r.get().unwrap();
    // the tag and the number of results
    r.words::<2>().unwrap();
    (status, r.rest().to_vec())
}

/// A client with a session on slot 0, which has the file open.
pub(super) struct Client<'r> {
    rig: &'r Rig,
    pub(super) id: u64,
    session: [u8; 16],
    sequence: Cell<u32>,
}

pub(super) fn exchange_id(owner: &[u8], verifier: u8) -> Vec<u8> {
    let args = ExchangeIdArgs {
        verifier: [verifier; 8],
        ownerid: owner,
        flags: 0,
        state_protect: StateProtectHow::None,
        impl_id: None,
    };
    oper(op::EXCHANGE_ID, &args)
}

pub(super) fn create_session(id: u64, sequence: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(op::CREATE_SESSION);
    w.u64(id);
    w.words([sequence, 0]);
    w.words([0, 65536, 65536, 4096, 32, 8, 0]);
    w.words([0, 4096, 4096, 4096, 8, 8, 0]);
    w.words([0x4000_0000, 1, 0]);
    w.bytes().to_vec()
}

pub(super) const READ: LockType4 = LockType4::Read;
pub(super) const WRITE: LockType4 = LockType4::Write;

impl<'r> Client<'r> {
    pub(super) fn new(rig: &'r Rig, owner: &[u8], verifier: u8) -> Self {
        let client = Self::before_reclaim(rig, owner, verifier);
        assert_eq!(client.complete(), Nfsstat4::Ok);
        client
    }

    pub(super) const fn session(&self) -> [u8; 16] {
        self.session
    }

    pub(super) fn complete(&self) -> Nfsstat4 {
        self.call(&[oper(op::RECLAIM_COMPLETE, &false)]).0
    }

    /// A client that has not said yet that it has reclaimed everything.
    pub(super) fn before_reclaim(rig: &'r Rig, owner: &[u8], verifier: u8) -> Self {
        let (status, known) = compound(rig, &[exchange_id(owner, verifier)]);
        assert_eq!(status, Nfsstat4::Ok);
        let mut r = Reader::new(&known);
        r.words::<2>().unwrap();
        let id = r.u64().unwrap();
        let (status, made) = compound(rig, &[create_session(id, r.u32().unwrap())]);
        assert_eq!(status, Nfsstat4::Ok);
        let mut r = Reader::new(&made);
        r.words::<2>().unwrap();
        let session = r.array().unwrap();
        Self { rig, id, session, sequence: Cell::new(0) }
    }

    /// Runs operations in the session; the last one's results.
    pub(super) fn call(&self, operations: &[Vec<u8>]) -> (Nfsstat4, Vec<u8>) {
        self.sequence.set(self.sequence.get() + 1);
        let args = SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence.get(),
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
        };
        compound(self.rig, &[&[oper(op::SEQUENCE, &args)], operations].concat())
    }

    /// Runs one operation on the file; its results.
    pub(super) fn on_file(&self, operation: Vec<u8>) -> (Nfsstat4, Vec<u8>) {
        let handle = self.rig.handle("file");
        let putfh = oper(op::PUTFH, &Bytes::<128>(&handle));
        let (status, results) = self.call(&[putfh, operation]);
        // SEQUENCE: 44 bytes, PUTFH: 8, the operation's number and status: 8
        (status, results.get(60..).unwrap_or_default().to_vec())
    }

    pub(super) fn open(&self, owner: &[u8], access: u32) -> Stateid4 {
        self.claim(owner, (access, 0), OpenClaim4::Fh).unwrap()
    }

    pub(super) fn claim(
        &self,
        owner: &[u8],
        (access, deny): (u32, u32),
        claim: OpenClaim4<'_>,
    ) -> Result<Stateid4, Nfsstat4> {
        let args = OpenArgs {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(owner) },
            how: OpenHow4::NoCreate,
            claim,
        };
        let (status, opened) = self.on_file(oper(op::OPEN, &args));
        if status != Nfsstat4::Ok {
            return Err(status);
        }
        let mut r = Reader::new(&opened);
        let stateid = r.get().unwrap();
        r.opaque_fixed(20).unwrap();
        assert_eq!(r.u32().unwrap(), 4, "OPEN4_RESULT_LOCKTYPE_POSIX");
        r.get::<Bitmap4>().unwrap();
        Ok(stateid)
    }

    pub(super) fn ask(
        &self,
        kind: LockType4,
        (offset, length): (u64, u64),
        locker: Locker4<'_>,
    ) -> Result<Stateid4, (Nfsstat4, Vec<u8>)> {
        self.ask_or_reclaim(LockArgs { kind, reclaim: false, offset, length, locker })
    }

    /// LOCK of what was held before the server's restart.
    pub(super) fn reclaim(
        &self,
        open: Stateid4,
        owner: &[u8],
        (offset, length): (u64, u64),
    ) -> Result<Stateid4, Nfsstat4> {
        let owner = LockOwner4 { clientid: 0, owner: Bytes(owner) };
        let locker = Locker4::by_open(open, owner);
        let args = LockArgs { kind: WRITE, reclaim: true, offset, length, locker };
        self.ask_or_reclaim(args).map_err(|(status, _)| status)
    }

    fn ask_or_reclaim(&self, args: LockArgs<'_>) -> Result<Stateid4, (Nfsstat4, Vec<u8>)> {
        let (status, result) = self.on_file(oper(op::LOCK, &args));
        if status == Nfsstat4::Ok {
            Ok(Reader::new(&result).get().unwrap())
        } else {
            Err((status, result))
        }
    }

    /// LOCK for an owner without a stateid.
    pub(super) fn lock(
        &self,
        open: Stateid4,
        owner: &[u8],
        kind: LockType4,
        range: (u64, u64),
    ) -> Result<Stateid4, Nfsstat4> {
        let owner = LockOwner4 { clientid: 0, owner: Bytes(owner) };
        self.ask(kind, range, Locker4::by_open(open, owner)).map_err(|(status, _)| status)
    }

    /// LOCK for the owner of a stateid.
    pub(super) fn more(
        &self,
        lock: Stateid4,
        kind: LockType4,
        range: (u64, u64),
    ) -> Result<Stateid4, Nfsstat4> {
        self.ask(kind, range, Locker4::by_lock(lock)).map_err(|(status, _)| status)
    }

    pub(super) fn unlock(
        &self,
        stateid: Stateid4,
        (offset, length): (u64, u64),
    ) -> Result<Stateid4, Nfsstat4> {
        let args = LockuArgs { kind: WRITE, seqid: 0, stateid, offset, length };
        let (status, result) = self.on_file(oper(op::LOCKU, &args));
        if status == Nfsstat4::Ok { Ok(Reader::new(&result).get().unwrap()) } else { Err(status) }
    }

    pub(super) fn test(
        &self,
        owner: &[u8],
        kind: LockType4,
        (offset, length): (u64, u64),
    ) -> Nfsstat4 {
        let owner = LockOwner4 { clientid: 0, owner: Bytes(owner) };
        self.on_file(oper(op::LOCKT, &LocktArgs { kind, offset, length, owner })).0
    }

    pub(super) fn close(&self, stateid: Stateid4) -> Nfsstat4 {
        self.on_file(oper(op::CLOSE, &CloseArgs { seqid: 0, stateid })).0
    }

    pub(super) fn free(&self, stateid: Stateid4) -> Nfsstat4 {
        self.call(&[oper(op::FREE_STATEID, &FreeStateidArgs { stateid })]).0
    }

    /// What TEST_STATEID says of a stateid.
    pub(super) fn test_stateid(&self, stateid: Stateid4) -> u32 {
        let mut w = Writer::new();
        w.words([op::TEST_STATEID, 1]);
        w.put(&stateid);
        let (status, results) = self.call(&[w.bytes().to_vec()]);
        assert_eq!(status, Nfsstat4::Ok);
        u32::from_be_bytes(*results.last_chunk().unwrap())
    }
}

pub(super) fn nlm_lock(rig: &Rig, who: Owner, offset: u64, len: u64) -> Status {
    rig.lock(who, true, who.lock(&rig.handle("file"), offset, len))
}

#[test]
fn owners_of_two_clients_exclude_each_other() {
    let rig = Rig::over(file_in_memory());
    let (one, two) = (Client::new(&rig, b"one", 1), Client::new(&rig, b"two", 1));
    let (opened, other) = (one.open(b"o", 3), two.open(b"o", 3));
    let lock = one.lock(opened, b"p1", WRITE, (10, 20)).unwrap();
    assert_eq!(lock.seqid, 1);
    let owner = LockOwner4 { clientid: 0, owner: Bytes(b"p1") };
    let locker = Locker4::by_open(other, owner);
    let (status, denied) = two.ask(READ, (0, 11), locker).unwrap_err();
    assert_eq!(status, Nfsstat4::Denied);
    let mut r = Reader::new(&denied);
    let denied: LockDenied<'_> = r.get().unwrap();
    r.end().unwrap();
    assert_eq!((denied.offset, denied.length, denied.kind), (10, 20, WRITE));
    assert_eq!((denied.owner.clientid, denied.owner.owner.0), (one.id, &b"p1"[..]));
    assert_eq!(two.test(b"p1", READ, (29, 1)), Nfsstat4::Denied);
    assert_eq!(two.test(b"p1", READ, (30, u64::MAX)), Nfsstat4::Ok);
    assert_eq!(one.test(b"p1", WRITE, (0, u64::MAX)), Nfsstat4::Ok, "its own");
    assert_eq!(one.test(b"p2", READ, (0, u64::MAX)), Nfsstat4::Denied, "another owner");
    // the middle is given back: two parts are left
    let lock = one.unlock(lock, (15, 5)).unwrap();
    assert_eq!(lock.seqid, 2);
    let theirs = two.lock(other, b"p1", WRITE, (15, 5)).unwrap();
    assert_eq!(two.more(theirs, WRITE, (14, 1)), Err(Nfsstat4::Denied));
    assert_eq!(two.more(theirs, WRITE, (20, 1)), Err(Nfsstat4::Denied));
    // down to reading, and to the end of the file
    let lock = one.more(lock, READ, (20, 10)).unwrap();
    let theirs = two.more(theirs, READ, (20, 10)).unwrap();
    assert_eq!(one.more(lock, WRITE, (20, 10)), Err(Nfsstat4::Denied), "up again");
    assert_eq!(two.more(theirs, WRITE, (30, u64::MAX)).map(|stateid| stateid.seqid), Ok(3));
}

#[test]
fn invalid_ranges_and_stateids_are_refused() {
    let rig = Rig::over(file_in_memory());
    let client = Client::new(&rig, b"one", 1);
    let (reads, writes) = (client.open(b"r", 1), client.open(b"w", 2));
    assert_eq!(client.lock(reads, b"p", WRITE, (0, 1)), Err(Nfsstat4::OpenMode));
    assert_eq!(client.lock(writes, b"p", READ, (0, 1)), Err(Nfsstat4::OpenMode));
    assert_eq!(client.lock(writes, b"p", WRITE, (0, 0)), Err(Nfsstat4::Inval));
    assert_eq!(client.lock(writes, b"p", WRITE, (2, u64::MAX - 1)), Err(Nfsstat4::Inval));
    assert_eq!(client.test(b"p", WRITE, (0, 0)), Nfsstat4::Inval);
    let lock = client.lock(writes, b"p", WRITE, (0, 1)).unwrap();
    let again = client.lock(writes, b"p", WRITE, (1, 1)).unwrap();
    assert_eq!((again.other, again.seqid), (lock.other, 2), "the owner has one by this open");
    assert_eq!(client.more(lock, WRITE, (2, 1)), Err(Nfsstat4::OldStateid));
    assert_eq!(client.unlock(lock, (0, 1)), Err(Nfsstat4::OldStateid));
    let ahead = Stateid4 { seqid: 3, ..again };
    assert_eq!(client.unlock(ahead, (0, 1)), Err(Nfsstat4::BadStateid));
    assert_eq!(client.unlock(writes, (0, 1)), Err(Nfsstat4::BadStateid), "that of an open");
    let current = Stateid4 { seqid: 0, ..again };
    assert_eq!(client.unlock(current, (0, u64::MAX)).map(|stateid| stateid.seqid), Ok(3));
    let stranger = Client::new(&rig, b"two", 1);
    assert_eq!(stranger.more(current, WRITE, (0, 1)), Err(Nfsstat4::BadStateid));
    let reclaim = LockArgs {
        kind: WRITE,
        reclaim: true,
        offset: 0,
        length: 1,
        locker: Locker4::by_lock(current),
    };
    assert_eq!(client.on_file(oper(op::LOCK, &reclaim)).0, Nfsstat4::NoGrace);
}

#[test]
fn a_lock_stateid_is_valid_until_it_is_freed_or_its_open_closed() {
    let rig = Rig::over(file_in_memory());
    let client = Client::new(&rig, b"one", 1);
    let opened = client.open(b"o", 3);
    let lock = client.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    assert_eq!(client.test_stateid(lock), 0);
    assert_eq!(client.free(lock), Nfsstat4::LocksHeld);
    assert_eq!(client.free(opened), Nfsstat4::LocksHeld, "an open is closed, not freed");
    let lock = client.unlock(lock, (0, 10)).unwrap();
    assert_eq!(client.free(lock), Nfsstat4::Ok);
    assert_eq!(client.free(lock), Nfsstat4::BadStateid);
    assert_eq!(client.test_stateid(lock), Nfsstat4::BadStateid.number());
    // CLOSE takes the locks of its own open, not those that the owner has by another
    let second = client.open(b"second", 3);
    let lock = client.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    client.lock(second, b"p", WRITE, (20, 10)).unwrap();
    assert_eq!(client.close(opened), Nfsstat4::Ok);
    assert_eq!(client.test_stateid(lock), Nfsstat4::BadStateid.number());
    assert_eq!(nlm_lock(&rig, A, 20, 10), Status::Denied);
    assert_eq!(client.close(second), Nfsstat4::Ok);
    assert_eq!(nlm_lock(&rig, A, 0, 0), Status::Granted);
    assert!(rig.nlm().held().iter().all(|row| row.svid.is_some()), "NLM's is the only one");
}

#[test]
fn nlm_and_version_4_share_one_lock_table() {
    let rig = Rig::over(file_in_memory());
    let client = Client::new(&rig, b"one", 1);
    let opened = client.open(b"o", 3);
    let lock = client.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    assert_eq!(nlm_lock(&rig, A, 9, 1), Status::Denied);
    let seen = rig.test(A, true, A.lock(&rig.handle("file"), 9, 1));
    assert_eq!(seen, Err((Status::Denied, Some((true, 0, b"p".to_vec(), 0, 10)))));
    client.unlock(lock, (0, u64::MAX)).unwrap();
    assert_eq!(nlm_lock(&rig, A, 9, 1), Status::Granted);
    assert_eq!(client.lock(opened, b"p", READ, (0, 10)), Err(Nfsstat4::Denied));
    assert_eq!(client.test(b"p", READ, (9, 1)), Nfsstat4::Denied);
    assert_eq!(rig.unlock(A, A.lock(&rig.handle("file"), 9, 1)), Status::Granted);
    assert!(client.lock(opened, b"p", READ, (0, 10)).is_ok());
}

#[test]
fn a_restarted_client_loses_its_locks() {
    let rig = Rig::over(file_in_memory());
    let client = Client::new(&rig, b"one", 1);
    client.lock(client.open(b"o", 3), b"p", WRITE, (0, 10)).unwrap();
    assert_eq!(nlm_lock(&rig, A, 0, 1), Status::Denied);
    Client::new(&rig, b"one", 2);
    assert_eq!(nlm_lock(&rig, A, 0, 1), Status::Granted);
}

#[test]
fn an_expired_client_keeps_its_locks_until_a_conflict() {
    let lease_ms = 2000;
    let limits = V4Limits { lease_ms, ..V4Limits::default() };
    let rig = Rig::with_limits(file_in_memory(), Limits::default(), limits);
    let (one, two) = (Client::new(&rig, b"one", 1), Client::new(&rig, b"two", 1));
    let (opened, other) = (one.open(b"o", 3), two.open(b"o", 3));
    let lock = one.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    rig.nfs.clock.advance_ms(lease_ms + 1000);
    assert_eq!(one.test_stateid(lock), 0, "nobody wanted it");
    assert_eq!(two.lock(other, b"p", WRITE, (0, 10)), Err(Nfsstat4::Denied), "it has called");
    rig.nfs.clock.advance_ms(lease_ms + 1000);
    assert_eq!(nlm_lock(&rig, A, 0, 10), Status::Granted, "NLM wants it");
    assert_eq!(one.call(&[]).0, Nfsstat4::BadSession);
}

#[test]
fn a_waiting_request_is_granted_when_the_lease_of_the_holder_expires() {
    let rig = Rig::over(file_in_memory());
    let one = Client::new(&rig, b"one", 1);
    one.lock(one.open(b"o", 3), b"p", WRITE, (0, 10)).unwrap();
    let file = rig.handle("file");
    let waits = proto::nlm::LockArgs { block: true, ..try_args(A.lock(&file, 0, 10)) };
    assert_eq!(rig.lock_with(A, waits), Status::Blocked);
    let lease_ms = rig.nfs.v4.state.limits().lease_ms;
    let now_ms = || rig.nfs.clock.now().0;
    assert!(rig.nlm().tick().unwrap() <= now_ms() + 1000, "it looks again soon");
    rig.nfs.clock.advance_ms(lease_ms / 2);
    rig.nlm().tick();
    assert!(rig.calls.take().is_empty(), "the lease is good");
    rig.nfs.clock.advance_ms(lease_ms);
    rig.nlm().tick();
    assert_eq!(rig.calls.take().len(), 1, "GRANTED, and nobody had to ask again");
    assert_eq!(one.call(&[]).0, Nfsstat4::BadSession);
    assert!(rig.nlm().tick().unwrap() > now_ms() + 1000, "nobody waits for a client now");
}

#[test]
fn the_operator_can_release_locks_of_version_4() {
    let rig = Rig::over(file_in_memory());
    let client = Client::new(&rig, b"one", 1);
    let opened = client.open(b"o", 3);
    let lock = client.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    let held = rig.nlm().held();
    let row = held.first().unwrap();
    assert_eq!(
        (row.client.as_slice(), row.svid, row.oh.as_slice()),
        (&b"one"[..], None, &b"p"[..])
    );
    let taken = rig.nlm().release_hosts("one").unwrap();
    assert_eq!((taken.hosts, taken.locks), (1, 1));
    assert!(rig.nlm().held().is_empty());
    // the client is told, stateid by stateid, until it has freed them
    let flags = |client: &Client<'_>| {
        let (status, results) = client.call(&[]);
        assert_eq!(status, Nfsstat4::Ok);
        u32::from_be_bytes(*results.last_chunk().unwrap())
    };
    assert_eq!(flags(&client), 0x20, "SEQ4_STATUS_ADMIN_STATE_REVOKED");
    assert_eq!(client.test_stateid(opened), Nfsstat4::AdminRevoked.number());
    assert_eq!(client.test_stateid(lock), Nfsstat4::AdminRevoked.number());
    assert_eq!(client.close(opened), Nfsstat4::AdminRevoked);
    assert_eq!(client.unlock(lock, (0, 10)), Err(Nfsstat4::AdminRevoked));
    assert_eq!(client.more(lock, WRITE, (20, 1)), Err(Nfsstat4::AdminRevoked));
    let other = Client::new(&rig, b"two", 1);
    assert_eq!(other.free(lock), Nfsstat4::BadStateid);
    assert_eq!(client.free(lock), Nfsstat4::Ok);
    assert_eq!(client.free(lock), Nfsstat4::BadStateid);
    assert_eq!(flags(&client), 0, "it is not told again while it tests");
    rig.nfs.clock.advance_ms(1000);
    assert_eq!(flags(&client), 0x20, "one is left");
    assert_eq!(client.free(opened), Nfsstat4::Ok);
    assert_eq!(flags(&client), 0);
    client.lock(client.open(b"o", 3), b"p", WRITE, (0, 10)).unwrap();
    let stored = rig.store.stored.lock().unwrap();
    let last: Vec<_> = stored.iter().map(std::mem::discriminant).collect();
    let gone = stored.iter().position(|r| matches!(r, state::Record::ClientGone(..))).unwrap();
    assert!(last.len() > gone + 1, "recorded again with what it got then");
}

#[test]
fn version_4_locks_exclude_local_programs() {
    let Some(local) = local() else { return };
    let client = Client::new(&local.rig, b"one", 1);
    let opened = client.open(b"o", 3);
    let program = local.program();
    let theirs = |kind| ofd_lock::set(program.as_fd(), FIRST_TEN, kind).is_ok();
    let lock = client.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    assert!(!theirs(LockType::Write), "the client has it");
    client.unlock(lock, (0, 10)).unwrap();
    assert!(theirs(LockType::Write));
    assert_eq!(client.test(b"p", READ, (5, 1)), Nfsstat4::Denied);
    assert_eq!(client.lock(opened, b"p", READ, (5, 1)), Err(Nfsstat4::Denied));
    ofd_lock::set(program.as_fd(), ALL, LockType::Unlock).unwrap();
    assert!(client.lock(opened, b"p", READ, (5, 1)).is_ok());
    // a silent close gives it back to local programs as well
    assert_eq!(client.close(opened), Nfsstat4::Ok);
    assert!(theirs(LockType::Write));
}

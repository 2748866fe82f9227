//! Version 4.1 as a client meets it: compounds over files in memory, byte by byte where it matters.

mod attrs;
mod copies;
mod crossing;
mod delegations;
mod lossy_network;
mod owner_names;
mod principals;
mod referrals;
mod reused_attrs;
mod slots;

use crate::support::{TestServer, exports};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloseArgs, CompoundHead, CreateArgs, CreateType4, Createhow4, ExchangeIdArgs, Fattr4,
    LINUX_GETATTR, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, ReadArgs, ReaddirArgs,
    SequenceArgs, SetattrArgs, StableHow4, StateProtectHow, Stateid4, WriteArgs, attr, op,
};
use std::cell::Cell;
use xdr::{Encode, Reader, Writer};

pub(crate) const NONE: Fattr4<'static> = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };

/// One operation with its arguments.
pub(crate) fn oper(number: u32, args: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(number);
    w.put(args);
    w.bytes().to_vec()
}

pub(crate) fn plain(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

pub(crate) fn name(number: u32, name: &[u8]) -> Vec<u8> {
    oper(number, &Bytes::<1024>(name))
}

pub(crate) fn fattr(numbers: &[u32], values: &[u8]) -> Fattr4<'static> {
    Fattr4 { mask: Bitmap4::of(numbers), values: Bytes(values.to_vec().leak()) }
}

/// A reply: the status, and each operation's number and status with all bytes from there on.
pub(crate) struct Results {
    bytes: Vec<u8>,
    pub status: Nfsstat4,
    count: u32,
}

impl Results {
    fn of(bytes: Vec<u8>) -> Self {
        let mut r = Reader::new(&bytes);
        let status = r.get().unwrap();
        r.opaque(1024).unwrap();
        let count = r.u32().unwrap();
        Self { status, count, bytes }
    }

    /// The operations' results.
    fn reader(&self) -> Reader<'_> {
        let mut r = Reader::new(&self.bytes);
        r.u32().unwrap();
        r.opaque(1024).unwrap();
        r.u32().unwrap();
        r
    }

    /// All bytes of the reply.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The results behind SEQUENCE.
    pub fn inside(&self) -> Reader<'_> {
        let mut r = self.reader();
        assert_eq!(r.words().unwrap(), [op::SEQUENCE, 0]);
        r.opaque_fixed(36).unwrap();
        r
    }
}

/// Reads the head of an operation's result that succeeded.
pub(crate) fn ok(r: &mut Reader<'_>, number: u32) {
    assert_eq!(r.words().unwrap(), [number, 0]);
}

/// A client with a session on slot 0.
pub(crate) struct Client {
    pub server: TestServer,
    session: [u8; 16],
    id: u64,
    sequence: Cell<u32>,
    pub minor: u32,
}

pub(crate) fn send(server: &TestServer, minor: u32, operations: &[Vec<u8>]) -> Results {
    let mut w = Writer::new();
    let count = u32::try_from(operations.len()).unwrap();
    w.put(&CompoundHead { tag: b"tag", minor, count });
    w.raw(&operations.concat());
    Results::of(server.try_call(4, 1, w.bytes()).unwrap().bytes)
}

fn exchange_id(owner: &[u8]) -> Vec<u8> {
    let state_protect = StateProtectHow::None;
    let args =
        ExchangeIdArgs { verifier: [1; 8], ownerid: owner, flags: 0, state_protect, impl_id: None };
    oper(op::EXCHANGE_ID, &args)
}

fn create_session(id: u64, sequence: u32, fore: [u32; 6]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(op::CREATE_SESSION);
    w.u64(id);
    w.words([sequence, 0]);
    w.words(fore);
    w.u32(0);
    w.words([0, 4096, 4096, 4096, 8, 8, 0]);
    w.words([0x4000_0000, 1, 0]);
    w.bytes().to_vec()
}

/// EXCHANGE_ID that changes a confirmed client, from another user than made it known (RFC 8881 §18.35.4, case 9).
#[test]
fn a_client_is_not_updated_by_another_principal() {
    let mut client =
        Client::over(TestServer::new(exports::of(&[("/x", exports::mem(), exports::RW)])));
    let mut update = |uid| {
        client.server.uid = uid;
        let args = ExchangeIdArgs {
            verifier: [1; 8],
            ownerid: b"client",
            flags: proto::nfs4::exchange_id::UPD_CONFIRMED_REC_A,
            state_protect: StateProtectHow::None,
            impl_id: None,
        };
        send(&client.server, 1, &[oper(op::EXCHANGE_ID, &args)]).status
    };
    assert_eq!(update(0), Nfsstat4::Ok);
    assert_eq!(update(77), Nfsstat4::Perm);
}

const FORE: [u32; 6] = [0, 1 << 21, 1 << 21, 4096, 32, 8];

impl Client {
    pub fn over(server: TestServer) -> Self {
        Self::with(server, FORE)
    }

    pub fn with(server: TestServer, fore: [u32; 6]) -> Self {
        Self::named(server, b"client", fore)
    }

    fn named(server: TestServer, owner: &[u8], fore: [u32; 6]) -> Self {
        let known = send(&server, 1, &[exchange_id(owner)]);
        let mut r = known.reader();
        ok(&mut r, op::EXCHANGE_ID);
        let id = r.u64().unwrap();
        let made = send(&server, 1, &[create_session(id, 1, fore)]);
        assert_eq!(made.status, Nfsstat4::Ok);
        let mut r = made.reader();
        ok(&mut r, op::CREATE_SESSION);
        let client =
            Self { server, session: r.array().unwrap(), id, sequence: Cell::new(0), minor: 1 };
        let done = client.call(&[oper(op::RECLAIM_COMPLETE, &false)]);
        assert_eq!(done.status, Nfsstat4::Ok);
        client
    }

    /// The same client, by another minor version from now on.
    pub fn of_minor(self, minor: u32) -> Self {
        Self { minor, ..self }
    }

    /// A read-write export of files in memory, as root.
    pub fn new() -> Self {
        Self::over(TestServer::new(exports::of(&[("/srv/e", exports::mem(), exports::RW)])))
    }

    fn sequence(&self, number: u32, cachethis: bool) -> Vec<u8> {
        let args = SequenceArgs {
            sessionid: self.session,
            sequenceid: number,
            slotid: 0,
            highest_slotid: 0,
            cachethis,
        };
        oper(op::SEQUENCE, &args)
    }

    fn call_as(&self, number: u32, cachethis: bool, operations: &[Vec<u8>]) -> Results {
        let all = [&[self.sequence(number, cachethis)], operations].concat();
        send(&self.server, self.minor, &all)
    }

    /// A request of its own.
    pub fn call(&self, operations: &[Vec<u8>]) -> Results {
        self.sequence.set(self.sequence.get() + 1);
        self.call_as(self.sequence.get(), false, operations)
    }

    /// The same in the root of the export.
    pub fn at_root(&self, operations: &[Vec<u8>]) -> Results {
        self.call(&[&[self.putfh(&self.server.root())], operations].concat())
    }

    pub fn putfh(&self, handle: &[u8]) -> Vec<u8> {
        oper(op::PUTFH, &Bytes::<128>(handle))
    }

    pub fn open(
        &self,
        file: &[u8],
        access: u32,
        deny: u32,
        how: OpenHow4<'_>,
    ) -> Result<(Vec<u8>, Stateid4), Nfsstat4> {
        let args = OpenArgs {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: OpenOwner4 { clientid: self.id, owner: Bytes(b"owner") },
            how,
            claim: OpenClaim4::Null(Bytes(file)),
        };
        let opened = self.at_root(&[oper(op::OPEN, &args), plain(op::GETFH)]);
        if opened.status != Nfsstat4::Ok {
            return Err(opened.status);
        }
        let mut r = opened.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::OPEN);
        let stateid = r.get().unwrap();
        // change_info4, rflags
        r.opaque_fixed(24).unwrap();
        r.get::<Bitmap4>().unwrap();
        assert_eq!(r.u32().unwrap(), 0, "no delegation");
        ok(&mut r, op::GETFH);
        Ok((r.opaque(128).unwrap().to_vec(), stateid))
    }

    pub fn create(&self, file: &[u8]) -> (Vec<u8>, Stateid4) {
        self.open(file, 3, 0, OpenHow4::Create(Createhow4::Unchecked(NONE))).unwrap()
    }

    pub fn write(&self, handle: &[u8], stateid: Stateid4, data: &[u8]) -> Nfsstat4 {
        let args =
            WriteArgs { stateid, offset: 0, stable: StableHow4::FileSync, data: Bytes(data) };
        self.call(&[self.putfh(handle), oper(op::WRITE, &args)]).status
    }

    pub fn read(&self, handle: &[u8], stateid: Stateid4) -> Result<Vec<u8>, Nfsstat4> {
        let args = ReadArgs { stateid, offset: 0, count: 100 };
        let read = self.call(&[self.putfh(handle), oper(op::READ, &args)]);
        if read.status != Nfsstat4::Ok {
            return Err(read.status);
        }
        let mut r = read.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::READ);
        assert!(r.bool().unwrap(), "eof");
        Ok(r.opaque(100).unwrap().to_vec())
    }
}

#[test]
fn operations_are_allowed_only_at_their_positions() {
    use Nfsstat4::{
        MinorVersMismatch, NotOnlyOp, NotSupp, Ok, OpIllegal, OpNotInSession, SequencePos,
    };
    let client = Client::new();
    let outside = |operations: &[Vec<u8>]| {
        let sent = send(&client.server, 1, operations);
        (sent.status, sent.count)
    };
    assert_eq!(outside(&[]), (Ok, 0));
    assert_eq!(outside(&[plain(op::PUTROOTFH)]), (OpNotInSession, 1));
    assert_eq!(outside(&[exchange_id(b"x"), plain(op::PUTROOTFH)]), (NotOnlyOp, 1));
    assert_eq!(outside(&[plain(99)]), (OpIllegal, 1));
    assert_eq!(send(&client.server, 2, &[]).status, Ok);
    assert_eq!(send(&client.server, 3, &[]).status, MinorVersMismatch);
    let inside = |operation: Vec<u8>| {
        let sent = client.call(&[plain(op::PUTROOTFH), operation, plain(op::GETFH)]);
        (sent.status, sent.count)
    };
    assert_eq!(inside(client.sequence(9, false)), (SequencePos, 3));
    assert_eq!(inside(plain(op::OPENATTR)), (NotSupp, 3));
    assert_eq!(inside(plain(op::SETCLIENTID)), (NotSupp, 3));
    assert_eq!(inside(plain(1)), (OpIllegal, 3));
    // of a later minor version (RFC 8178 §8.2)
    assert_eq!(inside(plain(op::SEEK)), (OpIllegal, 3));
    assert_eq!(inside(plain(op::SAVEFH)), (Ok, 4));
}

#[test]
fn an_unknown_operation_fails_with_op_illegal() {
    let sent = Client::new().call(&[plain(4711)]);
    let mut r = sent.inside();
    assert_eq!(r.words().unwrap(), [op::ILLEGAL, Nfsstat4::OpIllegal.number()]);
    r.end().unwrap();
}

#[test]
fn a_retransmitted_compound_is_answered_from_the_slot() {
    let client = Client::new();
    let create = CreateArgs { what: CreateType4::Dir, name: Bytes(b"d"), attrs: NONE };
    let request = [client.putfh(&client.server.root()), oper(op::CREATE, &create)];
    // kept although the client does not ask for it
    let first = client.call_as(2, false, &request);
    assert_eq!(first.status, Nfsstat4::Ok);
    let again = client.call_as(2, false, &request);
    assert_eq!(again.bytes, first.bytes);
    let other = [client.putfh(&client.server.root()), name(op::REMOVE, b"d")];
    assert_eq!(client.call_as(2, false, &other).status, Nfsstat4::SeqFalseRetry);
    assert_eq!(client.call_as(4, false, &other).status, Nfsstat4::SeqMisordered);
    assert_eq!(client.call_as(3, true, &other).status, Nfsstat4::Ok);
    assert_eq!(client.call_as(3, true, &other).status, Nfsstat4::Ok, "not NFS4ERR_NOENT");
    let look = [client.putfh(&client.server.root())];
    assert_eq!(client.call_as(4, false, &look).status, Nfsstat4::Ok);
    assert_eq!(client.call_as(4, false, &look).status, Nfsstat4::RetryUncachedRep);
}

#[test]
fn a_reply_that_does_not_fit_fails_before_anything_is_done() {
    let server = TestServer::new(exports::of(&[("/e", exports::mem(), exports::RW)]));
    let client = Client::with(server, [0, 4096, 4096, 300, 4, 8]);
    let root = client.putfh(&client.server.root());
    let create = CreateArgs { what: CreateType4::Dir, name: Bytes(b"d"), attrs: NONE };
    let all = Bitmap4::of(&[attr::TYPE]);
    let ops = [root.clone(), oper(op::GETATTR, &all), oper(op::CREATE, &create)];
    assert_eq!(client.call_as(2, true, &ops).status, Nfsstat4::RepTooBigToCache);
    let gone = client.call_as(3, false, &[root.clone(), name(op::LOOKUP, b"d")]);
    assert_eq!(gone.status, Nfsstat4::NoEnt);
    let many = [root.clone(), root.clone(), root.clone(), root];
    assert_eq!(client.call_as(4, false, &many).status, Nfsstat4::TooManyOps);
    assert_eq!(client.call_as(4, false, &many[1..]).status, Nfsstat4::Ok, "the slot is as it was");
}

#[test]
fn files_are_created_written_read_and_removed() {
    let client = Client::new();
    let (handle, stateid) = client.create(b"f");
    assert_eq!(client.write(&handle, stateid, b"hello"), Nfsstat4::Ok);
    assert_eq!(client.read(&handle, stateid).unwrap(), b"hello");
    assert_eq!(client.read(&handle, Stateid4::ANONYMOUS).unwrap(), b"hello");
    // it is there already: opened again, not made
    let (same, wider) = client.create(b"f");
    assert_eq!((&same, wider.other), (&handle, stateid.other));
    assert_eq!(client.read(&handle, stateid), Err(Nfsstat4::OldStateid));
    let guarded = OpenHow4::Create(Createhow4::Guarded(NONE));
    assert_eq!(client.open(b"f", 1, 0, guarded), Err(Nfsstat4::Exist));
    let cut = OpenHow4::Create(Createhow4::Unchecked(fattr(&[attr::SIZE], &[0; 8])));
    let (_, stateid) = client.open(b"f", 1, 0, cut).unwrap();
    assert_eq!(client.read(&handle, stateid).unwrap(), b"");
    // its last name goes while it is open
    assert_eq!(client.write(&handle, stateid, b"kept"), Nfsstat4::Ok);
    assert_eq!(client.at_root(&[name(op::REMOVE, b"f")]).status, Nfsstat4::Ok);
    assert_eq!(client.open(b"f", 1, 0, OpenHow4::NoCreate), Err(Nfsstat4::NoEnt));
    let close = CloseArgs { seqid: 0, stateid };
    let closed = client.call(&[client.putfh(&handle), oper(op::CLOSE, &close)]);
    assert_eq!(closed.status, Nfsstat4::Ok);
    assert_eq!(client.read(&handle, stateid), Err(Nfsstat4::BadStateid));
}

#[test]
fn a_repeated_exclusive_open_finds_its_file() {
    let client = Client::new();
    let how = |verifier| {
        OpenHow4::Create(Createhow4::Exclusive41(
            [verifier; 8],
            fattr(&[attr::MODE], &[0, 0, 1, 0]),
        ))
    };
    let (handle, _) = client.open(b"x", 3, 0, how(1)).unwrap();
    assert_eq!(client.open(b"x", 3, 0, how(1)).unwrap().0, handle);
    assert_eq!(client.open(b"x", 3, 0, how(2)), Err(Nfsstat4::Exist));
    let times =
        OpenHow4::Create(Createhow4::Exclusive41([1; 8], fattr(&[attr::TIME_ACCESS_SET], &[0; 4])));
    assert_eq!(client.open(b"y", 3, 0, times), Err(Nfsstat4::Inval), "they hold the verifier");
}

#[test]
fn share_deny_bits_are_enforced() {
    let client = Client::new();
    let (handle, _) =
        client.open(b"f", 3, 2, OpenHow4::Create(Createhow4::Unchecked(NONE))).unwrap();
    assert_eq!(client.write(&handle, Stateid4::ANONYMOUS, b"x"), Nfsstat4::Locked);
    assert_eq!(client.read(&handle, Stateid4::ANONYMOUS).unwrap(), b"");
    let args = OpenArgs {
        seqid: 0,
        share_access: 2,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: Bytes(b"another") },
        how: OpenHow4::Create(Createhow4::Unchecked(fattr(&[attr::SIZE], &[0; 8]))),
        claim: OpenClaim4::Null(Bytes(b"f")),
    };
    assert_eq!(client.at_root(&[oper(op::OPEN, &args)]).status, Nfsstat4::ShareDenied);
    let set = SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs: fattr(&[attr::SIZE], &[0; 8]) };
    let cut = client.call(&[client.putfh(&handle), oper(op::SETATTR, &set)]);
    assert_eq!(cut.status, Nfsstat4::Locked);
    let mut r = cut.inside();
    ok(&mut r, op::PUTFH);
    assert_eq!(
        r.words().unwrap(),
        [op::SETATTR, Nfsstat4::Locked.number(), 0],
        "and what was set: nothing"
    );
    r.end().unwrap();
}

#[test]
fn the_current_stateid_is_saved_and_restored_with_the_filehandle() {
    let client = Client::new();
    let args = OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: Bytes(b"o") },
        how: OpenHow4::Create(Createhow4::Unchecked(NONE)),
        claim: OpenClaim4::Null(Bytes(b"f")),
    };
    let write = WriteArgs {
        stateid: Stateid4::CURRENT,
        offset: 0,
        stable: StableHow4::Unstable,
        data: Bytes(b"x"),
    };
    let close = CloseArgs { seqid: 0, stateid: Stateid4::CURRENT };
    let all = [
        oper(op::OPEN, &args),
        oper(op::WRITE, &write),
        plain(op::SAVEFH),
        plain(op::PUTROOTFH),
        plain(op::RESTOREFH),
        oper(op::CLOSE, &close),
    ];
    assert_eq!(client.at_root(&all).status, Nfsstat4::Ok);
    let lost = [oper(op::OPEN, &args), plain(op::PUTROOTFH), oper(op::CLOSE, &close)];
    assert_eq!(client.at_root(&lost).status, Nfsstat4::BadStateid);
}

#[test]
fn attributes_are_encoded_in_the_order_of_their_numbers() {
    let client = Client::new();
    let (handle, stateid) = client.create(b"f");
    client.write(&handle, stateid, b"12345");
    let asked = Bitmap4::of(&[attr::OWNER, attr::TYPE, attr::SIZE, attr::LEASE_TIME, attr::ACL]);
    let found = client.call(&[client.putfh(&handle), oper(op::GETATTR, &asked)]);
    let mut r = found.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETATTR);
    // ACLs are not there yet and left out
    assert_eq!(
        r.get::<Bitmap4>().unwrap(),
        Bitmap4::of(&[attr::OWNER, attr::TYPE, attr::SIZE, attr::LEASE_TIME])
    );
    assert_eq!(
        r.words().unwrap(),
        [4 + 8 + 4 + 8, 1, 0, 5, 60, 1, u32::from_be_bytes(*b"0\0\0\0")]
    );
    r.end().unwrap();
    let same = fattr(&[attr::SIZE], &5_u64.to_be_bytes());
    let other = fattr(&[attr::SIZE], &6_u64.to_be_bytes());
    let verify = |number, attrs: &Fattr4<'_>| {
        client.call(&[client.putfh(&handle), oper(number, attrs)]).status
    };
    assert_eq!(verify(op::VERIFY, &same), Nfsstat4::Ok);
    assert_eq!(verify(op::VERIFY, &other), Nfsstat4::NotSame);
    assert_eq!(verify(op::NVERIFY, &same), Nfsstat4::Same);
    assert_eq!(verify(op::NVERIFY, &other), Nfsstat4::Ok);
    assert_eq!(verify(op::VERIFY, &fattr(&[attr::ACL], &[0; 4])), Nfsstat4::AttrNotSupp);
    let written = client
        .call(&[client.putfh(&handle), oper(op::GETATTR, &Bitmap4::of(&[attr::TIME_MODIFY_SET]))]);
    assert_eq!(written.status, Nfsstat4::Inval);
}

/// What clients ask for all the time takes a way of its own.
#[test]
fn attributes_have_the_same_bytes_alone_and_together() {
    let client = Client::new();
    let (handle, stateid) = client.create(b"f");
    client.write(&handle, stateid, b"12345");
    let values = |asked: &[u32]| {
        let get = oper(op::GETATTR, &Bitmap4::of(asked));
        let found = client.call(&[client.putfh(&handle), get]);
        let mut r = found.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::GETATTR);
        assert_eq!(r.get::<Bitmap4>().unwrap(), Bitmap4::of(asked));
        let values = r.opaque(1024).unwrap().to_vec();
        r.end().unwrap();
        values
    };
    let usual: Vec<u32> = LINUX_GETATTR.iter().collect();
    let with = |more: &[u32]| {
        let mut all = [&usual, more].concat();
        all.sort_unstable();
        all
    };
    for more in [
        &[][..],
        &[attr::FILEHANDLE],
        &[attr::RDATTR_ERROR],
        &[attr::RDATTR_ERROR, attr::FILEHANDLE],
        &[attr::LEASE_TIME],
    ] {
        let asked = with(more);
        let alone: Vec<u8> = asked.iter().flat_map(|number| values(&[*number])).collect();
        assert_eq!(values(&asked), alone, "{more:?}");
    }
}

/// The names of a listing, with the type of each.
fn listed(
    client: &Client,
    dir: &[Vec<u8>],
    cookie: u64,
    maxcount: u32,
) -> (Vec<(Vec<u8>, u32)>, u64, bool) {
    let attrs = Bitmap4::of(&[attr::TYPE]);
    let args = ReaddirArgs { cookie, cookieverf: [0; 8], dircount: 0, maxcount, attrs };
    let found = client.call(&[dir, &[oper(op::READDIR, &args)]].concat());
    assert_eq!(found.status, Nfsstat4::Ok);
    let mut r = found.inside();
    for operation in dir {
        ok(&mut r, u32::from_be_bytes(*operation.first_chunk().unwrap()));
    }
    ok(&mut r, op::READDIR);
    r.u64().unwrap();
    let (mut names, mut last) = (Vec::new(), cookie);
    while r.bool().unwrap() {
        last = r.u64().unwrap();
        let name = r.opaque(255).unwrap().to_vec();
        assert_eq!(r.get::<Bitmap4>().unwrap(), attrs);
        assert_eq!(r.u32().unwrap(), 4);
        names.push((name, r.u32().unwrap()));
    }
    let eof = r.bool().unwrap();
    r.end().unwrap();
    (names, last, eof)
}

#[test]
fn readdir_continues_at_its_cookie() {
    let client = Client::new();
    for number in 0..20 {
        client.create(format!("file{number}").as_bytes());
    }
    let dir = [client.putfh(&client.server.root())];
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let (some, last, eof) = listed(&client, &dir, cookie, 200);
        assert!(eof || !some.is_empty());
        names.extend(some);
        cookie = last;
        if eof {
            break;
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
    assert!(names.iter().all(|(_, ftype)| *ftype == 1));
    let args = ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 20,
        attrs: Bitmap4::NONE,
    };
    assert_eq!(client.at_root(&[oper(op::READDIR, &args)]).status, Nfsstat4::TooSmall);
    let bare = client.at_root(&[oper(op::READDIR, &ReaddirArgs { maxcount: 4096, ..args })]);
    // an entry: that there is one, cookie, the length of a name and a name in two words, no attributes
    let whole = bare.inside().remaining();
    assert_eq!(whole, 8 + 8 + 8 + 20 * (4 + 8 + 4 + 8 + 4 + 4) + 8);
    let args = ReaddirArgs { cookie: 2, maxcount: 200, ..args };
    assert_eq!(client.at_root(&[oper(op::READDIR, &args)]).status, Nfsstat4::BadCookie);
}

#[test]
fn the_pseudo_root_leads_to_the_exports() {
    let rows = [
        ("/srv/a", exports::mem(), exports::RW),
        ("/srv/b", exports::mem(), exports::RO),
        ("/c", exports::mem(), exports::RW),
    ];
    let client = Client::over(TestServer::new(exports::of(&rows)));
    let root = [plain(op::PUTROOTFH)];
    assert_eq!(listed(&client, &root, 0, 4096).0, [(b"c".to_vec(), 2), (b"srv".to_vec(), 2)]);
    let walk = |names: &[&[u8]]| {
        let names = names.iter().map(|name| self::name(op::LOOKUP, name));
        [root.to_vec(), names.collect()].concat()
    };
    let handle = |ops: Vec<Vec<u8>>| {
        let before = ops.len();
        let found = client.call(&[ops, vec![plain(op::GETFH)]].concat());
        assert_eq!(found.status, Nfsstat4::Ok);
        let mut r = found.inside();
        (0..before).for_each(|_| assert_eq!(r.words::<2>().unwrap()[1], 0));
        ok(&mut r, op::GETFH);
        r.opaque(128).unwrap().to_vec()
    };
    assert_eq!(handle(walk(&[b"srv", b"b"])), client.server.root_of(1));
    // and back
    let srv = handle(walk(&[b"srv"]));
    assert_eq!(handle([walk(&[b"srv", b"a"]), vec![plain(op::LOOKUPP)]].concat()), srv);
    assert_eq!(handle(vec![client.putfh(&srv)]), srv, "its handles can be used");
    assert_eq!(client.call(&walk(&[b"srv", b"x"])).status, Nfsstat4::NoEnt);
    assert_eq!(client.call(&[plain(op::PUTROOTFH), plain(op::LOOKUPP)]).status, Nfsstat4::NoEnt);
    // the file systems differ, the pseudo one has none
    let fsid = |ops: Vec<Vec<u8>>| {
        let asked = oper(op::GETATTR, &Bitmap4::of(&[attr::FSID]));
        let found = client.call(&[ops, vec![asked]].concat());
        found.bytes.last_chunk::<16>().copied().unwrap()
    };
    assert_eq!(fsid(walk(&[b"srv"])), [0; 16]);
    assert_ne!(fsid(walk(&[b"srv", b"a"])), fsid(walk(&[b"srv", b"b"])));
    let make = CreateArgs { what: CreateType4::Dir, name: Bytes(b"d"), attrs: NONE };
    for dir in [walk(&[b"srv"]), walk(&[b"srv", b"b"])] {
        assert_eq!(
            client.call(&[dir, vec![oper(op::CREATE, &make)]].concat()).status,
            Nfsstat4::RoFs
        );
    }
    // nobody else sees them
    let mut stranger = client;
    stranger.server.client = "192.0.2.1:700";
    assert!(listed(&stranger, &root, 0, 4096).0.is_empty());
    assert_eq!(
        stranger.call(&[plain(op::PUTROOTFH), name(op::LOOKUP, b"srv")]).status,
        Nfsstat4::NoEnt
    );
}

#[test]
fn open_before_reclaim_complete_fails_with_grace() {
    let client = Client::new();
    assert_eq!(
        client.call(&[oper(op::RECLAIM_COMPLETE, &false)]).status,
        Nfsstat4::CompleteAlready
    );
    let known = send(&client.server, 1, &[exchange_id(b"second")]);
    let mut r = known.reader();
    ok(&mut r, op::EXCHANGE_ID);
    let id = r.u64().unwrap();
    let made = send(&client.server, 1, &[create_session(id, 1, FORE)]);
    let mut r = made.reader();
    ok(&mut r, op::CREATE_SESSION);
    let session = r.array().unwrap();
    let second = Client { server: client.server, session, id, sequence: Cell::new(0), minor: 1 };
    assert_eq!(second.open(b"f", 1, 0, OpenHow4::NoCreate), Err(Nfsstat4::Grace));
}

#[test]
fn an_undecodable_operation_fails_with_bad_xdr() {
    let client = Client::new();
    let cut = client.call(&[plain(op::PUTROOTFH), plain(op::LOOKUP)]);
    assert_eq!((cut.status, cut.count), (Nfsstat4::BadXdr, 3));
    let dot = client.at_root(&[name(op::LOOKUP, b".")]);
    assert_eq!(dot.status, Nfsstat4::BadName);
    assert_eq!(client.call(&[client.putfh(b"forged")]).status, Nfsstat4::BadHandle);
    assert_eq!(client.call(&[plain(op::GETFH)]).status, Nfsstat4::NoFilehandle);
}

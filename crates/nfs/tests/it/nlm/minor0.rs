//! Version 4.0 as a client meets it: owners' numbers, retransmissions, locks, and callbacks to an address.

use super::rig::{Rig, file_in_memory};
use crate::support::Awake;
use bowline_nfs::nfs_program;
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, ClientAddr4, CloseArgs, CompoundHead, CreateArgs, CreateType4, Createhow4,
    ExistLockOwner4, Fattr4, LockArgs, LockDenied, LockOwner4, LockType4, Locker4, LocktArgs,
    LockuArgs, Nfsstat4, OpenArgs, OpenClaim4, OpenConfirmArgs, OpenDowngradeArgs, OpenHow4,
    OpenOwner4, OpenToLockOwner4, ReadArgs, ReleaseLockownerArgs, RenewArgs, SetattrArgs,
    SetclientidArgs, SetclientidConfirmArgs, StableHow4, Stateid4, WriteArgs, attr, op,
};
use rpc::{AuthSys, Call, CallTarget, Credential, Peer, Program, Transport};
use state::Record;
use state::v4::{CallbackCredential, CallbackPath};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use xdr::{Encode, Reader, Writer};

const NONE: Fattr4<'static> = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
const OWNER: &[u8] = b"owner";
const LOCKER: &[u8] = b"locker";
/// `OPEN4_RESULT_CONFIRM`, `OPEN4_RESULT_LOCKTYPE_POSIX`.
const CONFIRM: u32 = 2;
const POSIX: u32 = 4;

fn oper(number: u32, args: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(number);
    w.put(args);
    w.bytes().to_vec()
}

fn plain(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn name(number: u32, name: &[u8]) -> Vec<u8> {
    oper(number, &Bytes::<1024>(name))
}

/// A reply: the status, how many results there are, and these.
#[derive(Debug, PartialEq, Eq)]
struct Results {
    status: Nfsstat4,
    count: u32,
    bytes: Vec<u8>,
}

/// A client that is confirmed.
struct Client {
    rig: Rig,
    id: u64,
    uid: u32,
    minor: u32,
}

fn location(addr: &str) -> ClientAddr4<'_> {
    ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(addr.as_bytes()) }
}

fn setclientid(verifier: u8, ident: u32, addr: &str) -> Vec<u8> {
    let args = SetclientidArgs {
        verifier: [verifier; 8],
        id: Bytes(b"client"),
        cb_program: 0x4000_0000,
        cb_location: location(addr),
        callback_ident: ident,
    };
    oper(op::SETCLIENTID, &args)
}

impl Client {
    fn new() -> Self {
        let mut client = Self { rig: Rig::over(file_in_memory()), id: 0, uid: 0, minor: 0 };
        client.id = client.known(1, 1, "127.0.0.1.3.132");
        client
    }

    /// SETCLIENTID and SETCLIENTID_CONFIRM; the client's id.
    fn known(&self, verifier: u8, ident: u32, addr: &str) -> u64 {
        let known = self.call(&[setclientid(verifier, ident, addr)]);
        let mut r = results(&known, Nfsstat4::Ok);
        ok(&mut r, op::SETCLIENTID);
        let (clientid, confirm) = (r.u64().unwrap(), r.array().unwrap());
        let args = SetclientidConfirmArgs { clientid, confirm };
        let confirmed = self.call(&[oper(op::SETCLIENTID_CONFIRM, &args)]);
        assert_eq!(confirmed.status, Nfsstat4::Ok);
        clientid
    }

    fn call(&self, operations: &[Vec<u8>]) -> Results {
        let mut w = Writer::new();
        let count = u32::try_from(operations.len()).unwrap();
        w.put(&CompoundHead { tag: b"", minor: self.minor, count });
        w.raw(&operations.concat());
        let peer = Peer {
            addr: "127.0.0.1:900".parse().unwrap(),
            local: "127.0.0.1:2049".parse().unwrap(),
            transport: Transport::Tcp,
            security: self.rig.sender.security,
        };
        let sys = AuthSys::new(b"test", self.uid, self.uid, &[]).unwrap();
        let sender = self.rig.sender.principal.as_ref();
        let credential = sender.map_or(Credential::Sys(sys), Credential::Principal);
        let mut call = Call::new(1, &peer, credential, &Awake);
        let program = nfs_program(Arc::clone(&self.rig.nfs));
        let row = program.row(4, 1).unwrap().id;
        let mut reply = Writer::new();
        program.run(row, &mut call, &mut Reader::new(w.bytes()), &mut reply).unwrap();
        let mut r = Reader::new(reply.bytes());
        let status = r.get().unwrap();
        let [_tag, count] = r.words().unwrap();
        Results { status, count, bytes: r.rest().to_vec() }
    }

    fn on(&self, handle: &[u8], operations: &[Vec<u8>]) -> Results {
        let putfh = oper(op::PUTFH, &Bytes::<128>(handle));
        self.call(&[&[putfh], operations].concat())
    }

    fn at_root(&self, operations: &[Vec<u8>]) -> Results {
        self.on(&self.rig.root(), operations)
    }

    fn on_file(&self, operation: Vec<u8>) -> Results {
        self.on(&self.rig.handle("file"), &[operation])
    }

    fn open_args<'a>(&self, seqid: u32, claim: OpenClaim4<'a>) -> OpenArgs<'a> {
        OpenArgs {
            seqid,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid: self.id, owner: Bytes(OWNER) },
            how: OpenHow4::NoCreate,
            claim,
        }
    }

    /// OPEN of the file in the root with GETFH behind it.
    fn open(&self, seqid: u32) -> Results {
        let args = self.open_args(seqid, OpenClaim4::Null(Bytes(b"file")));
        self.at_root(&[oper(op::OPEN, &args), plain(op::GETFH)])
    }

    /// The stateid of the file, open and confirmed with numbers 1 and 2.
    fn confirmed(&self) -> Stateid4 {
        let (stateid, flags) = opened(&self.open(1));
        assert_eq!(flags, CONFIRM | POSIX);
        let args = OpenConfirmArgs { stateid, seqid: 2 };
        stateid_in(&self.on_file(oper(op::OPEN_CONFIRM, &args)), op::OPEN_CONFIRM)
    }

    fn lock_new(&self, (open_seqid, open): (u32, Stateid4), lock_seqid: u32) -> Results {
        let owner = LockOwner4 { clientid: self.id, owner: Bytes(LOCKER) };
        let locker = Locker4::New(OpenToLockOwner4 { open_seqid, open, lock_seqid, owner });
        self.lock(LockType4::Write, (0, 10), locker)
    }

    fn lock(&self, kind: LockType4, (offset, length): (u64, u64), locker: Locker4<'_>) -> Results {
        let args = LockArgs { kind, reclaim: false, offset, length, locker };
        self.on_file(oper(op::LOCK, &args))
    }

    fn write(&self, stateid: Stateid4) -> Nfsstat4 {
        let stable = StableHow4::Unstable;
        let args = WriteArgs { stateid, offset: 0, stable, data: Bytes(b"data") };
        self.on_file(oper(op::WRITE, &args)).status
    }

    fn read(&self, stateid: Stateid4) -> Nfsstat4 {
        self.on_file(oper(op::READ, &ReadArgs { stateid, offset: 0, count: 9 })).status
    }

    fn close(&self, seqid: u32, stateid: Stateid4) -> Results {
        self.on_file(oper(op::CLOSE, &CloseArgs { seqid, stateid }))
    }
}

/// The results of a COMPOUND that ended so.
fn results(of: &Results, status: Nfsstat4) -> Reader<'_> {
    assert_eq!(of.status, status);
    Reader::new(&of.bytes)
}

/// Reads the head of an operation's result that succeeded.
fn ok(r: &mut Reader<'_>, number: u32) {
    assert_eq!(r.words().unwrap(), [number, 0]);
}

/// The stateid and the flags of an OPEN behind PUTFH.
fn opened(of: &Results) -> (Stateid4, u32) {
    let mut r = results(of, Nfsstat4::Ok);
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::OPEN);
    let stateid = r.get().unwrap();
    r.opaque_fixed(20).unwrap();
    let flags = r.u32().unwrap();
    r.get::<Bitmap4>().unwrap();
    assert_eq!(r.u32().unwrap(), 0, "no delegation");
    (stateid, flags)
}

/// The stateid of an operation behind PUTFH.
fn stateid_in(of: &Results, number: u32) -> Stateid4 {
    let mut r = results(of, Nfsstat4::Ok);
    ok(&mut r, op::PUTFH);
    ok(&mut r, number);
    r.get().unwrap()
}

#[test]
fn a_file_is_opened_confirmed_used_narrowed_and_closed() {
    let client = Client::new();
    let (stateid, flags) = opened(&client.open(1));
    assert_eq!(flags, CONFIRM | POSIX);
    assert_eq!(client.write(stateid), Nfsstat4::BadStateid, "not confirmed");
    let args = OpenConfirmArgs { stateid, seqid: 2 };
    let stateid = stateid_in(&client.on_file(oper(op::OPEN_CONFIRM, &args)), op::OPEN_CONFIRM);
    assert_eq!((client.write(stateid), client.read(stateid)), (Nfsstat4::Ok, Nfsstat4::Ok));
    // the same owner again: no confirmation any more, the next version of the stateid
    let args =
        OpenArgs { share_access: 1, ..client.open_args(3, OpenClaim4::Null(Bytes(b"file"))) };
    let again = client.at_root(&[oper(op::OPEN, &args)]);
    assert_eq!(opened(&again), (Stateid4 { seqid: 3, ..stateid }, POSIX));
    assert_eq!(client.read(stateid), Nfsstat4::OldStateid);
    let stateid = Stateid4 { seqid: 3, ..stateid };
    let narrow = |seqid, share_access| {
        let args = OpenDowngradeArgs { stateid, seqid, share_access, share_deny: 0 };
        client.on_file(oper(op::OPEN_DOWNGRADE, &args))
    };
    assert_eq!(narrow(4, 8).status, Nfsstat4::Inval);
    let stateid = stateid_in(&narrow(5, 1), op::OPEN_DOWNGRADE);
    assert_eq!(client.write(stateid), Nfsstat4::OpenMode);
    assert_eq!(client.read(stateid), Nfsstat4::Ok);
    assert_eq!(client.close(6, stateid).status, Nfsstat4::Ok);
    assert_eq!(client.read(stateid), Nfsstat4::BadStateid);
    let renewed = |clientid| client.call(&[oper(op::RENEW, &RenewArgs { clientid })]).status;
    assert_eq!(renewed(client.id), Nfsstat4::Ok);
    assert_eq!(renewed(client.id ^ 1 << 40), Nfsstat4::StaleClientid);
}

#[test]
fn a_request_that_is_sent_again_gets_the_same_answer() {
    let client = Client::new();
    let first = client.open(1);
    // with the filehandle that OPEN made the current one
    assert_eq!(client.open(1), first);
    let (stateid, _) = opened(&first);
    let confirm = oper(op::OPEN_CONFIRM, &OpenConfirmArgs { stateid, seqid: 2 });
    let confirmed = client.on_file(confirm.clone());
    assert_eq!(client.on_file(confirm), confirmed);
    // a failure as well; and what failed so that the number stays is run again
    let vapor = |seqid| {
        let args = client.open_args(seqid, OpenClaim4::Null(Bytes(b"vapor")));
        client.at_root(&[oper(op::OPEN, &args)])
    };
    let failed = vapor(3);
    assert_eq!(failed.status, Nfsstat4::NoEnt);
    client.at_root(&[oper(
        op::CREATE,
        &CreateArgs { what: CreateType4::Dir, name: Bytes(b"vapor"), attrs: NONE },
    )]);
    assert_eq!(vapor(3), failed);
    assert_eq!(vapor(4).status, Nfsstat4::IsDir);
    assert_eq!(vapor(3).status, Nfsstat4::BadSeqid);
    assert_eq!(client.open(4).status, Nfsstat4::BadSeqid, "another request with its number");
    let stateid = stateid_in(&confirmed, op::OPEN_CONFIRM);
    let wrong = Stateid4 { seqid: 9, ..stateid };
    assert_eq!(client.close(5, wrong).status, Nfsstat4::BadStateid);
    let closed = client.close(5, stateid);
    assert_eq!(closed.status, Nfsstat4::Ok);
    assert_eq!(client.close(5, stateid), closed);
}

#[test]
fn an_unconfirmed_open_is_taken_back_by_a_wrong_number() {
    let client = Client::new();
    let (stateid, _) = opened(&client.open(1));
    let confirm = |seqid| {
        let args = OpenConfirmArgs { stateid, seqid };
        client.on_file(oper(op::OPEN_CONFIRM, &args)).status
    };
    assert_eq!(
        client.call(&[oper(op::OPEN_CONFIRM, &OpenConfirmArgs { stateid, seqid: 2 })]).status,
        Nfsstat4::NoFilehandle
    );
    assert_eq!(confirm(50), Nfsstat4::BadSeqid);
    assert_eq!(confirm(2), Nfsstat4::BadStateid);
    assert_eq!(opened(&client.open(7)).1, CONFIRM | POSIX);
}

#[test]
fn locks_have_owners_with_numbers() {
    let client = Client::new();
    let open = client.confirmed();
    let first = client.lock_new((3, open), 70);
    let lock = stateid_in(&first, op::LOCK);
    assert_eq!(client.lock_new((3, open), 70), first, "sent again");
    let known = |lock_seqid, lock| Locker4::Known(ExistLockOwner4 { lock, lock_seqid });
    let read = LockType4::Read;
    assert_eq!(client.lock(read, (20, 5), known(70, lock)).status, Nfsstat4::BadSeqid);
    assert_eq!(client.lock(read, (20, 0), known(71, lock)).status, Nfsstat4::Inval);
    let second = client.lock(read, (20, 5), known(72, lock));
    assert_eq!(stateid_in(&second, op::LOCK), Stateid4 { seqid: 2, ..lock });
    assert_eq!(client.lock(read, (20, 5), known(72, lock)), second, "sent again");
    let old = client.lock(read, (30, 5), known(73, lock));
    assert_eq!(old.status, Nfsstat4::OldStateid);
    assert_eq!(client.read(Stateid4 { seqid: 2, ..lock }), Nfsstat4::Ok);
    // another owner is told what is in the way, and so when it asks again
    let owner = LockOwner4 { clientid: client.id, owner: Bytes(b"other") };
    let new = OpenToLockOwner4 { open_seqid: 4, open, lock_seqid: 1, owner };
    let denied = client.lock(LockType4::Write, (5, 1), Locker4::New(new));
    let mut r = results(&denied, Nfsstat4::Denied);
    ok(&mut r, op::PUTFH);
    assert_eq!(r.words().unwrap(), [op::LOCK, Nfsstat4::Denied.number()]);
    let holder = LockOwner4 { clientid: client.id, owner: Bytes(LOCKER) };
    let expected = LockDenied { offset: 0, length: 10, kind: LockType4::Write, owner: holder };
    assert_eq!(r.get::<LockDenied<'_>>().unwrap(), expected);
    assert_eq!(client.lock(LockType4::Write, (5, 1), Locker4::New(new)), denied);
    let test = |clientid| {
        let owner = LockOwner4 { clientid, owner: Bytes(b"other") };
        let args = LocktArgs { kind: read, offset: 0, length: 1, owner };
        client.on_file(oper(op::LOCKT, &args)).status
    };
    assert_eq!(test(client.id), Nfsstat4::Denied);
    assert_eq!(test(1), Nfsstat4::StaleClientid);
    // given back, then released
    let owner = holder;
    let release = || client.call(&[oper(op::RELEASE_LOCKOWNER, &ReleaseLockownerArgs { owner })]);
    assert_eq!(release().status, Nfsstat4::LocksHeld);
    let args = LockuArgs {
        kind: read,
        seqid: 74,
        stateid: Stateid4 { seqid: 2, ..lock },
        offset: 0,
        length: u64::MAX,
    };
    let given = client.on_file(oper(op::LOCKU, &args));
    assert_eq!(stateid_in(&given, op::LOCKU), Stateid4 { seqid: 3, ..lock });
    assert_eq!(client.on_file(oper(op::LOCKU, &args)), given, "sent again");
    assert_eq!(release().status, Nfsstat4::Ok);
    let gone = client.lock(read, (20, 5), known(75, Stateid4 { seqid: 3, ..lock }));
    assert_eq!(gone.status, Nfsstat4::BadStateid);
    // what is locked goes with the open
    let lock = stateid_in(&client.lock_new((5, open), 1), op::LOCK);
    assert_eq!(client.close(6, open).status, Nfsstat4::Ok);
    assert_eq!(client.read(lock), Nfsstat4::BadStateid);
    assert_eq!(test(client.id), Nfsstat4::Ok);
}

#[test]
fn whoever_has_not_opened_the_file_is_checked_by_its_mode() {
    let mut client = Client::new();
    let stateid = client.confirmed();
    client.uid = 3912;
    assert_eq!(client.write(stateid), Nfsstat4::Access);
    assert_eq!(client.read(stateid), Nfsstat4::Access);
    client.uid = 0;
    assert_eq!(client.write(stateid), Nfsstat4::Ok);
}

#[test]
fn a_file_that_is_open_for_writing_only_can_be_read() {
    let client = Client::new();
    let args =
        OpenArgs { share_access: 2, ..client.open_args(1, OpenClaim4::Null(Bytes(b"file"))) };
    let (stateid, _) = opened(&client.at_root(&[oper(op::OPEN, &args)]));
    let args = OpenConfirmArgs { stateid, seqid: 2 };
    let stateid = stateid_in(&client.on_file(oper(op::OPEN_CONFIRM, &args)), op::OPEN_CONFIRM);
    assert_eq!(client.read(stateid), Nfsstat4::Ok);
    // unless somebody's open denies it
    let deny = OpenArgs {
        owner: OpenOwner4 { clientid: client.id, owner: Bytes(b"other") },
        share_access: 1,
        share_deny: 1,
        ..client.open_args(1, OpenClaim4::Null(Bytes(b"file")))
    };
    opened(&client.at_root(&[oper(op::OPEN, &deny)]));
    assert_eq!(client.read(stateid), Nfsstat4::Locked);
}

#[test]
fn operations_are_those_of_the_minor_version() {
    let mut client = Client::new();
    let illegal = |of: &Results| {
        let mut r = results(of, Nfsstat4::OpIllegal);
        assert_eq!(r.words().unwrap(), [op::ILLEGAL, Nfsstat4::OpIllegal.number()]);
        assert_eq!((of.count, r.rest().len()), (1, 0));
    };
    for number in [0, 2, op::BACKCHANNEL_CTL, op::SEQUENCE, op::RECLAIM_COMPLETE, 60, u32::MAX] {
        illegal(&client.call(&[plain(number)]));
    }
    for number in [op::DELEGPURGE, op::OPENATTR] {
        assert_eq!(client.call(&[plain(number)]).status, Nfsstat4::NotSupp);
    }
    assert_eq!(client.call(&[]).status, Nfsstat4::Ok);
    let many = vec![plain(op::PUTROOTFH); 129];
    let refused = client.call(&many);
    assert_eq!((refused.status, refused.count), (Nfsstat4::Resource, 0));
    assert_eq!(client.call(&many[..128]).count, 128);
    let pubfh = client.call(&[plain(op::PUTPUBFH), plain(op::GETFH)]);
    let rootfh = client.call(&[plain(op::PUTROOTFH), plain(op::GETFH)]);
    assert_eq!(pubfh.bytes[16..], rootfh.bytes[16..]);
    // the saved filehandle, and SECINFO, which leaves the current one
    assert_eq!(client.at_root(&[plain(op::RESTOREFH)]).status, Nfsstat4::RestoreFh);
    let asked = client.at_root(&[name(op::SECINFO, b"file"), plain(op::GETFH)]);
    assert_eq!((asked.status, asked.count), (Nfsstat4::Ok, 3));
    client.minor = 1;
    assert_eq!(client.call(&[plain(op::RENEW)]).status, Nfsstat4::NotSupp);
    client.minor = 3;
    assert_eq!(client.call(&[]).status, Nfsstat4::MinorVersMismatch);
}

#[test]
fn failures_are_those_of_the_minor_version() {
    let client = Client::new();
    for (made, what) in [(&b"fifo"[..], CreateType4::Fifo), (b"dir", CreateType4::Dir)] {
        let args = CreateArgs { what, name: Bytes(made), attrs: NONE };
        assert_eq!(client.at_root(&[oper(op::CREATE, &args)]).status, Nfsstat4::Ok);
    }
    let open = |seqid, claim, how| {
        let args = OpenArgs { how, ..client.open_args(seqid, claim) };
        client.at_root(&[oper(op::OPEN, &args)]).status
    };
    let named = |name| OpenClaim4::Null(Bytes(name));
    // what the XDR of version 4.0 does not have; the owner's numbers stay
    let no = OpenHow4::NoCreate;
    assert_eq!(open(1, OpenClaim4::Fh, no), Nfsstat4::BadXdr);
    let exclusive41 = OpenHow4::Create(Createhow4::Exclusive41([1; 8], NONE));
    assert_eq!(open(1, named(b"new"), exclusive41), Nfsstat4::BadXdr);
    assert_eq!(open(1, named(b"fifo"), no), Nfsstat4::Symlink);
    assert_eq!(open(2, named(b""), no), Nfsstat4::Inval);
    assert_eq!(open(3, OpenClaim4::DelegatePrev(Bytes(b"file")), no), Nfsstat4::NotSupp);
    assert_eq!(client.on_file(plain(op::READLINK)).status, Nfsstat4::Inval);
    let link = [plain(op::PUTROOTFH), name(op::LOOKUP, b"e"), name(op::LOOKUP, b"dir")];
    let link = [&link[..], &[plain(op::SAVEFH), plain(op::LOOKUPP), name(op::LINK, b"l")]].concat();
    assert_eq!(client.call(&link).status, Nfsstat4::IsDir);
    // there is no current stateid
    assert_eq!(client.read(Stateid4::CURRENT), Nfsstat4::BadStateid);
    assert_eq!(client.read(Stateid4::ANONYMOUS), Nfsstat4::Ok);
    // of an earlier instance of the server
    let stateid = Stateid4 { seqid: 1, other: [7; 12] };
    assert_eq!(client.read(stateid), Nfsstat4::StaleStateid);
    assert_eq!(client.close(1, stateid).status, Nfsstat4::StaleStateid);
    let size = Fattr4 { mask: Bitmap4::of(&[attr::SIZE]), values: Bytes(&[0; 8]) };
    let set = SetattrArgs { stateid, attrs: size };
    assert_eq!(client.on_file(oper(op::SETATTR, &set)).status, Nfsstat4::StaleStateid);
}

#[test]
fn exclusive_create_is_found_again_by_its_verifier() {
    let client = Client::new();
    let create = |seqid, verifier| {
        let how = OpenHow4::Create(Createhow4::Exclusive([verifier; 8]));
        let claim = OpenClaim4::Null(Bytes(b"new"));
        client.at_root(&[oper(op::OPEN, &OpenArgs { how, ..client.open_args(seqid, claim) })])
    };
    let (stateid, _) = opened(&create(1, 5));
    let file = client.rig.handle("new");
    let confirm = oper(op::OPEN_CONFIRM, &OpenConfirmArgs { stateid, seqid: 2 });
    assert_eq!(client.on(&file, &[confirm]).status, Nfsstat4::Ok);
    assert_eq!(opened(&create(3, 5)).0, Stateid4 { seqid: 3, ..stateid });
    assert_eq!(create(4, 6).status, Nfsstat4::Exist);
}

#[test]
fn a_reply_is_bounded_where_no_session_bounds_it() {
    let client = Client::new();
    let stateid = client.confirmed();
    let args =
        WriteArgs { stateid, offset: 0, stable: StableHow4::Unstable, data: Bytes(&[1; 4096]) };
    assert_eq!(client.on_file(oper(op::WRITE, &args)).status, Nfsstat4::Ok);
    client.rig.nfs.settings.max_read.store(4096, Relaxed);
    let read = oper(op::READ, &ReadArgs { stateid, offset: 0, count: 4096 });
    let many = client.on(&client.rig.handle("file"), &vec![read; 50]);
    assert_eq!(many.status, Nfsstat4::Resource);
    assert!(many.bytes.len() < 4096 + 16 * 1024, "{}", many.bytes.len());
    assert!(many.count > 4);
}

#[test]
fn callbacks_go_to_the_address_that_the_client_calls_from_only() {
    let client = Client::new();
    client.rig.calls.take();
    let path = || client.rig.nfs.v4.state.callback_of(client.id).unwrap().path();
    // the same verifier: only where callbacks go changes
    assert_eq!(client.known(1, 7, "127.0.0.1.3.132"), client.id);
    let mut sent = client.rig.calls.take();
    assert_eq!(sent.len(), 1);
    let probe = sent.remove(0);
    assert_eq!((probe.program, probe.version, probe.procedure), (0x4000_0000, 1, 0));
    let CallTarget::Machine { to, port, .. } = probe.target else { panic!() };
    assert_eq!(to.addr().to_string(), "127.0.0.1");
    assert_eq!(port, rpc::ProgramPort::Known(3 << 8 | 132));
    assert_eq!(path(), CallbackPath::Unknown);
    (probe.done)(Ok(&[]));
    assert_eq!(path(), CallbackPath::Up);
    assert_eq!(client.rig.nfs.v4.state.callback_of(client.id).unwrap().ident, 7);
    // another machine's, no TCP, no port, nothing that is an address
    for addr in ["127.0.0.2.3.132", "::1.3.132", "127.0.0.1.0.0", "", "example.org"] {
        assert_eq!(client.known(1, 8, addr), client.id, "{addr}");
        assert_eq!(client.rig.calls.take().len(), 0, "{addr}");
        assert_eq!(path(), CallbackPath::Down);
    }
}

/// By the flavour of SETCLIENTID (RFC 7530 §3.3.3): there is none for Kerberos, and nothing that TLS has protected is sent without.
#[test]
fn callbacks_are_authenticated_as_setclientid_was() {
    let mut client = Client::new();
    let credential = |client: &Client, id| {
        let callback = client.rig.nfs.v4.state.callback_of(id).unwrap();
        callback.credential.clone()
    };
    let CallbackCredential::User(user) = credential(&client, client.id) else { panic!() };
    assert_eq!((user.uid, user.gid, &*user.machine, &*user.groups), (0, 0, &b"test"[..], &[][..]));
    client.rig.sender.security = rpc::TransportSecurity::TLS;
    let id = client.known(2, 1, "127.0.0.1.3.132");
    assert_eq!(credential(&client, id), CallbackCredential::Unavailable);
    let mut client = Client::new();
    let name = Box::from(&b"host/a@R"[..]);
    client.rig.sender.principal = Some(rpc::Principal { flavor: 390_003, name, user: None });
    let id = client.known(3, 1, "127.0.0.1.3.132");
    assert_eq!(credential(&client, id), CallbackCredential::Unavailable);
}

#[test]
fn somebody_else_does_not_get_the_name_of_a_client_with_state() {
    let mut client = Client::new();
    client.confirmed();
    client.uid = 5;
    let refused = client.call(&[setclientid(1, 1, "127.0.0.1.3.132")]);
    let mut r = results(&refused, Nfsstat4::ClidInUse);
    assert_eq!(r.words().unwrap(), [op::SETCLIENTID, Nfsstat4::ClidInUse.number()]);
    assert_eq!(r.get::<ClientAddr4<'_>>().unwrap(), location(""));
}

#[test]
fn what_a_restarted_client_had_is_expired() {
    let client = Client::new();
    let stateid = client.confirmed();
    let id = client.known(2, 1, "127.0.0.1.3.132");
    assert_ne!(id, client.id);
    assert_eq!(client.close(3, stateid).status, Nfsstat4::Expired);
    assert_eq!(client.open(3).status, Nfsstat4::Expired);
    assert!(client.rig.nfs.v4_opens().is_empty());
}

#[test]
fn opens_and_locks_are_reclaimed_after_a_restart() {
    let mut client = Client::new();
    let clients_stored = |rig: &Rig| {
        let stored = rig.store.stored.lock().unwrap();
        stored.iter().filter(|record| matches!(record, Record::Client(_))).count()
    };
    assert_eq!(clients_stored(&client.rig), 0, "a mount alone is not recorded");
    client.rig.store.broken.store(true, Relaxed);
    assert_eq!(client.open(1).status, Nfsstat4::Delay);
    client.rig.store.broken.store(false, Relaxed);
    let (stateid, _) = opened(&client.open(2));
    assert_eq!(clients_stored(&client.rig), 1, "before its first OPEN is answered");
    let args = OpenConfirmArgs { stateid, seqid: 3 };
    let open = stateid_in(&client.on_file(oper(op::OPEN_CONFIRM, &args)), op::OPEN_CONFIRM);
    let lock = stateid_in(&client.lock_new((4, open), 1), op::LOCK);
    client.rig = client.rig.restarted();
    let renew = oper(op::RENEW, &RenewArgs { clientid: client.id });
    assert_eq!(client.call(&[renew]).status, Nfsstat4::StaleClientid);
    assert_eq!(client.open(5).status, Nfsstat4::StaleClientid);
    assert_eq!(client.write(open), Nfsstat4::StaleStateid);
    assert_eq!(client.close(5, open).status, Nfsstat4::StaleStateid);
    assert_eq!(client.read(lock), Nfsstat4::StaleStateid);
    client.id = client.known(1, 1, "127.0.0.1.3.132");
    // nothing new; what was open needs no confirmation
    assert_eq!(client.open(5).status, Nfsstat4::Grace);
    let claim = client.open_args(6, OpenClaim4::Previous(0));
    let (open, flags) = opened(&client.on_file(oper(op::OPEN, &claim)));
    assert_eq!(flags, POSIX);
    assert_eq!(client.write(open), Nfsstat4::Ok);
    let new = OpenToLockOwner4 {
        open_seqid: 7,
        open,
        lock_seqid: 1,
        owner: LockOwner4 { clientid: client.id, owner: Bytes(LOCKER) },
    };
    let lock = |new, reclaim| {
        let (kind, locker) = (LockType4::Write, Locker4::New(new));
        client.on_file(oper(op::LOCK, &LockArgs { kind, reclaim, offset: 0, length: 10, locker }))
    };
    assert_eq!(lock(new, false).status, Nfsstat4::Grace);
    stateid_in(&lock(OpenToLockOwner4 { open_seqid: 8, ..new }, true), op::LOCK);
    // once the grace period is over nothing is reclaimed
    let ended = client.rig.nfs.state.end_grace().unwrap();
    let _nothing = client.rig.nfs.state.persisted(client.rig.nfs.clock.now(), &ended);
    let late = client.open_args(9, OpenClaim4::Previous(0));
    assert_eq!(client.on_file(oper(op::OPEN, &late)).status, Nfsstat4::NoGrace);
    assert_eq!(opened(&client.open(10)).1, POSIX);
}

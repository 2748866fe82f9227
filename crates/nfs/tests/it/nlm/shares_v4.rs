//! Opens of version 4 with deny modes beside SHARE and calls of versions 2 and 3, and SHARE beside opens, delegations and special
//! stateids of version 4.

use super::rig::{A, B, Owner, Rig, file_in_memory};
use super::shares::{OTHER, admit_both, of_version_3, status};
use super::version4::{Client, oper};
use bowline_nfs::v2::handle::short_handle;
use export::Delegate;
use proto::layout::Bytes;
use proto::nfs2::{Nfsstat2, ReadArgs2, Sattr2, SetattrArgs2, WriteArgs2, procedure as p2};
use proto::nfs3::Nfsstat3;
use proto::nfs4::{
    Bitmap4, Createhow4, Fattr4, Nfsstat4, OpenArgs, OpenClaim4, OpenDowngradeArgs, OpenHow4,
    OpenOwner4, ReadArgs, SetattrArgs, StableHow4, Stateid4, WriteArgs, attr, op,
};
use proto::nlm::{ShareAccess, ShareDeny, Status, procedure as p};
use state::Limits;
use state::v4::V4Limits;
use std::sync::Arc;
use vfs_mem::{FaultyFs, MemFs, MemOptions};
use xdr::Reader;

const LEASE_MS: u64 = 2000;
/// From when on others may have what a host holds that sends no call.
const SILENT_MS: u64 = 24 * 3_600_000;
/// The bits of `OPEN4_SHARE_ACCESS_*` and `OPEN4_SHARE_DENY_*`.
const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;
const OK: u32 = 0;
/// `NFS3ERR_ACCES` and `NFSERR_ACCES`.
const NO: u32 = Nfsstat3::Acces.number();

fn rig() -> Rig {
    let limits = V4Limits { lease_ms: LEASE_MS, ..V4Limits::default() };
    let rig = Rig::with_limits(file_in_memory(), Limits::default(), limits);
    admit_both(&rig);
    rig
}

fn share(rig: &Rig, who: Owner, access: ShareAccess, deny: ShareDeny) -> Status {
    rig.share(who, p::SHARE, &rig.handle("file"), (access, deny))
}

fn unshare(rig: &Rig, who: Owner, access: ShareAccess, deny: ShareDeny) {
    let answer = rig.share(who, p::UNSHARE, &rig.handle("file"), (access, deny));
    assert_eq!(answer, Status::Granted);
}

/// What READ, WRITE and SETATTR of the size by version 2 are answered.
fn of_version_2(rig: &Rig, addr: &str) -> [u32; 3] {
    let file = short_handle(&rig.handle("file"));
    let read = ReadArgs2 { file, offset: 0, count: 10, totalcount: 0 };
    let data = Bytes(&b"x"[..]);
    let write = WriteArgs2 { file, beginoffset: 0, offset: 0, totalcount: 0, data };
    let set = SetattrArgs2 { file, set: Sattr2 { size: 0, ..Sattr2::default() } };
    [
        status(rig, addr, (2, p2::READ), &read),
        status(rig, addr, (2, p2::WRITE), &write),
        status(rig, addr, (2, p2::SETATTR), &set),
    ]
}

impl Client<'_> {
    fn open_denying(&self, access: u32, deny: u32) -> Result<Stateid4, Nfsstat4> {
        self.claim(b"o", (access, deny), OpenClaim4::Fh)
    }

    /// What READ, WRITE and SETATTR of the size by this stateid are answered.
    fn without_open(&self, stateid: Stateid4) -> [Nfsstat4; 3] {
        let read = oper(op::READ, &ReadArgs { stateid, offset: 0, count: 10 });
        let (stable, data) = (StableHow4::Unstable, Bytes(&b"x"[..]));
        let write = oper(op::WRITE, &WriteArgs { stateid, offset: 0, stable, data });
        let size = [0; 8];
        let attrs = Fattr4 { mask: Bitmap4::of(&[attr::SIZE]), values: Bytes(&size) };
        let set = oper(op::SETATTR, &SetattrArgs { stateid, attrs });
        [read, write, set].map(|operation| self.on_file(operation).0)
    }

    /// OPEN for reading that cuts the file.
    fn cut(&self, rig: &Rig) -> Nfsstat4 {
        let size = [0; 8];
        self.create_with(rig, Fattr4 { mask: Bitmap4::of(&[attr::SIZE]), values: Bytes(&size) })
    }

    fn create(&self, rig: &Rig) -> Nfsstat4 {
        self.create_with(rig, Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") })
    }

    fn create_with(&self, rig: &Rig, attrs: Fattr4<'_>) -> Nfsstat4 {
        let args = OpenArgs {
            seqid: 0,
            share_access: READ,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"cuts") },
            how: OpenHow4::Create(Createhow4::Unchecked(attrs)),
            claim: OpenClaim4::Null(Bytes(b"file")),
        };
        let putfh = oper(op::PUTFH, &Bytes::<128>(&rig.root()));
        self.call(&[putfh, oper(op::OPEN, &args)]).0
    }
}

#[test]
fn opens_deny_access_to_versions_2_and_3_and_to_share() {
    let rig = rig();
    let client = Client::new(&rig, b"one", 1);
    let opened = client.open_denying(READ, WRITE).unwrap();
    for addr in [OTHER, A.addr] {
        assert_eq!(of_version_3(&rig, addr), [OK, NO, NO, NO, OK, OK]);
        assert_eq!(of_version_2(&rig, addr), [OK, NO, NO]);
    }
    assert_eq!(Nfsstat2::Acces.number(), NO);
    assert_eq!(share(&rig, A, ShareAccess::Write, ShareDeny::None), Status::Denied);
    assert_eq!(share(&rig, A, ShareAccess::Read, ShareDeny::Read), Status::Denied);
    assert_eq!(rig.nfs.state.totals().files, 0, "nothing is left of what was denied");
    assert_eq!(share(&rig, A, ShareAccess::Read, ShareDeny::None), Status::Granted);
    unshare(&rig, A, ShareAccess::Read, ShareDeny::None);
    // opened again, and narrowed
    let opened_again = client.open_denying(READ, 0).unwrap();
    assert_eq!(opened_again.other, opened.other);
    let downgrade =
        OpenDowngradeArgs { stateid: opened_again, seqid: 0, share_access: READ, share_deny: 0 };
    assert_eq!(client.on_file(oper(op::OPEN_DOWNGRADE, &downgrade)).0, Nfsstat4::Ok);
    assert_eq!(of_version_3(&rig, OTHER), [OK; 6]);
    assert_eq!(of_version_2(&rig, OTHER), [OK; 3]);
    assert_eq!(share(&rig, A, ShareAccess::Write, ShareDeny::None), Status::Granted);
    unshare(&rig, A, ShareAccess::Write, ShareDeny::None);
    // another client's, which is closed
    let other = Client::new(&rig, b"two", 1);
    let denying = other.open_denying(WRITE, WRITE).unwrap();
    assert_eq!(of_version_2(&rig, OTHER), [OK, NO, NO]);
    assert_eq!(other.close(denying), Nfsstat4::Ok);
    assert_eq!(of_version_3(&rig, OTHER), [OK; 6]);
    assert!(!rig.nfs.state.has_denials());
}

#[test]
fn share_reservations_deny_opens_and_special_stateids() {
    let rig = rig();
    let client = Client::new(&rig, b"one", 1);
    let (ok, locked) = (Nfsstat4::Ok, Nfsstat4::Locked);
    assert_eq!(share(&rig, A, ShareAccess::Both, ShareDeny::Write), Status::Granted);
    assert_eq!(client.open_denying(WRITE, 0), Err(Nfsstat4::ShareDenied));
    assert_eq!(client.open_denying(READ, READ), Err(Nfsstat4::ShareDenied));
    assert_eq!(client.without_open(Stateid4::ANONYMOUS), [ok, locked, locked]);
    assert_eq!(client.cut(&rig), Nfsstat4::ShareDenied);
    let opened = client.open_denying(READ, 0).unwrap();
    assert_eq!(client.open_denying(BOTH, 0), Err(Nfsstat4::ShareDenied), "no upgrade");
    assert_eq!(client.close(opened), ok);
    unshare(&rig, A, ShareAccess::Both, ShareDeny::Write);
    assert_eq!(share(&rig, A, ShareAccess::Write, ShareDeny::Read), Status::Granted);
    assert_eq!(client.without_open(Stateid4::ANONYMOUS), [locked, ok, ok]);
    assert_eq!(client.without_open(Stateid4::BYPASS), [ok; 3]);
    assert_eq!(client.cut(&rig), Nfsstat4::ShareDenied, "it reads");
    unshare(&rig, A, ShareAccess::Write, ShareDeny::Read);
    assert_eq!(client.without_open(Stateid4::ANONYMOUS), [ok; 3]);
    assert_eq!(client.cut(&rig), ok);
    // one without a deny mode is in the way of an open that has one
    assert_eq!(share(&rig, A, ShareAccess::Write, ShareDeny::None), Status::Granted);
    assert_eq!(client.open_denying(READ, WRITE), Err(Nfsstat4::ShareDenied));
    assert!(client.open_denying(READ, 0).is_ok());
}

#[test]
fn what_the_silent_deny_ends_when_somebody_wants_it() {
    let rig = rig();
    let one = Client::new(&rig, b"one", 1);
    let deny = |client: &Client<'_>| client.open_denying(BOTH, BOTH).unwrap();
    deny(&one);
    rig.nfs.clock.advance_ms(LEASE_MS + 1000);
    assert_eq!(of_version_3(&rig, OTHER), [OK; 6]);
    assert_eq!(one.call(&[]).0, Nfsstat4::BadSession);
    let two = Client::new(&rig, b"two", 1);
    deny(&two);
    assert_eq!(share(&rig, A, ShareAccess::Both, ShareDeny::Both), Status::Denied);
    rig.nfs.clock.advance_ms(LEASE_MS + 1000);
    assert_eq!(share(&rig, A, ShareAccess::Both, ShareDeny::Both), Status::Granted);
    assert_eq!(two.call(&[]).0, Nfsstat4::BadSession);
    // a host of NLM that is gone
    let three = Client::new(&rig, b"three", 1);
    assert_eq!(three.open_denying(READ, 0), Err(Nfsstat4::ShareDenied));
    assert_eq!(share(&rig, B, ShareAccess::Read, ShareDeny::None), Status::Denied);
    rig.nfs.clock.advance_ms(SILENT_MS);
    assert_eq!(of_version_2(&rig, OTHER), [OK; 3]);
    assert_eq!(share(&rig, A, ShareAccess::Both, ShareDeny::Both), Status::Granted);
    rig.nfs.clock.advance_ms(SILENT_MS);
    assert_eq!(share(&rig, B, ShareAccess::Both, ShareDeny::Both), Status::Granted);
    rig.nfs.clock.advance_ms(SILENT_MS);
    let four = Client::new(&rig, b"four", 1);
    assert_eq!(four.without_open(Stateid4::ANONYMOUS), [Nfsstat4::Ok; 3]);
    assert_eq!(share(&rig, A, ShareAccess::Both, ShareDeny::Both), Status::Granted);
    rig.nfs.clock.advance_ms(SILENT_MS);
    let five = Client::new(&rig, b"five", 1);
    deny(&five);
    assert!(rig.nlm().held().is_empty());
}

/// The stateid of the delegation that comes with an open, if one does.
fn delegated(rig: &Rig, client: &Client<'_>) -> Option<Stateid4> {
    rig.nfs.v4.state.read().session(&client.session()).unwrap().set_callbacks(true);
    let args = OpenArgs {
        seqid: 0,
        share_access: READ,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: Bytes(b"o") },
        how: OpenHow4::NoCreate,
        claim: OpenClaim4::Fh,
    };
    let (status, opened) = client.on_file(oper(op::OPEN, &args));
    assert_eq!(status, Nfsstat4::Ok);
    let mut r = Reader::new(&opened);
    r.opaque_fixed(16 + 24).unwrap();
    r.get::<Bitmap4>().unwrap();
    (r.u32().unwrap() == 1).then(|| r.get().unwrap())
}

#[test]
fn share_recalls_delegations_and_prevents_them() {
    let memory = Arc::new(FaultyFs::new(MemFs::new(MemOptions::default())));
    let rig = Rig::over(memory);
    rig.nfs.set_delegations(Delegate::Read);
    let client = Client::new(&rig, b"one", 1);
    assert_eq!(client.create(&rig), Nfsstat4::Ok);
    let stateid = delegated(&rig, &client).unwrap();
    // reading beside it is no conflict
    assert_eq!(share(&rig, A, ShareAccess::Read, ShareDeny::None), Status::Granted);
    unshare(&rig, A, ShareAccess::Read, ShareDeny::None);
    assert_eq!(rig.nfs.delegation_counts().recalled, 0);
    let later = Status::DeniedGracePeriod;
    assert_eq!(share(&rig, A, ShareAccess::Read, ShareDeny::Read), later);
    assert_eq!(rig.nfs.delegation_counts().recalled, 1);
    let returned = client.on_file(oper(op::DELEGRETURN, &stateid));
    assert_eq!(returned.0, Nfsstat4::Ok);
    assert_eq!(share(&rig, A, ShareAccess::Read, ShareDeny::Read), Status::Denied, "it is open");
    // none is given while there is a reservation, to a client that has none of before
    let again = |verifier| {
        rig.nfs.clock.advance_ms(600_000);
        delegated(&rig, &Client::new(&rig, b"one", verifier)).is_some()
    };
    assert_eq!(share(&rig, A, ShareAccess::Read, ShareDeny::Write), Status::Granted);
    assert!(!again(2));
    unshare(&rig, A, ShareAccess::Read, ShareDeny::Write);
    assert!(again(3));
}

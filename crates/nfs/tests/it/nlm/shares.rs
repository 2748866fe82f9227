//! What a share reservation denies to the NFS calls of other clients.

use super::rig::{A, Owner, Rig, file_in_memory};
use crate::support::{Awake, at, exports, wire};
use bowline_nfs::nfs_program;
use proto::nfs3::{
    Bytes, CreateArgs, CreateHow3, Nfsstat3, ReadArgs, Sattr3, SetattrArgs, StableHow, WriteArgs,
    procedure as p3,
};
use proto::nlm::{ShareAccess, ShareDeny, Status, procedure as p};
use rpc::{AuthSys, Call, Credential, Peer, Program, Transport};
use std::sync::Arc;
use xdr::{Encode, Reader, Writer};

pub(super) const OTHER: &str = "127.0.0.2:700";

/// The status of a call of this version of NFS from this address.
pub(super) fn status(
    rig: &Rig,
    addr: &str,
    (version, procedure): (u32, u32),
    args: &impl Encode,
) -> u32 {
    let peer = Peer {
        addr: addr.parse().unwrap(),
        local: "127.0.0.1:2049".parse().unwrap(),
        transport: Transport::Tcp,
        security: rpc::TransportSecurity::PLAIN,
    };
    let sys = AuthSys::new(b"test", 0, 0, &[]).unwrap();
    let mut call = Call::new(1, &peer, Credential::Sys(sys), &Awake);
    let program = nfs_program(Arc::clone(&rig.nfs));
    let row = program.row(version, procedure).unwrap().id;
    let mut reply = Writer::new();
    program.run(row, &mut call, &mut Reader::new(&wire(args)), &mut reply).unwrap();
    Reader::new(reply.bytes()).u32().unwrap()
}

/// Makes both addresses clients of the export.
pub(super) fn admit_both(rig: &Rig) {
    rig.nfs.exports.replace(exports::table_for(
        &[("/e", rig.backend(), exports::RW)],
        &["127.0.0.1", "127.0.0.2"],
    ));
}

/// What READ, WRITE, SETATTR of the size and CREATE over the file are answered, and SETATTR and CREATE that neither read nor
/// write data.
pub(super) fn of_version_3(rig: &Rig, addr: &str) -> [u32; 6] {
    let (handle, root) = (rig.handle("file"), rig.root());
    let file = Bytes(handle.as_slice());
    let empty = Sattr3 { size: Some(0), ..Sattr3::default() };
    let mode = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
    let (stable, data) = (StableHow::Unstable, Bytes(&b"x"[..]));
    let create = |how| CreateArgs { place: at(&root, b"file"), how };
    let set = |set| SetattrArgs { object: file, set, guard: None };
    [
        status(rig, addr, (3, p3::READ), &ReadArgs { file, offset: 0, count: 10 }),
        status(rig, addr, (3, p3::WRITE), &WriteArgs { file, offset: 0, stable, data }),
        status(rig, addr, (3, p3::SETATTR), &set(empty)),
        status(rig, addr, (3, p3::CREATE), &create(CreateHow3::Unchecked(empty))),
        status(rig, addr, (3, p3::SETATTR), &set(mode)),
        status(rig, addr, (3, p3::CREATE), &create(CreateHow3::Unchecked(mode))),
    ]
}

#[test]
fn share_reservations_deny_access_to_other_clients() {
    let rig = Rig::over(file_in_memory());
    admit_both(&rig);
    let handle = rig.handle("file");
    let all = |addr: &str| of_version_3(&rig, addr);
    let (ok, no) = (Nfsstat3::Ok.number(), Nfsstat3::Acces.number());
    assert_eq!(all(OTHER), [ok; 6]);
    let share = |deny| {
        assert_eq!(rig.share(A, p::SHARE, &handle, (ShareAccess::Both, deny)), Status::Granted);
    };
    let unshare = |deny| {
        assert_eq!(rig.share(A, p::UNSHARE, &handle, (ShareAccess::Both, deny)), Status::Granted);
    };
    share(ShareDeny::Write);
    assert_eq!(all(OTHER), [ok, no, no, no, ok, ok]);
    assert_eq!(all(A.addr), [ok; 6], "its own reservation");
    unshare(ShareDeny::Write);
    share(ShareDeny::Read);
    assert_eq!(all(OTHER), [no, ok, ok, ok, ok, ok]);
    unshare(ShareDeny::Read);
    share(ShareDeny::None);
    assert_eq!(all(OTHER), [ok; 6]);
    assert!(!rig.nfs.state.has_denials());
    let elsewhere = Owner { addr: OTHER, ..A };
    rig.free_all(elsewhere, A.addr.as_bytes());
    assert_eq!(rig.nfs.state.totals().files, 1, "not the other's to give up");
}

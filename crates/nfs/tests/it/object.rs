//! Opened objects: several of one call at a time, and one that outlives its call.

use crate::support::Awake;
use crate::support::exports::{RO, RW, mem, of};
use bowline_nfs::audited_call::AuditedCall;
use bowline_nfs::object::{Caller, OwnedObject};
use bowline_nfs::verbs;
use export::{Exports, Options, Squash};
use rpc::{AuthSys, Blocking, Call, Credential, Peer, Transport};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Backend, Create, SetAttr, Stability, Status};
use vfs_mem::{Fault, FaultyFs, MemFs, MemOptions};

static PEER: Peer = Peer {
    addr: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 700)),
    local: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2049)),
    transport: Transport::Tcp,
    security: rpc::TransportSecurity::PLAIN,
};

fn call(uid: u32, groups: &[u32]) -> Call<'static> {
    let sys = AuthSys::new(b"test", uid, uid, groups).unwrap();
    Call::new(1, &PEER, Credential::Sys(sys), &Awake)
}

fn root_of(exports: &Exports, place: usize) -> Vec<u8> {
    let table = exports.load();
    let export = &table.exports()[place];
    export.seal(&export.backend.root()).bytes().to_vec()
}

#[test]
fn each_object_of_a_call_has_the_squash_of_its_export() {
    let squashed = Options { squash: Squash::All, anonuid: 7, anongid: 8, ..RO };
    let exports = of(&[("/plain", mem(), RW), ("/squashed", mem(), squashed)]);
    let (plain, all) = (root_of(&exports, 0), root_of(&exports, 1));
    let mut call = call(1000, &[5]);
    let caller = Caller::new(&exports, &mut call);
    let (plain, all) = (caller.open(&plain).unwrap(), caller.open(&all).unwrap());
    assert_eq!((plain.cx().cred.uid, plain.cx().cred.groups), (1000, &[5][..]));
    assert_eq!((all.cx().cred.uid, all.cx().cred.gid, all.cx().cred.groups), (7, 8, &[][..]));
    assert_eq!((plain.check_writable(), all.check_writable()), (Ok(()), Err(Status::RoFs)));
    assert_eq!(plain.check_same_export(&all), Err(Status::XDev));
    let renamed = verbs::rename((&plain, b"a"), (&all, b"b"), &AuditedCall::UNRECORDED);
    assert_eq!(renamed.err(), Some(Status::XDev));
}

/// A file of user 0, opened by that user with `groups`.
fn owned_file(exports: &Exports, groups: &[u32]) -> OwnedObject {
    let root = root_of(exports, 0);
    let mut call = call(0, groups);
    let caller = Caller::new(exports, &mut call);
    let mut object = caller.open(&root).unwrap();
    let how = Create::Unchecked(SetAttr::default());
    object.fid = verbs::create(&object, b"file", Ok(how)).unwrap().node.unwrap().fid;
    object.into_owned()
}

#[test]
fn an_owned_object_outlives_its_call_and_its_export() {
    let exports = of(&[("/mem", mem(), RW)]);
    let owned = owned_file(&exports, &[5, 6]);
    exports.replace(export::Table::default());
    // it keeps its export, not the table, which goes as soon as no other thread reads any snapshot
    while exports.collect() > 0 {
        std::thread::yield_now();
    }
    let file = owned.as_object(&Awake);
    assert_eq!((file.cx().cred.uid, file.cx().cred.groups), (0, &[5, 6][..]));
    let written = verbs::write(&file, 0, b"data", Stability::Unstable).unwrap();
    assert_eq!(written.done.count, 4);
    assert_eq!(verbs::getattr(&file).unwrap().size, 4);
}

/// A worker of which no call may block in the export of index 0.
struct FirstExportHangs;

impl Blocking for FirstExportHangs {
    fn will_block(&self) {}

    fn will_block_in(&self, export: u16) -> bool {
        export != 0
    }
}

/// A file system whose every call blocks for a millisecond, and says so first.
fn slow() -> Arc<dyn Backend> {
    let backend = FaultyFs::new(MemFs::new(MemOptions::default()));
    let delay = Duration::from_millis(1);
    let fault = Fault { delay, calls_will_block: true, ..Fault::default() };
    *backend.fault().lock().unwrap() = fault;
    Arc::new(backend)
}

#[test]
fn a_call_beyond_the_share_of_its_export_fails_with_jukebox() {
    let exports = of(&[("/hung", slow(), RW), ("/slow", slow(), RW)]);
    let roots = [root_of(&exports, 0), root_of(&exports, 1)];
    let mut call = call(0, &[]);
    call.blocking = &FirstExportHangs;
    let caller = Caller::new(&exports, &mut call);
    let [hung, slow] = roots.each_ref().map(|root| caller.open(root).unwrap());
    assert_eq!(verbs::getattr(&hung).err(), Some(Status::Jukebox));
    assert_eq!(hung.attributes(), None);
    assert!(verbs::getattr(&slow).is_ok());
}

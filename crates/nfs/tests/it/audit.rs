//! The record of removes, renames and changed attributes, of all versions.

use crate::support::{TestServer, at, exports, wire};
use crate::v4::{Client, fattr, name, oper, plain};
use bowline_nfs::audit::{AuditRecord, AuditSink, AuditedOperation as Op};
use bowline_nfs::v2::handle;
use proto::nfs2::{DirOpArgs2, RenameArgs2};
use proto::nfs3::{
    Bytes, CreateArgs, CreateHow3, MadeOk, MkdirArgs, Nfsstat3, RenameArgs, RenameRes, Res, Sattr3,
    SetTime3, SetattrArgs, WccData, procedure as p,
};
use proto::nfs4::{Nfsstat4, SetattrArgs as SetattrArgs4, Stateid4, attr, op};
use std::path::Path;
use std::sync::{Arc, Mutex};
use testing::{Missing, is_root, skip};
use vfs::Status;
use vfs_local::{LocalFs, LocalOptions, OpenFiles};

const MODE: Sattr3 = Sattr3 {
    mode: Some(0o640),
    uid: None,
    gid: None,
    size: None,
    atime: SetTime3::Keep,
    mtime: SetTime3::Keep,
};

#[derive(Default, Clone)]
struct Kept(Arc<Mutex<Vec<AuditRecord>>>);

impl AuditSink for Kept {
    fn record(&self, record: AuditRecord) {
        self.0.lock().unwrap().push(record);
    }
}

impl Kept {
    fn of(server: &TestServer) -> Self {
        let kept = Self::default();
        server.nfs().audit.set_sink(Box::new(kept.clone()));
        server.nfs().audit.switch(true);
        kept
    }

    fn take(&self) -> Vec<AuditRecord> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The one record since the last look.
    fn one(&self) -> AuditRecord {
        let mut records = self.take();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }
}

type Made = Res<MadeOk<'static>, WccData>;

fn create(server: &TestServer, name: &[u8]) -> Vec<u8> {
    let root = server.root();
    let args = CreateArgs { place: at(&root, name), how: CreateHow3::Guarded(MODE) };
    server.v3::<Made>(p::CREATE, &args).into_result().unwrap().object.unwrap().0.to_vec()
}

fn remove(server: &TestServer, procedure: u32, name: &[u8]) -> Nfsstat3 {
    server.v3::<Res<WccData, WccData>>(procedure, &at(&server.root(), name)).status()
}

fn mem() -> TestServer {
    TestServer::new(exports::of(&[("/mem", exports::mem(), exports::RW)]))
}

#[test]
fn changes_over_version_3_are_recorded_while_that_is_on() {
    let server = mem();
    let kept = Kept::of(&server);
    let (root, file) = (server.root(), create(&server, b"f"));
    server.v3::<Made>(p::MKDIR, &MkdirArgs { place: at(&root, b"d"), set: MODE });
    assert!(kept.take().is_empty(), "what is made is not recorded");

    let set = SetattrArgs { object: Bytes(&file), set: MODE, guard: None };
    server.v3::<Res<WccData, WccData>>(p::SETATTR, &set).into_result().unwrap();
    let record = kept.one();
    assert_eq!((record.operation, record.failed), (Op::Setattr, None));
    assert_eq!(record.set.unwrap().mode, Some(0o640));
    assert_eq!((record.uid, record.acts_as_uid), (Some(0), 0));
    assert_eq!(record.peer.addr, "127.0.0.1:700".parse().unwrap());
    assert_eq!((record.export.as_str(), record.place.path), ("/mem", None));

    let args = RenameArgs { from: at(&root, b"f"), to: at(&root, b"g") };
    server.v3::<Res<RenameRes, RenameRes>>(p::RENAME, &args).into_result().unwrap();
    let record = kept.one();
    assert_eq!(record.operation, Op::Rename);
    assert_eq!(record.place.name.as_deref(), Some(&b"f"[..]));
    assert_eq!(record.to.unwrap().name.as_deref(), Some(&b"g"[..]));

    assert_eq!(remove(&server, p::REMOVE, b"g"), Nfsstat3::Ok);
    assert_eq!(kept.one().operation, Op::Remove);
    assert_eq!(remove(&server, p::REMOVE, b"g"), Nfsstat3::NoEnt);
    assert_eq!(kept.one().failed, Some(Status::NoEnt));
    assert_eq!(remove(&server, p::RMDIR, b"d"), Nfsstat3::Ok);
    assert_eq!(kept.one().operation, Op::Rmdir);

    server.nfs().audit.switch(false);
    create(&server, b"h");
    remove(&server, p::REMOVE, b"h");
    assert!(kept.take().is_empty());
}

#[test]
fn changes_over_version_2_are_recorded() {
    let mut server = mem();
    server.uid = 1000;
    let kept = Kept::of(&server);
    let root = handle::short_handle(&server.root());
    server.try_call(2, 10, &wire(&DirOpArgs2 { dir: root, name: Bytes(b"f") })).unwrap();
    let record = kept.one();
    assert_eq!((record.operation, record.uid), (Op::Remove, Some(1000)));
    let place = |name| DirOpArgs2 { dir: root, name: Bytes(name) };
    server.try_call(2, 11, &wire(&RenameArgs2 { from: place(b"a"), to: place(b"b") })).unwrap();
    assert_eq!(kept.one().operation, Op::Rename);
}

#[test]
fn changes_over_version_4_are_recorded_once() {
    let client = Client::new();
    let kept = Kept::of(&client.server);
    let (file, stateid) = client.create(b"f");
    client.create(b"f2");
    kept.take();
    let attrs = fattr(&[attr::MODE], &0o600u32.to_be_bytes());
    let args = SetattrArgs4 { stateid: Stateid4::ANONYMOUS, attrs };
    let set = client.call(&[client.putfh(&file), oper(op::SETATTR, &args)]);
    assert_eq!(set.status, Nfsstat4::Ok);
    assert_eq!(kept.one().set.unwrap().mode, Some(0o600));
    let _ = stateid;
    let removed = client.call(&[plain(op::PUTROOTFH), name(op::REMOVE, b"nothing")]);
    assert_ne!(removed.status, Nfsstat4::Ok);
    kept.take();
    let root = client.server.root();
    let removed = client.call(&[client.putfh(&root), name(op::REMOVE, b"f")]);
    assert_eq!(removed.status, Nfsstat4::Ok);
    assert_eq!(kept.one().operation, Op::Remove);
    client.server.v3::<Made>(p::MKDIR, &MkdirArgs { place: at(&root, b"d"), set: MODE });
    let removed = client.call(&[client.putfh(&root), name(op::REMOVE, b"d")]);
    assert_eq!(removed.status, Nfsstat4::Ok);
    assert_eq!(kept.one().operation, Op::Rmdir, "and not REMOVE, which was tried first");
}

#[test]
fn records_have_the_path_on_this_machine() {
    if !is_root() {
        return skip(Missing::Root, "a server that finds files by handle");
    }
    let dir = tempfile::tempdir().unwrap();
    let files = Arc::new(OpenFiles::new(4096));
    let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
    let server = TestServer::new(exports::of(&[("/e", Arc::new(local), exports::RW)]));
    let kept = Kept::of(&server);
    let file = create(&server, b"f");
    let set = SetattrArgs { object: Bytes(&file), set: MODE, guard: None };
    server.v3::<Res<WccData, WccData>>(p::SETATTR, &set).into_result().unwrap();
    let path = |name: &str| Some(Path::new(dir.path()).canonicalize().unwrap().join(name));
    assert_eq!(kept.one().place.path, path("f"));
    assert_eq!(remove(&server, p::REMOVE, b"f"), Nfsstat3::Ok);
    assert_eq!(kept.one().place.path, path("f"));
}

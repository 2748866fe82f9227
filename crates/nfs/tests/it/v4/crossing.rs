//! Exports inside of other exports: which versions cross into them, and for whom.

use super::{Client, listed, name, ok, oper, plain};
use crate::support::{TestServer, at, exports};
use export::{Exports, Options};
use proto::nfs3::{DirOpArgs3, LookupOk, Nfsstat3, Res};
use proto::nfs4::{Bitmap4, Nfsstat4, attr, op};
use std::sync::Arc;
use vfs::{Backend, Cred, Cx, Durability, IgnoreBlocking, Name, Right, SetAttr};
use xdr::Reader;

/// A file system in memory that has these directories, each in the one before.
fn tree(names: &[&[u8]]) -> Arc<dyn Backend> {
    let backend = exports::mem();
    let cred = Cred { uid: 0, gid: 0, groups: &[] };
    let cx = Cx {
        cred,
        blocking: &IgnoreBlocking,
        durability: Durability::Sync,
        right: Right::Check,
        attr_cache_ms: 0,
    };
    let mut dir = backend.root();
    for name in names {
        let made = backend.mkdir(&cx, &dir, Name::new(name).unwrap(), &SetAttr::default());
        dir = made.unwrap().node.unwrap().fid;
    }
    backend
}

/// `/srv` has a directory `d`, in which the export `/srv/d/inner` is, in whose `deep` there is another one.
fn nested(outer: Options, inner: Options) -> Exports {
    exports::of(&[
        ("/srv", tree(&[b"d", b"inner"]), outer),
        ("/srv/d/inner", tree(&[b"deep"]), inner),
        ("/srv/d/inner/deep", exports::mem(), inner),
    ])
}

const CROSSMNT: Options = Options { crossmnt: true, ..exports::RW };
const NOHIDE: Options = Options { nohide: true, ..exports::RW };

/// The handle at the end of a walk from the root of version 4.
fn walk(client: &Client, names: &[&[u8]], then: &[Vec<u8>]) -> Result<Vec<u8>, Nfsstat4> {
    let mut ops = vec![plain(op::PUTROOTFH)];
    ops.extend(names.iter().map(|one| name(op::LOOKUP, one)));
    ops.extend_from_slice(then);
    let before = ops.len();
    ops.push(plain(op::GETFH));
    let done = client.call(&ops);
    if done.status != Nfsstat4::Ok {
        return Err(done.status);
    }
    let mut r = done.inside();
    (0..before).for_each(|_| assert_eq!(r.words::<2>().unwrap()[1], 0));
    ok(&mut r, op::GETFH);
    Ok(r.opaque(128).unwrap().to_vec())
}

/// The handle that version 3 finds.
fn lookup3(server: &TestServer, dir: &[u8], name: &[u8]) -> Result<Vec<u8>, Nfsstat3> {
    let args: DirOpArgs3<'_> = at(dir, name);
    match server.v3::<Res<LookupOk<'static>, Option<proto::nfs3::Fattr3>>>(3, &args) {
        Res::Ok(found) => Ok(found.object.0.to_vec()),
        Res::Fail(status, _) => Err(status),
    }
}

#[test]
fn version_4_crosses_into_every_export_that_the_client_may_use() {
    let client = Client::over(TestServer::new(nested(exports::RW, exports::RW)));
    let inner = walk(&client, &[b"srv", b"d", b"inner"], &[]).unwrap();
    assert_eq!(inner, client.server.root_of(1));
    let deep = walk(&client, &[b"srv", b"d", b"inner", b"deep"], &[]).unwrap();
    assert_eq!(deep, client.server.root_of(2));
    // and back, into the directory that it is in
    let up = walk(&client, &[b"srv", b"d", b"inner"], &[plain(op::LOOKUPP)]).unwrap();
    assert_eq!(Ok(up), walk(&client, &[b"srv", b"d"], &[]));
    assert_eq!(
        walk(&client, &[b"srv", b"d", b"inner", b"deep"], &[plain(op::LOOKUPP)]),
        Ok(inner.clone())
    );
    // a handle is what it is without the walk
    assert_eq!(client.call(&[client.putfh(&deep)]).status, Nfsstat4::Ok);
    // the identity of the file system changes where the export begins
    let fsid = |names: &[&[u8]]| {
        let mut ops = vec![plain(op::PUTROOTFH)];
        ops.extend(names.iter().map(|one| name(op::LOOKUP, one)));
        ops.push(oper(op::GETATTR, &Bitmap4::of(&[attr::FSID])));
        client.call(&ops).bytes.last_chunk::<16>().copied().unwrap()
    };
    assert_eq!(fsid(&[b"srv"]), fsid(&[b"srv", b"d"]));
    assert_ne!(fsid(&[b"srv", b"d"]), fsid(&[b"srv", b"d", b"inner"]));
}

#[test]
fn readdir_gives_the_attributes_of_the_inner_root() {
    let client = Client::over(TestServer::new(nested(exports::RW, exports::RW)));
    let srv = walk(&client, &[b"srv", b"d"], &[]).unwrap();
    let args = proto::nfs4::ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 4096,
        attrs: Bitmap4::of(&[attr::FILEHANDLE]),
    };
    let done = client.call(&[client.putfh(&srv), oper(op::READDIR, &args)]);
    assert_eq!(done.status, Nfsstat4::Ok);
    let mut r = done.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::READDIR);
    r.opaque_fixed(8).unwrap();
    assert_eq!(r.u32().unwrap(), 1);
    r.u64().unwrap();
    assert_eq!(r.opaque(255).unwrap(), b"inner");
    let _mask: Bitmap4 = r.get().unwrap();
    let values = r.opaque(1024).unwrap();
    assert_eq!(Reader::new(values).opaque(128).unwrap(), client.server.root_of(1));
    let names = listed(&client, &[client.putfh(&srv)], 0, 4096).0;
    assert_eq!(names.len(), 1);
}

#[test]
fn a_client_without_access_to_the_inner_export_stays_in_the_outer_one() {
    let any_port = Options { secure: false, ..exports::RW };
    let mut client = Client::over(TestServer::new(nested(any_port, exports::RW)));
    let inner = walk(&client, &[b"srv", b"d", b"inner"], &[]).unwrap();
    client.server.client = "127.0.0.1:4000";
    let covered = walk(&client, &[b"srv", b"d", b"inner"], &[]).unwrap();
    assert_ne!(covered, inner);
    assert_eq!(client.call(&[client.putfh(&inner)]).status, Nfsstat4::Stale);
    assert_eq!(listed(&client, &[client.putfh(&covered)], 0, 4096).0, []);
}

#[test]
fn versions_2_and_3_cross_with_crossmnt_or_nohide() {
    let crosses = |outer, inner| {
        let server = TestServer::new(nested(outer, inner));
        let d = lookup3(&server, &server.root_of(0), b"d").unwrap();
        let found = lookup3(&server, &d, b"inner").unwrap();
        found == server.root_of(1)
    };
    assert!(!crosses(exports::RW, exports::RW));
    assert!(crosses(CROSSMNT, exports::RW));
    assert!(crosses(exports::RW, NOHIDE));
}

#[test]
fn crossing_needs_the_right_to_search() {
    let server = TestServer::new(nested(CROSSMNT, exports::RW));
    let mut client = Client::over(server);
    let d = walk(&client, &[b"srv", b"d"], &[]).unwrap();
    let close = proto::nfs4::SetattrArgs {
        stateid: proto::nfs4::Stateid4::ANONYMOUS,
        attrs: super::fattr(&[attr::MODE], &0o700_u32.to_be_bytes()),
    };
    let done = client.call(&[client.putfh(&d), oper(op::SETATTR, &close)]);
    assert_eq!(done.status, Nfsstat4::Ok);
    client.server.uid = 1000;
    let done = client.call(&[client.putfh(&d), name(op::LOOKUP, b"inner")]);
    assert_eq!(done.status, Nfsstat4::Access);
    assert_eq!(lookup3(&client.server, &d, b"inner"), Err(Nfsstat3::Acces));
}

#[test]
fn names_that_are_not_utf8_are_refused_with_utf8_strict() {
    let strict = Options { utf8_names: true, ..exports::RW };
    let rows = [("/srv/s", exports::mem(), strict), ("/srv/a", exports::mem(), exports::RW)];
    let client = Client::over(TestServer::new(exports::of(&rows)));
    let look = |export: &[u8], what: &[u8]| walk(&client, &[b"srv", export, what], &[]);
    assert_eq!(look(b"s", b"\xc0\xc1"), Err(Nfsstat4::Inval));
    assert_eq!(look(b"s", "ä".as_bytes()), Err(Nfsstat4::NoEnt));
    assert_eq!(look(b"a", b"\xc0\xc1"), Err(Nfsstat4::NoEnt));
}

#[test]
fn a_tag_that_is_not_utf8_is_refused() {
    let server = TestServer::new(nested(exports::RW, exports::RW));
    let mut w = xdr::Writer::new();
    w.put(&proto::nfs4::CompoundHead { tag: b"\xc0\xc1", minor: 1, count: 0 });
    let reply = super::Results::of(server.try_call(4, 1, w.bytes()).unwrap().bytes);
    assert_eq!((reply.status, reply.count), (Nfsstat4::Inval, 0));
}

/// A directory that is made after the table is not crossed into; that is not an error.
#[test]
fn an_inner_export_whose_directory_is_not_there_changes_nothing() {
    let rows = [("/srv", exports::mem(), exports::RW), ("/srv/none", exports::mem(), exports::RW)];
    let client = Client::over(TestServer::new(exports::of(&rows)));
    assert!(walk(&client, &[b"srv"], &[]).is_ok());
}

//! Exports that are elsewhere (`refer=`): what leads there, and what clients are told of them (RFC 8881 §11.3, §11.4,
//! RFC 7530 §8). And those that are elsewhere too (`replicas=`).

use super::{Client, Results, fattr, name, ok, oper, plain};
use crate::support::{TestServer, exports};
use export::{Exports, FsLocations, LocationKind, Options};
use proto::nfs4::{Bitmap4, GetattrArgs, Nfsstat4, ReaddirArgs, attr, op};
use vfs::{Cred, Cx, Durability, IgnoreBlocking, Name, Right, SetAttr};
use xdr::{Reader, Writer};

fn locations(kind: LocationKind, text: &str) -> FsLocations {
    FsLocations::parse(kind, text.as_bytes()).unwrap()
}

/// `/srv/e` is here, with a directory in which `/srv/e/inner` is, which is elsewhere, as `/srv/moved` is; `/srv/copied` is
/// here and elsewhere.
fn served(options: Options) -> Exports {
    let outer = exports::mem();
    let cred = Cred { uid: 0, gid: 0, groups: &[] };
    let cx = Cx {
        cred,
        blocking: &IgnoreBlocking,
        durability: Durability::Sync,
        right: Right::Check,
        attr_cache_ms: 0,
    };
    outer.mkdir(&cx, &outer.root(), Name::new(b"inner").unwrap(), &SetAttr::default()).unwrap();
    let rows = [
        ("/srv/e", outer, exports::RW),
        ("/srv/e/inner", exports::mem(), options),
        ("/srv/moved", exports::mem(), options),
        ("/srv/copied", exports::mem(), options),
    ];
    exports::located(
        &rows,
        &[
            ("/srv/e/inner", locations(LocationKind::Referral, "/i@s2")),
            ("/srv/moved", locations(LocationKind::Referral, "/a/b@s2+[fd00::1]:/@10.0.0.3")),
            ("/srv/copied", locations(LocationKind::Replicas, "/copied@s2")),
        ],
    )
}

fn client() -> Client {
    Client::over(TestServer::new(served(exports::RW)))
}

/// The operations that lead to a path of the server.
fn walk(names: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut ops = vec![plain(op::PUTROOTFH)];
    ops.extend(names.iter().map(|one| name(op::LOOKUP, one)));
    ops
}

fn getattr(numbers: &[u32]) -> Vec<u8> {
    oper(op::GETATTR, &GetattrArgs { attrs: Bitmap4::of(numbers) })
}

/// The last operation's result, behind `before` that have none.
fn last<'r>(done: &'r Results, before: usize) -> Reader<'r> {
    let mut r = done.inside();
    (0..before).for_each(|_| assert_eq!(r.words::<2>().unwrap()[1], 0));
    r
}

/// The attributes of the object at a path.
fn attrs(
    client: &Client,
    names: &[&[u8]],
    numbers: &[u32],
) -> Result<(Bitmap4, Vec<u8>), Nfsstat4> {
    let ops = [walk(names), vec![getattr(numbers)]].concat();
    let done = client.call(&ops);
    if done.status != Nfsstat4::Ok {
        return Err(done.status);
    }
    let mut r = last(&done, ops.len() - 1);
    ok(&mut r, op::GETATTR);
    Ok((r.get().unwrap(), r.opaque(4096).unwrap().to_vec()))
}

/// `pathname4`.
fn path(r: &mut Reader<'_>) -> Vec<Vec<u8>> {
    let count = r.u32().unwrap();
    (0..count).map(|_| r.opaque(255).unwrap().to_vec()).collect()
}

type Location = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// `fs_locations4`: the path here, hosts and path of each location.
fn locations4(r: &mut Reader<'_>) -> (Vec<Vec<u8>>, Vec<Location>) {
    let root = path(r);
    let count = r.u32().unwrap();
    (root, (0..count).map(|_| (path(r), path(r))).collect())
}

const HERE: [u32; 2] = [attr::FSID, attr::FS_LOCATIONS];

#[test]
fn a_name_leads_into_an_absent_file_system_whose_handle_nobody_gets() {
    let client = client();
    for names in [&[b"srv".as_slice(), b"moved"][..], &[b"srv", b"e", b"inner"]] {
        let fails = |then: Vec<u8>| client.call(&[walk(names), vec![then]].concat()).status;
        assert_eq!(client.call(&walk(names)).status, Nfsstat4::Ok, "LOOKUP succeeds");
        let access = oper(op::ACCESS, &0x1f_u32);
        let list = oper(op::READDIR, &listing(&[], 4096));
        let compare = oper(op::VERIFY, &fattr(&[attr::TYPE], &[0, 0, 0, 2]));
        for then in [
            plain(op::GETFH),
            plain(op::SAVEFH),
            plain(op::LOOKUPP),
            name(op::LOOKUP, b"x"),
            name(op::SECINFO, b"x"),
            access,
            list,
            compare,
            getattr(&[attr::TYPE, attr::FSID]),
            getattr(&[attr::RDATTR_ERROR, attr::FSID]),
        ] {
            assert_eq!(fails(then.clone()), Nfsstat4::Moved, "operation {:?}", &then[..4]);
        }
        // what does not use it goes on, and leads out again
        assert_eq!(fails(plain(op::PUTROOTFH)), Nfsstat4::Ok);
        assert_eq!(fails(client.putfh(&client.server.root())), Nfsstat4::Ok);
    }
    // whoever has a handle from before it was moved
    let done = client.call(&[client.putfh(&client.server.root_of(2)), plain(op::GETFH)]);
    assert_eq!(done.status, Nfsstat4::Moved);
}

#[test]
fn getattr_tells_where_an_absent_file_system_is() {
    let client = client();
    let asked = [
        attr::TYPE,
        attr::FSID,
        attr::FS_LOCATIONS,
        attr::FILEID,
        attr::MODE,
        attr::MOUNTED_ON_FILEID,
    ];
    let (given, values) = attrs(&client, &[b"srv", b"moved"], &asked).unwrap();
    assert_eq!(given, Bitmap4::of(&[attr::FSID, attr::FS_LOCATIONS, attr::MOUNTED_ON_FILEID]));
    let mut r = Reader::new(&values);
    let fsid = r.opaque_fixed(16).unwrap().to_vec();
    let (root, list) = locations4(&mut r);
    assert_ne!(r.u64().unwrap(), 0);
    r.end().unwrap();
    let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
    assert_eq!(root, [b"srv".to_vec(), b"moved".to_vec()]);
    assert_eq!(
        list,
        [(names(&["s2", "fd00::1"]), names(&["a", "b"])), (names(&["10.0.0.3"]), names(&[]))]
    );
    // a file system of its own: clients mount nothing over what they are in
    for around in [&[b"srv".as_slice()][..], &[b"srv", b"e"], &[b"srv", b"copied"]] {
        let (given, values) = attrs(&client, around, &HERE).unwrap();
        assert_eq!(given, Bitmap4::of(&HERE));
        assert_ne!(values[..16], fsid);
    }
    // the file id of the directory that it covers
    let at =
        |names: &[&[u8]]| attrs(&client, names, &[attr::FS_LOCATIONS, attr::MOUNTED_ON_FILEID]);
    let (_, values) = at(&[b"srv", b"e", b"inner"]).unwrap();
    let listed = entries(&client, &[b"srv", b"e"], &[attr::MOUNTED_ON_FILEID, attr::FS_LOCATIONS]);
    assert_eq!(values.last_chunk::<8>(), listed.unwrap()[0].2.last_chunk::<8>());
}

#[test]
fn an_export_that_is_here_tells_its_replicas() {
    let client = client();
    let told = |names: &[&[u8]]| {
        let (_, values) = attrs(&client, names, &[attr::FS_LOCATIONS]).unwrap();
        locations4(&mut Reader::new(&values))
    };
    let (root, list) = told(&[b"srv", b"copied"]);
    assert_eq!(root, [b"srv".to_vec(), b"copied".to_vec()]);
    assert_eq!(list, [(vec![b"s2".to_vec()], vec![b"copied".to_vec()])]);
    assert_eq!(told(&[b"srv", b"e"]), (vec![b"srv".to_vec(), b"e".to_vec()], vec![]));
    assert_eq!(told(&[]), (vec![], vec![]));
    assert!(
        client.call(&[walk(&[b"srv", b"copied"]), vec![plain(op::GETFH)]].concat()).status
            == Nfsstat4::Ok
    );
}

#[test]
fn verify_compares_what_an_absent_file_system_has() {
    let client = client();
    let (_, values) = attrs(&client, &[b"srv", b"moved"], &HERE).unwrap();
    let verify = |number, mask: &[u32], values: &[u8]| {
        let compare = oper(number, &fattr(mask, values));
        client.call(&[walk(&[b"srv", b"moved"]), vec![compare]].concat()).status
    };
    assert_eq!(verify(op::VERIFY, &HERE, &values), Nfsstat4::Ok);
    assert_eq!(verify(op::NVERIFY, &HERE, &values), Nfsstat4::Same);
    assert_eq!(verify(op::VERIFY, &HERE, &values[..values.len() - 4]), Nfsstat4::NotSame);
    assert_eq!(verify(op::VERIFY, &[attr::FSID], &values[..16]), Nfsstat4::Moved);
}

fn listing(numbers: &[u32], maxcount: u32) -> ReaddirArgs {
    let attrs = Bitmap4::of(numbers);
    ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount, attrs }
}

/// An entry of a directory: its name, which attributes are given, and their values.
type Entry = (Vec<u8>, Bitmap4, Vec<u8>);

/// The entries of a directory.
fn entries(client: &Client, names: &[&[u8]], numbers: &[u32]) -> Result<Vec<Entry>, Nfsstat4> {
    let ops = [walk(names), vec![oper(op::READDIR, &listing(numbers, 4096))]].concat();
    let done = client.call(&ops);
    if done.status != Nfsstat4::Ok {
        return Err(done.status);
    }
    let mut r = last(&done, ops.len() - 1);
    ok(&mut r, op::READDIR);
    r.u64().unwrap();
    let mut found = Vec::new();
    while r.bool().unwrap() {
        r.u64().unwrap();
        let name = r.opaque(255).unwrap().to_vec();
        let mask = r.get().unwrap();
        found.push((name, mask, r.opaque(1024).unwrap().to_vec()));
    }
    Ok(found)
}

#[test]
fn a_listing_says_what_is_known_of_an_absent_file_system() {
    use attr::{FILEID, FS_LOCATIONS, FSID, MOUNTED_ON_FILEID, RDATTR_ERROR, SIZE};
    let client = client();
    let of = |mask: &[u32]| Bitmap4::of(mask);
    for dir in [&[b"srv".as_slice()][..], &[b"srv", b"e"]] {
        let listed = |numbers: &[u32]| entries(&client, dir, numbers);
        let absent = |entry: &&Entry| matches!(entry.0.as_slice(), b"moved" | b"inner");
        // the error of the entry, with what a client needs to show it
        let found = listed(&[RDATTR_ERROR, FSID, SIZE, MOUNTED_ON_FILEID]).unwrap();
        let (_, mask, values) = found.iter().find(absent).unwrap();
        assert_eq!(*mask, of(&[RDATTR_ERROR, FSID, MOUNTED_ON_FILEID]));
        assert_eq!(values[16..20], Nfsstat4::Moved.number().to_be_bytes());
        assert!(found.iter().filter(|entry| !absent(entry)).all(|entry| entry.1.has(SIZE)));
        // where it is
        let found = listed(&[RDATTR_ERROR, FS_LOCATIONS, FSID, SIZE]).unwrap();
        let (_, mask, values) = found.iter().find(absent).unwrap();
        assert_eq!(*mask, of(&[RDATTR_ERROR, FS_LOCATIONS, FSID]));
        assert_eq!(values[16..20], [0; 4]);
        let (root, list) = locations4(&mut Reader::new(&values[20..]));
        assert!(root.len() > 1 && !list.is_empty());
        // nothing that it has
        assert_eq!(listed(&[FSID, SIZE, FILEID]), Err(Nfsstat4::Moved));
        // names only
        assert!(listed(&[]).unwrap().iter().any(|entry| absent(&entry)));
    }
}

#[test]
fn secinfo_of_the_name_of_an_absent_file_system_is_answered() {
    let client = client();
    let done = client.call(&[walk(&[b"srv"]), vec![name(op::SECINFO, b"moved")]].concat());
    assert_eq!(done.status, Nfsstat4::Ok);
}

/// Its clients are those of the export: others do not learn where it is.
#[test]
fn who_may_not_use_an_export_is_not_told_where_it_is() {
    let mut client = client();
    client.server.client = "127.0.0.1:4000";
    let found = attrs(&client, &[b"srv", b"moved"], &[attr::FS_LOCATIONS]);
    assert_eq!(found, Err(Nfsstat4::NoEnt));
}

/// Versions 2 and 3 have no referrals: they use the directory, as with the kernel's server.
#[test]
fn version_3_uses_the_directory_itself() {
    let server = TestServer::new(served(exports::RW));
    let mut w = Writer::new();
    w.opaque(&server.root_of(2));
    let found = server.try_call(3, 1, w.bytes()).unwrap().bytes;
    assert_eq!(found[..4], [0; 4]);
}

#[test]
fn version_4_0_has_the_same_errors() {
    let server = TestServer::new(served(exports::RW));
    let call = |then: Vec<u8>| {
        super::send(&server, 0, &[walk(&[b"srv", b"moved"]), vec![then]].concat()).status
    };
    assert_eq!(call(plain(op::GETFH)), Nfsstat4::Moved);
    assert_eq!(call(getattr(&[attr::SIZE])), Nfsstat4::Moved);
    assert_eq!(call(getattr(&HERE)), Nfsstat4::Ok);
}

//! Attributes that not every object has: the time of creation, and what quotas leave.

use super::{Client, ok, oper, plain};
use crate::support::fixed::{CONTENTS, Fixed};
use crate::support::{TestServer, exports};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, Fattr4, GetattrArgs, LINUX_GETATTR, Nfsstat4, ReaddirArgs, SetattrArgs, Stateid4,
    attr, op,
};
use std::sync::Arc;
use xdr::{Reader, Writer};

const ASKED: Bitmap4 = Bitmap4::of(&[
    attr::SIZE,
    attr::QUOTA_AVAIL_HARD,
    attr::QUOTA_AVAIL_SOFT,
    attr::QUOTA_USED,
    attr::TIME_CREATE,
]);

/// Attributes of an object of this handle: which there are, and their values.
fn attrs(client: &Client, handle: &[u8], attrs: Bitmap4) -> (Bitmap4, Vec<u8>) {
    let done = client.call(&[client.putfh(handle), oper(op::GETATTR, &GetattrArgs { attrs })]);
    assert_eq!(done.status, Nfsstat4::Ok);
    let mut r = done.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETATTR);
    (r.get().unwrap(), r.opaque(1024).unwrap().to_vec())
}

fn supported(client: &Client) -> Bitmap4 {
    let (_, value) = attrs(client, &client.server.root(), Bitmap4::of(&[attr::SUPPORTED_ATTRS]));
    Reader::new(&value).get().unwrap()
}

#[test]
fn quotas_are_those_of_the_owner_or_group_with_the_least_left() {
    let fixed = Arc::new(Fixed { long: false });
    let client = Client::over(TestServer::new(exports::of(&[("/srv/e", fixed, exports::RW)])));
    assert!(supported(&client).has(attr::QUOTA_USED) && !supported(&client).has(attr::TIME_CREATE));
    let found = client.at_root(&[super::name(op::LOOKUP, b"file"), plain(op::GETFH)]);
    let mut r = found.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::LOOKUP);
    ok(&mut r, op::GETFH);
    let (given, values) = attrs(&client, r.opaque(128).unwrap(), ASKED);
    // there is no soft limit, and nobody knows when the file was made
    let has = Bitmap4::of(&[attr::SIZE, attr::QUOTA_AVAIL_HARD, attr::QUOTA_USED]);
    assert_eq!(given, has);
    let mut r = Reader::new(&values);
    let words = [(); 3].map(|()| r.u64().unwrap());
    assert_eq!(words, [CONTENTS.len() as u64, (100 << 20) - 1500, 1500]);
}

/// What Linux asks for to see changes is appended in one piece: the bytes are those of each by itself.
#[test]
fn the_attributes_that_show_changes_are_those_of_each() {
    let client = Client::new();
    let (handle, stateid) = client.create(b"file");
    assert_eq!(client.write(&handle, stateid, b"12345"), Nfsstat4::Ok);
    let four = [attr::CHANGE, attr::SIZE, attr::TIME_METADATA, attr::TIME_MODIFY];
    let (given, values) = attrs(&client, &handle, Bitmap4::of(&four));
    assert_eq!(given, Bitmap4::of(&four));
    let each = four.map(|number| attrs(&client, &handle, Bitmap4::of(&[number])).1);
    assert_eq!(values, each.concat());
}

#[test]
fn the_time_of_creation_is_the_same_by_getattr_and_readdir() {
    let client = Client::new();
    assert!(supported(&client).has(attr::TIME_CREATE) && !supported(&client).has(attr::QUOTA_USED));
    let (handle, _) = client.create(b"file");
    let (given, created) = attrs(&client, &handle, ASKED);
    assert_eq!(given, Bitmap4::of(&[attr::SIZE, attr::TIME_CREATE]));
    let args =
        ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount: 4096, attrs: ASKED };
    let listed = client.at_root(&[oper(op::READDIR, &args)]);
    let mut r = listed.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::READDIR);
    r.u64().unwrap();
    assert!(r.bool().unwrap());
    r.u64().unwrap();
    assert_eq!(r.opaque(255).unwrap(), b"file");
    assert_eq!((r.get::<Bitmap4>().unwrap(), r.opaque(100).unwrap()), (given, &created[..]));
    // among the attributes that clients ask for all the time
    let usual = |more: &[u32]| attrs(&client, &handle, LINUX_GETATTR.or(&Bitmap4::of(more))).1;
    let (quick, slow) = (usual(&[attr::TIME_CREATE]), usual(&[attr::TIME_CREATE, attr::MAXNAME]));
    assert_eq!(quick.len(), usual(&[]).len() + 12);
    // behind type, change, size, fsid and fileid is what the quick way does not have
    assert_eq!(quick, [&slow[..44], &slow[48..]].concat());
}

/// What READDIR shows of the root's entries: the name, which attributes there are, and their values.
fn listed(client: &Client, attrs: Bitmap4, maxcount: u32) -> Vec<(Vec<u8>, Bitmap4, Vec<u8>)> {
    let args = ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount, attrs };
    let done = client.at_root(&[oper(op::READDIR, &args)]);
    assert_eq!(done.status, Nfsstat4::Ok);
    let mut r = done.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::READDIR);
    r.u64().unwrap();
    let mut entries = Vec::new();
    while r.bool().unwrap() {
        r.u64().unwrap();
        let name = r.opaque(255).unwrap().to_vec();
        entries.push((name, r.get().unwrap(), r.opaque(1024).unwrap().to_vec()));
    }
    r.bool().unwrap();
    r.end().unwrap();
    entries
}

/// An entry with what clients usually ask for is appended in one piece: the bytes are those of GETATTR.
#[test]
fn listed_attributes_are_those_of_getattr() {
    let client = Client::new();
    let names: [&[u8]; 4] = [b"a", b"four", b"a longer name", b"link"];
    // the last two have the owners of the one before, and the longest numbers
    let owners: [&[u8]; 4] = [b"7", b"12345678", b"4000000000", b"4000000000"];
    let handles = names.map(|name| client.create(name).0);
    for (handle, owner) in handles.iter().zip(owners) {
        let mut values = Writer::new();
        values.opaque(owner);
        values.opaque(owner);
        let mask = Bitmap4::of(&[attr::OWNER, attr::OWNER_GROUP]);
        let attrs = Fattr4 { mask, values: Bytes(values.bytes()) };
        let set = SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs };
        let done = client.call(&[client.putfh(handle), oper(op::SETATTR, &set)]);
        assert_eq!(done.status, Nfsstat4::Ok);
    }
    let besides = [attr::RDATTR_ERROR, attr::FILEHANDLE, attr::TIME_CREATE];
    for chosen in 0..8 {
        let more: Vec<u32> =
            (0..3).filter(|at| chosen >> at & 1 != 0).map(|at| besides[at]).collect();
        let asked = LINUX_GETATTR.or(&Bitmap4::of(&more));
        let entries = listed(&client, asked, 8192);
        assert_eq!(entries.len(), names.len());
        for (name, given, values) in &entries {
            let at = names.iter().position(|known| known == name).unwrap();
            assert_eq!((*given, values.clone()), attrs(&client, &handles[at], asked), "{more:?}");
        }
        // the verifier, the entries, and the end of the list
        let len = |(name, _, values): &(Vec<u8>, Bitmap4, Vec<u8>)| {
            4 + 8 + 4 + name.len().next_multiple_of(4) + 12 + 4 + values.len()
        };
        let whole = u32::try_from(8 + entries.iter().map(len).sum::<usize>() + 8).unwrap();
        assert_eq!(listed(&client, asked, whole).len(), names.len());
        assert_eq!(listed(&client, asked, whole - 1).len(), names.len() - 1);
    }
}

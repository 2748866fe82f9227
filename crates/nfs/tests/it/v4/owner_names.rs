//! Owners by name (`idmap-domain`, RFC 8881 §5.9): in GETATTR, READDIR, SETATTR, VERIFY and ACLs.

use super::{Client, fattr, name, ok, oper, plain};
use crate::support::{TestServer, exports};
use export::{OwnerKind, OwnerService};
use proto::nfs4::{Bitmap4, GetattrArgs, Nfsstat4, ReaddirArgs, SetattrArgs, Stateid4, attr, op};
use std::io;
use std::sync::Arc;
use vfs::Backend;
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use xdr::{Reader, Writer};

/// alice is 1000, the group staff 50; whoever is called `slow` is not found out.
struct Staff;

impl OwnerService for Staff {
    fn name_of(&self, kind: OwnerKind, id: u32) -> io::Result<Option<String>> {
        Ok(match (kind, id) {
            (OwnerKind::User, 1000) => Some("alice".to_owned()),
            (OwnerKind::Group, 50) => Some("staff".to_owned()),
            _ => None,
        })
    }

    fn id_of(&self, kind: OwnerKind, name: &str) -> io::Result<Option<u32>> {
        match (kind, name) {
            (OwnerKind::User, "alice") => Ok(Some(1000)),
            (OwnerKind::Group, "staff") => Ok(Some(50)),
            (_, "slow") => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(None),
        }
    }
}

/// A file `f`, by a server that calls this domain its own.
fn client(domain: &str) -> (Client, Vec<u8>) {
    client_of(domain, exports::mem())
}

fn client_of(domain: &str, backend: Arc<dyn Backend>) -> (Client, Vec<u8>) {
    let exports = exports::of(&[("/srv/e", backend, exports::RW)]);
    let client = Client::over(TestServer::new(exports.with_owner_service(Box::new(Staff))));
    set_domain(&client, domain);
    let (file, _) = client.create(b"f");
    (client, file)
}

fn set_domain(client: &Client, domain: &str) {
    client.server.nfs().exports.owner_names().set_domain(&domain.parse().unwrap());
}

const OWNERS: Bitmap4 = Bitmap4::of(&[attr::OWNER, attr::OWNER_GROUP]);

/// What a Linux client asks for, in which owners are.
const LINUX: Bitmap4 = proto::nfs4::LINUX_GETATTR;

fn owners(client: &Client, file: &[u8]) -> (String, String) {
    let attrs = OWNERS;
    let done = client.call(&[client.putfh(file), oper(op::GETATTR, &GetattrArgs { attrs })]);
    let mut r = done.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETATTR);
    assert_eq!(r.get::<Bitmap4>().unwrap(), OWNERS);
    let mut values = Reader::new(r.opaque(1024).unwrap());
    let mut text = || String::from_utf8(values.opaque(600).unwrap().to_vec()).unwrap();
    (text(), text())
}

fn chown(client: &Client, file: &[u8], user: &str, group: &str) -> Nfsstat4 {
    let mut w = Writer::new();
    w.opaque(user.as_bytes());
    w.opaque(group.as_bytes());
    let attrs = fattr(&[attr::OWNER, attr::OWNER_GROUP], w.bytes());
    let set = SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs };
    client.call(&[client.putfh(file), oper(op::SETATTR, &set)]).status
}

fn pair(user: &str, group: &str) -> (String, String) {
    (user.to_owned(), group.to_owned())
}

#[test]
fn owners_are_numbers_unless_there_is_a_domain() {
    let (client, file) = client("off");
    assert_eq!(chown(&client, &file, "1000", "50"), Nfsstat4::Ok);
    assert_eq!(owners(&client, &file), pair("1000", "50"));
    assert_eq!(chown(&client, &file, "alice@lab", "50"), Nfsstat4::BadOwner);
    // it counts at once
    set_domain(&client, "lab");
    assert_eq!(owners(&client, &file), pair("alice@lab", "staff@lab"));
    set_domain(&client, "off");
    assert_eq!(owners(&client, &file), pair("1000", "50"));
}

#[test]
fn names_and_numbers_are_taken_and_names_are_given() {
    let (client, file) = client("lab");
    assert_eq!(owners(&client, &file), pair("0", "0"), "without a name");
    assert_eq!(chown(&client, &file, "alice@lab", "staff@LAB"), Nfsstat4::Ok);
    assert_eq!(owners(&client, &file), pair("alice@lab", "staff@lab"));
    assert_eq!(chown(&client, &file, "7", "50"), Nfsstat4::Ok);
    assert_eq!(owners(&client, &file), pair("7", "staff@lab"));
    for (user, status) in [
        ("alice@example.org", Nfsstat4::BadOwner),
        ("alice", Nfsstat4::BadOwner),
        ("staff@lab", Nfsstat4::BadOwner),
        ("slow@lab", Nfsstat4::Delay),
        ("", Nfsstat4::Inval),
    ] {
        assert_eq!(chown(&client, &file, user, "50"), status, "{user}");
    }
    assert_eq!(owners(&client, &file), pair("7", "staff@lab"), "nothing was set");
}

/// The attributes that are otherwise written in one piece.
#[test]
fn what_linux_asks_for_has_names_in_getattr_readdir_and_verify() {
    let (client, file) = client("lab");
    assert_eq!(chown(&client, &file, "alice@lab", "staff@lab"), Nfsstat4::Ok);
    let getattr = oper(op::GETATTR, &GetattrArgs { attrs: LINUX });
    let done = client.call(&[client.putfh(&file), getattr]);
    let mut r = done.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETATTR);
    assert_eq!(r.get::<Bitmap4>().unwrap(), LINUX);
    let values = r.opaque(1024).unwrap().to_vec();
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(has(&values, b"alice@lab") && has(&values, b"staff@lab"));
    let args =
        ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount: 4096, attrs: LINUX };
    let done = client.at_root(&[oper(op::READDIR, &args)]);
    assert_eq!(done.status, Nfsstat4::Ok);
    // the times and the size of the file did not change since
    assert!(has(done.bytes(), &values));
    let compare = oper(op::VERIFY, &fattr(&LINUX.iter().collect::<Vec<_>>(), &values));
    assert_eq!(client.call(&[client.putfh(&file), compare]).status, Nfsstat4::Ok);
}

/// A file whose ACL names a user and a group.
#[test]
fn acls_have_names() {
    let dir = tempfile::tempdir().unwrap();
    let files = Arc::new(OpenFiles::new(4096));
    let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
    let (client, file) = client_of("lab", Arc::new(local));
    const ALLOW: u32 = 0;
    const GROUP: u32 = 0x40;
    let mut w = Writer::new();
    let aces: [(u32, &[u8]); 5] = [
        (0, b"OWNER@"),
        (0, b"alice@lab"),
        (GROUP, b"staff@lab"),
        (0, b"GROUP@"),
        (0, b"EVERYONE@"),
    ];
    w.u32(aces.len() as u32);
    for (flags, who) in aces {
        w.words([ALLOW, flags, 1]);
        w.opaque(who);
    }
    let set = SetattrArgs { stateid: Stateid4::ANONYMOUS, attrs: fattr(&[attr::ACL], w.bytes()) };
    let done = client.call(&[client.putfh(&file), oper(op::SETATTR, &set)]);
    assert_eq!(done.status, Nfsstat4::Ok);
    let attrs = Bitmap4::of(&[attr::ACL]);
    let ask = || {
        let done = client.at_root(&[
            name(op::LOOKUP, b"f"),
            oper(op::GETATTR, &GetattrArgs { attrs }),
            plain(op::GETFH),
        ]);
        assert_eq!(done.status, Nfsstat4::Ok);
        done.bytes().to_vec()
    };
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    let named = ask();
    assert!(has(&named, b"alice@lab") && has(&named, b"staff@lab") && !has(&named, b"1000"));
    set_domain(&client, "off");
    let numbered = ask();
    assert!(has(&numbered, b"1000") && has(&numbered, b"50") && !has(&numbered, b"@lab"));
}

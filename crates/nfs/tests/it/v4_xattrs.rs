//! Extended attributes over version 4.2 (RFC 8276).

use crate::v4::{Client, ok, oper};
use crate::v4_data::client;
use proto::layout::Bytes;
use proto::nfs4::{
    AccessArgs, Bitmap4, ListxattrsArgs, Nfsstat4, SetxattrArgs, SetxattrOption4, XattrArgs, attr,
    op,
};

fn set(
    client: &Client,
    handle: &[u8],
    name: &[u8],
    value: &[u8],
    option: SetxattrOption4,
) -> Nfsstat4 {
    let args = SetxattrArgs { option, name: Bytes(name), value: Bytes(value) };
    let set = client.call(&[client.putfh(handle), oper(op::SETXATTR, &args)]);
    if set.status == Nfsstat4::Ok {
        let mut r = set.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::SETXATTR);
        assert!(r.bool().unwrap(), "atomic");
        let (before, after) = (r.u64().unwrap(), r.u64().unwrap());
        assert!(before < after);
        r.end().unwrap();
    }
    set.status
}

fn get(client: &Client, handle: &[u8], name: &[u8]) -> Result<Vec<u8>, Nfsstat4> {
    let args = XattrArgs { name: Bytes(name) };
    let got = client.call(&[client.putfh(handle), oper(op::GETXATTR, &args)]);
    if got.status != Nfsstat4::Ok {
        return Err(got.status);
    }
    let mut r = got.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETXATTR);
    let value = r.opaque(1 << 20).unwrap().to_vec();
    r.end().unwrap();
    Ok(value)
}

fn remove(client: &Client, handle: &[u8], name: &[u8]) -> Nfsstat4 {
    let args = XattrArgs { name: Bytes(name) };
    client.call(&[client.putfh(handle), oper(op::REMOVEXATTR, &args)]).status
}

fn list(
    client: &Client,
    handle: &[u8],
    cookie: u64,
    maxcount: u32,
) -> Result<(u64, Vec<Vec<u8>>, bool), Nfsstat4> {
    let args = ListxattrsArgs { cookie, maxcount };
    let listed = client.call(&[client.putfh(handle), oper(op::LISTXATTRS, &args)]);
    if listed.status != Nfsstat4::Ok {
        return Err(listed.status);
    }
    let mut r = listed.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::LISTXATTRS);
    let cookie = r.u64().unwrap();
    let count = r.u32().unwrap();
    let names = (0..count).map(|_| r.opaque(255).unwrap().to_vec()).collect();
    let eof = r.bool().unwrap();
    r.end().unwrap();
    Ok((cookie, names, eof))
}

#[test]
fn attributes_are_set_read_and_removed() {
    use SetxattrOption4::{Create, Either, Replace};
    let client = client();
    let (file, _) = client.create(b"f");
    assert_eq!(get(&client, &file, b"k"), Err(Nfsstat4::NoXattr));
    assert_eq!(set(&client, &file, b"k", b"1", Replace), Nfsstat4::NoXattr);
    assert_eq!(set(&client, &file, b"k", b"one", Create), Nfsstat4::Ok);
    assert_eq!(set(&client, &file, b"k", b"2", Create), Nfsstat4::Exist);
    assert_eq!(get(&client, &file, b"k").unwrap(), b"one");
    assert_eq!(set(&client, &file, b"k", b"", Either), Nfsstat4::Ok);
    assert_eq!(get(&client, &file, b"k").unwrap(), b"");
    assert_eq!(remove(&client, &file, b"k"), Nfsstat4::Ok);
    assert_eq!(remove(&client, &file, b"k"), Nfsstat4::NoXattr);
    let large = vec![7; 64 * 1024];
    assert_eq!(set(&client, &file, b"k", &large, Either), Nfsstat4::Ok);
    assert_eq!(get(&client, &file, b"k").unwrap(), large);
    assert_eq!(set(&client, &file, b"k", &[7; 64 * 1024 + 1], Either), Nfsstat4::Xattr2Big);
    assert_eq!(set(&client, &file, b"", b"1", Either), Nfsstat4::Inval);
    assert_eq!(set(&client, &file, b"a\0b", b"1", Either), Nfsstat4::Inval);
    assert_eq!(set(&client, &file, &[b'n'; 251], b"1", Either), Nfsstat4::NameTooLong);
    let root = client.server.root();
    assert_eq!(set(&client, &root, b"of a directory", b"1", Either), Nfsstat4::Ok);
    assert_eq!(get(&client, &root, b"of a directory").unwrap(), b"1");
}

#[test]
fn lists_continue_at_their_cookies() {
    let client = client();
    let (file, _) = client.create(b"f");
    assert_eq!(list(&client, &file, 0, 1000), Ok((0, Vec::new(), true)));
    let name = |number| format!("name {number}").into_bytes();
    for number in 0..20 {
        assert_eq!(set(&client, &file, &name(number), b"", SetxattrOption4::Create), Nfsstat4::Ok);
    }
    let (mut cookie, mut names, mut calls) = (0, Vec::new(), 0);
    loop {
        let (next, some, eof) = list(&client, &file, cookie, 60).unwrap();
        names.extend(some);
        (cookie, calls) = (next, calls + 1);
        if eof {
            break;
        }
        // what comes and goes meanwhile moves no other
        let other = format!("other {calls}").into_bytes();
        set(&client, &file, &other, b"", SetxattrOption4::Create);
        remove(&client, &file, &other);
    }
    assert!(calls >= 7, "{calls}");
    names.sort();
    let mut expected: Vec<_> = (0..20).map(name).collect();
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(list(&client, &file, 0, 20), Err(Nfsstat4::TooSmall));
    assert_eq!(list(&client, &file, u64::MAX, 1000), Ok((u64::MAX, Vec::new(), true)));
}

#[test]
fn a_value_that_does_not_fit_in_the_reply_is_refused() {
    let server = crate::support::TestServer::new(crate::support::exports::of(&[(
        "/e",
        crate::support::exports::mem(),
        crate::support::exports::RW,
    )]));
    let client = Client::with(server, [0, 1 << 20, 1024, 512, 32, 8]).of_minor(2);
    let (file, _) = client.create(b"f");
    assert_eq!(set(&client, &file, b"k", &[7; 2000], SetxattrOption4::Either), Nfsstat4::Ok);
    assert_eq!(get(&client, &file, b"k"), Err(Nfsstat4::RepTooBig));
    assert_eq!(set(&client, &file, b"k", &[7; 200], SetxattrOption4::Either), Nfsstat4::Ok);
    assert_eq!(get(&client, &file, b"k").unwrap(), [7; 200]);
}

#[test]
fn access_tells_what_may_be_done_with_attributes() {
    let mut client = client();
    let (file, _) = client.create(b"f");
    let access = |client: &Client, bits| {
        let asked =
            client.call(&[client.putfh(&file), oper(op::ACCESS, &AccessArgs { access: bits })]);
        if asked.status != Nfsstat4::Ok {
            return Err(asked.status);
        }
        let mut r = asked.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::ACCESS);
        Ok(r.words::<2>().unwrap())
    };
    assert_eq!(access(&client, 0x1c0), Ok([0x1c0, 0x1c0]));
    assert_eq!(access(&client, 0x41), Ok([0x41, 0x41]));
    assert_eq!(access(&client, 1), Ok([1, 1]));
    assert_eq!(access(&client, 0x200), Err(Nfsstat4::Inval));
    client.minor = 1;
    assert_eq!(access(&client, 0x40), Err(Nfsstat4::Inval), "version 4.1 does not know it");
}

#[test]
fn an_attribute_says_whether_there_are_any() {
    let mut client = client();
    let supported = |client: &Client| {
        let asked = Bitmap4::of(&[attr::XATTR_SUPPORT]);
        let found = client.at_root(&[oper(op::GETATTR, &asked)]);
        let mut r = found.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::GETATTR);
        let given: Bitmap4 = r.get().unwrap();
        (given == asked).then(|| r.words::<2>().unwrap())
    };
    assert_eq!(supported(&client), Some([4, 1]));
    client.minor = 1;
    assert_eq!(supported(&client), None);
}

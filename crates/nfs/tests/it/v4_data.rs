//! The operations on data of version 4.2, byte by byte: space, holes, copies.

use crate::support::{TestServer, exports};
use crate::v4::{Client, Results, fattr, name, ok, oper, plain};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloneArgs, CopyArgs, CreateArgs, CreateType4, IoAdviseArgs, Nfsstat4, RangeArgs,
    ReadArgs, SeekArgs, SetattrArgs, StableHow4, Stateid4, WriteArgs, attr, content, op,
};
use xdr::Reader;

/// Bytes of the blocks of files in memory.
const BLOCK: u64 = 4096;

pub(crate) fn client() -> Client {
    Client::new().of_minor(2)
}

fn write_at(client: &Client, file: &(Vec<u8>, Stateid4), offset: u64, data: &[u8]) {
    let args =
        WriteArgs { stateid: file.1, offset, stable: StableHow4::FileSync, data: Bytes(data) };
    let written = client.call(&[client.putfh(&file.0), oper(op::WRITE, &args)]);
    assert_eq!(written.status, Nfsstat4::Ok);
}

/// A file of four blocks: data, two blocks of hole, data.
fn sparse(client: &Client, name: &[u8]) -> (Vec<u8>, Stateid4) {
    let file = client.create(name);
    write_at(client, &file, 0, &[1; 4096]);
    write_at(client, &file, 3 * BLOCK, &[2; 4096]);
    file
}

fn data(client: &Client, file: &(Vec<u8>, Stateid4)) -> Vec<u8> {
    let args = ReadArgs { stateid: file.1, offset: 0, count: 1 << 20 };
    let read = client.call(&[client.putfh(&file.0), oper(op::READ, &args)]);
    let mut r = read.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::READ);
    assert!(r.bool().unwrap());
    r.opaque(1 << 20).unwrap().to_vec()
}

fn range(
    client: &Client,
    file: &(Vec<u8>, Stateid4),
    number: u32,
    at: u64,
    length: u64,
) -> Nfsstat4 {
    let args = RangeArgs { stateid: file.1, offset: at, length };
    client.call(&[client.putfh(&file.0), oper(number, &args)]).status
}

#[test]
fn space_is_reserved_and_freed() {
    let client = client();
    let file = sparse(&client, b"f");
    assert_eq!(range(&client, &file, op::ALLOCATE, BLOCK, 4 * BLOCK), Nfsstat4::Ok);
    let expected = [&[1; 4096][..], &[0; 8192], &[2; 4096], &[0; 4096]].concat();
    assert_eq!(data(&client, &file), expected);
    assert_eq!(seek(&client, &file, 0, content::HOLE), Ok((true, 5 * BLOCK)));
    assert_eq!(range(&client, &file, op::DEALLOCATE, 100, 2 * BLOCK), Nfsstat4::Ok);
    assert_eq!(data(&client, &file)[99..101], [1, 0]);
    assert_eq!(seek(&client, &file, 0, content::HOLE), Ok((false, BLOCK)));
    for number in [op::ALLOCATE, op::DEALLOCATE] {
        assert_eq!(range(&client, &file, number, 0, 0), Nfsstat4::Inval);
        assert_eq!(range(&client, &file, number, u64::MAX, 2), Nfsstat4::FBig);
    }
    assert_eq!(range(&client, &file, op::ALLOCATE, 0, 1 << 40), Nfsstat4::NoSpc);
    // a directory, and a stateid that is of another file
    let dir = (client.server.root(), Stateid4::ANONYMOUS);
    assert_eq!(range(&client, &dir, op::ALLOCATE, 0, 1), Nfsstat4::WrongType);
    let other = (client.create(b"g").0, file.1);
    assert_eq!(range(&client, &other, op::ALLOCATE, 0, 1), Nfsstat4::BadStateid);
}

#[test]
fn a_read_only_export_keeps_its_space() {
    let server = TestServer::new(exports::of(&[("/e", exports::mem(), exports::RO)]));
    let client = Client::over(server).of_minor(2);
    let root = (client.server.root(), Stateid4::ANONYMOUS);
    assert_eq!(range(&client, &root, op::ALLOCATE, 0, 1), Nfsstat4::RoFs);
    assert_eq!(range(&client, &root, op::DEALLOCATE, 0, 1), Nfsstat4::RoFs);
}

fn seek(
    client: &Client,
    file: &(Vec<u8>, Stateid4),
    offset: u64,
    what: u32,
) -> Result<(bool, u64), Nfsstat4> {
    let args = SeekArgs { stateid: file.1, offset, what };
    let sought = client.call(&[client.putfh(&file.0), oper(op::SEEK, &args)]);
    if sought.status != Nfsstat4::Ok {
        return Err(sought.status);
    }
    let mut r = sought.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::SEEK);
    let found = (r.bool().unwrap(), r.u64().unwrap());
    r.end().unwrap();
    Ok(found)
}

#[test]
fn seek_finds_data_holes_and_the_hole_at_the_end() {
    let client = client();
    let file = sparse(&client, b"f");
    assert_eq!(seek(&client, &file, 5, content::DATA), Ok((false, 5)));
    assert_eq!(seek(&client, &file, 5, content::HOLE), Ok((false, BLOCK)));
    assert_eq!(seek(&client, &file, BLOCK, content::DATA), Ok((false, 3 * BLOCK)));
    assert_eq!(seek(&client, &file, 3 * BLOCK, content::HOLE), Ok((true, 4 * BLOCK)));
    assert_eq!(seek(&client, &file, 4 * BLOCK, content::HOLE), Err(Nfsstat4::NxIo));
    assert_eq!(seek(&client, &file, u64::MAX, content::DATA), Err(Nfsstat4::NxIo));
    assert_eq!(seek(&client, &file, 0, 2), Err(Nfsstat4::UnionNotSupp));
    // longer, without data: what is behind the last data
    let longer = fattr(&[attr::SIZE], &(8 * BLOCK).to_be_bytes());
    let set = SetattrArgs { stateid: file.1, attrs: longer };
    client.call(&[client.putfh(&file.0), oper(op::SETATTR, &set)]);
    assert_eq!(seek(&client, &file, 4 * BLOCK, content::DATA), Ok((true, 8 * BLOCK)));
    let special = (file.0.clone(), Stateid4::ANONYMOUS);
    assert_eq!(seek(&client, &special, 0, content::DATA), Ok((false, 0)));
    let dir = (client.server.root(), Stateid4::ANONYMOUS);
    assert_eq!(seek(&client, &dir, 0, content::DATA), Err(Nfsstat4::IsDir));
}

/// A part of a READ_PLUS: an offset with the first byte and the number of bytes, all of which are the same; or a hole.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Data(u64, u8, usize),
    Hole(u64, u64),
}

fn uniform(offset: u64, data: &[u8]) -> Part {
    assert!(data.iter().all(|byte| *byte == data[0]));
    Part::Data(offset, data[0], data.len())
}

fn read_plus(
    client: &Client,
    file: &(Vec<u8>, Stateid4),
    offset: u64,
    count: u32,
) -> (bool, Vec<Part>) {
    let args = ReadArgs { stateid: file.1, offset, count };
    let read = client.call(&[client.putfh(&file.0), oper(op::READ_PLUS, &args)]);
    assert_eq!(read.status, Nfsstat4::Ok);
    let mut r = read.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::READ_PLUS);
    let eof = r.bool().unwrap();
    let part = |r: &mut Reader<'_>| match r.u32().unwrap() {
        content::DATA => {
            let offset = r.u64().unwrap();
            uniform(offset, r.opaque(1 << 20).unwrap())
        }
        content::HOLE => Part::Hole(r.u64().unwrap(), r.u64().unwrap()),
        other => panic!("content {other}"),
    };
    let count = r.u32().unwrap();
    let parts = (0..count).map(|_| part(&mut r)).collect();
    r.end().unwrap();
    (eof, parts)
}

#[test]
fn read_plus_names_holes_instead_of_sending_them() {
    use Part::{Data, Hole};
    let client = client();
    let file = sparse(&client, b"f");
    let all = read_plus(&client, &file, 0, 1 << 20);
    assert_eq!(all, (false, vec![Data(0, 1, 4096), Hole(BLOCK, 2 * BLOCK)]));
    // a hole as a whole, also if less was asked for
    assert_eq!(read_plus(&client, &file, BLOCK, 10), (false, vec![Hole(BLOCK, 2 * BLOCK)]));
    let rest = read_plus(&client, &file, 2 * BLOCK, 1 << 20);
    assert_eq!(rest, (true, vec![Hole(2 * BLOCK, BLOCK), Data(3 * BLOCK, 2, 4096)]));
    let few = read_plus(&client, &file, 3 * BLOCK - 2, 5);
    assert_eq!(few, (false, vec![Hole(3 * BLOCK - 2, 2), Data(3 * BLOCK, 2, 3)]));
    assert_eq!(read_plus(&client, &file, 4 * BLOCK, 9), (true, vec![]));
    assert_eq!(read_plus(&client, &file, u64::MAX, 9), (true, vec![]));
    assert_eq!(read_plus(&client, &file, 5, 0), (false, vec![]));
    let empty = client.create(b"empty");
    assert_eq!(read_plus(&client, &empty, 0, 9), (true, vec![]));
    // a hole up to the end
    let grown = fattr(&[attr::SIZE], &100_u64.to_be_bytes());
    let set = SetattrArgs { stateid: empty.1, attrs: grown };
    client.call(&[client.putfh(&empty.0), oper(op::SETATTR, &set)]);
    assert_eq!(read_plus(&client, &empty, 0, 100), (true, vec![Hole(0, 100)]));
    assert_eq!(read_plus(&client, &empty, 0, 99), (false, vec![Hole(0, 100)]));
}

fn two(
    client: &Client,
    from: &(Vec<u8>, Stateid4),
    to: &(Vec<u8>, Stateid4),
    operation: Vec<u8>,
) -> Results {
    let source = [client.putfh(&from.0), plain(op::SAVEFH), client.putfh(&to.0)];
    client.call(&[&source[..], &[operation]].concat())
}

/// The results of the operation behind the three of [`two`].
fn last<'r>(results: &'r Results, number: u32) -> Reader<'r> {
    let mut r = results.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::SAVEFH);
    ok(&mut r, op::PUTFH);
    ok(&mut r, number);
    r
}

fn ranges(from: &(Vec<u8>, Stateid4), to: &(Vec<u8>, Stateid4), numbers: [u64; 3]) -> CloneArgs {
    let [src_offset, dst_offset, count] = numbers;
    CloneArgs { src_stateid: from.1, dst_stateid: to.1, src_offset, dst_offset, count }
}

#[test]
fn a_range_is_copied_within_the_server() {
    let client = client();
    let (from, to) = (sparse(&client, b"from"), client.create(b"to"));
    let copy = |from: &(Vec<u8>, Stateid4), to: &(Vec<u8>, Stateid4), numbers| {
        let range = ranges(from, to, numbers);
        let args = CopyArgs { range, consecutive: true, synchronous: false, sources: 0 };
        two(&client, from, to, oper(op::COPY, &args))
    };
    let copied = copy(&from, &to, [BLOCK - 2, 3, 4]);
    assert_eq!(copied.status, Nfsstat4::Ok);
    let mut r = last(&copied, op::COPY);
    // no callback, four bytes, unstable
    assert_eq!(r.words().unwrap(), [0, 0, 4, 0]);
    r.u64().unwrap();
    // in order, and done
    assert_eq!(r.words().unwrap(), [1, 1]);
    r.end().unwrap();
    assert_eq!(data(&client, &to), [0, 0, 0, 1, 1, 0, 0]);
    // to the end
    let whole = copy(&from, &to, [0, 0, 0]);
    let mut r = last(&whole, op::COPY);
    assert_eq!(r.words().unwrap(), [0, 0, 4 * 4096]);
    assert_eq!(data(&client, &to), data(&client, &from));
    let fails = |from, to, numbers, status| assert_eq!(copy(from, to, numbers).status, status);
    fails(&from, &to, [5 * BLOCK, 0, 0], Nfsstat4::Inval);
    fails(&from, &to, [BLOCK, 0, 4 * BLOCK], Nfsstat4::Inval);
    fails(&from, &to, [0, u64::MAX, 1], Nfsstat4::FBig);
    fails(&from, &from, [0, 8 * BLOCK, 1], Nfsstat4::Inval);
    let dir = (client.server.root(), Stateid4::ANONYMOUS);
    fails(&dir, &to, [0, 0, 0], Nfsstat4::WrongType);
    fails(&from, &dir, [0, 0, 1], Nfsstat4::WrongType);
    fails(&(from.0.clone(), to.1), &to, [0, 0, 1], Nfsstat4::BadStateid);
    // nothing was saved
    let range = ranges(&from, &to, [0, 0, 0]);
    let args = CopyArgs { range, consecutive: true, synchronous: true, sources: 0 };
    let lone = client.call(&[client.putfh(&to.0), oper(op::COPY, &args)]);
    assert_eq!(lone.status, Nfsstat4::NoFilehandle);
    // from another server, named by a URL
    let mut remote = oper(op::COPY, &args);
    remote.truncate(remote.len() - 4);
    remote.extend([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, b'u', 0, 0, 0]);
    assert_eq!(two(&client, &from, &to, remote).status, Nfsstat4::NotSupp);
}

#[test]
fn a_file_is_copied_from_one_export_to_another() {
    let rows = [("/a", exports::mem(), exports::RW), ("/b", exports::mem(), exports::RW)];
    let client = Client::over(TestServer::new(exports::of(&rows))).of_minor(2);
    let from = sparse(&client, b"from");
    let make = |handle: &[u8]| {
        let create =
            CreateArgs { what: CreateType4::Dir, name: Bytes(b"d"), attrs: fattr(&[], &[]) };
        client.call(&[client.putfh(handle), oper(op::CREATE, &create)]).status
    };
    let root = client.server.root_of(1);
    assert_eq!(make(&root), Nfsstat4::Ok);
    let args = proto::nfs4::OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: proto::nfs4::OpenOwner4 { clientid: 0, owner: Bytes(b"o") },
        how: proto::nfs4::OpenHow4::Create(proto::nfs4::Createhow4::Unchecked(fattr(&[], &[]))),
        claim: proto::nfs4::OpenClaim4::Null(Bytes(b"to")),
    };
    let copy = CopyArgs {
        range: CloneArgs {
            src_stateid: from.1,
            dst_stateid: Stateid4::CURRENT,
            src_offset: 0,
            dst_offset: 0,
            count: 0,
        },
        consecutive: true,
        synchronous: true,
        sources: 0,
    };
    let operations = [
        client.putfh(&from.0),
        plain(op::SAVEFH),
        client.putfh(&root),
        oper(op::OPEN, &args),
        oper(op::COPY, &copy),
        oper(op::READ, &ReadArgs { stateid: Stateid4::CURRENT, offset: 0, count: 1 << 20 }),
    ];
    let copied = client.call(&operations);
    assert_eq!(copied.status, Nfsstat4::Ok);
    assert!(copied.bytes().ends_with(&[2; 4096]));
    let clone = oper(op::CLONE, &CloneArgs { dst_stateid: Stateid4::ANONYMOUS, ..copy.range });
    let cloned = client.call(&[
        client.putfh(&from.0),
        plain(op::SAVEFH),
        client.putfh(&root),
        name(op::LOOKUP, b"to"),
        clone,
    ]);
    assert_eq!(cloned.status, Nfsstat4::XDev);
}

#[test]
fn a_range_is_cloned_if_it_is_aligned() {
    let client = client();
    let (from, to) = (sparse(&client, b"from"), client.create(b"to"));
    let clone = |from: &(Vec<u8>, Stateid4), to: &(Vec<u8>, Stateid4), numbers| {
        two(&client, from, to, oper(op::CLONE, &ranges(from, to, numbers))).status
    };
    assert_eq!(clone(&from, &to, [0, BLOCK, 0]), Nfsstat4::Ok);
    let expected = [vec![0; 4096], data(&client, &from)].concat();
    assert_eq!(data(&client, &to), expected);
    assert_eq!(clone(&from, &to, [1, 0, BLOCK]), Nfsstat4::Inval);
    assert_eq!(clone(&from, &to, [0, 0, 100]), Nfsstat4::Inval);
    assert_eq!(clone(&from, &to, [0, 0, 5 * BLOCK]), Nfsstat4::Inval);
    assert_eq!(clone(&from, &from, [0, BLOCK, 2 * BLOCK]), Nfsstat4::Inval);
    assert_eq!(clone(&from, &from, [0, BLOCK, BLOCK]), Nfsstat4::Ok);
    let dir = (client.server.root(), Stateid4::ANONYMOUS);
    assert_eq!(clone(&from, &dir, [0, 0, 0]), Nfsstat4::WrongType);
    // how ranges must be aligned
    let asked = Bitmap4::of(&[attr::CLONE_BLKSIZE, attr::CHANGE_ATTR_TYPE]);
    let found = client.call(&[client.putfh(&from.0), oper(op::GETATTR, &asked)]);
    let mut r = found.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::GETATTR);
    assert_eq!(r.get::<Bitmap4>().unwrap(), asked);
    assert_eq!(r.words().unwrap(), [8, 4096, 0]);
}

#[test]
fn advice_is_never_an_error() {
    let client = client();
    let file = sparse(&client, b"f");
    let advise = |stateid, hints: &[u32]| {
        let args = IoAdviseArgs { stateid, offset: 0, count: 0, hints: Bitmap4::of(hints) };
        let advised = client.call(&[client.putfh(&file.0), oper(op::IO_ADVISE, &args)]);
        assert_eq!(advised.status, Nfsstat4::Ok);
        let mut r = advised.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::IO_ADVISE);
        r.get::<Bitmap4>().unwrap()
    };
    assert_eq!(advise(file.1, &[1, 3, 4, 95]), Bitmap4::of(&[4]));
    assert_eq!(advise(file.1, &[]), Bitmap4::NONE);
    let writer = client.open(
        b"g",
        2,
        0,
        proto::nfs4::OpenHow4::Create(proto::nfs4::Createhow4::Unchecked(fattr(&[], &[]))),
    );
    let (handle, stateid) = writer.unwrap();
    let hints = Bitmap4::of(&[4]);
    let args = IoAdviseArgs { stateid, offset: 0, count: 0, hints };
    let advised = client.call(&[client.putfh(&handle), oper(op::IO_ADVISE, &args)]);
    assert_eq!(advised.status, Nfsstat4::Ok, "open for writing only");
}

#[test]
fn operations_without_a_server_to_copy_to_are_not_supported() {
    let client = client();
    for number in
        [op::COPY_NOTIFY, op::WRITE_SAME, op::LAYOUTERROR, op::LAYOUTSTATS, op::GETDEVICELIST]
    {
        assert_eq!(client.at_root(&[plain(number)]).status, Nfsstat4::NotSupp, "{number}");
    }
    assert_eq!(client.at_root(&[plain(76)]).status, Nfsstat4::OpIllegal);
}

//! Copies that go on after their COPY was answered, over real connections: the callback at the end, what the operator sees,
//! a client that cannot be called back for a while, a server that is killed.

use crate::callbacks::{fine, next, until, watch};
use crate::delegations::{Machine, Opened, READ, WRITE};
use crate::rig::{Server, text};
use client::nfs4::{Operations, results_inside, succeeded};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbOffloadArgs, CloneArgs, CommitArgs, CopyArgs, Createhow4, Fattr4, Nfsstat4,
    OffloadInfo4, OpenClaim4, OpenHow4, StableHow4, Stateid4, WriteArgs, cb_op, op,
};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;
use xdr::Reader;

const MIB: u64 = 1 << 20;
/// `CDFC4_BACK_OR_BOTH`.
const BACK_OR_BOTH: u32 = 7;

struct Rig {
    dir: TempDir,
    server: Server,
}

/// A server with one export, `e`, that holds a file `from` of this size and an empty one, `to`.
fn rig(size: u64) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o777);
    for name in ["from", "to"] {
        std::fs::write(dir.path().join(name), b"").unwrap();
        mode(&dir.path().join(name), 0o666);
    }
    let from = std::fs::File::options().write(true).open(dir.path().join("from")).unwrap();
    from.set_len(size - 3).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&from, b"end", size - 3).unwrap();
    let export = format!("e={}", dir.path().display());
    let settings = ["--set", "copy=async", "--set", "versions=3,4.2", "--set", "delegations=off"];
    Rig { server: Server::start(&[&[&*export], &settings[..]].concat()), dir }
}

/// The two files, open.
struct Files {
    from: Opened,
    to: Opened,
}

fn open(machine: &mut Machine) -> Files {
    let mut open = |name, access| machine.open(access, OpenClaim4::Null(Bytes(name))).unwrap();
    Files { from: open(b"from", READ), to: open(b"to", READ | WRITE) }
}

/// COPY of all: the stateid and the verifier.
fn copy(machine: &mut Machine, files: &Files) -> (Stateid4, [u8; 8]) {
    let range = CloneArgs {
        src_stateid: files.from.open,
        dst_stateid: files.to.open,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
    };
    let args = CopyArgs { range, consecutive: true, synchronous: false, sources: 0 };
    let operations = Operations::new()
        .at(&files.from.handle)
        .bare(op::SAVEFH)
        .at(&files.to.handle)
        .with(op::COPY, &args);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    let mut r = results_inside(&reply).unwrap();
    for number in [op::PUTFH, op::SAVEFH, op::PUTFH, op::COPY] {
        succeeded(&mut r, number).unwrap();
    }
    assert_eq!(r.u32().unwrap(), 1, "it goes on");
    let stateid = r.get().unwrap();
    r.u64().unwrap();
    r.get::<StableHow4>().unwrap();
    (stateid, r.array().unwrap())
}

/// Makes a file so long.
fn write_last(machine: &mut Machine, file: &Opened, size: u64) {
    let (stateid, stable) = (file.open, StableHow4::FileSync);
    let args = WriteArgs { stateid, offset: size - 1, stable, data: Bytes(b"!") };
    let operations = Operations::new().at(&file.handle).with(op::WRITE, &args);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    succeeded(&mut results_inside(&reply).unwrap(), op::PUTFH).unwrap();
}

fn commit(machine: &mut Machine, file: &[u8]) -> [u8; 8] {
    let all = CommitArgs { offset: 0, count: 0 };
    let operations = Operations::new().at(file).with(op::COMMIT, &all);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTFH).unwrap();
    succeeded(&mut r, op::COMMIT).unwrap();
    r.array().unwrap()
}

/// The next CB_OFFLOAD is of this copy of everything.
fn told(machine: &mut Machine, files: &Files, (copy, verifier): (Stateid4, [u8; 8]), size: u64) {
    let called = next(&mut machine.client, &machine.seen);
    assert_eq!(called.operation, cb_op::OFFLOAD);
    let mut r = Reader::new(&called.args);
    let args: CbOffloadArgs<'_> = r.get().unwrap();
    r.end().unwrap();
    assert_eq!((args.fh.0, args.stateid), (&files.to.handle[..], copy));
    let committed = StableHow4::Unstable;
    assert_eq!(args.info, OffloadInfo4::Done { count: size, committed, verifier });
}

fn metric(server: &Server, name: &str) -> String {
    let page = text(&server.ask(&["metrics"]).stdout);
    let line = page.lines().find(|line| line.starts_with(&format!("bowline_{name} ")));
    line.unwrap_or_else(|| panic!("no {name}: {page}")).rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn the_client_is_called_back_at_the_end() {
    let size = 64 * MIB;
    let rig = rig(size);
    let mut machine = Machine::of_minor(2, &rig.server, b"copier");
    let files = open(&mut machine);
    let copied = copy(&mut machine, &files);
    told(&mut machine, &files, copied, size);
    assert_eq!(commit(&mut machine, &files.to.handle), copied.1, "nothing was lost");
    let [from, to] = ["from", "to"].map(|name| std::fs::read(rig.dir.path().join(name)).unwrap());
    assert!(from == to);
    // the outcome is known for a while
    let asked = machine.with_stateid(op::OFFLOAD_STATUS, &files.to.handle, copied.0);
    assert_eq!(asked, Nfsstat4::Ok);
    until(|| metric(&rig.server, "async_copies_done_total") == "1");
    assert_eq!(metric(&rig.server, "async_copied_bytes_total"), size.to_string());
    assert_eq!(metric(&rig.server, "async_copies_under_way"), "0");
}

#[test]
fn the_operator_sees_how_far_a_copy_is() {
    let slow = ["e=mem:delay=100%:60..60ms", "--set", "copy=async", "--set", "versions=3,4.2"];
    let server = Server::start(&slow);
    let mut machine = Machine::of_minor(2, &server, b"copier");
    let mut made = |name| {
        let at = Operations::new().bare(op::PUTROOTFH).with(op::LOOKUP, &Bytes::<255>(b"e"));
        let nothing = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
        let how = OpenHow4::Create(Createhow4::Unchecked(nothing));
        let claim = OpenClaim4::Null(Bytes(name));
        machine.open_how(at, &[op::PUTROOTFH, op::LOOKUP], (READ | WRITE, 0), (claim, how)).unwrap()
    };
    let files = Files { from: made(b"from"), to: made(b"to") };
    let size = 20 * 8 * MIB;
    write_last(&mut machine, &files.from, size);
    let copied = copy(&mut machine, &files);
    let mut seen = None;
    until(|| {
        let rows = server.json("ops");
        let row = rows.as_array().unwrap().iter().find(|row| row["procedure"] == "COPY").unwrap();
        let copies = row["copies"].as_array().cloned().unwrap_or_default();
        assert_eq!(copies.len(), 1, "{row}");
        let copied = copies[0]["copied"].as_u64().unwrap();
        assert_eq!((&copies[0]["total"], &copies[0]["export"]), (&size.into(), &"/e".into()));
        let grew = seen.is_some_and(|before| before < copied);
        seen = Some(copied);
        grew
    });
    let page = text(&server.ask(&["ops", "--wide"]).stdout);
    assert!(page.contains("TARGET") && page.contains("160.0 MiB") && page.contains('%'), "{page}");
    assert_eq!(metric(&server, "async_copies_under_way"), "1");
    until(|| match machine.with_stateid(op::OFFLOAD_CANCEL, &files.to.handle, copied.0) {
        Nfsstat4::Delay => false,
        status => {
            assert_eq!(status, Nfsstat4::Ok);
            true
        }
    });
    assert_eq!(metric(&server, "async_copies_cancelled_total"), "1");
    let page = text(&server.ask(&["ops", "--wide"]).stdout);
    assert!(!page.contains("TARGET"), "{page}");
}

/// The connection is lost before the copy ends, and the client comes back by another one.
#[test]
fn a_client_that_comes_back_is_told() {
    let size = 64 * MIB;
    let rig = rig(size);
    let mut machine = Machine::of_minor(2, &rig.server, b"copier");
    let files = open(&mut machine);
    let copied = copy(&mut machine, &files);
    let Machine { client, session, .. } = machine;
    drop(client);
    until(|| metric(&rig.server, "async_copies_done_total") == "1");
    let mut client = crate::callbacks::connected(&rig.server);
    let seen = watch(&mut client, fine);
    client.bind_to_session(&session, BACK_OR_BOTH).unwrap();
    let mut machine = Machine { client, session, seen };
    told(&mut machine, &files, copied, size);
}

#[test]
fn a_server_that_is_killed_forgets_the_copy_and_its_verifier_tells() {
    let size = 512 * MIB;
    let mut rig = rig(size);
    let mut machine = Machine::of_minor(2, &rig.server, b"copier");
    let files = open(&mut machine);
    let (stateid, verifier) = copy(&mut machine, &files);
    rig.server.kill();
    rig.server.start_again();
    let mut machine = Machine::of_minor(2, &rig.server, b"copier");
    let to = &files.to.handle;
    for number in [op::OFFLOAD_STATUS, op::OFFLOAD_CANCEL] {
        assert_eq!(machine.with_stateid(number, to, stateid), Nfsstat4::BadStateid);
    }
    assert_ne!(commit(&mut machine, to), verifier);
}

//! Delegations of directories over real connections, of an export in memory, where the server itself holds changes back on every
//! kernel. A kernel that can do so is tested by `tests/kernel/dir_delegations.sh`.

use crate::callbacks::until;
use crate::delegations::{Machine, READ, WRITE};
use crate::operator_tables::connect;
use crate::rig::{Server, text};
use client::nfs4::{Operations, results_inside, succeeded};
use client::{Client, Fh};
use proto::layout::Bytes;
use proto::nfs3::{CreateHow3, Nfstime3, Sattr3, SetTime3};
use proto::nfs4::{
    Bitmap4, ChangeInfo4, CreateArgs, CreateType4, Createhow4, Fattr4, GetDirDelegationArgs,
    GetattrArgs, LinkArgs, Nfsstat4, Nfstime4, OpenClaim4, OpenHow4, RemoveArgs, RenameArgs,
    SetattrArgs, Stateid4, attr, op,
};
use std::fs::{File, FileTimes};
use std::time::SystemTime;
use xdr::Reader;

const NOTHING: Fattr4<'static> = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
fn server(setting: &str) -> Server {
    Server::start(&["e=mem:", "--set", "versions=2,3,4.1,4.2", "--set", setting])
}

fn everybody() -> Sattr3 {
    Sattr3 { mode: Some(0o777), ..Sattr3::default() }
}

fn asked() -> GetDirDelegationArgs {
    let now = Nfstime4 { seconds: 0, nseconds: 0 };
    GetDirDelegationArgs {
        signal: false,
        // all of them; the server has none
        notifications: Bitmap4::of(&[0, 1, 2, 3, 4, 5]),
        child_delay: now,
        dir_delay: now,
        child_attributes: Bitmap4::of(&[attr::SIZE]),
        dir_attributes: Bitmap4::of(&[attr::CHANGE]),
    }
}

/// The status of these operations behind a filehandle, and their results if it is success.
fn run(
    machine: &mut Machine,
    handle: &[u8],
    more: impl FnOnce(Operations) -> Operations,
) -> (Nfsstat4, Vec<u8>) {
    let operations = more(Operations::new().at(handle));
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    let status = Reader::new(reply.body()).get().unwrap();
    if status != Nfsstat4::Ok {
        return (status, Vec::new());
    }
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTFH).unwrap();
    (status, r.rest().to_vec())
}

/// Asks for a delegation; `None` if there is none.
fn ask(machine: &mut Machine, dir: &[u8]) -> Option<Stateid4> {
    let (status, results) = run(machine, dir, |at| at.with(op::GET_DIR_DELEGATION, &asked()));
    assert_eq!(status, Nfsstat4::Ok);
    let mut r = Reader::new(&results);
    succeeded(&mut r, op::GET_DIR_DELEGATION).unwrap();
    match r.u32().unwrap() {
        0 => {
            assert_eq!(r.u64().unwrap(), 0, "READDIR's verifier");
            let stateid = r.get().unwrap();
            for _ in 0..3 {
                assert_eq!(r.get::<Bitmap4>().unwrap(), Bitmap4::NONE, "no notifications");
            }
            Some(stateid)
        }
        1 => {
            assert_eq!(r.u32().unwrap(), 0, "no signal will come");
            None
        }
        other => panic!("gddrnf_status {other}"),
    }
}

/// The handle of a name in the export's root.
fn handle(old: &mut Client, name: &[u8]) -> Vec<u8> {
    let root = old.mount(b"/e").unwrap();
    old.lookup(&root, name).unwrap().handle.bytes().to_vec()
}

/// Makes a directory look as if it was last changed long ago, as one must be that is delegated.
fn rest(old: &mut Client, dir: &[u8]) {
    let mtime = SetTime3::Client(Nfstime3 { seconds: 1, nseconds: 0 });
    let set = Sattr3 { mtime, ..Sattr3::default() };
    old.setattr(&Fh::new(dir).unwrap(), set, None).unwrap();
}

/// A client of version 3, and directories `d0` to `d9` at rest, with files `f`.
fn directories(server: &Server) -> (Client, Vec<Vec<u8>>) {
    let mut old = connect(server);
    let root = old.mount(b"/e").unwrap();
    let made = (0..10).map(|n| {
        let name = format!("d{n}");
        old.mkdir(&root, name.as_bytes(), everybody()).unwrap();
        let dir = handle(&mut old, name.as_bytes());
        old.create(&Fh::new(&dir).unwrap(), b"f", CreateHow3::Guarded(everybody())).unwrap();
        rest(&mut old, &dir);
        dir
    });
    let made = made.collect();
    (old, made)
}

fn kinds(server: &Server) -> Vec<String> {
    let rows = server.json("delegations");
    rows.as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn whoever_changes_entries_waits_until_others_have_returned_the_directory() {
    let server = server("delegations=read");
    let (mut old, dirs) = directories(&server);
    let [mut one, mut two] = [&b"one"[..], b"two"].map(|name| Machine::new(&server, name));
    let mut writer = Machine::new(&server, b"writer");
    let (from, file) = (handle(&mut old, b"d9"), {
        let (_, results) = run(&mut writer, &dirs[9], |at| {
            at.with(op::LOOKUP, &Bytes::<255>(b"f")).bare(op::GETFH)
        });
        let mut r = Reader::new(&results);
        succeeded(&mut r, op::LOOKUP).unwrap();
        succeeded(&mut r, op::GETFH).unwrap();
        r.opaque(128).unwrap().to_vec()
    });
    let create = |what| CreateArgs { what, name: Bytes(b"new"), attrs: NOTHING };
    let mut change = |number: usize, dir: &[u8]| {
        let at = |at: Operations| match number {
            0 => at.with(op::CREATE, &create(CreateType4::Dir)),
            1 => at.with(op::CREATE, &create(CreateType4::Lnk(Bytes(b"target")))),
            2 => at.with(op::CREATE, &create(CreateType4::Fifo)),
            3 => at.with(op::REMOVE, &RemoveArgs { name: Bytes(b"f") }),
            // out of it
            4 => at
                .bare(op::SAVEFH)
                .with(op::PUTFH, &Bytes::<128>(&from))
                .with(op::RENAME, &RenameArgs { old: Bytes(b"f"), new: Bytes(b"from-d4") }),
            5 => Operations::new()
                .at(&file)
                .bare(op::SAVEFH)
                .with(op::PUTFH, &Bytes::<128>(dir))
                .with(op::LINK, &LinkArgs { name: Bytes(b"link") }),
            6 => at.with(
                op::SETATTR,
                &SetattrArgs {
                    stateid: Stateid4::ANONYMOUS,
                    attrs: Fattr4 {
                        mask: Bitmap4::of(&[attr::MODE]),
                        values: Bytes(&[0, 0, 1, 0o300]),
                    },
                },
            ),
            _ => unreachable!(),
        };
        run(&mut writer, dir, at).0
    };
    for (number, dir) in dirs.iter().take(7).enumerate() {
        let held = [&mut one, &mut two].map(|holder| ask(holder, dir).expect("a delegation"));
        assert_eq!(kinds(&server), ["directory", "directory"]);
        assert_eq!(ask(&mut one, dir), None, "it has it already");
        assert_eq!(change(number, dir), Nfsstat4::Delay, "change {number}");
        one.recalled(dir, held[0]);
        two.recalled(dir, held[1]);
        one.give_back(dir, held[0]);
        assert_eq!(change(number, dir), Nfsstat4::Delay, "one of two");
        two.give_back(dir, held[1]);
        assert_eq!(change(number, dir), Nfsstat4::Ok, "change {number}");
        assert_eq!(ask(&mut one, dir), None, "it was changed just now");
    }
    let metrics = text(&server.ask(&["metrics"]).stdout);
    for line in [
        "delegations_granted_total 14",
        "delegations_returned_total 14",
        "delegations_directories 0",
    ] {
        assert!(metrics.contains(&format!("\nbowline_{line}\n")), "{line} of {metrics}");
    }
}

#[test]
fn an_open_recalls_the_directory_only_if_it_makes_the_file() {
    let server = server("delegations=read");
    let (_, dirs) = directories(&server);
    let [mut holder, mut writer] =
        [&b"holder"[..], b"writer"].map(|name| Machine::new(&server, name));
    let held = ask(&mut holder, &dirs[0]).expect("a delegation");
    let how = OpenHow4::Create(Createhow4::Unchecked(NOTHING));
    let mut open = |name| {
        let at = Operations::new().at(&dirs[0]);
        let claim = OpenClaim4::Null(Bytes(name));
        writer.open_how(at, &[op::PUTFH], (READ | WRITE, 0), (claim, how)).map(drop)
    };
    open(b"f").unwrap();
    assert_eq!(kinds(&server), ["directory"]);
    assert_eq!(open(b"new"), Err(Nfsstat4::Delay));
    holder.recalled(&dirs[0], held);
    holder.give_back(&dirs[0], held);
    open(b"new").unwrap();
}

#[test]
fn a_clients_own_changes_keep_its_delegation_and_are_said_not_to_be_atomic() {
    let server = server("delegations=read");
    let (mut old, dirs) = directories(&server);
    let mut holder = Machine::new(&server, b"holder");
    let dir = &dirs[0];
    let held = ask(&mut holder, dir).expect("a delegation");
    let make = |name| CreateArgs { what: CreateType4::Dir, name, attrs: NOTHING };
    let (status, results) = run(&mut holder, dir, |at| at.with(op::CREATE, &make(Bytes(b"own"))));
    assert_eq!(status, Nfsstat4::Ok);
    let mut r = Reader::new(&results);
    succeeded(&mut r, op::CREATE).unwrap();
    let info: ChangeInfo4 = r.get().unwrap();
    assert!(!info.atomic && info.after != info.before, "{info:?}");
    // one that fails changes nothing
    let (status, _) = run(&mut holder, dir, |at| at.with(op::CREATE, &make(Bytes(b"own"))));
    assert_eq!(status, Nfsstat4::Exist);
    let (status, _) =
        run(&mut holder, dir, |at| at.with(op::REMOVE, &RemoveArgs { name: Bytes(b"none") }));
    assert_eq!(status, Nfsstat4::NoEnt);
    let swap = RenameArgs { old: Bytes(b"f"), new: Bytes(b"g") };
    let (status, _) = run(&mut holder, dir, |at| at.bare(op::SAVEFH).with(op::RENAME, &swap));
    assert_eq!(status, Nfsstat4::Ok);
    let how = OpenHow4::Create(Createhow4::Guarded(NOTHING));
    let claim = OpenClaim4::Null(Bytes(b"opened"));
    holder.open_how(Operations::new().at(dir), &[op::PUTFH], (READ, 0), (claim, how)).unwrap();
    let (status, _) = run(&mut holder, dir, |at| {
        at.with(op::GETATTR, &GetattrArgs { attrs: Bitmap4::of(&[attr::CHANGE]) })
    });
    assert_eq!(status, Nfsstat4::Ok);
    assert_eq!(kinds(&server), ["directory"]);
    let recalls = text(&server.ask(&["metrics"]).stdout);
    assert!(recalls.contains("\nbowline_delegation_recalls_total 0\n"), "{recalls}");
    // and everybody is held back as before
    old.mkdir(&Fh::new(dir).unwrap(), b"other", everybody()).unwrap_err();
    holder.recalled(dir, held);
    // a recalled one does not survive
    assert_eq!(
        run(&mut holder, dir, |at| at.with(op::CREATE, &make(Bytes(b"late")))).0,
        Nfsstat4::Delay
    );
    holder.give_back(dir, held);
    old.mkdir(&Fh::new(dir).unwrap(), b"other", everybody()).unwrap();
}

#[test]
fn a_directory_that_is_removed_or_renamed_is_returned_first() {
    let server = server("delegations=read");
    let (mut old, dirs) = directories(&server);
    let root = old.mount(b"/e").unwrap();
    let mut holder = Machine::new(&server, b"holder");
    let held = ask(&mut holder, &dirs[1]).expect("a delegation");
    old.rename((&root, b"d1"), (&root, b"moved")).unwrap_err();
    holder.recalled(&dirs[1], held);
    holder.give_back(&dirs[1], held);
    old.rename((&root, b"d1"), (&root, b"moved")).unwrap();
    old.remove(&Fh::new(&dirs[2]).unwrap(), b"f").unwrap();
    rest(&mut old, &dirs[2]);
    let held = ask(&mut holder, &dirs[2]).expect("a delegation");
    old.rmdir(&root, b"d2").unwrap_err();
    holder.recalled(&dirs[2], held);
    holder.give_back(&dirs[2], held);
    old.rmdir(&root, b"d2").unwrap();
}

#[test]
fn there_is_none_of_files_of_busy_directories_or_when_switched_off() {
    let server = server("delegations=off");
    let (mut old, dirs) = directories(&server);
    let mut holder = Machine::new(&server, b"holder");
    assert_eq!(ask(&mut holder, &dirs[0]), None);
    assert!(server.ask(&["set", "delegations=read"]).status.success());
    let held = ask(&mut holder, &dirs[0]).expect("a delegation");
    let root = old.mount(b"/e").unwrap();
    old.create(&root, b"file", CreateHow3::Guarded(everybody())).unwrap();
    let file = handle(&mut old, b"file");
    let (status, _) = run(&mut holder, &file, |at| at.with(op::GET_DIR_DELEGATION, &asked()));
    assert_eq!(status, Nfsstat4::NotDir);
    assert_eq!(ask(&mut holder, root.bytes()), None, "an entry was made just now");
    assert!(server.ask(&["set", "delegations=off"]).status.success());
    holder.recalled(&dirs[0], held);
    holder.give_back(&dirs[0], held);
    until(|| kinds(&server).is_empty());
}

#[test]
fn a_client_without_callbacks_gets_none() {
    let server = server("delegations=read");
    let (_, dirs) = directories(&server);
    let mut client = crate::callbacks::connected(&server);
    let mut session = client.open_session(b"silent", 1).unwrap();
    let operations = Operations::new().at(&dirs[0]).with(op::GET_DIR_DELEGATION, &asked());
    let reply = client.compound(&mut session, &operations).unwrap();
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTFH).unwrap();
    succeeded(&mut r, op::GET_DIR_DELEGATION).unwrap();
    assert_eq!(r.words().unwrap(), [1, 0]);
}

#[test]
fn where_the_kernel_cannot_hold_programs_back_there_is_none() {
    let rig = crate::delegations::rig("delegations=read");
    let dir = rig.path.parent().unwrap();
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    File::open(dir).unwrap().set_times(times).unwrap();
    let root = connect(&rig.server).mount(b"/e").unwrap();
    let mut holder = Machine::new(&rig.server, b"holder");
    let granted = ask(&mut holder, root.bytes());
    let status = rig.server.json("status");
    let said = status["directory_delegations"].as_str().unwrap();
    // where it can, the file system may not be able to
    assert!(said == "the kernel can hold programs back" || granted.is_none(), "{said}");
    assert!(said.starts_with("the kernel can") || said.starts_with("none: "), "{said}");
}

//! Delegations of version 4.0 over real connections: callbacks go to a listener of the client, which answers, answers wrongly,
//! late, or not at all.

use crate::callback_address::{Answer, IDENT, Machine};
use crate::callbacks::until;
use crate::operator_tables::connect;
use crate::rig::{Server, text};
use client::Fh;
use client::nfs4::{CALLBACK_PROGRAM, Operations};
use proto::layout::Bytes;
use proto::nfs3::StableHow;
use proto::nfs4::{
    Bitmap4, CbGetattrArgs, CbRecallArgs, Fattr4, Nfsstat4, OpenClaim4, StableHow4, Stateid4,
    WriteArgs, attr, cb_op, op,
};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use xdr::{Reader, Writer};

const READ: u32 = 1;
const WRITE: u32 = 2;
const AUTH_SYS: u32 = 1;
/// `OPEN_DELEGATE_READ`, `OPEN_DELEGATE_WRITE`.
const DELEGATE_READ: u32 = 1;
const DELEGATE_WRITE: u32 = 2;

struct Rig {
    _dir: TempDir,
    dir: PathBuf,
    server: Server,
}

/// A server with one export, `e`, that holds `file`, `other` and `confirm`.
fn rig(settings: &[&str]) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    for name in ["file", "other", "confirm"] {
        let path = dir.path().join(name);
        std::fs::write(&path, b"first").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    }
    let export = format!("e={}", dir.path().display());
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let args: Vec<&str> =
        [export.as_str(), "--set", "versions=3,4.0,4.1"].into_iter().chain(settings).collect();
    let server = Server::start(&args);
    Rig { dir: dir.path().into(), _dir: dir, server }
}

fn fine() -> Answer {
    Answer::Ok(Vec::new())
}

/// Checks that the next callback with an operation recalls this delegation.
fn recalled(machine: &Machine, handle: &[u8], delegation: Stateid4) {
    let called = machine.listener.next_operation();
    assert_eq!((called.head, called.operation), (Some((0, IDENT, 1)), cb_op::RECALL));
    let mut r = Reader::new(&called.args);
    let args: CbRecallArgs<'_> = r.get().unwrap();
    r.end().unwrap();
    assert_eq!((args.stateid, args.fh.0, args.truncate), (delegation, handle, false));
    // as whom SETCLIENTID came from
    assert_eq!(
        (called.program, called.flavor, called.uid),
        (CALLBACK_PROGRAM, AUTH_SYS, Some(65_534))
    );
}

/// Whether CB_NULL was answered, as the operator sees it.
fn callback_path(server: &Server) -> String {
    let rows = server.json("sessions");
    rows[0]["callback"].as_str().unwrap_or("").to_owned()
}

#[test]
fn a_delegation_is_given_once_the_address_answers_and_is_recalled_there() {
    let rig = rig(&[]);
    let mut reader = Machine::new(&rig.server, b"reader", Answer::Silence);
    let probe = reader.listener.next();
    assert_eq!((probe.program, probe.head, probe.flavor), (CALLBACK_PROGRAM, None, 0));
    assert!(
        reader.open_name(READ, "file").unwrap().delegation.is_none(),
        "CB_NULL is not answered"
    );
    assert_eq!(callback_path(&rig.server), "untried");
    reader.listener.set(fine());
    reader.make_known();
    let (handle, delegation) = reader.delegated(READ, "file");
    assert_eq!(callback_path(&rig.server), "up");
    // a read delegation gives no right to write, and any owner of the client may read by it
    let data = WriteArgs {
        stateid: delegation,
        offset: 0,
        stable: StableHow4::FileSync,
        data: Bytes(b"x"),
    };
    assert_eq!(reader.at(&handle, op::WRITE, &data), Nfsstat4::OpenMode);
    let read = proto::nfs4::ReadArgs { stateid: delegation, offset: 0, count: 10 };
    assert_eq!(reader.at(&handle, op::READ, &read), Nfsstat4::Ok);
    assert_eq!(reader.renew(), Nfsstat4::Ok);
    // a client of version 3 comes back when the file was returned
    let mut old = connect(&rig.server);
    let file = Fh::new(&handle).unwrap();
    old.write(&file, 0, b"other", StableHow::FileSync).unwrap_err();
    recalled(&reader, &handle, delegation);
    // what it has open it opens by its delegation before it returns that
    let claim = OpenClaim4::DelegateCur(delegation, Bytes(b"file"));
    assert!(reader.open(READ, claim).unwrap().delegation.is_none());
    let wrong = OpenClaim4::DelegateCur(delegation, Bytes(b"other"));
    assert_eq!(reader.open(READ, wrong).err(), Some(Nfsstat4::BadStateid));
    let mut another = Machine::new(&rig.server, b"another", fine());
    assert_eq!(another.open(READ, claim).err(), Some(Nfsstat4::BadStateid), "not its own");
    let previous = OpenClaim4::DelegatePrev(Bytes(b"file"));
    assert_eq!(reader.open(READ, previous).err(), Some(Nfsstat4::NotSupp));
    let purge =
        Operations::new().with(op::DELEGPURGE, &proto::nfs4::RenewArgs { clientid: reader.id });
    let purged: Nfsstat4 = Reader::new(reader.call(&purge).body()).get().unwrap();
    assert_eq!(purged, Nfsstat4::NotSupp);
    reader.give_back(&handle, delegation);
    assert_eq!(reader.at(&handle, op::DELEGRETURN, &delegation), Nfsstat4::BadStateid);
    old.write(&file, 0, b"other", StableHow::FileSync).unwrap();
    assert_eq!(std::fs::read(rig.dir.join("file")).unwrap(), b"other");
    let metrics = text(&rig.server.ask(&["metrics"]).stdout);
    for line in ["delegations_granted_total 1", "delegations_returned_total 1", "delegations 0"] {
        assert!(metrics.contains(&format!("\nbowline_{line}\n")), "{line} of {metrics}");
    }
}

#[test]
fn a_local_writer_waits_for_the_return_however_late_the_callback_is_answered() {
    let rig = rig(&[]);
    let mut reader = Machine::new(&rig.server, b"reader", fine());
    let (handle, delegation) = reader.delegated(READ, "file");
    reader.listener.set(Answer::Late(Duration::from_millis(500)));
    let path = rig.dir.join("file");
    let writer = std::thread::spawn(move || std::fs::write(path, b"local").unwrap());
    recalled(&reader, &handle, delegation);
    assert!(!writer.is_finished());
    // before the callback is answered
    reader.give_back(&handle, delegation);
    writer.join().unwrap();
    assert_eq!(std::fs::read(rig.dir.join("file")).unwrap(), b"local");
    assert_eq!(reader.renew(), Nfsstat4::Ok);
}

/// The recall may arrive before the reply to the OPEN (RFC 7530 §10.4.5).
#[test]
fn a_recall_of_what_the_client_does_not_know_yet_is_sent_again() {
    const BAD_HANDLE: u32 = 10_001;
    let rig = rig(&[]);
    let mut reader = Machine::new(&rig.server, b"reader", fine());
    let (handle, delegation) = reader.delegated(READ, "file");
    reader.listener.set(Answer::Failed(BAD_HANDLE));
    std::fs::rename(rig.dir.join("file"), rig.dir.join("away")).unwrap();
    (0..3).for_each(|_| recalled(&reader, &handle, delegation));
    assert_eq!(reader.renew(), Nfsstat4::Ok, "it answers");
    reader.give_back(&handle, delegation);
}

#[test]
fn who_answers_wrongly_is_told_that_the_path_is_down_and_gets_nothing_until_it_is_up() {
    for wrong in [Answer::Garbage, Answer::HangUp] {
        let rig = rig(&[]);
        let mut reader = Machine::new(&rig.server, b"reader", fine());
        let (handle, delegation) = reader.delegated(READ, "file");
        let (second, another) = reader.delegated(READ, "other");
        reader.listener.set(wrong.clone());
        std::fs::rename(rig.dir.join("file"), rig.dir.join("away")).unwrap();
        recalled(&reader, &handle, delegation);
        until(|| reader.renew() == Nfsstat4::CbPathDown);
        assert!(reader.open_name(READ, "confirm").unwrap().delegation.is_none(), "{wrong:?}");
        // its lease goes on, and so does what it has
        reader.give_back(&handle, delegation);
        reader.listener.set(fine());
        if wrong == Answer::Garbage {
            // CB_NULL alone does not make up for it
            assert_eq!(reader.renew(), Nfsstat4::CbPathDown);
            reader.make_known();
        }
        // RENEW has the address tried again
        until(|| reader.renew() == Nfsstat4::Ok);
        until(|| callback_path(&rig.server) == "up");
        reader.give_back(&second, another);
        reader.delegated(READ, "confirm");
    }
}

#[test]
fn an_address_that_refuses_or_is_silent_costs_others_one_lease() {
    for answer in [None, Some(Answer::Silence)] {
        let rig = rig(&["lease=5"]);
        let mut reader = Machine::new(&rig.server, b"reader", fine());
        let (handle, delegation) = reader.delegated(READ, "file");
        match answer {
            // nobody listens at the address from now on
            None => {
                let addr =
                    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
                reader.listener.port = addr.port();
                reader.make_known();
            }
            Some(answer) => reader.listener.set(answer),
        }
        let mut old = connect(&rig.server);
        let file = Fh::new(&handle).unwrap();
        until(|| {
            reader.renew();
            old.write(&file, 0, b"other", StableHow::FileSync).is_ok()
        });
        assert_eq!(reader.at(&handle, op::DELEGRETURN, &delegation), Nfsstat4::BadStateid);
        let metrics = text(&rig.server.ask(&["metrics"]).stdout);
        assert!(metrics.contains("\nbowline_delegations_revoked_total 1\n"), "{metrics}");
    }
}

#[test]
fn the_holder_of_a_write_delegation_is_asked_for_attributes_and_may_do_what_it_wants_itself() {
    let rig = rig(&["delegations=write"]);
    let mut writer = Machine::new(&rig.server, b"writer", fine());
    let (handle, delegation) = writer.delegated(READ | WRITE, "file");
    let opened = writer.open_name(READ | WRITE, "file").unwrap();
    assert_eq!(opened.delegation, None, "it has one");
    let data = |stateid| WriteArgs {
        stateid,
        offset: 0,
        stable: StableHow4::FileSync,
        data: Bytes(b"FIRST"),
    };
    assert_eq!(writer.at(&handle, op::WRITE, &data(delegation)), Nfsstat4::Ok);
    assert_eq!(writer.at(&handle, op::WRITE, &data(opened.open)), Nfsstat4::Ok);
    // another one asks for attributes, and is shown what the holder has not sent
    let mut w = Writer::new();
    let values: Vec<u8> = [0_u32, 1, 0, 999].iter().flat_map(|word| word.to_be_bytes()).collect();
    w.put(&Fattr4 { mask: Bitmap4::of(&[attr::CHANGE, attr::SIZE]), values: Bytes(&values) });
    writer.listener.set(Answer::Ok(w.bytes().to_vec()));
    let mut old = connect(&rig.server);
    let file = Fh::new(&handle).unwrap();
    until(|| old.getattr(&file).is_ok_and(|attrs| attrs.size == 999));
    let called = writer.listener.next_operation();
    assert_eq!((called.head, called.operation), (Some((0, IDENT, 1)), cb_op::GETATTR));
    let mut r = Reader::new(&called.args);
    let args: CbGetattrArgs<'_> = r.get().unwrap();
    assert_eq!(
        (args.fh.0, args.attributes),
        (&handle[..], Bitmap4::of(&[attr::CHANGE, attr::SIZE]))
    );
    // a reader has it recalled; its own GETATTR in front of DELEGRETURN waits for nobody
    writer.listener.set(Answer::Silence);
    old.read(&file, 0, 10).unwrap_err();
    let operations = Operations::new()
        .at(&handle)
        .with(op::GETATTR, &Bitmap4::of(&[attr::CHANGE, attr::SIZE]))
        .with(op::DELEGRETURN, &delegation);
    let status: Nfsstat4 = Reader::new(writer.call(&operations).body()).get().unwrap();
    assert_eq!(status, Nfsstat4::Ok);
    assert_eq!(old.read(&file, 0, 10).unwrap().data, b"FIRST");
    assert_eq!(opened.kind, 0);
}

#[test]
fn what_is_reclaimed_after_a_restart_is_given_as_recalled() {
    let mut rig = rig(&["delegations=write", "grace=30"]);
    let mut writer = Machine::new(&rig.server, b"writer", fine());
    let (handle, _) = writer.delegated(READ | WRITE, "file");
    rig.server.kill();
    rig.server.start_again();
    writer.client = crate::callbacks::connected(&rig.server);
    writer.make_known();
    let at = || Operations::new().at(&handle);
    let claim = OpenClaim4::Previous(DELEGATE_WRITE);
    let again = writer.open_at(at(), &[op::PUTFH], READ | WRITE, claim).unwrap();
    assert_eq!((again.kind, again.recalled), (DELEGATE_WRITE, true));
    let delegation = again.delegation.unwrap();
    // further opens are established by it, before the grace period ends
    let claim = OpenClaim4::DelegateCur(delegation, Bytes(b"file"));
    assert!(writer.open(READ, claim).is_ok());
    assert_eq!(writer.open_name(READ, "other").err(), Some(Nfsstat4::Grace));
    writer.give_back(&handle, delegation);
    assert_eq!(writer.at(&handle, op::DELEGRETURN, &delegation), Nfsstat4::BadStateid);
    assert!(rig.server.json("delegations").as_array().unwrap().is_empty());
    let claim = OpenClaim4::Previous(DELEGATE_READ);
    let other = rig_handle(&mut writer);
    let again = writer.open_at(Operations::new().at(&other), &[op::PUTFH], READ, claim).unwrap();
    assert_eq!((again.kind, again.recalled), (DELEGATE_READ, true));
}

/// The handle of `other`.
fn rig_handle(machine: &mut Machine) -> Vec<u8> {
    let operations = Operations::new()
        .bare(op::PUTROOTFH)
        .with(op::LOOKUP, &Bytes::<255>(b"e"))
        .with(op::LOOKUP, &Bytes::<255>(b"other"))
        .bare(op::GETFH);
    let reply = machine.call(&operations);
    let mut r = client::nfs4::results(&reply).unwrap();
    for number in [op::PUTROOTFH, op::LOOKUP, op::LOOKUP, op::GETFH] {
        client::nfs4::succeeded(&mut r, number).unwrap();
    }
    r.opaque(128).unwrap().to_vec()
}

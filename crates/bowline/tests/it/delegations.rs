//! Read delegations over real connections: whoever wants to change the file waits until the client has returned it,
//! clients of all versions and programs of this machine.

use crate::callbacks::{connected, fine, next, until, watch};
use crate::operator_tables::connect;
use crate::rig::{Server, text, wrap};
use client::nfs4::{Operations, Session, results_inside, status_flags, succeeded};
use client::{Callback, CallbackReply, Client, Fh, NlmLock};
use proto::layout::Bytes;
use proto::nfs3::StableHow;
use proto::nfs4::{
    Bitmap4, CbRecallAnyArgs, CbRecallArgs, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4,
    Stateid4, cb_op, op,
};
use proto::nlm::Status;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xdr::{Encode, Reader, Writer};

/// `OPEN4_SHARE_ACCESS_READ` and `_WRITE`, and `_WANT_READ_DELEG`.
pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
const WANT_READ: u32 = 0x100;
const OPEN_DELEGATE_READ: u32 = 1;
pub const OPEN_DELEGATE_WRITE: u32 = 2;
pub const OPEN_DELEGATE_WRITE_ATTRS: u32 = 5;

pub struct Rig {
    _dir: TempDir,
    pub path: PathBuf,
    pub server: Server,
}

/// A server with one export, `e`, that holds `file`.
pub fn rig(setting: &str) -> Rig {
    rig_with(&["--set", setting])
}

pub fn rig_with(args: &[&str]) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, b"first").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let export = format!("e={}", dir.path().display());
    let server = Server::start(&[&[&export, "--set", "versions=3,4.1,4.2"], args].concat());
    Rig { _dir: dir, path, server }
}

/// A client with a session for callbacks.
pub struct Machine {
    pub client: Client,
    pub session: Session,
    pub seen: Receiver<Callback>,
}

/// What OPEN gave.
pub struct Opened {
    pub handle: Vec<u8>,
    pub open: Stateid4,
    /// `OPEN4_RESULT_*`.
    pub flags: u32,
    /// `OPEN_DELEGATE_*`.
    pub kind: u32,
    pub delegation: Option<Stateid4>,
    /// The delegation is to be returned at once.
    pub recalled: bool,
}

impl Machine {
    pub fn new(server: &Server, name: &[u8]) -> Self {
        Self::of_minor(1, server, name)
    }

    pub fn of_minor(minor: u32, server: &Server, name: &[u8]) -> Self {
        Self::answering(minor, server, name, fine)
    }

    /// A client of a minor version that answers callbacks by `answer`.
    pub fn answering(
        minor: u32,
        server: &Server,
        name: &[u8],
        answer: impl FnMut(&Callback) -> CallbackReply + Send + 'static,
    ) -> Self {
        let mut client = connected(server);
        let seen = watch(&mut client, answer);
        let session = client.open_session_with_callbacks_of_minor(minor, name, (4, 4)).unwrap();
        Self { client, session, seen }
    }

    pub fn open(&mut self, access: u32, claim: OpenClaim4<'_>) -> Result<Opened, Nfsstat4> {
        let at = Operations::new().bare(op::PUTROOTFH).with(op::LOOKUP, &Bytes::<255>(b"e"));
        self.open_at(at, &[op::PUTROOTFH, op::LOOKUP], access, claim)
    }

    /// Opens what is current after these operations, or a name in it.
    pub fn open_at(
        &mut self,
        before: Operations,
        numbers: &[u32],
        access: u32,
        claim: OpenClaim4<'_>,
    ) -> Result<Opened, Nfsstat4> {
        self.open_how(before, numbers, (access, 0), (claim, OpenHow4::NoCreate))
    }

    /// The same, denies others something, and may make the file.
    pub fn open_how(
        &mut self,
        before: Operations,
        numbers: &[u32],
        (access, deny): (u32, u32),
        (claim, how): (OpenClaim4<'_>, OpenHow4<'_>),
    ) -> Result<Opened, Nfsstat4> {
        let args = OpenArgs {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"owner") },
            how,
            claim,
        };
        let operations = before.with(op::OPEN, &args).bare(op::GETFH);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        let status = Reader::new(reply.body()).get().unwrap();
        if status != Nfsstat4::Ok {
            return Err(status);
        }
        let mut r = results_inside(&reply).unwrap();
        for number in numbers {
            succeeded(&mut r, *number).unwrap();
        }
        succeeded(&mut r, op::OPEN).unwrap();
        let open: Stateid4 = r.get().unwrap();
        r.opaque_fixed(20).unwrap();
        let flags = r.u32().unwrap();
        let _set: Bitmap4 = r.get().unwrap();
        let mut recalled = false;
        let kind = r.u32().unwrap();
        let delegation = match kind {
            0 => None,
            OPEN_DELEGATE_READ | OPEN_DELEGATE_WRITE | OPEN_DELEGATE_WRITE_ATTRS => {
                let stateid = r.get().unwrap();
                recalled = r.u32().unwrap() != 0;
                if kind != OPEN_DELEGATE_READ {
                    // no blocks are reserved for what the client has not sent
                    assert_eq!(r.words().unwrap(), [2, 0, 1]);
                }
                // nobody is named who need not ask
                assert_eq!(r.words().unwrap(), [0, 0, 0, 0]);
                Some(stateid)
            }
            // none, and why
            3 => {
                if let 1 | 2 = r.u32().unwrap() {
                    r.u32().unwrap();
                }
                None
            }
            other => panic!("a delegation of type {other}"),
        };
        succeeded(&mut r, op::GETFH).unwrap();
        let handle = r.opaque(128).unwrap().to_vec();
        Ok(Opened { handle, open, flags, kind, delegation, recalled })
    }

    fn open_name(&mut self, access: u32) -> Result<Opened, Nfsstat4> {
        self.open(access, OpenClaim4::Null(Bytes(b"file")))
    }

    /// Opens the file for reading and gets a delegation.
    fn delegated(&mut self) -> (Vec<u8>, Stateid4) {
        let opened = self.open_name(READ | WANT_READ).unwrap();
        assert!(!opened.recalled);
        (opened.handle, opened.delegation.expect("a delegation"))
    }

    /// Waits until this delegation is recalled, before which it may be asked for attributes.
    pub fn recalled(&mut self, handle: &[u8], delegation: Stateid4) {
        let mut called = next(&mut self.client, &self.seen);
        while called.operation == cb_op::GETATTR {
            called = next(&mut self.client, &self.seen);
        }
        assert_eq!(called.operation, cb_op::RECALL);
        let mut r = Reader::new(&called.args);
        let args: CbRecallArgs<'_> = r.get().unwrap();
        assert_eq!((args.stateid, args.fh.0, args.truncate), (delegation, handle, false));
    }

    /// The delegation that is recalled next.
    fn next_recalled(&mut self) -> Stateid4 {
        let called = next(&mut self.client, &self.seen);
        Reader::new(&called.args).get::<CbRecallArgs<'_>>().unwrap().stateid
    }

    pub fn with_stateid(&mut self, number: u32, handle: &[u8], stateid: Stateid4) -> Nfsstat4 {
        let operations = Operations::new().at(handle).with(number, &stateid);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        Reader::new(reply.body()).get().unwrap()
    }

    pub fn give_back(&mut self, handle: &[u8], delegation: Stateid4) {
        assert_eq!(self.with_stateid(op::DELEGRETURN, handle, delegation), Nfsstat4::Ok);
    }
}

#[test]
fn a_writer_waits_until_the_readers_have_returned_the_file() {
    let rig = rig("delegations=read");
    let (mut one, mut two) = (Machine::new(&rig.server, b"one"), Machine::new(&rig.server, b"two"));
    let mut writer = Machine::new(&rig.server, b"writer");
    let (handle, first) = one.delegated();
    let (_, second) = two.delegated();
    let rows = rig.server.json("delegations");
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert_eq!(
        (rows[0]["file"].as_str(), rows[0]["kind"].as_str()),
        (rig.path.to_str(), Some("read"))
    );
    assert_eq!(writer.open_name(WRITE).err(), Some(Nfsstat4::Delay));
    one.recalled(&handle, first);
    two.recalled(&handle, second);
    // what the client has open it opens by its delegation before it returns that
    let again = one.open(READ, OpenClaim4::DelegateCur(first, Bytes(b"file"))).unwrap();
    assert!(again.delegation.is_none());
    assert_eq!(
        two.with_stateid(op::DELEGRETURN, &handle, first),
        Nfsstat4::BadStateid,
        "not its own"
    );
    one.give_back(&handle, first);
    assert_eq!(one.with_stateid(op::DELEGRETURN, &handle, first), Nfsstat4::BadStateid);
    assert_eq!(writer.open_name(WRITE).err(), Some(Nfsstat4::Delay), "one of two");
    two.give_back(&handle, second);
    writer.open_name(WRITE).unwrap();
    assert!(one.open_name(READ | WANT_READ).unwrap().delegation.is_none(), "it is being written");
    let metrics = text(&rig.server.ask(&["metrics"]).stdout);
    for line in ["delegations_granted_total 2", "delegations_returned_total 2", "delegations 0"] {
        assert!(metrics.contains(&format!("\nbowline_{line}\n")), "{line} of {metrics}");
    }
}

#[test]
fn a_client_of_version_3_comes_back_when_the_file_was_returned() {
    let rig = rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let mut old = connect(&rig.server);
    let (handle, delegation) = reader.delegated();
    let file = Fh::new(&handle).unwrap();
    old.write(&file, 0, b"other", StableHow::FileSync).unwrap_err();
    reader.recalled(&handle, delegation);
    assert_eq!(old.read(&file, 0, 10).unwrap().data, b"first");
    reader.give_back(&handle, delegation);
    old.write(&file, 0, b"other", StableHow::FileSync).unwrap();
    assert_eq!(std::fs::read(&rig.path).unwrap(), b"other");
}

#[test]
fn a_lost_delegation_is_returned_without_attributes() {
    let rig = rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let (handle, delegation) = reader.delegated();
    let mut give_back = |with_attributes: bool| {
        let at = Operations::new().at(&handle);
        let change = Bitmap4::of(&[3]);
        let at = if with_attributes { at.with(op::GETATTR, &change) } else { at };
        let operations = at.with(op::DELEGRETURN, &delegation);
        let reply = reader.client.compound(&mut reader.session, &operations).unwrap();
        Reader::new(reply.body()).get::<Nfsstat4>().unwrap()
    };
    assert_eq!(give_back(true), Nfsstat4::Ok);
    // the client would take what others have changed for its own changes
    assert_eq!(give_back(true), Nfsstat4::Access);
    assert_eq!(give_back(false), Nfsstat4::BadStateid);
}

#[test]
fn a_name_is_removed_when_the_file_was_returned() {
    let rig = rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let mut old = connect(&rig.server);
    let root = old.mount(b"/e").unwrap();
    let (handle, delegation) = reader.delegated();
    old.remove(&root, b"file").unwrap_err();
    assert!(rig.path.exists());
    reader.recalled(&handle, delegation);
    reader.give_back(&handle, delegation);
    old.remove(&root, b"file").unwrap();
    assert!(!rig.path.exists());
}

#[test]
fn a_local_writer_waits_for_the_return_and_a_rename_is_reported() {
    let rig = rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let (handle, delegation) = reader.delegated();
    let path = rig.path.clone();
    let writer = std::thread::spawn(move || std::fs::write(path, b"local").unwrap());
    reader.recalled(&handle, delegation);
    assert!(!writer.is_finished());
    reader.give_back(&handle, delegation);
    writer.join().unwrap();
    assert_eq!(std::fs::read(&rig.path).unwrap(), b"local");
    // another file: of this one there is none for a while
    let rig = self::rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let (handle, delegation) = reader.delegated();
    let new = rig.path.with_extension("new");
    std::fs::write(&new, b"new").unwrap();
    std::fs::rename(&new, &rig.path).unwrap();
    reader.recalled(&handle, delegation);
    reader.give_back(&handle, delegation);
}

/// Whoever opens a file by a name takes that for the file's as long as he has a delegation.
#[test]
fn a_local_rename_is_reported_whenever_it_happens() {
    let rig = rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let (path, away) = (rig.path.clone(), rig.path.with_extension("away"));
    let (mut given, mut gone) = (0, 0);
    for round in 0..400_u32 {
        // another file each time: of one that was recalled there is none for a while
        std::fs::remove_file(if round == 0 { &path } else { &away }).unwrap();
        std::fs::write(&path, b"new").unwrap();
        let (from, to) = (path.clone(), away.clone());
        let renaming = std::thread::spawn(move || {
            let pause = Duration::from_micros(u64::from(round % 100) * 10);
            let begun = Instant::now();
            while begun.elapsed() < pause {
                std::hint::spin_loop();
            }
            std::fs::rename(from, to).unwrap();
        });
        match reader.open_name(READ | WANT_READ) {
            Ok(Opened { handle, delegation: Some(delegation), .. }) => {
                given += 1;
                while reader.next_recalled() != delegation {
                    // one that was taken back before the reply to the OPEN
                }
                reader.give_back(&handle, delegation);
            }
            Ok(_) => {}
            Err(status) => {
                gone += 1;
                assert_eq!(status, Nfsstat4::NoEnt);
            }
        }
        renaming.join().unwrap();
    }
    println!("{given} delegations were given, {gone} times it was renamed before");
    assert!(given > 0, "no delegation was given");
}

/// The recall may arrive before the reply to the OPEN.
#[test]
fn a_recall_of_what_the_client_does_not_know_yet_is_sent_again() {
    const BAD_STATEID: u32 = 10_025;
    let rig = rig("delegations=read");
    let mut client = connected(&rig.server);
    let mut refused = 0;
    let seen = watch(&mut client, move |callback| {
        let is_recall = matches!(callback, Callback::Compound { operation: cb_op::RECALL, .. });
        refused += u32::from(is_recall);
        if is_recall && refused <= 4 {
            return CallbackReply::Failed(BAD_STATEID);
        }
        CallbackReply::Ok(Vec::new())
    });
    let session = client.open_session_with_callbacks(b"reader", (4, 4)).unwrap();
    let mut reader = Machine { client, session, seen };
    let (handle, delegation) = reader.delegated();
    std::fs::rename(&rig.path, rig.path.with_extension("away")).unwrap();
    (0..5).for_each(|_| reader.recalled(&handle, delegation));
    reader.give_back(&handle, delegation);
}

#[test]
fn no_delegation_is_granted_when_off_and_switching_off_recalls() {
    let rig = rig("delegations=off");
    let mut reader = Machine::new(&rig.server, b"reader");
    assert!(reader.open_name(READ | WANT_READ).unwrap().delegation.is_none());
    assert!(rig.server.ask(&["set", "delegations=read"]).status.success());
    let (handle, delegation) = reader.delegated();
    // who opens it for writing himself returns it as well
    assert!(rig.server.ask(&["set", "delegations=off"]).status.success());
    reader.recalled(&handle, delegation);
    reader.give_back(&handle, delegation);
    until(|| rig.server.json("delegations").as_array().unwrap().is_empty());
}

#[test]
fn a_lock_for_writing_waits_for_readers_who_may_have_locked_and_keeps_delegations_off() {
    let rig = rig("delegations=read");
    let mut reader = Machine::new(&rig.server, b"reader");
    let mut old = connect(&rig.server);
    let (handle, delegation) = reader.delegated();
    let lock =
        NlmLock { caller_name: b"old", handle: &handle, oh: b"old", svid: 7, offset: 0, len: 0 };
    assert_eq!(old.nlm_lock(4, lock, false, false).unwrap(), Status::Granted, "nobody writes");
    assert_ne!(old.nlm_lock(4, lock, true, false).unwrap(), Status::Granted);
    reader.recalled(&handle, delegation);
    reader.give_back(&handle, delegation);
    assert_eq!(old.nlm_lock(4, lock, true, false).unwrap(), Status::Granted);
    // another file, which is locked before it is opened
    std::fs::copy(&rig.path, rig.path.with_extension("too")).unwrap();
    let root = old.mount(b"/e").unwrap();
    let locked = old.lookup(&root, b"file.too").unwrap().handle;
    let lock = NlmLock { handle: locked.bytes(), ..lock };
    assert_eq!(old.nlm_lock(4, lock, true, false).unwrap(), Status::Granted);
    let claim = OpenClaim4::Null(Bytes(b"file.too"));
    assert!(reader.open(READ | WANT_READ, claim).unwrap().delegation.is_none());
    assert_eq!(old.nlm_unlock(4, lock).unwrap(), Status::Granted);
    // the file rests for a moment after its last lock
    until(|| reader.open(READ | WANT_READ, claim).unwrap().delegation.is_some());
}

#[test]
fn what_is_reclaimed_after_a_restart_is_given_as_recalled() {
    let mut rig = rig_with(&["--set", "delegations=read", "--set", "grace=30"]);
    let mut reader = Machine::new(&rig.server, b"reader");
    let (handle, _) = reader.delegated();
    rig.server.kill();
    rig.server.start_again();
    // a client that is not yet done with reclaiming
    let mut client = connected(&rig.server);
    let seen = watch(&mut client, fine);
    let session = client.open_reading_session(1, b"reader", 4).unwrap();
    let mut reader = Machine { client, session, seen };
    let at = || Operations::new().at(&handle);
    let mut open = |access, claim| reader.open_at(at(), &[op::PUTFH], access, claim);
    assert_eq!(open(READ, OpenClaim4::Fh).err(), Some(Nfsstat4::Grace));
    let again = open(READ, OpenClaim4::Previous(OPEN_DELEGATE_READ)).unwrap();
    assert!(again.recalled);
    let delegation = again.delegation.expect("a delegation");
    // further opens are established by it, before the grace period ends
    assert!(open(READ, OpenClaim4::DelegCurFh(delegation)).is_ok());
    let unknown = Stateid4 { seqid: 1, other: [9; 12] };
    assert_eq!(open(READ, OpenClaim4::DelegCurFh(unknown)).err(), Some(Nfsstat4::BadStateid));
    let rows = rig.server.json("delegations");
    assert!(rows[0]["recalled_ms"].is_number(), "{rows}");
    reader.give_back(&handle, delegation);
    assert!(rig.server.json("delegations").as_array().unwrap().is_empty());
}

#[test]
fn an_export_says_for_itself_whether_there_are_any() {
    let dir = tempfile::tempdir().unwrap();
    let (table, tree) = (dir.path().join("exports"), dir.path().join("tree"));
    std::fs::create_dir(&tree).unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(tree.join("file"), b"first").unwrap();
    let export = |options: &str| {
        let line = format!("{} *(ro,insecure,fsid=0{options})\n", tree.display());
        std::fs::write(&table, line).unwrap();
    };
    export(",delegations=read");
    let args = ["--set", "versions=3,4.1", "--set", "delegations=off", "--exports"];
    let server = Server::start(&[&args[..], &[table.to_str().unwrap()]].concat());
    let mut reader = Machine::new(&server, b"reader");
    let open = |reader: &mut Machine| {
        let (at, claim) = (Operations::new().bare(op::PUTROOTFH), OpenClaim4::Null(Bytes(b"file")));
        reader.open_at(at, &[op::PUTROOTFH], READ | WANT_READ, claim).unwrap()
    };
    let opened = open(&mut reader);
    let delegation = opened.delegation.expect("a delegation");
    export("");
    assert!(server.ask(&["reload"]).status.success());
    reader.recalled(&opened.handle, delegation);
    reader.give_back(&opened.handle, delegation);
    export(",delegations=off");
    assert!(server.ask(&["reload"]).status.success());
    assert!(server.ask(&["set", "delegations=read"]).status.success());
    std::fs::copy(tree.join("file"), tree.join("new")).unwrap();
    std::fs::rename(tree.join("new"), tree.join("file")).unwrap();
    assert!(open(&mut reader).delegation.is_none());
}

/// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED`.
const RECALLABLE_STATE_REVOKED: u32 = 0x40;

/// The arguments of TEST_STATEID with one stateid.
struct TestStateidArgs(Stateid4);

impl Encode for TestStateidArgs {
    fn encode(&self, w: &mut Writer) {
        w.u32(1);
        w.put(&self.0);
    }
}

/// Its client could not return a file whose handle is stale, and a local program would wait for that.
#[test]
fn a_file_of_an_export_that_is_gone_holds_nobody_back() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("exports");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let trees = ["goes", "stays"].map(|name| dir.path().join(name));
    let export = |trees: &[PathBuf]| {
        let lines = trees.iter().map(|tree| format!("{} *(rw,insecure)\n", tree.display()));
        std::fs::write(&table, lines.collect::<String>()).unwrap();
    };
    for tree in &trees {
        std::fs::create_dir(tree).unwrap();
        std::fs::write(tree.join("file"), b"first").unwrap();
    }
    export(&trees);
    let args = ["--set", "versions=3,4.1", "--set", "delegations=read", "--exports"];
    let server = Server::start(&[&args[..], &[table.to_str().unwrap()]].concat());
    let mut reader = Machine::new(&server, b"reader");
    let roots = trees.each_ref().map(|tree| {
        let mut old = connect(&server);
        old.mount(tree.to_str().unwrap().as_bytes()).unwrap()
    });
    let held = roots.each_ref().map(|root| {
        let (at, claim) = (Operations::new().at(root.bytes()), OpenClaim4::Null(Bytes(b"file")));
        let opened = reader.open_at(at, &[op::PUTFH], READ | WANT_READ, claim).unwrap();
        (opened.handle, opened.delegation.expect("a delegation"))
    });
    export(&trees[1..]);
    assert!(server.ask(&["reload"]).status.success());
    let rows = server.json("delegations");
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    std::fs::write(trees[0].join("file"), b"local").unwrap();
    let [(gone, lost), (handle, delegation)] = held;
    assert_eq!(reader.with_stateid(op::DELEGRETURN, &gone, lost), Nfsstat4::Stale);
    // it is told, but not while it searches
    let status = |reader: &mut Machine, operations: &Operations| {
        let reply = reader.client.compound(&mut reader.session, operations).unwrap();
        status_flags(&reply).unwrap()
    };
    let renew = &Operations::new();
    assert_eq!(status(&mut reader, renew), RECALLABLE_STATE_REVOKED);
    let test = Operations::new().with(op::TEST_STATEID, &TestStateidArgs(delegation));
    until(|| {
        let began = Instant::now();
        status(&mut reader, &test);
        let told = status(&mut reader, renew);
        // the machine may be too slow
        let in_time = began.elapsed().as_millis() < 1000;
        assert!(!in_time || told == 0);
        in_time
    });
    until(|| status(&mut reader, renew) == RECALLABLE_STATE_REVOKED);
    // it frees the stateid
    let free = Operations::new().with(op::FREE_STATEID, &lost);
    let reply = reader.client.compound(&mut reader.session, &free).unwrap();
    assert_eq!(Reader::new(reply.body()).get::<Nfsstat4>().unwrap(), Nfsstat4::Ok);
    assert_eq!(status(&mut reader, renew), 0);
    reader.give_back(&handle, delegation);
}

#[test]
fn whoever_has_most_is_asked_to_return_some_when_there_is_no_room_for_more() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let names: Vec<String> = (0..200).map(|n| format!("file-{n}")).collect();
    for name in &names {
        std::fs::write(dir.path().join(name), b"x").unwrap();
    }
    let export = format!("e={}", dir.path().display());
    let args = [&export, "--set", "versions=3,4.1", "--set", "delegations=read"];
    // as many files are open at the most as these descriptors leave, and one in four of them may have a lease
    let server =
        Server::start_with(&args, |command| wrap(command, &["prlimit", "--nofile=300:300"]));
    let mut reader = Machine::new(&server, b"reader");
    let open = |reader: &mut Machine, name: &str| {
        let claim = OpenClaim4::Null(Bytes(name.as_bytes()));
        reader.open(READ | WANT_READ, claim).unwrap().delegation
    };
    let held = names.iter().take_while(|name| open(&mut reader, name).is_some()).count();
    assert!(held > 1 && held < names.len(), "{held} delegations");
    let called = next(&mut reader.client, &reader.seen);
    assert_eq!(called.operation, cb_op::RECALL_ANY);
    let args: CbRecallAnyArgs = Reader::new(&called.args).get().unwrap();
    assert_eq!((args.keep as usize, args.kinds), (held / 2, Bitmap4::of(&[0])));
}

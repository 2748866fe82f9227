//! Write delegations over real connections: what their holder has written and not sent is found by everybody else, of all
//! versions and on this machine, because they wait until it was sent.

use crate::callbacks::{connected, fine, until, watch};
use crate::delegations::{Machine, OPEN_DELEGATE_WRITE, Opened, READ, Rig, WRITE, rig, rig_with};
use crate::operator_tables::connect;
use client::nfs4::{Operations, results_inside, succeeded};
use client::{Client, Fh, NlmLock};
use proto::layout::Bytes;
use proto::nfs3::{CreateHow3, Sattr3, StableHow};
use proto::nfs4::{
    Bitmap4, Fattr4, LockArgs, LockOwner4, LockType4, Locker4, Nfsstat4, OpenClaim4, ReadArgs,
    ReaddirArgs, SetattrArgs, StableHow4, Stateid4, WriteArgs, attr, op,
};
use proto::nlm::Status;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;
use xdr::Reader;

/// `OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG`.
const WANT_WRITE: u32 = 0x200;
const BOTH: u32 = READ | WRITE;
const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };
const BEFORE: &[u8] = b"first";
const UNSENT: &[u8] = b"changed";

/// A file that another has a write delegation of, and those who look at it.
struct Others<'a> {
    old: &'a mut Client,
    dir: Fh,
    new: &'a mut Machine,
    new_dir: &'a [u8],
    path: &'a Path,
    name: &'a [u8],
    handle: &'a [u8],
}

/// What is seen of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Size(u64),
    Data(Vec<u8>),
    /// It was changed, or locked.
    Done,
}

/// Told to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Later;

type OthersCall = fn(&mut Others<'_>) -> Result<Seen, Later>;

impl Others<'_> {
    fn fh(&self) -> Fh {
        Fh::new(self.handle).unwrap()
    }

    /// The results of operations on the file by the other client of version 4.1, behind those of the last.
    fn compound<T>(
        &mut self,
        operations: &Operations,
        numbers: &[u32],
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Result<T, Later> {
        let reply = self.new.client.compound(&mut self.new.session, operations).unwrap();
        match Reader::new(reply.body()).get::<Nfsstat4>().unwrap() {
            Nfsstat4::Ok => {}
            Nfsstat4::Delay => return Err(Later),
            status => panic!("{status:?}"),
        }
        let mut r = results_inside(&reply).unwrap();
        numbers.iter().for_each(|number| succeeded(&mut r, *number).unwrap());
        Ok(read(&mut r))
    }

    fn at(&self) -> Operations {
        Operations::new().at(self.handle)
    }
}

fn come_back<T>(result: client::Result<T>) -> Result<T, Later> {
    const JUKEBOX: u32 = 10_008;
    result.map_err(|error| {
        assert_eq!(error.status(), Some(JUKEBOX), "{error}");
        Later
    })
}

fn lock(handle: &[u8]) -> NlmLock<'_> {
    NlmLock { caller_name: b"old", handle, oh: b"old", svid: 7, offset: 0, len: 0 }
}

/// A size among attributes that are no others.
fn size(r: &mut Reader<'_>) -> Seen {
    let attrs: Fattr4<'_> = r.get().unwrap();
    Seen::Size(Reader::new(attrs.values.0).u64().unwrap())
}

const SIZE: Bitmap4 = Bitmap4::of(&[attr::SIZE]);

/// The ways to look at a file.
const CALLS: [(&str, OthersCall); 14] = [
    ("GETATTR of version 3", |o| {
        let file = o.fh();
        come_back(o.old.getattr(&file)).map(|attr| Seen::Size(attr.size))
    }),
    ("READ of version 3", |o| {
        let file = o.fh();
        come_back(o.old.read(&file, 0, 32)).map(|done| Seen::Data(done.data))
    }),
    ("WRITE of version 3", |o| {
        let file = o.fh();
        come_back(o.old.write(&file, 7, b"!", StableHow::FileSync)).map(|_| Seen::Done)
    }),
    ("SETATTR of version 3", |o| {
        let size = Some(UNSENT.len() as u64);
        let (file, set) = (o.fh(), Sattr3 { size, ..Sattr3::default() });
        come_back(o.old.setattr(&file, set, None)).map(|_| Seen::Done)
    }),
    ("CREATE of version 3", |o| {
        let how = CreateHow3::Unchecked(Sattr3::default());
        come_back(o.old.create(&o.dir, o.name, how)).map(|made| Seen::Size(made.attr.unwrap().size))
    }),
    ("REMOVE of version 3", |o| come_back(o.old.remove(&o.dir, o.name)).map(|_| Seen::Done)),
    ("a lock for reading of version 3", |o| {
        match o.old.nlm_lock(4, lock(o.handle), false, false).unwrap() {
            Status::Granted => Ok(Seen::Done),
            _ => Err(Later),
        }
    }),
    ("a test of a lock of version 3", |o| match o.old.nlm_test(4, lock(o.handle), true).unwrap() {
        Ok(Status::Granted) => Ok(Seen::Done),
        _ => Err(Later),
    }),
    ("OPEN for reading", |o| {
        let claim = OpenClaim4::Null(Bytes(o.name));
        match o.new.open(READ, claim) {
            Ok(_) => Ok(Seen::Done),
            Err(Nfsstat4::Delay) => Err(Later),
            Err(status) => panic!("{status:?}"),
        }
    }),
    ("GETATTR of version 4.1", |o| {
        let operations = o.at().with(op::GETATTR, &SIZE);
        o.compound(&operations, &[op::PUTFH, op::GETATTR], size)
    }),
    ("READ without an open", |o| {
        let args = ReadArgs { stateid: ANONYMOUS, offset: 0, count: 32 };
        let operations = o.at().with(op::READ, &args);
        o.compound(&operations, &[op::PUTFH, op::READ], |r| {
            r.bool().unwrap();
            Seen::Data(r.opaque(32).unwrap().to_vec())
        })
    }),
    ("WRITE without an open", |o| {
        let (stateid, data) = (ANONYMOUS, Bytes(&b"!"[..]));
        let args = WriteArgs { stateid, offset: 7, stable: StableHow4::FileSync, data };
        let operations = o.at().with(op::WRITE, &args);
        o.compound(&operations, &[op::PUTFH, op::WRITE], |_| Seen::Done)
    }),
    ("READDIR with attributes", |o| {
        let args = ReaddirArgs {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 32_768,
            attrs: SIZE,
        };
        let operations = Operations::new().at(o.new_dir).with(op::READDIR, &args);
        let name = o.name.to_vec();
        o.compound(&operations, &[op::PUTFH, op::READDIR], |r| {
            r.opaque_fixed(8).unwrap();
            while r.bool().unwrap() {
                r.u64().unwrap();
                let is_it = r.opaque(255).unwrap() == name;
                let found = size(r);
                if is_it {
                    return Some(found);
                }
            }
            // the list ends before it
            None
        })?
        .ok_or(Later)
    }),
    ("a program of this machine", |o| {
        // it would wait, but for O_NONBLOCK
        match sys::open::open_regular(o.path) {
            Ok(mut file) => {
                let mut data = Vec::new();
                file.read_to_end(&mut data).unwrap();
                Ok(Seen::Data(data))
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                Err(Later)
            }
        }
    }),
];

/// A client that has opened a file for writing and has a delegation of it.
fn holding(holder: &mut Machine, name: &[u8]) -> (Vec<u8>, Stateid4) {
    let opened = holder.open(BOTH | WANT_WRITE, OpenClaim4::Null(Bytes(name))).unwrap();
    let Opened { handle, kind, delegation, recalled, .. } = opened;
    assert_eq!((kind, recalled), (OPEN_DELEGATE_WRITE, false), "{}", name.escape_ascii());
    (handle, delegation.unwrap())
}

fn write(machine: &mut Machine, handle: &[u8], stateid: Stateid4, data: &[u8]) -> Nfsstat4 {
    let data = Bytes(data);
    let args = WriteArgs { stateid, offset: 0, stable: StableHow4::FileSync, data };
    let operations = Operations::new().at(handle).with(op::WRITE, &args);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    Reader::new(reply.body()).get().unwrap()
}

fn new_file(rig: &Rig, name: &str) -> std::path::PathBuf {
    let path = rig.path.with_file_name(name);
    std::fs::write(&path, BEFORE).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    path
}

#[test]
fn everybody_waits_for_what_was_not_sent() {
    let rig = rig("delegations=write");
    std::fs::remove_file(&rig.path).unwrap();
    let mut holder = Machine::new(&rig.server, b"holder");
    let (mut old, mut new) = (connect(&rig.server), Machine::new(&rig.server, b"new"));
    let dir = old.mount(b"/e").unwrap();
    let new_dir = dir.bytes().to_vec();
    for (number, (what, look)) in CALLS.into_iter().enumerate() {
        let name = format!("file-{number}");
        let path = new_file(&rig, &name);
        let (handle, delegation) = holding(&mut holder, name.as_bytes());
        let mut others = Others {
            old: &mut old,
            dir,
            new: &mut new,
            new_dir: &new_dir,
            path: &path,
            name: name.as_bytes(),
            handle: &handle,
        };
        assert_eq!(look(&mut others), Err(Later), "{what}");
        holder.recalled(&handle, delegation);
        assert_eq!(write(&mut holder, &handle, delegation, UNSENT), Nfsstat4::Ok, "{what}");
        assert_eq!(look(&mut others), Err(Later), "{what}");
        holder.give_back(&handle, delegation);
        match look(&mut others) {
            Ok(Seen::Size(size)) => assert_eq!(size, UNSENT.len() as u64, "{what}"),
            Ok(Seen::Data(data)) => assert_eq!(data, UNSENT, "{what}"),
            Ok(Seen::Done) => {
                if let Ok(data) = std::fs::read(&path) {
                    assert!(data.starts_with(UNSENT), "{what}");
                }
            }
            Err(Later) => panic!("{what}: to come back again"),
        }
        let _gone = std::fs::remove_file(&path);
        println!("{what}: waits");
    }
}

#[test]
fn version_3_gets_no_attributes_of_a_file_that_another_writes_with_its_name() {
    let rig = rig("delegations=write");
    let mut holder = Machine::new(&rig.server, b"holder");
    let mut old = connect(&rig.server);
    let dir = old.mount(b"/e").unwrap();
    let look = |old: &mut Client| {
        let found = old.lookup(&dir, b"file").unwrap();
        let listed = old.readdirplus(&dir, 0, [0; 8], 32_768).unwrap().entries;
        let entry = listed.into_iter().find(|entry| entry.name == b"file").unwrap();
        (found.attr.map(|attr| attr.size), entry.attr.map(|attr| attr.size))
    };
    assert_eq!(look(&mut old), (Some(5), Some(5)));
    let (handle, delegation) = holding(&mut holder, b"file");
    assert_eq!(look(&mut old), (None, None));
    // and nothing is recalled by that
    assert!(rig.server.json("delegations")[0]["recalled_ms"].is_null());
    assert_eq!(write(&mut holder, &handle, delegation, UNSENT), Nfsstat4::Ok);
    holder.give_back(&handle, delegation);
    assert_eq!(look(&mut old), (Some(7), Some(7)));
}

#[test]
fn the_holder_reads_writes_cuts_and_locks_without_a_recall() {
    let rig = rig("delegations=write");
    let mut holder = Machine::new(&rig.server, b"holder");
    let opened = holder.open(BOTH, OpenClaim4::Null(Bytes(b"file"))).unwrap();
    let (handle, open) = (opened.handle, opened.open);
    let delegation = opened.delegation.expect("one without having asked");
    assert_eq!(write(&mut holder, &handle, delegation, b"by the delegation"), Nfsstat4::Ok);
    assert_eq!(write(&mut holder, &handle, open, b"BY the open"), Nfsstat4::Ok);
    let mut call = |operations: &Operations| {
        let reply = holder.client.compound(&mut holder.session, operations).unwrap();
        Reader::new(reply.body()).get::<Nfsstat4>().unwrap()
    };
    let at = || Operations::new().at(&handle);
    let (offset, count) = (0, 32);
    let read = at().with(op::READ, &ReadArgs { stateid: delegation, offset, count });
    let attrs = Fattr4 { mask: SIZE, values: Bytes(&8_u64.to_be_bytes()) };
    let cut = at().with(op::SETATTR, &SetattrArgs { stateid: delegation, attrs });
    let look = at().with(op::GETATTR, &SIZE);
    // what the client's programs have locked it locks at the server before it returns the delegation
    let owner = LockOwner4 { clientid: 0, owner: Bytes(b"locker") };
    let locker = Locker4::by_open(open, owner);
    let lock =
        LockArgs { kind: LockType4::Write, reclaim: false, offset: 0, length: u64::MAX, locker };
    let lock = at().with(op::LOCK, &lock);
    // to the server's clock, which whoever may write may
    let times = Bitmap4::of(&[attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET]);
    let attrs = Fattr4 { mask: times, values: Bytes(&[0; 8]) };
    let touch = at().with(op::SETATTR, &SetattrArgs { stateid: ANONYMOUS, attrs });
    for operations in [read, cut, touch, look] {
        assert_eq!(call(&operations), Nfsstat4::Ok);
    }
    // before it can know of the delegation it is told to come back
    until(|| match call(&lock) {
        Nfsstat4::Delay => false,
        status => status == Nfsstat4::Ok,
    });
    let rows = rig.server.json("delegations");
    assert_eq!((rows[0]["kind"].as_str(), rows[0]["recalled_ms"].is_null()), (Some("write"), true));
    let claim = OpenClaim4::DelegCurFh(delegation);
    assert!(holder.open_at(at(), &[op::PUTFH], BOTH, claim).unwrap().delegation.is_none());
    holder.give_back(&handle, delegation);
    assert_eq!(std::fs::read(&rig.path).unwrap(), b"BY the o");
    // and local programs meet the lock that was set under the delegation
    let mut old = connect(&rig.server);
    assert_eq!(old.nlm_lock(4, self::lock(&handle), true, false).unwrap(), Status::Denied);
}

/// A lock of the whole file by its open, and what becomes of it.
fn locked(machine: &mut Machine, opened: &Opened, owner: &[u8], kind: LockType4) -> Nfsstat4 {
    let locker = Locker4::by_open(opened.open, LockOwner4 { clientid: 0, owner: Bytes(owner) });
    let args = LockArgs { kind, reclaim: false, offset: 0, length: u64::MAX, locker };
    let operations = Operations::new().at(&opened.handle).with(op::LOCK, &args);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    Reader::new(reply.body()).get().unwrap()
}

/// The client opens a file, and one of its programs locks it by the delegation that comes with that, while another's request
/// for a lock is on its way.
#[test]
fn a_lock_that_crosses_the_delegation_is_not_granted_beside_it() {
    let rig = rig("delegations=write");
    let mut holder = Machine::new(&rig.server, b"holder");
    let mut other = Machine::new(&rig.server, b"other");
    let locks = || rig.server.json("locks").as_array().unwrap().len();
    // the machine may be too slow for a request to cross: then once more, with another file
    let crossed = (0..20).find_map(|n| {
        let name = format!("crossed-{n}");
        new_file(&rig, &name);
        let began = Instant::now();
        let name = OpenClaim4::Null(Bytes(name.as_bytes()));
        let opened = holder.open(BOTH | WANT_WRITE, name).unwrap();
        let kinds = [LockType4::ReadWait, LockType4::Write];
        let answers = kinds.map(|kind| locked(&mut holder, &opened, b"one", kind));
        let recalled = other.open(READ, name).err();
        let answers = (answers, locked(&mut holder, &opened, b"one", LockType4::WriteWait));
        let in_time = began.elapsed().as_millis() < 1000;
        in_time.then_some((opened, answers, recalled))
    });
    let (opened, answers, recalled) = crossed.expect("less than a second for five requests");
    assert_eq!(answers, ([Nfsstat4::Delay; 2], Nfsstat4::Delay));
    assert_eq!((recalled, locks()), (Some(Nfsstat4::Delay), 0));
    // what its program has locked by the delegation
    assert_eq!(locked(&mut holder, &opened, b"two", LockType4::Write), Nfsstat4::Ok);
    assert_eq!(locks(), 1);
}

/// Linux up to 6.1.176 that has got a lock while another of its programs has it by the delegation.
#[test]
fn a_lock_that_its_client_does_not_take_is_given_back() {
    let rig = rig("delegations=write");
    let mut holder = Machine::new(&rig.server, b"holder");
    let opened = holder.open(BOTH | WANT_WRITE, OpenClaim4::Null(Bytes(b"file"))).unwrap();
    let locks = || rig.server.json("locks").as_array().unwrap().len();
    until(|| locked(&mut holder, &opened, b"one", LockType4::ReadWait) == Nfsstat4::Ok);
    assert_eq!(locks(), 1);
    assert_eq!(locked(&mut holder, &opened, b"one", LockType4::ReadWait), Nfsstat4::Delay);
    assert_eq!(locks(), 0, "it is free for the program that has it by the delegation");
    assert_eq!(locked(&mut holder, &opened, b"two", LockType4::Write), Nfsstat4::Ok);
    holder.give_back(&opened.handle, opened.delegation.unwrap());
    // without a delegation the lock is his, also when he does not know its stateid
    assert_eq!(locked(&mut holder, &opened, b"two", LockType4::Write), Nfsstat4::Ok);
    assert_eq!(locked(&mut holder, &opened, b"one", LockType4::Read), Nfsstat4::Denied);
}

#[test]
fn who_is_not_alone_gets_none_and_who_reads_gets_one_for_reading() {
    let rig = rig("delegations=write");
    let (mut one, mut two) = (Machine::new(&rig.server, b"one"), Machine::new(&rig.server, b"two"));
    let name = || OpenClaim4::Null(Bytes(&b"file"[..]));
    two.open(READ | 0x400, name()).unwrap();
    assert_ne!(one.open(BOTH | WANT_WRITE, name()).unwrap().kind, OPEN_DELEGATE_WRITE);
    // a program of this machine
    let path = new_file(&rig, "local");
    let reader = std::fs::File::open(&path).unwrap();
    let local = || OpenClaim4::Null(Bytes(&b"local"[..]));
    assert_ne!(one.open(BOTH | WANT_WRITE, local()).unwrap().kind, OPEN_DELEGATE_WRITE);
    drop(reader);
    until(|| one.open(BOTH | WANT_WRITE, local()).unwrap().kind == OPEN_DELEGATE_WRITE);
    // one for reading becomes one for writing by its return only
    new_file(&rig, "read");
    let read = || OpenClaim4::Null(Bytes(&b"read"[..]));
    let opened = one.open(READ | 0x100, read()).unwrap();
    let delegation = opened.delegation.unwrap();
    assert_ne!(one.open(BOTH | WANT_WRITE, read()).unwrap().kind, OPEN_DELEGATE_WRITE);
    one.recalled(&opened.handle, delegation);
    one.give_back(&opened.handle, delegation);
    // with read there is none for writing, and those that there are go
    let held = rig.server.json("delegations");
    assert_eq!(held.as_array().unwrap().len(), 1, "{held}");
    assert!(rig.server.ask(&["set", "delegations=read"]).status.success());
    until(|| !rig.server.json("delegations")[0]["recalled_ms"].is_null());
    new_file(&rig, "other");
    let other = OpenClaim4::Null(Bytes(&b"other"[..]));
    assert_ne!(one.open(BOTH | WANT_WRITE, other).unwrap().kind, OPEN_DELEGATE_WRITE);
}

#[test]
fn what_is_reclaimed_for_writing_after_a_restart_is_given_as_recalled_and_keeps_others_out() {
    let mut rig = rig_with(&["--set", "delegations=write", "--set", "grace=30"]);
    let mut holder = Machine::new(&rig.server, b"holder");
    let (handle, _) = holding(&mut holder, b"file");
    rig.server.kill();
    rig.server.start_again();
    let mut client = connected(&rig.server);
    let seen = watch(&mut client, fine);
    let session = client.open_reading_session(1, b"holder", 4).unwrap();
    let mut holder = Machine { client, session, seen };
    let at = Operations::new().at(&handle);
    let claim = OpenClaim4::Previous(OPEN_DELEGATE_WRITE);
    let again = holder.open_at(at, &[op::PUTFH], BOTH, claim).unwrap();
    assert_eq!((again.kind, again.recalled), (OPEN_DELEGATE_WRITE, true));
    let delegation = again.delegation.unwrap();
    let mut old = connect(&rig.server);
    let file = Fh::new(&handle).unwrap();
    assert_eq!(come_back(old.getattr(&file)).map(|attr| attr.size), Err(Later));
    assert_eq!(write(&mut holder, &handle, delegation, UNSENT), Nfsstat4::Ok);
    holder.give_back(&handle, delegation);
    assert_eq!(old.getattr(&file).unwrap().size, UNSENT.len() as u64);
}

//! Attributes of files that a client writes under a delegation, over real connections: its holder is asked for them, keeps the
//! file's times if it wants to, and needs no open beside the delegation (RFC 8881 §10.4.3, RFC 9754).

use crate::callbacks::fine;
use crate::delegations::{
    Machine, OPEN_DELEGATE_WRITE, OPEN_DELEGATE_WRITE_ATTRS, Opened, READ, Rig, WRITE, rig,
};
use crate::operator_tables::connect;
use crate::rig::{NOBODY, text};
use client::nfs4::{Operations, results_inside, succeeded};
use client::{Callback, CallbackReply, Client, Fh};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbGetattrArgs, Fattr4, Nfsstat4, Nfstime4, OpenClaim4, OpenHow4, ReadArgs,
    ReaddirArgs, SetattrArgs, StableHow4, Stateid4, WriteArgs, attr, cb_op, op,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use testing::{Missing, is_root, skip};
use xdr::{Reader, Writer};

const BOTH: u32 = READ | WRITE;
/// `OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG`, `_WANT_DELEG_TIMESTAMPS` and `_WANT_OPEN_XOR_DELEGATION`.
const WANT_WRITE: u32 = 0x200;
const WANT_TIMES: u32 = 0x10_0000;
const WANT_XOR: u32 = 0x20_0000;
/// `OPEN4_RESULT_NO_OPEN_STATEID`.
const NO_OPEN_STATEID: u32 = 0x10;
const NO_STATEID: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };
/// How often a machine that is too slow to answer in time may be so.
const ATTEMPTS: u32 = 20;

/// What the holder says of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Said {
    change: u64,
    size: u64,
    /// Of access and of the last change.
    times: Option<[Nfstime4; 2]>,
}

const PLAIN: [u32; 2] = [attr::CHANGE, attr::SIZE];
const WITH_TIMES: [u32; 4] =
    [attr::CHANGE, attr::SIZE, attr::TIME_DELEG_ACCESS, attr::TIME_DELEG_MODIFY];

impl Said {
    fn mask(&self) -> Bitmap4 {
        if self.times.is_some() { Bitmap4::of(&WITH_TIMES) } else { Bitmap4::of(&PLAIN) }
    }

    fn results(&self) -> Vec<u8> {
        let (mut values, mut w) = (Writer::new(), Writer::new());
        values.u64(self.change);
        values.u64(self.size);
        self.times.iter().flatten().for_each(|time| values.put(time));
        w.put(&Fattr4 { mask: self.mask(), values: Bytes(values.bytes()) });
        w.bytes().to_vec()
    }
}

/// What others see of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShownAttrs {
    change: u64,
    size: u64,
    accessed: Nfstime4,
    attributes: Nfstime4,
    modified: Nfstime4,
}

/// Told to come back: the holder was too slow, and the delegation is recalled.
#[derive(Debug)]
struct Later;

fn at(time: SystemTime) -> Nfstime4 {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    Nfstime4 { seconds: since.as_secs(), nseconds: since.subsec_nanos() }
}

fn moment(time: Nfstime4) -> (u64, u32) {
    (time.seconds, time.nseconds)
}

fn status(machine: &mut Machine, operations: &Operations) -> Nfsstat4 {
    let reply = machine.client.compound(&mut machine.session, operations).unwrap();
    Reader::new(reply.body()).get().unwrap()
}

fn look(machine: &mut Machine, handle: &[u8]) -> Result<ShownAttrs, Later> {
    let asked = Bitmap4::of(&[
        attr::CHANGE,
        attr::SIZE,
        attr::TIME_ACCESS,
        attr::TIME_METADATA,
        attr::TIME_MODIFY,
    ]);
    let operations = Operations::new().at(handle).with(op::GETATTR, &asked);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    match Reader::new(reply.body()).get::<Nfsstat4>().unwrap() {
        Nfsstat4::Ok => {}
        Nfsstat4::Delay => return Err(Later),
        other => panic!("{other:?}"),
    }
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTFH).unwrap();
    succeeded(&mut r, op::GETATTR).unwrap();
    let attrs: Fattr4<'_> = r.get().unwrap();
    let mut r = Reader::new(attrs.values.0);
    Ok(ShownAttrs {
        change: r.u64().unwrap(),
        size: r.u64().unwrap(),
        accessed: r.get().unwrap(),
        attributes: r.get().unwrap(),
        modified: r.get().unwrap(),
    })
}

/// The size of a file in a listing with attributes, of version 4.
fn listed(machine: &mut Machine, dir: &Fh, name: &[u8]) -> Result<Option<u64>, Later> {
    Ok(listing(machine, dir)?.into_iter().find(|(entry, _)| entry == name).map(|(_, size)| size))
}

/// The names and sizes that one call gives.
fn listing(machine: &mut Machine, dir: &Fh) -> Result<Vec<(Vec<u8>, u64)>, Later> {
    let attrs = Bitmap4::of(&[attr::SIZE]);
    let (dircount, maxcount) = (4096, 32_768);
    let args = ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount, maxcount, attrs };
    let operations = Operations::new().at(dir.bytes()).with(op::READDIR, &args);
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    if Reader::new(reply.body()).get::<Nfsstat4>().unwrap() == Nfsstat4::Delay {
        return Err(Later);
    }
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTFH).unwrap();
    succeeded(&mut r, op::READDIR).unwrap();
    r.opaque_fixed(8).unwrap();
    let mut entries = Vec::new();
    while r.bool().unwrap() {
        r.u64().unwrap();
        let name = r.opaque(255).unwrap().to_vec();
        let attrs: Fattr4<'_> = r.get().unwrap();
        entries.push((name, Reader::new(attrs.values.0).u64().unwrap()));
    }
    Ok(entries)
}

/// A client that says of its file what it is told to.
struct Holder {
    machine: Machine,
    said: Arc<Mutex<Said>>,
}

impl Holder {
    fn new(rig: &Rig, minor: u32) -> Self {
        let said = Arc::new(Mutex::new(Said::default()));
        let says = Arc::clone(&said);
        let answer = move |callback: &Callback| match callback {
            Callback::Compound { operation: cb_op::GETATTR, args, .. } => {
                let said = says.lock().unwrap();
                let asked: CbGetattrArgs<'_> = Reader::new(args).get().unwrap();
                assert_eq!(asked.attributes, said.mask());
                CallbackReply::Ok(said.results())
            }
            callback => fine(callback),
        };
        Self {
            machine: Machine::answering(
                minor,
                &rig.server,
                format!("holder-{minor}").as_bytes(),
                answer,
            ),
            said,
        }
    }

    fn open(&mut self, access: u32, name: &str) -> Result<Opened, Nfsstat4> {
        self.machine.open(access, OpenClaim4::Null(Bytes(name.as_bytes())))
    }

    /// Does something while the client answers callbacks.
    fn answering<T: Send>(&mut self, said: Said, work: impl FnOnce() -> T + Send) -> T {
        *self.said.lock().unwrap() = said;
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let client = &mut self.machine.client;
            let is_done = &is_done;
            scope.spawn(move || {
                while !is_done.load(Relaxed) {
                    client.wait_for_callback(Duration::from_millis(10)).unwrap();
                }
            });
            let result = work();
            is_done.store(true, Relaxed);
            result
        })
    }

    fn write(&mut self, handle: &[u8], stateid: Stateid4, data: &[u8]) -> Nfsstat4 {
        let (offset, stable, data) = (0, StableHow4::FileSync, Bytes(data));
        let args = WriteArgs { stateid, offset, stable, data };
        status(&mut self.machine, &Operations::new().at(handle).with(op::WRITE, &args))
    }

    fn read(&mut self, handle: &[u8], stateid: Stateid4) -> Result<Vec<u8>, Nfsstat4> {
        let args = ReadArgs { stateid, offset: 0, count: 32 };
        let operations = Operations::new().at(handle).with(op::READ, &args);
        let machine = &mut self.machine;
        let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
        match Reader::new(reply.body()).get().unwrap() {
            Nfsstat4::Ok => {}
            failed => return Err(failed),
        }
        let mut r = results_inside(&reply).unwrap();
        succeeded(&mut r, op::PUTFH).unwrap();
        succeeded(&mut r, op::READ).unwrap();
        r.bool().unwrap();
        Ok(r.opaque(32).unwrap().to_vec())
    }

    fn set(&mut self, handle: &[u8], stateid: Stateid4, attrs: &[(u32, Nfstime4)]) -> Nfsstat4 {
        status(
            &mut self.machine,
            &Operations::new()
                .at(handle)
                .with(op::SETATTR, &setattr(stateid, attrs, &mut Vec::new())),
        )
    }
}

fn setattr<'a>(
    stateid: Stateid4,
    times: &[(u32, Nfstime4)],
    values: &'a mut Vec<u8>,
) -> SetattrArgs<'a> {
    let mut w = Writer::new();
    let numbers: Vec<u32> = times.iter().map(|(number, _)| *number).collect();
    times.iter().for_each(|(_, time)| w.put(time));
    *values = w.bytes().to_vec();
    SetattrArgs { stateid, attrs: Fattr4 { mask: Bitmap4::of(&numbers), values: Bytes(values) } }
}

fn new_file(rig: &Rig, name: &str) -> PathBuf {
    let path = rig.path.with_file_name(name);
    std::fs::write(&path, b"first").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    path
}

/// Tries with one file after the other, until the machine is fast enough.
fn with_files(rig: &Rig, mut work: impl FnMut(&str, PathBuf) -> Result<(), Later>) {
    for attempt in 0..ATTEMPTS {
        let name = format!("file-{attempt}");
        let path = new_file(rig, &name);
        match work(&name, path) {
            Ok(()) => return,
            Err(Later) => println!("{name}: not answered in time"),
        }
    }
    panic!("never answered in time");
}

/// The size, by version 3.
fn size3(old: &mut Client, handle: &[u8]) -> Result<u64, Later> {
    const JUKEBOX: u32 = 10_008;
    old.getattr(&Fh::new(handle).unwrap()).map(|attr| attr.size).map_err(|error| {
        assert_eq!(error.status(), Some(JUKEBOX), "{error}");
        Later
    })
}

#[test]
fn others_see_what_the_holder_says_and_it_keeps_the_file() {
    let rig = rig("delegations=write");
    std::fs::remove_file(&rig.path).unwrap();
    let mut holder = Holder::new(&rig, 1);
    let (mut old, mut new) = (connect(&rig.server), Machine::new(&rig.server, b"new"));
    let dir = old.mount(b"/e").unwrap();
    with_files(&rig, |name, path| {
        let opened = holder.open(BOTH | WANT_WRITE, name).unwrap();
        let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
        let own = look(&mut holder.machine, &handle).unwrap();
        let unchanged = Said { change: own.change, size: own.size, times: None };
        let seen = holder.answering(unchanged, || look(&mut new, &handle))?;
        assert_eq!(seen, own);
        let changed = Said { change: own.change + 1, size: 7, times: None };
        let began = at(SystemTime::now());
        let (first, second) = holder.answering(changed, || {
            let looked = (look(&mut new, &handle)?, look(&mut new, &handle)?);
            assert_eq!(listed(&mut new, &dir, name.as_bytes())?, Some(7));
            assert_eq!(size3(&mut old, &handle)?, 7);
            Ok(looked)
        })?;
        assert_eq!((first.size, second.size), (7, 7));
        assert!(own.change < first.change && first.change < second.change);
        assert!(moment(began) <= moment(first.modified));
        assert_eq!(first.modified, first.attributes);
        assert_eq!(first.accessed, own.accessed);
        // longer by its size alone, as by clients that count nothing
        let longer = Said { change: own.change, size: 9, times: None };
        assert_eq!(holder.answering(longer, || look(&mut new, &handle))?.size, 9);
        // of others' data nobody is asked
        let rows = rig.server.json("delegations");
        assert!(rows[0]["recalled_ms"].is_null(), "{rows}");
        // what it has sent is on disk, and what it says then is no change
        assert_eq!(holder.write(&handle, delegation, b"changed"), Nfsstat4::Ok);
        let sent = Said { change: own.change, size: 7, times: None };
        let third = holder.answering(sent, || look(&mut new, &handle))?;
        assert_eq!(third.size, 7);
        assert!(third.change > second.change);
        holder.machine.give_back(&handle, delegation);
        assert_eq!(look(&mut new, &handle)?.size, 7);
        assert_eq!(std::fs::read(path).unwrap(), b"changed");
        Ok(())
    });
    let metrics = text(&rig.server.ask(&["metrics"]).stdout);
    let count = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(count("bowline_delegation_queries_answered_total ") >= 7);
    assert!(count("bowline_delegation_queries_total ") >= 7);
}

#[test]
fn a_listing_asks_for_all_files_of_a_holder_at_once() {
    let rig = rig("delegations=write");
    std::fs::remove_file(&rig.path).unwrap();
    let (mut holder, mut new) = (Holder::new(&rig, 1), Machine::new(&rig.server, b"new"));
    let dir = connect(&rig.server).mount(b"/e").unwrap();
    with_files(&rig, |name, path| {
        std::fs::remove_file(path).unwrap();
        let mut files = Vec::new();
        for number in 0..10 {
            let name = format!("{name}-{number}");
            new_file(&rig, &name);
            let opened = holder.open(BOTH | WANT_WRITE, &name).unwrap();
            files.push((opened.handle, opened.delegation.unwrap()));
        }
        let said = Said { change: 0, size: 7, times: None };
        let entries = holder.answering(said, || listing(&mut new, &dir))?;
        for (handle, delegation) in files {
            holder.machine.give_back(&handle, delegation);
        }
        let prefix = format!("{name}-");
        let sizes = entries.iter().filter(|(entry, _)| entry.starts_with(prefix.as_bytes()));
        let sizes: Vec<u64> = sizes.map(|(_, size)| *size).collect();
        assert!(sizes.iter().all(|size| *size == 7), "{sizes:?}");
        // it ends where there is no time to ask for more
        if sizes.len() > 1 { Ok(()) } else { Err(Later) }
    });
}

#[test]
fn a_holder_that_does_not_say_what_it_is_asked_returns_the_file() {
    let rig = rig("delegations=write");
    let mut new = Machine::new(&rig.server, b"new");
    // `fine` answers with nothing; without `answering` there is no answer at all
    for (name, answers) in [("answers", true), ("is silent", false)] {
        new_file(&rig, name);
        let said = Arc::new(Mutex::new(Said::default()));
        let machine = Machine::new(&rig.server, name.as_bytes());
        let mut holder = Holder { machine, said };
        let opened = holder.open(BOTH | WANT_WRITE, name).unwrap();
        let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
        match answers {
            true => {
                let said = Said::default();
                holder.answering(said, || look(&mut new, &handle)).unwrap_err();
            }
            false => {
                look(&mut new, &handle).unwrap_err();
            }
        }
        holder.machine.recalled(&handle, delegation);
        holder.machine.give_back(&handle, delegation);
        assert_eq!(look(&mut new, &handle).unwrap().size, 5);
    }
}

#[test]
fn the_holder_keeps_the_times_and_sets_them_before_it_returns_the_file() {
    if !is_root() {
        skip(Missing::Root, format_args!("times of another's file"));
        return;
    }
    let rig = rig("delegations=write");
    let (mut holder, mut new) = (Holder::new(&rig, 2), Machine::new(&rig.server, b"new"));
    with_files(&rig, |name, path| {
        let opened = holder.open(BOTH | WANT_WRITE | WANT_TIMES, name).unwrap();
        assert_eq!(opened.kind, OPEN_DELEGATE_WRITE_ATTRS);
        let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
        let own = look(&mut holder.machine, &handle).unwrap();
        let said = |times| Said { change: own.change, size: own.size, times: Some(times) };
        let mut seen_with =
            |holder: &mut Holder, times| holder.answering(said(times), || look(&mut new, &handle));
        assert_eq!(seen_with(&mut holder, [own.accessed, own.modified])?, own);
        // ones from before the grant do not count, and none is in the future
        let second = |time: Nfstime4, by: i64| Nfstime4 {
            seconds: time.seconds.wrapping_add_signed(by),
            ..time
        };
        let early = seen_with(&mut holder, [second(own.accessed, -9), second(own.modified, -9)])?;
        assert_eq!(early, own);
        let far = second(own.modified, 90_000);
        let late = seen_with(&mut holder, [far, far])?;
        assert!(moment(late.modified) < moment(far) && late.modified == late.accessed);
        assert!(moment(late.modified) > moment(own.modified));
        let mine = Nfstime4 { nseconds: own.modified.nseconds / 2, ..second(own.modified, 1) };
        std::thread::sleep(Duration::from_millis(2100));
        let seen = seen_with(&mut holder, [mine, mine])?;
        assert_eq!((seen.modified, seen.accessed), (mine, mine));
        assert!(moment(seen.attributes) >= moment(mine));
        // what it sends has a later time on disk, until it sets its own
        assert_eq!(holder.write(&handle, delegation, b"changed"), Nfsstat4::Ok);
        let modify = [(attr::TIME_DELEG_MODIFY, mine)];
        for other in [NO_STATEID, opened.open] {
            assert_eq!(holder.set(&handle, other, &modify), Nfsstat4::BadStateid);
        }
        let mut values = Vec::new();
        let both = [(attr::TIME_DELEG_ACCESS, mine), (attr::TIME_DELEG_MODIFY, mine)];
        let set = setattr(delegation, &both, &mut values);
        let back = Operations::new()
            .at(&handle)
            .with(op::SETATTR, &set)
            .with(op::DELEGRETURN, &delegation);
        assert_eq!(status(&mut holder.machine, &back), Nfsstat4::Ok);
        let found = std::fs::metadata(&path).unwrap();
        let mine = i64::try_from(mine.seconds).unwrap();
        assert_eq!((found.mtime(), found.atime()), (mine, mine));
        assert_eq!(holder.set(&handle, delegation, &modify), Nfsstat4::BadStateid, "returned");
        Ok(())
    });
}

#[test]
fn times_are_set_only_by_the_delegation_of_a_client_that_keeps_them() {
    let rig = rig("delegations=write");
    let mut holder = Holder::new(&rig, 2);
    let now = at(SystemTime::now() + Duration::from_secs(5));
    let modify = [(attr::TIME_DELEG_MODIFY, now)];
    let opened = holder.open(BOTH | WANT_WRITE, "file").unwrap();
    assert_eq!(opened.kind, OPEN_DELEGATE_WRITE);
    let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
    assert_eq!(holder.set(&handle, delegation, &modify), Nfsstat4::BadStateid);
    // they are not read
    let asked = Bitmap4::of(&[attr::TIME_DELEG_MODIFY]);
    let operations = Operations::new().at(&handle).with(op::GETATTR, &asked);
    assert_eq!(status(&mut holder.machine, &operations), Nfsstat4::Inval);
    // access alone is accepted and changes nothing, which would be a change for all others
    new_file(&rig, "kept");
    let opened = holder.open(BOTH | WANT_WRITE | WANT_TIMES, "kept").unwrap();
    let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
    let before = look(&mut holder.machine, &handle).unwrap();
    let access = [(attr::TIME_DELEG_ACCESS, now)];
    assert_eq!(holder.set(&handle, delegation, &access), Nfsstat4::Ok);
    assert_eq!(look(&mut holder.machine, &handle).unwrap(), before);
    // a change earlier than the grant is set only for whom utimensat(2) would
    let early = Nfstime4 { seconds: 1_000_000_000, nseconds: 7 };
    let modify_early = [(attr::TIME_DELEG_MODIFY, early)];
    assert_eq!(holder.set(&handle, delegation, &modify_early), Nfsstat4::Ok);
    assert_eq!(look(&mut holder.machine, &handle).unwrap(), before);
    if is_root() {
        chown(rig.path.with_file_name("kept"), Some(NOBODY), None).unwrap();
        assert_eq!(holder.set(&handle, delegation, &modify_early), Nfsstat4::Ok);
        assert_eq!(look(&mut holder.machine, &handle).unwrap().modified, early);
    }
    // version 4.1 has none of it
    let mut older = Holder::new(&rig, 1);
    new_file(&rig, "older");
    for want in [WANT_TIMES, WANT_XOR] {
        assert_eq!(older.open(BOTH | want, "older").err(), Some(Nfsstat4::Inval));
    }
    let Opened { handle, open, .. } = older.open(BOTH | 0x400, "older").unwrap();
    assert_eq!(older.set(&handle, open, &modify), Nfsstat4::Inval);
}

#[test]
fn a_client_learns_which_arguments_of_open_there_are() {
    let rig = rig("delegations=off");
    let mut holder = Holder::new(&rig, 2);
    let asked = Bitmap4::of(&[attr::OPEN_ARGUMENTS]);
    let operations = Operations::new().bare(op::PUTROOTFH).with(op::GETATTR, &asked);
    let machine = &mut holder.machine;
    let reply = machine.client.compound(&mut machine.session, &operations).unwrap();
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTROOTFH).unwrap();
    succeeded(&mut r, op::GETATTR).unwrap();
    let attrs: Fattr4<'_> = r.get().unwrap();
    assert_eq!(attrs.mask, asked);
    let mut r = Reader::new(attrs.values.0);
    let words = r.words::<10>().unwrap();
    r.end().unwrap();
    // access, deny, wishes, claims, ways to create
    assert_eq!(words, [1, 0xe, 1, 0xf, 1, 0x20_0038, 1, 0x37, 1, 0xf]);
}

#[test]
fn a_delegation_stands_for_the_open() {
    let rig = rig("delegations=write");
    let (mut holder, mut new) = (Holder::new(&rig, 2), Machine::new(&rig.server, b"new"));
    let opened = holder.open(BOTH | WANT_WRITE | WANT_XOR, "file").unwrap();
    assert_eq!((opened.open, opened.flags & NO_OPEN_STATEID), (NO_STATEID, NO_OPEN_STATEID));
    let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
    assert_eq!(rig.server.json("opens").as_array().unwrap().len(), 0);
    assert_eq!(holder.write(&handle, delegation, b"by it"), Nfsstat4::Ok);
    // as by an open, whatever becomes of the mode and the name
    std::fs::set_permissions(&rig.path, PermissionsExt::from_mode(0o000)).unwrap();
    std::fs::remove_file(&rig.path).unwrap();
    assert_eq!(holder.read(&handle, delegation), Ok(b"by it".to_vec()));
    holder.machine.recalled(&handle, delegation);
    holder.machine.give_back(&handle, delegation);
    holder.read(&handle, delegation).unwrap_err();
    // who holds it opens it by the delegation before it returns that
    new_file(&rig, "other");
    let opened = holder.open(READ | WANT_XOR, "other").unwrap();
    assert_eq!(opened.flags & NO_OPEN_STATEID, NO_OPEN_STATEID);
    let (handle, delegation) = (opened.handle, opened.delegation.unwrap());
    let writer = |new: &mut Machine| new.open(WRITE, OpenClaim4::Null(Bytes(b"other")));
    assert_eq!(writer(&mut new).err(), Some(Nfsstat4::Delay));
    holder.machine.recalled(&handle, delegation);
    let claim = OpenClaim4::DelegCurFh(delegation);
    let at = Operations::new().at(&handle);
    let claimed = holder.machine.open_at(at, &[op::PUTFH], READ | WANT_XOR, claim).unwrap();
    assert_eq!((claimed.flags & NO_OPEN_STATEID, claimed.kind), (0, 0));
    holder.machine.give_back(&handle, delegation);
    writer(&mut new).unwrap();
    assert_eq!(holder.read(&handle, claimed.open), Ok(b"first".to_vec()));
}

#[test]
fn an_open_stays_where_the_delegation_does_not_stand_for_it() {
    let rig = rig("delegations=write");
    let mut holder = Holder::new(&rig, 2);
    let has_open =
        |opened: &Opened| opened.flags & NO_OPEN_STATEID == 0 && opened.open != NO_STATEID;
    // it denies something, which a delegation for reading does not
    let root = Operations::new().bare(op::PUTROOTFH).with(op::LOOKUP, &Bytes::<255>(b"e"));
    let numbers = [op::PUTROOTFH, op::LOOKUP];
    let claim = OpenClaim4::Null(Bytes(b"file"));
    let access = (BOTH | WANT_WRITE | WANT_XOR, WRITE);
    let denying =
        holder.machine.open_how(root, &numbers, access, (claim, OpenHow4::NoCreate)).unwrap();
    assert!(denying.delegation.is_some() && has_open(&denying));
    // the owner has it open already
    new_file(&rig, "twice");
    assert!(has_open(&holder.open(BOTH | 0x400, "twice").unwrap()));
    let twice = holder.open(BOTH | WANT_WRITE | WANT_XOR, "twice").unwrap();
    assert!(twice.delegation.is_some() && has_open(&twice));
    // there is no delegation
    new_file(&rig, "none");
    let none = holder.open(BOTH | 0x400 | WANT_XOR, "none").unwrap();
    assert!(none.delegation.is_none() && has_open(&none));
    // nobody asks who has not said that it would
    let machine = &mut holder.machine;
    assert!(machine.seen.try_iter().all(|callback| matches!(callback, Callback::Null { .. })));
}

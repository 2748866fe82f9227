//! Copies that go on after their COPY was answered (RFC 7862 §4.8, §15.2, §15.8, §15.9), over files in memory whose copying
//! can be slow and fail.

use super::delegations::WRITE_DELEGATION;
use super::{Client, Results, fattr, name, ok, oper, plain, send};
use crate::support::{TestServer, exports};
use bowline_nfs::CopyMode;
use bowline_nfs::v4::CopyCounts;
use export::Delegate;
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloneArgs, CloseArgs, CopyArgs, Createhow4, ExchangeIdArgs, Nfsstat4, OpenArgs,
    OpenClaim4, OpenHow4, OpenOwner4, ReadArgs, SetattrArgs, StableHow4, StateProtectHow, Stateid4,
    WriteArgs, attr, op,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vfs::{Backend, Status};
use vfs_mem::{Fault, FaultyFs, Gate, MemFs, MemOptions, Operation};

const MIB: u64 = 1 << 20;
/// Bytes of a step.
const STEP: u64 = 8 * MIB;
/// Bytes of the source: five steps, of which the first is made before the answer.
const SIZE: u64 = 5 * STEP;
/// A limit on waiting that keeps a failure from hanging.
const PATIENCE: Duration = Duration::from_secs(120);

type File = (Vec<u8>, Stateid4);

struct Rig {
    client: Client,
    fault: Arc<Mutex<Fault>>,
    backend: Arc<dyn Backend>,
    from: File,
    to: File,
}

/// What COPY was answered.
struct Copied {
    stateid: Option<Stateid4>,
    count: u64,
    is_synchronous: bool,
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Rig {
    fn new() -> Self {
        Self::beside(&[])
    }

    /// With more exports.
    fn beside(others: &[exports::Row<'_>]) -> Self {
        let disk = FaultyFs::new(MemFs::new(MemOptions::default()));
        let fault = disk.fault();
        let backend: Arc<dyn Backend> = Arc::new(disk);
        let own = [("/e", Arc::clone(&backend), exports::RW)];
        let server = TestServer::new(exports::of(&[&own[..], others].concat()));
        server.nfs().settings.set_copy(CopyMode::Async);
        server.program.state.serve_copies();
        let client = Client::over(server).of_minor(2);
        client.set_callbacks(true);
        let (from, to) = (client.create(b"from"), client.create(b"to"));
        for at in 0..SIZE / MIB {
            client.write_at(&from, at * MIB, &[at as u8 + 1; 9]);
        }
        client.write_at(&from, SIZE - 1, b"!");
        Self { client, fault, backend, from, to }
    }

    /// Has each step take so long.
    fn slow(&self, ms: u64) {
        let delay = Duration::from_millis(ms);
        self.set(Fault { operation: Some(Operation::CopyRange), delay, ..Fault::default() });
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn fail(&self, status: Option<Status>) {
        self.set(Fault { operation: Some(Operation::CopyRange), status, ..Fault::default() });
    }

    fn args(&self, synchronous: bool, count: u64) -> CopyArgs {
        let range = CloneArgs {
            src_stateid: self.from.1,
            dst_stateid: self.to.1,
            src_offset: 0,
            dst_offset: 0,
            count,
        };
        CopyArgs { range, consecutive: true, synchronous, sources: 0 }
    }

    fn operations(&self, args: &CopyArgs) -> Vec<Vec<u8>> {
        let (from, to) = (self.client.putfh(&self.from.0), self.client.putfh(&self.to.0));
        vec![from, plain(op::SAVEFH), to, oper(op::COPY, args)]
    }

    fn copy(&self, args: &CopyArgs) -> Result<Copied, Nfsstat4> {
        copied(&self.client.call(&self.operations(args)))
    }

    /// A copy of everything that goes on.
    fn begin(&self) -> Stateid4 {
        let copied = self.copy(&self.args(false, 0)).unwrap();
        assert_eq!((copied.count, copied.is_synchronous), (0, false));
        copied.stateid.unwrap()
    }

    /// The same, which goes on when its fault is taken away.
    fn begin_held(&self) -> Stateid4 {
        self.slow(300);
        let copy = self.begin();
        self.fail(Some(Status::Jukebox));
        copy
    }

    fn status_by(&self, file: &[u8], copy: Stateid4) -> Result<(u64, Option<u32>), Nfsstat4> {
        let operations = [self.client.putfh(file), oper(op::OFFLOAD_STATUS, &copy)];
        let asked = self.client.call(&operations);
        if asked.status != Nfsstat4::Ok {
            return Err(asked.status);
        }
        let mut r = asked.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::OFFLOAD_STATUS);
        let count = r.u64().unwrap();
        let complete = match r.u32().unwrap() {
            0 => None,
            _ => Some(r.u32().unwrap()),
        };
        r.end().unwrap();
        Ok((count, complete))
    }

    fn status(&self, copy: Stateid4) -> Result<(u64, Option<u32>), Nfsstat4> {
        self.status_by(&self.to.0, copy)
    }

    /// Waits for the end: how many bytes, and with what status.
    fn ended(&self, copy: Stateid4) -> (u64, u32) {
        let mut end = None;
        until("the copy ends", || {
            let (count, complete) = self.status(copy).unwrap();
            end = complete.map(|status| (count, status));
            end.is_some()
        });
        end.unwrap()
    }

    fn cancel(&self, copy: Stateid4) -> Nfsstat4 {
        let operations = [self.client.putfh(&self.to.0), oper(op::OFFLOAD_CANCEL, &copy)];
        self.client.call(&operations).status
    }

    fn counts(&self) -> CopyCounts {
        self.client.server.nfs().v4.copies.counts()
    }

    /// The size of the target.
    fn written(&self) -> u64 {
        self.client.size(&self.to.0)
    }

    fn close(&self, file: &File) {
        let close = CloseArgs { seqid: 0, stateid: file.1 };
        let closed = self.client.call(&[self.client.putfh(&file.0), oper(op::CLOSE, &close)]);
        assert_eq!(closed.status, Nfsstat4::Ok);
    }

    /// What is at the beginnings and the end of the target.
    fn is_whole(&self) -> bool {
        let read = |offset: u64, count: u32| {
            let args = ReadArgs { stateid: self.to.1, offset, count };
            let read = self.client.call(&[self.client.putfh(&self.to.0), oper(op::READ, &args)]);
            let mut r = read.inside();
            ok(&mut r, op::PUTFH);
            ok(&mut r, op::READ);
            r.bool().unwrap();
            r.opaque(64).unwrap().to_vec()
        };
        let right = |at: u64| read(at * MIB, 9) == [at as u8 + 1; 9];
        (0..SIZE / MIB).all(right) && read(SIZE - 1, 9) == b"!"
    }

    fn tick(&self) {
        self.client.server.nfs().tick_copies();
    }

    fn later(&self, ms: u64) {
        self.client.server.nfs().clock.advance_ms(ms);
        self.tick();
    }
}

fn copied(results: &Results) -> Result<Copied, Nfsstat4> {
    if results.status != Nfsstat4::Ok {
        return Err(results.status);
    }
    let mut r = results.inside();
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::SAVEFH);
    ok(&mut r, op::PUTFH);
    ok(&mut r, op::COPY);
    let stateid = match r.u32().unwrap() {
        0 => None,
        _ => Some(r.get().unwrap()),
    };
    let count = r.u64().unwrap();
    assert_eq!(r.get::<StableHow4>().unwrap(), StableHow4::Unstable);
    r.u64().unwrap();
    assert!(r.bool().unwrap(), "in order");
    let is_synchronous = r.bool().unwrap();
    r.end().unwrap();
    Ok(Copied { stateid, count, is_synchronous })
}

#[test]
fn a_long_copy_is_answered_and_goes_on() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    assert_eq!(copy.seqid, 1);
    let (count, complete) = rig.status(copy).unwrap();
    assert!((STEP..SIZE).contains(&count) && complete.is_none(), "{count} {complete:?}");
    let nfs = rig.client.server.nfs();
    let [view] = &nfs.v4.copies.views(nfs.clock.now())[..] else { panic!("one is under way") };
    assert_eq!((view.total, &*view.export, view.client), (SIZE, "/e", rig.client.id));
    assert!((STEP..SIZE).contains(&view.copied));
    rig.fail(None);
    assert_eq!(rig.ended(copy), (SIZE, 0));
    assert!(rig.is_whole());
    assert!(nfs.v4.copies.views(nfs.clock.now()).is_empty());
    let counts = rig.counts();
    let expected = CopyCounts { begun: 1, done: 1, bytes: SIZE, ..CopyCounts::default() };
    assert_eq!(counts, expected);
}

#[test]
fn a_copy_is_answered_when_it_is_done_unless_the_client_can_hear_of_its_end() {
    let rig = Rig::new();
    let is_synchronous = |args: CopyArgs| {
        let copied = rig.copy(&args).unwrap();
        copied.is_synchronous && copied.stateid.is_none() && copied.count > 0
    };
    assert!(is_synchronous(rig.args(true, 0)), "as the client asks");
    assert!(is_synchronous(rig.args(false, STEP)), "short");
    let range = CloneArgs { dst_stateid: Stateid4::ANONYMOUS, ..rig.args(false, 0).range };
    assert!(is_synchronous(CopyArgs { range, ..rig.args(false, 0) }), "no open");
    rig.client.set_callbacks(false);
    assert!(is_synchronous(rig.args(false, 0)), "no callbacks");
    rig.client.set_callbacks(true);
    rig.client.server.nfs().settings.set_copy(CopyMode::Sync);
    assert!(is_synchronous(rig.args(false, 0)), "the setting");
    assert_eq!(rig.counts(), CopyCounts::default());
    rig.client.server.nfs().settings.set_copy(CopyMode::Async);
    assert_eq!(rig.ended(rig.begin()), (SIZE, 0));
}

#[test]
fn what_is_wrong_from_the_beginning_is_the_answer() {
    let rig = Rig::new();
    let fails = |args: CopyArgs| rig.copy(&args).err();
    let range = rig.args(false, 0).range;
    let with = |range| CopyArgs { range, ..rig.args(false, 0) };
    assert_eq!(fails(with(CloneArgs { count: SIZE + 1, ..range })), Some(Nfsstat4::Inval));
    let other = CloneArgs { dst_stateid: rig.from.1, ..range };
    assert_eq!(fails(with(other)), Some(Nfsstat4::BadStateid));
    rig.fail(Some(Status::NoSpc));
    assert_eq!(fails(rig.args(false, 0)), Some(Nfsstat4::NoSpc));
    rig.fail(None);
    let reads = rig.client.open_as(b"reader", 1, b"to");
    let other = CloneArgs { dst_stateid: reads, ..range };
    assert_eq!(fails(with(other)), Some(Nfsstat4::OpenMode));
    assert_eq!(rig.counts(), CopyCounts::default());
}

#[test]
fn a_copy_is_named_by_its_client_its_stateid_and_its_target() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    let bad = Err(Nfsstat4::BadStateid);
    assert_eq!(rig.status(Stateid4 { seqid: 0, ..copy }), bad, "not the current one");
    assert_eq!(rig.status(Stateid4 { seqid: 2, ..copy }), bad);
    assert_eq!(rig.status(rig.to.1), bad, "an open");
    assert_eq!(rig.status_by(&rig.from.0, copy), bad, "the source");
    for number in [op::OFFLOAD_STATUS, op::OFFLOAD_CANCEL] {
        let alone = rig.client.call(&[oper(number, &copy)]);
        assert_eq!(alone.status, Nfsstat4::BadStateid, "no current filehandle");
        let cut = rig.client.call(&[rig.client.putfh(&rig.to.0), plain(number)]);
        assert_eq!(cut.status, Nfsstat4::BadXdr);
    }
    assert_eq!(rig.cancel(Stateid4 { seqid: 0, ..copy }), Nfsstat4::BadStateid);
    rig.fail(None);
    assert_eq!(rig.ended(copy), (SIZE, 0));
}

#[test]
fn a_retransmitted_copy_gets_the_stateid_again() {
    let rig = Rig::new();
    let operations = rig.operations(&rig.args(false, 0));
    let number = rig.client.sequence.get() + 1;
    let first = rig.client.call_as(number, false, &operations);
    let again = rig.client.call_as(number, false, &operations);
    rig.client.sequence.set(number);
    assert_eq!(first.bytes(), again.bytes());
    let copy = copied(&first).unwrap().stateid.unwrap();
    assert_eq!(rig.ended(copy), (SIZE, 0));
    assert_eq!(rig.counts().begun, 1);
}

/// Cancels a copy, also if that takes a while.
fn cancelled(rig: &Rig, copy: Stateid4) {
    until("it is cancelled", || match rig.cancel(copy) {
        Nfsstat4::Delay => {
            assert_eq!(rig.status(copy), Err(Nfsstat4::BadStateid), "given up already");
            false
        }
        status => {
            assert_eq!(status, Nfsstat4::Ok);
            true
        }
    });
}

#[test]
fn a_cancelled_copy_writes_nothing_more() {
    for step_ms in [5, 120] {
        let rig = Rig::new();
        rig.slow(step_ms);
        let copy = rig.begin();
        cancelled(&rig, copy);
        let written = rig.written();
        assert!(written < SIZE, "{written}");
        assert_eq!(rig.status(copy), Err(Nfsstat4::BadStateid));
        assert_eq!(rig.cancel(copy), Nfsstat4::BadStateid);
        std::thread::sleep(Duration::from_millis(3 * step_ms));
        assert_eq!(rig.written(), written);
        let counts = rig.counts();
        assert_eq!((counts.cancelled, counts.done, counts.under_way), (1, 0, 0));
    }
}

#[test]
fn an_outcome_is_forgotten_when_it_is_cancelled() {
    let rig = Rig::new();
    let copy = rig.begin();
    assert_eq!(rig.ended(copy), (SIZE, 0));
    assert_eq!(rig.cancel(copy), Nfsstat4::Ok);
    assert_eq!(rig.status(copy), Err(Nfsstat4::BadStateid));
    assert_eq!((rig.counts().done, rig.counts().cancelled), (1, 0));
}

#[test]
fn nobody_cancels_the_copy_of_another_user() {
    let mut rig = Rig::new();
    let copy = rig.begin_held();
    rig.client.server.uid = 1000;
    assert_eq!(rig.cancel(copy), Nfsstat4::BadStateid);
    assert!(rig.status(copy).is_ok(), "anybody on the client may ask");
    rig.client.server.uid = 0;
    rig.fail(None);
    assert_eq!(rig.ended(copy), (SIZE, 0));
}

#[test]
fn a_copy_stops_when_a_file_is_closed() {
    for closes_target in [false, true] {
        let rig = Rig::new();
        let copy = rig.begin_held();
        rig.close(if closes_target { &rig.to } else { &rig.from });
        rig.fail(None);
        // partly done: the client asks for the rest
        let (count, status) = rig.ended(copy);
        assert!((STEP..SIZE).contains(&count) && status == 0, "{count} {status}");
        if !closes_target {
            continue;
        }
        // somebody else has the file to itself now
        rig.client.try_open_as(b"another", (3, 2), b"to").unwrap();
        let written = rig.written();
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!((rig.written(), written), (count, count));
    }
}

#[test]
fn nobody_else_gets_what_the_copy_needs() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    for (file, deny) in [(&b"to"[..], 2), (b"from", 1)] {
        let denied = rig.client.try_open_as(b"another", (1, deny), file);
        assert_eq!(denied, Err(Nfsstat4::ShareDenied));
    }
    rig.fail(None);
    assert_eq!(rig.ended(copy), (SIZE, 0));
}

#[test]
fn files_without_names_are_copied_to_the_end() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    for file in [&b"from"[..], b"to"] {
        assert_eq!(rig.client.at_root(&[name(op::REMOVE, file)]).status, Nfsstat4::Ok);
    }
    rig.fail(None);
    assert_eq!(rig.ended(copy), (SIZE, 0));
    assert!(rig.is_whole());
}

#[test]
fn a_source_that_becomes_shorter_ends_the_copy_there() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    let size = (STEP + 5).to_be_bytes();
    let set = SetattrArgs { stateid: rig.from.1, attrs: fattr(&[attr::SIZE], &size) };
    let cut = rig.client.call(&[rig.client.putfh(&rig.from.0), oper(op::SETATTR, &set)]);
    assert_eq!(cut.status, Nfsstat4::Ok);
    rig.fail(None);
    let (count, status) = rig.ended(copy);
    assert!(count < SIZE && status == 0, "{count}");
}

#[test]
fn a_full_disk_ends_the_copy_with_what_is_copied() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    rig.fail(Some(Status::NoSpc));
    let (count, status) = rig.ended(copy);
    assert!((STEP..SIZE).contains(&count), "{count}");
    assert_eq!(status, Nfsstat4::NoSpc.number());
    let counts = rig.counts();
    assert_eq!((counts.failed, counts.done, counts.bytes), (1, 0, count));
    // it is known for a while, and the file can be copied again
    rig.fail(None);
    assert_eq!(rig.ended(rig.begin()), (SIZE, 0));
    assert_eq!(rig.status(copy), Ok((count, Some(Nfsstat4::NoSpc.number()))));
}

#[test]
fn a_file_system_that_says_later_is_asked_again() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    std::thread::sleep(Duration::from_millis(200));
    let (count, complete) = rig.status(copy).unwrap();
    assert!(count < SIZE && complete.is_none(), "{count} {complete:?}");
    rig.fail(None);
    assert_eq!(rig.ended(copy), (SIZE, 0));
    assert!(rig.is_whole());
}

#[test]
fn an_export_that_hangs_holds_up_its_own_copies_only() {
    let mut rig = Rig::beside(&[("/other", exports::mem(), exports::RW)]);
    let hang = |_| {
        rig.slow(200);
        let copy = rig.begin();
        rig.slow(30_000);
        // until the steps of before have ended
        std::thread::sleep(Duration::from_millis(400));
        copy
    };
    // two are in a step for long from the second on, two wait
    let hung: Vec<Stateid4> = (0..4).map(hang).collect();
    let began = Instant::now();
    let hung_files = (rig.from.clone(), rig.to.clone());
    let root = rig.client.server.root_of(1);
    (rig.from, rig.to) = (rig.client.create_in(&root, b"from"), rig.client.create_in(&root, b"to"));
    rig.client.write_at(&rig.from, SIZE - 1, b"!");
    assert_eq!(rig.ended(rig.begin()), (SIZE, 0));
    (rig.from, rig.to) = hung_files;
    let waits = |copy: &Stateid4| rig.status(*copy).unwrap().1.is_none();
    let hanging = hung.iter().filter(|copy| waits(copy)).count();
    assert_eq!(hanging, 4);
    // whoever cancels is not held up either
    let cancelled = hung.iter().map(|copy| rig.cancel(*copy));
    let cancelled: Vec<Nfsstat4> = cancelled.collect();
    assert_eq!(cancelled.iter().filter(|status| **status == Nfsstat4::Delay).count(), 2);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_copy_stops_when_its_export_is_replaced() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    let table = exports::table(&[("/e", Arc::clone(&rig.backend), exports::RO)]);
    rig.client.server.nfs().exports.replace(table);
    rig.fail(None);
    let (count, status) = rig.ended(copy);
    assert!((STEP..SIZE).contains(&count) && status == 0, "{count} {status}");
}

#[test]
fn a_copy_ends_with_its_client() {
    let rig = Rig::new();
    rig.begin_held();
    // the client has been started again
    let args = ExchangeIdArgs {
        verifier: [2; 8],
        ownerid: b"client",
        flags: 0,
        state_protect: StateProtectHow::None,
        impl_id: None,
    };
    let known = send(&rig.client.server, 1, &[oper(op::EXCHANGE_ID, &args)]);
    let mut r = known.reader();
    ok(&mut r, op::EXCHANGE_ID);
    let id = r.u64().unwrap();
    let made = send(&rig.client.server, 1, &[super::create_session(id, 1, super::FORE)]);
    assert_eq!(made.status, Nfsstat4::Ok);
    rig.tick();
    rig.fail(None);
    until("the copy ends", || rig.counts().under_way == 0);
    let bytes = rig.counts().bytes;
    assert!(bytes < SIZE, "{bytes}");
    rig.later(1000);
    assert_eq!((rig.counts().cancelled, rig.counts().done), (1, 0));
}

#[test]
fn an_outcome_is_kept_for_a_bounded_time() {
    let rig = Rig::new();
    let copy = rig.begin();
    assert_eq!(rig.ended(copy), (SIZE, 0));
    let lease = rig.client.server.nfs().v4.state.lease_ms();
    // nobody could be told
    rig.later(lease);
    assert_eq!(rig.status(copy), Ok((SIZE, Some(0))));
    rig.later(lease / 2);
    assert_eq!(rig.status(copy), Ok((SIZE, Some(0))));
    rig.later(lease / 2);
    assert_eq!(rig.status(copy), Err(Nfsstat4::BadStateid));
}

#[test]
fn without_room_a_copy_is_answered_when_it_is_done() {
    let rig = Rig::new();
    let args = rig.args(false, STEP + 1);
    // outcomes of which the client could not be told
    for _ in 0..64 {
        assert_eq!(rig.ended(rig.copy(&args).unwrap().stateid.unwrap()), (STEP + 1, 0));
    }
    let more = rig.copy(&args).unwrap();
    assert_eq!((more.stateid, more.count, more.is_synchronous), (None, STEP + 1, true));
    assert_eq!((rig.counts().begun, rig.counts().refused), (64, 1));
    rig.later(2 * rig.client.server.nfs().v4.state.lease_ms());
    assert!(rig.copy(&args).unwrap().stateid.is_some());
}

#[test]
fn after_a_restart_no_copy_is_known() {
    let rig = Rig::new();
    let copy = rig.begin();
    rig.ended(copy);
    let Rig { client, to, .. } = rig;
    let again = Client::over(client.server.restarted()).of_minor(2);
    for number in [op::OFFLOAD_STATUS, op::OFFLOAD_CANCEL] {
        let asked = again.call(&[again.putfh(&to.0), oper(number, &copy)]);
        assert_eq!(asked.status, Nfsstat4::BadStateid);
    }
}

/// The right to a step is checked before it is made.
#[test]
fn a_step_that_a_write_delegation_has_overtaken_recalls_it() {
    let rig = Rig::new();
    let copy = rig.begin_held();
    let gate: &'static Gate = Box::leak(Box::default());
    let operation = Some(Operation::CopyRange);
    rig.set(Fault { operation, gate: Some(gate), ..Fault::default() });
    gate.await_call();
    rig.client.server.nfs().set_delegations(Delegate::Write);
    let close = CloseArgs { seqid: 0, stateid: rig.to.1 };
    let closed = rig.client.call(&[rig.client.putfh(&rig.to.0), oper(op::CLOSE, &close)]);
    assert_eq!(closed.status, Nfsstat4::Ok);
    let holder = rig.client.beside(b"holder");
    assert_eq!(holder.open_for_delegation(b"to"), WRITE_DELEGATION);
    gate.open();
    rig.ended(copy);
    let counts = rig.client.server.nfs().delegation_counts();
    assert_eq!((counts.writing, counts.recalled), (1, 1));
}

impl Client {
    pub(super) fn set_callbacks(&self, arrive: bool) {
        let reading = self.server.nfs().v4.state.read();
        reading.session(&self.session).unwrap().set_callbacks(arrive);
    }

    /// Opens a file for another owner, with this access and denying that to others.
    fn try_open_as(
        &self,
        owner: &[u8],
        (share_access, share_deny): (u32, u32),
        file: &[u8],
    ) -> Result<Stateid4, Nfsstat4> {
        let args = OpenArgs {
            seqid: 0,
            share_access,
            share_deny,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(owner) },
            how: OpenHow4::NoCreate,
            claim: OpenClaim4::Null(Bytes(file)),
        };
        let opened = self.at_root(&[oper(op::OPEN, &args)]);
        if opened.status != Nfsstat4::Ok {
            return Err(opened.status);
        }
        let mut r = opened.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::OPEN);
        Ok(r.get().unwrap())
    }

    /// Makes a file in a directory.
    fn create_in(&self, dir: &[u8], file: &[u8]) -> File {
        let args = OpenArgs {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"owner") },
            how: OpenHow4::Create(Createhow4::Unchecked(super::NONE)),
            claim: OpenClaim4::Null(Bytes(file)),
        };
        let made = self.call(&[self.putfh(dir), oper(op::OPEN, &args), plain(op::GETFH)]);
        assert_eq!(made.status, Nfsstat4::Ok);
        let mut r = made.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::OPEN);
        let stateid = r.get().unwrap();
        // change_info4, rflags
        r.opaque_fixed(24).unwrap();
        r.get::<Bitmap4>().unwrap();
        assert_eq!(r.u32().unwrap(), 0, "no delegation");
        ok(&mut r, op::GETFH);
        (r.opaque(128).unwrap().to_vec(), stateid)
    }

    fn open_as(&self, owner: &[u8], access: u32, file: &[u8]) -> Stateid4 {
        self.try_open_as(owner, (access, 0), file).unwrap()
    }

    fn write_at(&self, file: &File, offset: u64, data: &[u8]) {
        let (stable, data) = (StableHow4::FileSync, Bytes(data));
        let args = WriteArgs { stateid: file.1, offset, stable, data };
        let written = self.call(&[self.putfh(&file.0), oper(op::WRITE, &args)]);
        assert_eq!(written.status, Nfsstat4::Ok);
    }

    fn size(&self, handle: &[u8]) -> u64 {
        let asked = Bitmap4::of(&[attr::SIZE]);
        let got = self.call(&[self.putfh(handle), oper(op::GETATTR, &asked)]);
        let mut r = got.inside();
        ok(&mut r, op::PUTFH);
        ok(&mut r, op::GETATTR);
        r.get::<Bitmap4>().unwrap();
        r.u32().unwrap();
        r.u64().unwrap()
    }
}

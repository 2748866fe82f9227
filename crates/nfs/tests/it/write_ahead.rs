//! A WRITE of which data goes to the file before its record is whole does what it does whole: the
//! same bytes in the file, the same answer, the same failures.

use crate::arriving::{Arriving, PAGE, contents, data, decoded, make, mem};
use crate::support::dispatched::Dispatched;
use crate::support::{exports, wire};
use proptest::prelude::*;
use proto::nfs3::{Bytes, Nfsstat3, Res, StableHow, WccData, WriteArgs, WriteOk, procedure as p};
use rpc::LargeArgument;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use vfs::Status;
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use vfs_mem::{Fault, FaultyFs, MemFs, MemOptions, Operation};

type Written = Result<WriteOk, Nfsstat3>;

fn args(file: &[u8], offset: u64, stable: StableHow, data: &[u8]) -> Vec<u8> {
    wire(&WriteArgs { file: Bytes(file), offset, stable, data: Bytes(data) })
}

fn written(reply: Vec<u8>) -> Written {
    decoded::<Res<WriteOk, WccData>>(reply).into_result()
}

/// A WRITE that arrives in pieces.
fn in_pieces<'s>(server: &'s Dispatched, args: &[u8]) -> Arriving<'s> {
    Arriving::new(server, server.record(p::WRITE, args))
}

fn faulty() -> (Dispatched, Arc<Mutex<Fault>>) {
    let backend = FaultyFs::new(MemFs::new(MemOptions::default()));
    let fault = backend.fault();
    (Dispatched::over(Arc::new(backend)), fault)
}

fn local() -> (tempfile::TempDir, Dispatched) {
    let (dir, local) = local_backend();
    (dir, Dispatched::over(Arc::new(local)))
}

fn local_backend() -> (tempfile::TempDir, LocalFs) {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let options = LocalOptions { table: Some(dir.path().join("names")), ..LocalOptions::default() };
    let local = LocalFs::open(&served, &options, Arc::new(OpenFiles::new(64))).unwrap();
    (dir, local)
}

const STABLE: [StableHow; 3] = [StableHow::Unstable, StableHow::DataSync, StableHow::FileSync];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Wherever the record is cut, the file and the answer are those of the whole.
    #[test]
    fn a_write_in_pieces_equals_a_whole_write(
        offset in 0..3 * PAGE as u64,
        len in 1..6 * PAGE,
        cuts in prop::collection::vec(1..2 * PAGE, 0..8),
        stable in prop::sample::select(&STABLE[..]),
        on_disk: bool,
        piped: bool,
    ) {
        let (_dir, server) = if on_disk {
            let (dir, server) = local();
            (Some(dir), server)
        } else {
            (None, mem())
        };
        let (whole, pieces) = (make(&server, b"whole"), make(&server, b"pieces"));
        let data = data(len);
        let at_once = written(server.call(p::WRITE, &args(&whole, offset, stable, &data))).unwrap();
        let call = args(&pieces, offset, stable, &data);
        let mut arriving = in_pieces(&server, &call).piped(piped);
        let mut gone = 0;
        for bytes in cuts {
            // The header of the call and the arguments before the data come together, as they do
            // when the transport asks only from many bytes on.
            let first = if arriving.at == 0 { 200 } else { 0 };
            if arriving.record.len() > 200 {
                prop_assert!(arriving.arrive(first + bytes));
            }
            let end = offset as usize + arriving.large.taken();
            prop_assert!(arriving.large.is_empty() || end.is_multiple_of(PAGE));
            prop_assert!(arriving.large.taken() >= gone);
            gone = arriving.large.taken();
            prop_assert_eq!(&contents(&server, &pieces)[..], &contents(&server, &whole)[..end * usize::from(gone > 0)]);
        }
        let piecewise = written(arriving.reply()).unwrap();
        prop_assert_eq!(piecewise.count, at_once.count);
        prop_assert_eq!(piecewise.count as usize, len);
        prop_assert_eq!(piecewise.committed, at_once.committed);
        prop_assert_eq!(piecewise.verf, at_once.verf);
        let before = piecewise.file.before.expect("nobody else has changed it");
        prop_assert_eq!(before.size, 0);
        prop_assert_eq!(piecewise.file.after.unwrap().size, at_once.file.after.unwrap().size);
        prop_assert_eq!(contents(&server, &pieces), contents(&server, &whole));
    }
}

#[test]
fn a_concurrent_change_between_pieces_suppresses_wcc_data() {
    let server = mem();
    let file = make(&server, b"f");
    let mut arriving = in_pieces(&server, &args(&file, 0, StableHow::Unstable, &data(65_536)));
    assert!(arriving.arrive(20_000));
    written(server.call(p::WRITE, &args(&file, 60_000, StableHow::Unstable, b"other"))).unwrap();
    assert!(arriving.arrive(20_000));
    let answer = written(arriving.reply()).unwrap();
    assert_eq!(answer.file.before, None, "the client must look for itself");
    assert_eq!((answer.count, answer.file.after.unwrap().size), (65_536, 65_536));
    assert_eq!(contents(&server, &file), data(65_536));
}

#[test]
fn a_first_piece_that_fails_fails_the_call() {
    for (status, expected) in [
        (Status::NoSpc, Nfsstat3::NoSpc),
        (Status::DQuot, Nfsstat3::DQuot),
        (Status::Io, Nfsstat3::Io),
        (Status::RoFs, Nfsstat3::RoFs),
        (Status::Stale, Nfsstat3::Stale),
        (Status::Jukebox, Nfsstat3::Jukebox),
    ] {
        let (server, fault) = faulty();
        let file = make(&server, b"f");
        let mut arriving = in_pieces(&server, &args(&file, 0, StableHow::Unstable, &data(65_536)));
        *fault.lock().unwrap() =
            Fault { operation: Some(Operation::Write), status: Some(status), ..Fault::default() };
        assert!(arriving.arrive(20_000));
        *fault.lock().unwrap() = Fault::default();
        // What follows is taken in, and goes nowhere.
        assert!(arriving.arrive(40_000));
        assert!(arriving.kept.len() < 1000, "{} bytes are kept", arriving.kept.len());
        assert_eq!(written(arriving.reply()).err(), Some(expected));
        assert_eq!(contents(&server, &file), b"");
    }
}

#[test]
fn enospc_in_a_later_piece_gives_a_short_write() {
    for (stable, piped) in STABLE.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let (server, fault) = faulty();
        let file = make(&server, b"f");
        let call = args(&file, 0, stable, &data(65_536));
        let mut arriving = in_pieces(&server, &call).piped(piped);
        assert!(arriving.arrive(20_000));
        let first = arriving.large.taken();
        *fault.lock().unwrap() = Fault {
            operation: Some(Operation::Write),
            status: Some(Status::NoSpc),
            ..Fault::default()
        };
        assert!(arriving.arrive(20_000));
        *fault.lock().unwrap() = Fault::default();
        assert!(arriving.arrive(10_000));
        let answer = written(arriving.reply()).unwrap();
        assert_eq!(answer.count as usize, first);
        assert!(answer.committed == stable || answer.committed == StableHow::FileSync);
        assert_eq!(contents(&server, &file), data(first));
    }
}

#[test]
fn enospc_in_the_last_piece_gives_a_short_write_if_it_can_be_synced() {
    let full = Fault {
        operation: Some(Operation::Write),
        status: Some(Status::NoSpc),
        ..Fault::default()
    };
    let (server, fault) = faulty();
    let file = make(&server, b"f");
    let mut arriving = in_pieces(&server, &args(&file, 0, StableHow::FileSync, &data(65_536)));
    assert!(arriving.arrive(60_000));
    // The fault concerns the sync as well, which is the same call of the backend.
    *fault.lock().unwrap() = full;
    assert_eq!(written(arriving.reply()).err(), Some(Nfsstat3::NoSpc));
    *fault.lock().unwrap() = Fault::default();
    assert_eq!(contents(&server, &file).len() % PAGE, 0);
}

#[test]
fn data_lost_between_two_pieces_is_not_reported_as_stable() {
    for (stable, lost) in
        [(StableHow::Unstable, false), (StableHow::DataSync, true), (StableHow::FileSync, true)]
    {
        let (server, fault) = faulty();
        let file = make(&server, b"f");
        let before =
            written(server.call(p::WRITE, &args(&file, 0, StableHow::Unstable, b"x"))).unwrap();
        let mut arriving = in_pieces(&server, &args(&file, 0, stable, &data(65_536)));
        assert!(arriving.arrive(20_000));
        fault.lock().unwrap().verifier_changes = 1;
        assert!(arriving.arrive(20_000));
        let answer = written(arriving.reply());
        if lost {
            assert_eq!(answer.err(), Some(Nfsstat3::Io));
        } else {
            // COMMIT gives another verifier, and the client writes all of it again.
            assert_eq!(answer.unwrap().verf, before.verf);
        }
    }
}

#[test]
fn data_lost_before_the_last_sync_is_not_reported_as_stable() {
    for (stable, lost) in
        [(StableHow::Unstable, false), (StableHow::DataSync, true), (StableHow::FileSync, true)]
    {
        let (server, fault) = faulty();
        let file = make(&server, b"f");
        let mut arriving = in_pieces(&server, &args(&file, 0, stable, &data(65_536)));
        assert!(arriving.arrive(60_000));
        fault.lock().unwrap().changes_verifier_on_stable_write = true;
        assert_eq!(written(arriving.reply()).err(), lost.then_some(Nfsstat3::Io), "{stable:?}");
    }
}

#[test]
fn a_concurrent_change_is_detected_with_a_coarse_clock() {
    for (stable, piped) in STABLE.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let (_dir, backend) = local_backend();
        let backend = FaultyFs::new(backend);
        backend.fault().lock().unwrap().clock_stands_still = true;
        let server = Dispatched::over(Arc::new(backend));
        let file = make(&server, b"f");
        for at in 0..5 {
            let call = args(&file, 0, stable, &data(65_536));
            let mut arriving = in_pieces(&server, &call).piped(piped);
            let other = |now| {
                if now == at {
                    let call = args(&file, 0, StableHow::Unstable, b"other");
                    written(server.call(p::WRITE, &call)).unwrap();
                }
            };
            other(0);
            assert!(arriving.arrive(20_000));
            other(1);
            assert!(arriving.arrive(20_000));
            other(2);
            assert!(arriving.arrive(20_000));
            other(3);
            let answer = written(arriving.reply()).unwrap();
            let trusted = answer.file.before.is_some();
            assert_eq!(trusted, at == 0 || at > 3, "{stable:?} {piped} {at}");
        }
    }
}

#[test]
fn a_reload_applies_to_a_write_whose_record_is_arriving() {
    for (refused, options) in [
        (None, Some(exports::RW)),
        (Some(Nfsstat3::RoFs), Some(exports::RO)),
        (Some(Nfsstat3::Stale), None),
    ] {
        let backend = exports::mem();
        let server = Dispatched::over(Arc::clone(&backend));
        let file = make(&server, b"f");
        let call = args(&file, 0, StableHow::Unstable, &data(65_536));
        let mut arriving = in_pieces(&server, &call);
        assert!(arriving.arrive(20_000));
        let first = arriving.large.taken();
        let rows = options.map(|options| ("/e", Arc::clone(&backend), options));
        server.nfs.exports.replace(exports::table(rows.as_slice()));
        assert!(arriving.arrive(20_000));
        assert!(arriving.large.taken() > first);
        assert_eq!(written(arriving.reply()).err(), refused);
        server.nfs.exports.replace(exports::table(&[("/e", backend, exports::RW)]));
        let written = if refused.is_some() { first } else { 65_536 };
        assert_eq!(contents(&server, &file), data(written));
    }
}

#[test]
fn a_write_whose_length_differs_from_its_record_is_refused() {
    let server = mem();
    let file = make(&server, b"f");
    let good = args(&file, 0, StableHow::Unstable, &data(65_536));
    let count_at = good.len() - 65_536 - 12;
    let mut other_count = good.clone();
    other_count[count_at + 3] ^= 4;
    let longer = [&good[..], &[0; 4]].concat();
    let mut stable = good.clone();
    stable[count_at + 7] = 9;
    for args in [other_count, longer, good[..good.len() - 4].to_vec(), stable] {
        let mut arriving = in_pieces(&server, &args);
        assert!(!arriving.arrive(40_000), "nothing may go ahead");
        assert!(arriving.large.is_empty());
    }
    assert_eq!(contents(&server, &file), b"");
}

#[test]
fn only_writes_within_the_size_limit_start_early() {
    let server = mem();
    let file = make(&server, b"f");
    let args = args(&file, 0, StableHow::Unstable, &data(65_536));
    for procedure in (0..22).filter(|procedure| *procedure != p::WRITE) {
        let mut so_far = server.record(procedure, &args)[..40_000].to_vec();
        assert!(!server.take(&mut so_far, 26_000, &mut LargeArgument::default()), "{procedure}");
    }
    let long = vec![0; 17 << 20];
    let mut over = in_pieces(&server, &self::args(&file, 0, StableHow::Unstable, &long));
    assert!(!over.arrive(1 << 20));
    assert_eq!(contents(&server, &file), b"");
}

#[test]
fn a_started_write_continues_when_max_write_is_lowered() {
    let server = mem();
    let file = make(&server, b"f");
    let whole = data(200_000);
    let mut arriving = in_pieces(&server, &args(&file, 0, StableHow::Unstable, &whole));
    assert!(arriving.arrive(80_000));
    let gone = arriving.large.taken();
    server.nfs.settings.max_write.store(65_536, Relaxed);
    assert!(arriving.arrive(80_000));
    assert!(arriving.large.taken() > gone);
    assert_eq!(written(arriving.reply()).unwrap().count, 200_000);
    assert_eq!(contents(&server, &file), whole);
    let mut next = in_pieces(&server, &args(&file, 0, StableHow::Unstable, &data(200_000)));
    assert!(!next.arrive(80_000), "the next one is longer than allowed");
}

#[test]
fn every_piece_is_checked_as_its_caller() {
    let mut server = mem();
    let file = make(&server, b"f");
    server.user = (1000, 1000);
    let mut arriving = in_pieces(&server, &args(&file, 0, StableHow::Unstable, &data(65_536)));
    assert!(arriving.arrive(40_000));
    assert_eq!(written(arriving.reply()).err(), Some(Nfsstat3::Acces));
    let mut forged = file.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut arriving = in_pieces(&server, &args(&forged, 0, StableHow::Unstable, &data(65_536)));
    assert!(arriving.arrive(40_000));
    assert_eq!(written(arriving.reply()).err(), Some(Nfsstat3::BadHandle));
    server.user = (0, 0);
    assert_eq!(contents(&server, &file), b"");
}

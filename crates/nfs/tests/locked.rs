//! No locked instruction on a shared line: a hot call, from its record to its reply over a Linux
//! directory, is run one instruction at a time on two threads. What locked instructions there are
//! (leaving an epoch of the table of open files) must be on lines that only one of the two touches.
//! The one exception is WRITE, which holds its file by a reference count and counts itself for COMMIT.
//!
//! How many instructions a call takes has its limits in `benches/instructions.rs`.
//!
//! The program starts itself again as the traced child; it is not run by the usual harness, which
//! has threads of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure is the test's, the counts are its output"
)]

mod support;

use proto::nfs3::{AccessArgs, Bytes, ReadArgs, StableHow, WriteArgs, procedure as p};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use support::dispatched::Dispatched;
use support::{at, wire};
use sys::testing::single_step::{be_traced, mark, watch};
use testing::{Missing, skip};
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use xdr::{Reader, Writer};

const CHILD: &str = "BOWLINE_STEPPED";
/// The calls that are stepped, on each of two threads.
const CALLS: [&str; 6] = ["control", "GETATTR", "LOOKUP", "ACCESS", "READ", "WRITE"];
/// Bytes of a cache line, two of which the processor fetches together.
const LINE: u64 = 128;

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    if !cfg!(target_arch = "x86_64") || sys::identity::own().unwrap().uid != 0 {
        skip(Missing::Root, "x86_64 and a server that finds files by handle");
        return;
    }
    let program = std::env::current_exe().unwrap();
    // waited for by `watch`, which sees it end
    #[expect(clippy::zombie_processes, reason = "the tracer reaps it")]
    std::process::Command::new(program).env(CHILD, "1").spawn().unwrap();
    let pieces = match watch() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            skip(Missing::Root, format_args!("to trace a process: {error}"));
            return;
        }
        watched => watched.unwrap(),
    };
    assert_eq!(pieces.len(), 2 * CALLS.len());
    let (first, second) = pieces.split_at(CALLS.len());
    for (call, (a, b)) in CALLS.into_iter().zip(first.iter().zip(second)) {
        let lines = |seen: &sys::testing::single_step::Executed| -> BTreeSet<u64> {
            seen.locked.iter().map(|address| address / LINE).collect()
        };
        let shared: Vec<u64> = lines(a).intersection(&lines(b)).copied().collect();
        let (locked, steps) = (a.locked.len(), a.instructions);
        println!("{call}: {steps} instructions, {locked} locked, {} lines shared", shared.len());
        if std::env::var_os("BOWLINE_SHOW").is_some() {
            println!("  {:x?}\n  {:x?}", a.locked, b.locked);
        }
        if call == "control" {
            assert_eq!(shared.len(), 1, "a shared counter is seen as one");
        } else {
            assert!(steps > 300, "the call was made");
            // a WRITE may sleep in the disk, so it counts as a user of its file meanwhile; and as a change of it, when it
            // begins and when it ends. On how many lines these three words lie is up to the allocator
            let words = |seen: &sys::testing::single_step::Executed| -> BTreeSet<u64> {
                seen.locked.iter().copied().collect()
            };
            let allowed = if call == "WRITE" { 3 } else { 0 };
            let users = words(a).intersection(&words(b)).count();
            assert!(shared.len() <= allowed, "{call} locks shared lines: {shared:x?}");
            assert!(users <= allowed, "{call} locks {users} words that the other locks");
        }
    }
    println!("locked: ok");
}

static CONTROL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Serves itself: each call twice on each of two threads, the second time under the tracer.
fn child() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![7; 65_536]).unwrap();
    let files = Arc::new(OpenFiles::new(4096));
    let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
    let server = Arc::new(Dispatched::over(Arc::new(local)));
    let found = server.call(p::LOOKUP, &wire(&at(&server.root, b"file")));
    let mut r = Reader::new(&found[24..]);
    assert_eq!(r.u32().unwrap(), 0);
    let handle = r.opaque(64).unwrap().to_vec();
    let file = Bytes(handle.as_slice());
    let stable = StableHow::Unstable;
    let calls = Arc::new(vec![
        server.record(p::GETATTR, &wire(&file)),
        server.record(p::LOOKUP, &wire(&at(&server.root, b"file"))),
        server.record(p::ACCESS, &wire(&AccessArgs { object: file, access: 0x3f })),
        server.record(p::READ, &wire(&ReadArgs { file, offset: 4096, count: 2048 })),
        server.record(
            p::WRITE,
            &wire(&WriteArgs { file, offset: 0, stable, data: Bytes(&[1; 512]) }),
        ),
    ]);
    let (go, wait) = channel::<()>();
    let (tell, done) = channel::<()>();
    let work = move |server: &Dispatched, calls: &[Vec<u8>]| {
        let mut reply = Writer::new();
        for _ in 0..2 {
            for record in calls {
                server.answer(record, &mut reply);
                reply.clear();
            }
        }
        be_traced().unwrap();
        mark();
        CONTROL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        mark();
        for record in calls {
            mark();
            server.answer(record, &mut reply);
            mark();
            reply.clear();
        }
    };
    // both live until both have been stepped, so that neither takes over the other's places
    let (theirs, records) = (Arc::clone(&server), Arc::clone(&calls));
    let first = std::thread::spawn(move || {
        work(&theirs, &records);
        tell.send(()).unwrap();
        wait.recv().ok();
    });
    // the tracer takes one thread after the other
    done.recv().unwrap();
    let second = std::thread::spawn(move || work(&server, &calls));
    second.join().unwrap();
    drop(go);
    first.join().unwrap();
}
